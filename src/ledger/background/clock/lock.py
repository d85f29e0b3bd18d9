"""The lease on a merchant's clock: only its holder moves the clock, and workers leave the merchant's timers alone.

A lease expires thirty seconds after it was last renewed, so a holder that is killed blocks the clock no longer. A
holder is known by its token. One whose lease expired, and was taken by another, cannot renew it, end it or move the
clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

import psycopg

from ledger.domain.rejections import ConcurrentUpdate
from ledger.postgres.connection import Connection, connect
from ledger.postgres.faults import DatabaseUnavailable

# Takes the lease unless another holder has it, and returns whether the row is new: then no transaction has replaced it.
_ACQUIRE: Final = """
insert into merchant_clock as c (merchant_id, ahead_us, moving_until, holder) values (%s, 0, now() + interval '30 seconds', %s)
on conflict (merchant_id) do update set moving_until = excluded.moving_until, holder = excluded.holder
 where coalesce(c.moving_until, '-infinity') <= now()
returning xmax = 0
"""
_RENEW: Final = """
update merchant_clock set moving_until = now() + interval '30 seconds' where merchant_id = any(%s) and holder = %s
"""
_RELEASE: Final = (
    "update merchant_clock set moving_until = null, holder = null where merchant_id = any(%s) and holder = %s"
)
# Moves the clock ahead, never back, and renews the lease.
_MOVE: Final = """
update merchant_clock set ahead_us = greatest(ahead_us, %s), moving_until = now() + interval '30 seconds'
 where merchant_id = %s and holder = %s
"""
# A clock that shows real time needs no row: its merchant pays nothing for having been leased.
_DROP_UNMOVED: Final = "delete from merchant_clock where merchant_id = any(%s) and holder = %s and ahead_us = 0"

_RENEW_S: Final = 5.0
_PAUSE_S: Final = 0.25


async def acquire(connection: Connection, merchant_id: UUID, holder: UUID) -> bool | None:
    """Takes the lease on a clock; returns whether it is the clock's first one, None if another holder has the lease.

    `holder` is the token of the new holder: draw one for each move. Raises psycopg.Error.
    """
    row = await (await connection.execute(_ACQUIRE, (merchant_id, holder))).fetchone()
    return None if row is None else row[0]


async def move(connection: Connection, merchant_id: UUID, holder: UUID, to: datetime) -> None:
    """Moves a leased clock to `to`, or leaves it if it is already later.

    Raises ConcurrentUpdate if another holder has taken the lease meanwhile, psycopg.Error.
    """
    ahead_us = max(0, (to - datetime.now(UTC)) // timedelta(microseconds=1))
    moved = await connection.execute(_MOVE, (ahead_us, merchant_id, holder))
    if moved.rowcount == 0:
        raise being_moved()


async def release(connection: Connection, merchants: Sequence[UUID], holder: UUID) -> None:
    """Returns leases; a connection that is lost leaves them to expire. Raises psycopg.Error."""
    if not connection.broken:
        await connection.execute(_RELEASE, (list(merchants), holder))


@asynccontextmanager
async def locked_clocks(url: str, merchants: Collection[UUID], patience_s: float = 40.0) -> AsyncIterator[None]:
    """Holds the leases on the clocks of these merchants for as long as the context lasts.

    Raises ConcurrentUpdate if another holder keeps one for longer than `patience_s`, DatabaseUnavailable.
    """
    try:
        connection = await connect(url, "ledger-scenario")
    except psycopg.Error as fault:
        raise DatabaseUnavailable(type(fault).__name__) from fault
    async with connection:
        held: list[UUID] = []
        holder = uuid4()
        renewing: asyncio.Task[None] | None = None
        try:
            for merchant_id in sorted(merchants):
                await _acquire_within(connection, merchant_id, holder, patience_s)
                held.append(merchant_id)
            renewing = asyncio.create_task(_renew(connection, held, holder))
            yield
        finally:
            if renewing is not None:
                renewing.cancel()
                with suppress(asyncio.CancelledError):
                    await renewing
            if not connection.broken:
                await connection.execute(_DROP_UNMOVED, (held, holder))
            await release(connection, held, holder)


async def _acquire_within(connection: Connection, merchant_id: UUID, holder: UUID, patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while await acquire(connection, merchant_id, holder) is None:
        if time.monotonic() > until:
            raise ConcurrentUpdate("The clock is being moved by another command or request. Try again later.")
        await asyncio.sleep(_PAUSE_S)


async def _renew(connection: Connection, held: list[UUID], holder: UUID) -> None:
    while True:
        await asyncio.sleep(_RENEW_S)
        with suppress(psycopg.Error):  # the scenario notices a lost database itself; an expired lease does it no harm
            await connection.execute(_RENEW, (held, holder))


def being_moved() -> ConcurrentUpdate:
    """Returns the rejection of a move while another one has the clock."""
    return ConcurrentUpdate("The clock is being moved by another request: send the request again later.")
