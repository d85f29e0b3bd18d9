"""Wherever a process is killed around a card that is saved without a payment, it is saved once, or its number is gone.

The look-up of the verification is killed as well. It is the work of a timer, which a clock that is moved does at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from campaigns.chaos import rules
from campaigns.chaos.bodies import CARDS, CUSTOMERS
from campaigns.chaos.clients import Merchant
from campaigns.chaos.evidence import gather
from campaigns.chaos.installation import Installation, installed
from campaigns.chaos.running import LEDGER, Running, new_merchant
from campaigns.chaos.wire import Answer, Lost, Wire
from msgspec import Struct
from tests.crash.launcher import POINTS, WORKER_POINTS
from tests.crash.scenario import exit_of

from ledger.domain.payment_methods.events import CardVerificationRequested, CardVerified, PaymentMethodSaved

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are told of their parent's end by the kernel"),
]

_SETTINGS = {
    "LEDGER_SANDBOX_DELAY_MS": "300",
    "LEDGER_PROCESSOR_TIMEOUT_S": "2.0",
    "LEDGER_NOT_FOUND_FINAL_S": "3.0",
}
_LAUNCHER = [*LEDGER[:2], "-m", "tests.crash.launcher"]
_PATIENCE_S = 120.0
_LATER = json.dumps({"advanceBy": "PT2M"}).encode()
_CARD = json.dumps(
    {
        "paymentMethod": {
            "type": "card",
            "cardDetails": {"number": CARDS["approved"], "expiryMonth": "12", "expiryYear": "2034", "cvc": "123"},
        }
    }
).encode()


class Case(Struct, frozen=True):
    """A customer whose card is verified by a process that is killed at `point`. If `look_up` is given, so is the one
    that looks the verification up then.
    """

    merchant: Merchant
    point: str
    look_up: str | None = None

    @property
    def cards(self) -> str:
        return f"{CUSTOMERS}/{self.point}/payment-methods"


async def ask(
    port: int, merchant: Merchant, method: str, path: str, body: bytes | None = None, key: str = ""
) -> Answer:
    wire = Wire(timeout_s=30.0)
    await wire.open(port)
    try:
        return await wire.ask(method, path, merchant.api_key, body, key or None)
    finally:
        await wire.close()


async def killed(installation: Installation, log: Path, requests: list[tuple[str, Merchant, str, bytes]]) -> None:
    """Sends each request to a process that is killed at the point of the request."""
    command = [*_LAUNCHER, "api", *(point for point, *_ in requests)]
    with Running(command, installation.environment, log) as launcher:
        ports = map(int, await asyncio.to_thread(launcher.wait_ready))
        for (point, merchant, path, body), port in zip(requests, ports, strict=True):
            with pytest.raises(Lost, match="reset"):
                await ask(port, merchant, "POST", path, body, point)
            assert await exit_of(launcher) == -9, point


async def settled(port: int, cases: list[Case]) -> None:
    """Moves the clocks on until the cards of all customers can be saved again: no verification is open."""
    ends_at = time.monotonic() + _PATIENCE_S
    for case in cases:
        while (answer := await ask(port, case.merchant, "POST", case.cards, _CARD, case.point)).status == 409:
            assert time.monotonic() < ends_at, answer.body
            await ask(port, case.merchant, "POST", "/api/sandbox/clock", _LATER)
        never_arrived = case.point == "after-intent"
        assert answer.status == (422 if never_arrived else 201), (case.point, answer.body)
        saved = await ask(port, case.merchant, "POST", case.cards, _CARD)
        assert saved.status == (201 if never_arrived else 200), (case.point, saved.body)


async def test_a_card_is_saved_once_wherever_a_process_is_killed(
    postgres_url: str, template_database: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with (
        installed(postgres_url, template_database, _SETTINGS) as installation,
        Running([*LEDGER, "api", "--port", "0"], installation.environment, log) as api,
    ):
        port = api.wait_port()
        names = ("once", *WORKER_POINTS)
        one, *others = [new_merchant(name, installation.environment) for name in names]
        cases = [Case(one, point) for point in POINTS]
        cases += [Case(other, "during-call", point) for other, point in zip(others, WORKER_POINTS, strict=True)]
        for case in cases:
            made = await ask(
                port,
                case.merchant,
                "POST",
                CUSTOMERS,
                json.dumps({"externalId": case.point, "firstName": "Ana"}).encode(),
            )
            assert made.status == 201, made.body
        await killed(installation, log, [(case.point, case.merchant, case.cards, _CARD) for case in cases])
        looked_up = [(case.look_up, case.merchant, "/api/sandbox/clock", _LATER) for case in cases if case.look_up]
        await killed(installation, log, looked_up)
        with Running([*LEDGER, "worker"], installation.environment, log) as worker:
            worker.wait_ready()
            await settled(port, cases)
        evidence = await gather(installation.url)
    saved: list[Any] = [recorded.event for merchant in evidence for recorded in merchant.log]
    kinds = {kind: sum(isinstance(event, kind) for event in saved) for kind in (CardVerified, PaymentMethodSaved)}
    assert kinds == {CardVerified: len(cases), PaymentMethodSaved: len(cases)}, "one for each customer"
    asked = sum(isinstance(event, CardVerificationRequested) for event in saved)
    assert asked == len(cases) + 1, "only what never arrived is asked for again"
    for merchant in evidence:
        assert not rules.everything(merchant)
        assert len(merchant.vault) == len(merchant.saved_methods)
