"""Two workers that find the same open payments, while merchants repeat their requests: every outcome is recorded
once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns.chaos import bodies, rules
from campaigns.chaos.evidence import asked_by, gather
from campaigns.chaos.installation import Installation, installed
from campaigns.chaos.running import LEDGER, Running, new_merchant
from campaigns.races.simultaneous import RaceRequest, race, statuses

pytestmark = [pytest.mark.anyio, pytest.mark.long]

ORDERS = 40


@pytest.fixture
def installation(postgres_url: str, template_database: str) -> Iterator[Installation]:
    with installed(
        postgres_url, template_database, {"LEDGER_PROCESSOR_TIMEOUT_S": "2.0", "LEDGER_NOT_FOUND_FINAL_S": "3.0"}
    ) as made:
        yield made


async def test_the_outcome_of_each_open_payment_is_recorded_once(installation: Installation, tmp_path: Path) -> None:
    environment, log = installation.environment, tmp_path / "log"
    merchant = new_merchant("Recoveries", environment)
    with Running([*LEDGER, "api", "--port", "0"], environment, log) as api:
        port = api.wait_port()
        asking = [
            RaceRequest(
                port=port,
                method="POST",
                path=bodies.ORDERS,
                api_key=merchant.api_key,
                body=bodies.create(f"silent/{n}", 10_000, "silent"),
            )
            for n in range(ORDERS)
        ]
        assert {answer.order_status for answer in await race(asking)} == {"PROCESSING"}
        with (
            Running([*LEDGER, "worker"], environment, log) as one,
            Running([*LEDGER, "worker"], environment, log) as two,
        ):
            again = asyncio.create_task(race(asking))
            await asyncio.gather(asyncio.to_thread(one.wait_ready), asyncio.to_thread(two.wait_ready))
            assert statuses(await again) == {200: ORDERS}
            until = time.monotonic() + 10
            while True:
                (evidence,) = await gather(installation.url)
                is_open = [order for order in evidence.orders.values() if order.open_intent is not None]
                if not is_open or time.monotonic() > until:
                    break
                await asyncio.sleep(0.1)
    assert not is_open
    written = Counter(
        (recorded.stream_id, recorded.topic)
        for recorded in evidence.log
        if asked_by(recorded).get("request") == "recovery"
    )
    assert len(written) == 2 * ORDERS
    assert set(written.values()) == {1}
    assert {order.status for order in evidence.orders.values()} == {"COMPLETED"}
    assert not rules.everything(evidence)
