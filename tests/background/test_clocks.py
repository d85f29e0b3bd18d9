"""A clock that was moved is read by every process, even by one that has read it shortly before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from tests.background.conftest import Open, rows

from ledger.background.clock import advance as clock_advance
from ledger.background.clock.advance import ClockAdvancer
from ledger.operations.context import clock
from ledger.operations.context.clock import MerchantClocks
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.postgres.dataloader import DataLoader

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


async def test_while_requests_come_the_clock_is_read_in_time_and_none_of_them_waits(
    merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited, get = list[UUID](), DataLoader.get

    def counted(loader: DataLoader[UUID, int], key: UUID) -> Awaitable[int | None]:
        waited.append(key)
        return get(loader, key)

    monkeypatch.setattr(DataLoader, "get", counted)
    for name in ("BELIEVED_S", "READ_AHEAD_S"):
        monkeypatch.setattr(clock, name, 600.0)
    clocks = MerchantClocks(database_url)
    await clocks.start()
    try:
        real = await clocks.refresh(merchant.merchant_id)
        rows(database_url, f"insert into merchant_clock values ('{merchant.merchant_id}', 86400000000) returning true")
        async with asyncio.timeout(30):
            while await clocks.refresh(merchant.merchant_id) < a_day_later(real):  # noqa: ASYNC110 - nothing reports a read
                await asyncio.sleep(0.005)
    finally:
        await clocks.stop()
    assert waited == [merchant.merchant_id]


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
