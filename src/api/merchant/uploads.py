"""The check of a merchant's file, which takes processor time: in a thread, and one of a merchant at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple
from uuid import UUID
from weakref import WeakValueDictionary

from api.errors import TooManyRequests
from api.http.dependencies import Dependencies

A = TypeVarTuple("A")
T = TypeVar("T")

_WAITING_MAX: Final = 3
_RETRY_S: Final = 1


class _Turn:
    """The turn of a merchant's checks, and how many wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0


_TURNS: Final = WeakValueDictionary[UUID, _Turn]()
"""The merchants of whom a check runs or waits."""


async def check_in_turn(deps: Dependencies, merchant_id: UUID, check: Callable[[*A], T], *args: *A) -> T:
    """Returns what `check` returns, once no other check of the merchant runs. Raises what it raises.

    A client that hangs up no longer waits, but a thread cannot be stopped: the turn ends with its check. Raises
    TooManyRequests if three others wait already.
    """
    turn = _TURNS.setdefault(merchant_id, _Turn())
    if turn.waiting >= _WAITING_MAX:
        raise TooManyRequests("Other files of the merchant are being checked", _RETRY_S, ())
    turn.waiting += 1
    try:
        await turn.lock.acquire()
    finally:
        turn.waiting -= 1

    async def run() -> T:
        try:
            return await asyncio.to_thread(check, *args)
        finally:
            turn.lock.release()

    return await deps.ledger.complete(run())
