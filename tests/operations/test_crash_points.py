"""A refund, capture, void, authentication or reference ends in the one right state, wherever its process is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from tests.operations.conftest import Open
from tests.operations.dying import CASES, name_of
from tests.operations.test_action_recovery import REPEATED, calls_booked, order_named, recover
from tests.sealing import MASTER_KEY

from ledger.domain.orders.statuses import OrderStatus
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="it forks")]

NOT_RECEIVED = {"before-intent", "after-intent"}
_KINDS = {"capture": "CAPTURE", "void": "VOID", "refund": "REFUND"}


def run_until_killed(database_url: str, directory: Path) -> None:
    """Runs every case until its process is killed."""
    environment = os.environ | {
        "LEDGER_DATABASE_URL": database_url,
        "LEDGER_MASTER_KEY": MASTER_KEY,
        "LEDGER_PROCESSOR_TIMEOUT_S": "2",
    }
    command = [sys.executable, "-m", "tests.operations.dying", str(directory)]
    subprocess.run(command, env=environment, check=True, timeout=120)


async def test_every_crash_of_an_action_is_recovered_and_answered_under_its_key(
    ledger: Ledger, open_another: Open, database_url: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(run_until_killed, database_url, tmp_path)
    ends = {name_of(*case): int((tmp_path / f"{name_of(*case)}.end").read_text()) for case in CASES}
    assert set(ends.values()) == {-signal.SIGKILL}, ends
    booked = Counter(dict(calls_booked(database_url)))
    never_arrived = [action for action, point in CASES if point == "after-intent" and action.method in REPEATED]
    booked.update(_KINDS[action.method] for action in never_arrived)
    other = await open_another()
    await asyncio.sleep(1)
    await recover(database_url, ledger, other)
    assert dict(calls_booked(database_url)) == booked, "it sends again what never arrived, once, and looks up the rest"
    stands: dict[str, OrderStatus] = {}
    expected: dict[str, OrderStatus] = {}
    told: dict[str, tuple[bool, OrderStatus]] = {}
    for action, point in CASES:
        name = name_of(action, point)
        merchant_id, key_id = map(UUID, (tmp_path / name).read_text().split())
        merchant = Actor(merchant_id=merchant_id, key_id=key_id)
        if point != "before-intent":
            order = await order_named(ledger, merchant, action.on)
            assert order.open_intent is None, name
            stands[name], expected[name] = order.status, action.sent_again if point in NOT_RECEIVED else action.done
        again = await action.do(ledger, merchant)
        told[name] = again.repeated, again.order.status
    assert stands == expected
    for (name, (repeated, status)), (action, point) in zip(told.items(), CASES, strict=True):
        assert repeated is (point != "before-intent"), name
        assert status is (action.sent_again if point == "after-intent" else action.done), name
