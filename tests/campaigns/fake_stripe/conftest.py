"""The fake of Stripe in a process of its own, one for each module, and the official client of an account that a test has for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import stripe
from campaigns.fake_stripe.record import Line, read
from campaigns.fake_stripe.running import control, fake_stripe
from campaigns.fake_stripe.specification import version

Control = Callable[..., Any]


class Fake:
    """The running fake: its address, its file and its controls."""

    def __init__(self, address: str, record: Path) -> None:
        self.address = address
        self._record = record

    def control(self, name: str, given: Any = None, method: str = "POST") -> Any:
        return control(self.address, name, given, method)

    def client(self, key: str, *, retries: int = 0) -> stripe.StripeClient:
        return stripe.StripeClient(
            key,
            base_addresses={"api": self.address},
            stripe_version=version(),
            max_network_retries=retries,
            http_client=stripe.RequestsClient(timeout=20),
        )

    def lines(self, account: str) -> list[Line]:
        return [line for line in read(self._record) if line.account == account]


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fake]:
    place = tmp_path_factory.mktemp("fake-stripe")
    with fake_stripe(place / "record.jsonl", place / "log") as running:
        made = Fake(running.wait_ready()[0], place / "record.jsonl")
        yield made
        assert control(made.address, "state", method="GET")["violations"] == 0, "see `violations` in the record"


@pytest.fixture
def account(fake: Fake) -> str:
    """The name of an account that the test has for itself."""
    name = uuid4().hex
    fake.control("accounts", {"name": name})
    return name


@pytest.fixture
def client(fake: Fake, account: str) -> stripe.StripeClient:
    return fake.client(f"sk_test_{account}")
