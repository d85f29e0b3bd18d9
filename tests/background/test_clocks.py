"""A clock that was moved shows it to every process, however lately that one had looked."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest
from tests.background.conftest import Open, rows

from ledger.background.scheduler import clock_advance
from ledger.background.scheduler.clock_advance import ClockAdvancer
from ledger.operations import clock
from ledger.operations.inputs import Actor
from ledger.operations.ledger import Ledger

pytestmark = pytest.mark.anyio


def a_day_later(now: datetime) -> datetime:
    return now + timedelta(days=1)


async def test_the_first_move_waits_until_nobody_can_believe_in_real_time_any_more(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (clock, clock_advance):
        monkeypatch.setattr(module, "BELIEVED_S", 3.0)  # longer than a move takes by itself, on any machine
    other, hand = await open_another(), ClockAdvancer(database_url, ledger, (), {})
    await other.clock.refresh(merchant.merchant_id)
    moved = await hand.advance(merchant.merchant_id, "advanceBy", a_day_later)
    await other.clock.refresh(merchant.merchant_id)
    assert other.clock.now(merchant.merchant_id) >= moved.now
    moved = await hand.advance(merchant.merchant_id, "advanceBy", a_day_later)
    await other.clock.refresh(merchant.merchant_id)
    assert other.clock.now(merchant.merchant_id) >= moved.now
    restarted = await open_another()
    await restarted.clock.refresh(merchant.merchant_id)
    assert restarted.clock.now(merchant.merchant_id) >= moved.now


def hands(url: str) -> list[int]:
    """The database's processes behind connections that move clocks."""
    query = "select pid from pg_stat_activity where application_name = 'ledger-clock' and datname = current_database()"
    return [pid for (pid,) in rows(url, query)]


async def test_a_hand_keeps_its_connection_for_the_next_move_and_makes_a_new_one_where_that_was_lost(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    async with ClockAdvancer(database_url, ledger, (), {}) as hand:
        await hand.advance(merchant.merchant_id, "advanceBy", a_day_later)
        (kept,) = hands(database_url)
        await hand.advance(merchant.merchant_id, "advanceBy", a_day_later)
        assert hands(database_url) == [kept]
        rows(database_url, f"select pg_terminate_backend({kept}, 5000)")
        await hand.advance(merchant.merchant_id, "advanceBy", a_day_later)
        (new,) = hands(database_url)
        assert new != kept
    await gone(database_url)


async def gone(url: str) -> None:
    """Wait until no such connection is left: the database hears of an end a little later."""
    async with asyncio.timeout(30):
        while hands(url):  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.05)
