"""A clock that was moved is read by every process, even by one that has read it shortly before."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest
from tests.background.conftest import Open, rows

from ledger.background.clock import advance as clock_advance
from ledger.background.clock.advance import ClockAdvancer
from ledger.operations.context import clock
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger

pytestmark = pytest.mark.anyio


def a_day_later(now: datetime) -> datetime:
    return now + timedelta(days=1)


@pytest.mark.long
async def test_the_first_move_waits_until_no_process_assumes_real_time(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (clock, clock_advance):
        monkeypatch.setattr(module, "BELIEVED_S", 3.0)  # longer than a move takes on any machine
    other, advancer = await open_another(), ClockAdvancer(database_url, ledger, (), {})
    await other.clock.refresh(merchant.merchant_id)
    moved = await advancer.advance(merchant.merchant_id, "advanceBy", a_day_later)
    await other.clock.refresh(merchant.merchant_id)
    assert other.clock.now(merchant.merchant_id) >= moved.now
    moved = await advancer.advance(merchant.merchant_id, "advanceBy", a_day_later)
    await other.clock.refresh(merchant.merchant_id)
    assert other.clock.now(merchant.merchant_id) >= moved.now
    restarted = await open_another()
    await restarted.clock.refresh(merchant.merchant_id)
    assert restarted.clock.now(merchant.merchant_id) >= moved.now


def sessions(url: str) -> list[int]:
    """Returns the pids of the database's sessions that move clocks."""
    query = "select pid from pg_stat_activity where application_name = 'ledger-clock' and datname = current_database()"
    return [pid for (pid,) in rows(url, query)]


async def test_an_advancer_keeps_its_connection_and_replaces_a_lost_one(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    async with ClockAdvancer(database_url, ledger, (), {}) as advancer:
        await advancer.advance(merchant.merchant_id, "advanceBy", a_day_later)
        (kept,) = sessions(database_url)
        await advancer.advance(merchant.merchant_id, "advanceBy", a_day_later)
        assert sessions(database_url) == [kept]
        rows(database_url, f"select pg_terminate_backend({kept}, 5000)")
        await advancer.advance(merchant.merchant_id, "advanceBy", a_day_later)
        (new,) = sessions(database_url)
        assert new != kept
    await gone(database_url)


async def gone(url: str) -> None:
    """Waits until no such session is left: the database notices the end of a connection a little later."""
    async with asyncio.timeout(30):
        while sessions(url):  # noqa: ASYNC110 - the database sends no event for it
            await asyncio.sleep(0.05)
