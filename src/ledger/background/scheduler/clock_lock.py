"""Holding merchants' clocks still: for whoever lets time pass that is not real, and wants no worker to act meanwhile.

The rule a stranger would break: a hold ends by itself half a minute after its holder was last heard of. Whoever holds longer
says so again, and whoever was killed keeps nobody out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import UUID

import psycopg

from ledger.domain.rejections import ConcurrentUpdate
from ledger.postgres.connection import Connection, connect
from ledger.postgres.faults import DatabaseUnavailable

# Take hold of a clock that nobody else holds.
_TAKE: Final = """
insert into merchant_clock as c (merchant_id, ahead_us, moving_until) values (%s, 0, now() + interval '30 seconds')
on conflict (merchant_id) do update set moving_until = excluded.moving_until
 where coalesce(c.moving_until, '-infinity') <= now()
returning 1
"""
_KEEP: Final = "update merchant_clock set moving_until = now() + interval '30 seconds' where merchant_id = any(%s)"
# A clock that shows real time is none: its merchant pays nothing for having had one.
_FORGET: Final = "delete from merchant_clock where merchant_id = any(%s) and ahead_us = 0"
_LET_GO: Final = "update merchant_clock set moving_until = null where merchant_id = any(%s)"

_AGAIN_S: Final = 5.0
_PAUSE_S: Final = 0.25


@asynccontextmanager
async def locked_clocks(url: str, merchants: Collection[UUID], patience_s: float = 40.0) -> AsyncIterator[None]:
    """Hold the clocks of these merchants; workers leave alone what is due by them and what processors have told.

    Raises ConcurrentUpdate where somebody else has held one for longer than `patience_s`, DatabaseUnavailable.
    """
    try:
        connection = await connect(url, "ledger-story")
    except psycopg.Error as fault:
        raise DatabaseUnavailable(type(fault).__name__) from fault
    async with connection:
        held: list[UUID] = []
        renewing: asyncio.Task[None] | None = None
        try:
            for merchant_id in sorted(merchants):
                await _take(connection, merchant_id, time.monotonic() + patience_s)
                held.append(merchant_id)
            renewing = asyncio.create_task(_renew(connection, held))
            yield
        finally:
            if renewing is not None:
                renewing.cancel()
                with suppress(asyncio.CancelledError):
                    await renewing
            if not connection.broken:
                await connection.execute(_FORGET, (held,))
                await connection.execute(_LET_GO, (held,))


async def _take(connection: Connection, merchant_id: UUID, until: float) -> None:
    while await (await connection.execute(_TAKE, (merchant_id,))).fetchone() is None:
        if time.monotonic() > until:
            raise ConcurrentUpdate("The clock is being moved by somebody else.")
        await asyncio.sleep(_PAUSE_S)


async def _renew(connection: Connection, held: list[UUID]) -> None:
    while True:
        await asyncio.sleep(_AGAIN_S)
        with suppress(psycopg.Error):  # the story fails of its own connections; a hold that lapses is no danger to it
            await connection.execute(_KEEP, (held,))
