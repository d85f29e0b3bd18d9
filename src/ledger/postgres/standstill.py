"""A process that is to stop while nothing that it waits for at the database can be completed: its database is away, or
its commits wait for a synchronous standby that is.

Never cancel such a commit: it would become visible, although a promoted standby lacks it. No time-out of the server
ends its wait, and without its client the server goes on waiting.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from ledger.parent_process import has_parent
from ledger.postgres.connection import QueryTimeout, SharedClient, held_up_commits
from ledger.postgres.faults import UNAVAILABLE, DatabaseUnavailable

_log = structlog.get_logger()

LOOK_S: Final = 0.5
"""How often a process that is to stop looks."""

_AWAY_S: Final = 1.0
"""How long the database does not answer a look before it counts as away. Longer than a moment in which it is busy."""

_TURNS: Final = 4
"""How many turns of the event loop that takes at least: an answer may have come while the process itself was busy."""


async def standstill(client: SharedClient, is_connected: Callable[[], bool]) -> Sequence[str]:
    """Returns once nothing that this process waits for can be completed: the names of its connections whose commits
    are held up, or none if the database is away. A database that answers is away nevertheless while `is_connected` is
    false: on Citus, of a node.
    """
    loop = asyncio.get_running_loop()
    answered_s = loop.time()
    while True:
        await asyncio.sleep(LOOK_S)
        looking = asyncio.create_task(_look(client))
        try:
            for _ in range(_TURNS):
                await asyncio.wait([looking], timeout=_AWAY_S / _TURNS)
        finally:
            if not looking.done():
                looking.cancel()
        names = looking.result() if looking.done() else None
        if names:
            return names
        if names is not None and is_connected():
            answered_s = loop.time()
        elif loop.time() - answered_s >= _AWAY_S:
            return ()


async def _look(client: SharedClient) -> Sequence[str] | None:
    """Returns the names of the connections whose commits are held up; None if the database does not answer."""
    try:
        async with client.turn() as connection:
            with QueryTimeout(connection):
                return await held_up_commits(connection)
    except (DatabaseUnavailable, *UNAVAILABLE):
        return None


def leave(names: Sequence[str]) -> None:
    """Ends the process of a service at a standstill, as a crash would: the next one finds what it leaves. A process
    without a parent, which would end it after some seconds, goes on waiting.
    """
    if not has_parent():
        return
    if names:
        _log.warning("process_left_commits", of=list(names))
    else:
        _log.warning("process_left_database")
    os._exit(0)
