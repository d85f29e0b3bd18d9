"""The check of a merchant's file, which takes processor time: in a thread, and one of a merchant at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple
from uuid import UUID
from weakref import WeakValueDictionary

from api.http.dependencies import Dependencies

A = TypeVarTuple("A")
T = TypeVar("T")

_TURNS: Final = WeakValueDictionary[UUID, asyncio.Lock]()
"""The merchants of whom a check runs or waits."""


async def check_in_turn(deps: Dependencies, merchant_id: UUID, check: Callable[[*A], T], *args: *A) -> T:
    """Returns what `check` returns, once no other check of the merchant runs. Raises what it raises.

    A thread cannot be stopped: the turn ends with the check, even if the client has hung up.
    """

    async def run() -> T:
        async with _TURNS.setdefault(merchant_id, asyncio.Lock()):
            return await asyncio.to_thread(check, *args)

    return await deps.ledger.complete(run())
