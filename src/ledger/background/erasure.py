"""Finishes interrupted erasures, so that no row still shows a person whose key is destroyed.

It repeats what the operation does. The versions of the orders decide between two workers that do it at once, as between
any two writers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

import structlog

from ledger.background.periodic import run_periodically
from ledger.operations.customers.erase import OrdersOf, erase_payer
from ledger.operations.inputs import Actor
from ledger.operations.ledger import Ledger

_log = structlog.get_logger()

_POLL_S: Final = 5.0
_AT_ONCE: Final = 100

Unfinished = Callable[[int], Awaitable[Sequence[tuple[UUID, UUID]]]]
"""Returns at most so many (merchant, customer) whose erasure is not recorded as finished."""
Finished = Callable[[UUID, UUID], Awaitable[None]]


class ErasureSweep:
    """Continues erasures. Setting `stop` ends `run` between two sweeps."""

    def __init__(self, ledger: Ledger, unfinished: Unfinished, orders_of: OrdersOf, finished: Finished) -> None:
        self._ledger = ledger
        self._unfinished, self._orders_of, self._finished = unfinished, orders_of, finished

    async def run(self, stop: asyncio.Event) -> None:
        """Sweeps every five seconds until `stop` is set."""
        await run_periodically(
            self.sweep,
            stop,
            pause_s=_POLL_S,
            log_waiting=lambda reason: _log.warning("forgetting_waits", reason=reason),
        )

    async def sweep(self) -> None:
        """Finishes every erasure that is unfinished now. Raises a Fault, ConcurrentUpdate."""
        for merchant_id, customer_id in await self._unfinished(_AT_ONCE):
            actor = Actor(merchant_id=merchant_id, request_id="forgetting")
            await erase_payer(self._ledger, actor, customer_id, self._orders_of, cause=customer_id)
            await self._finished(merchant_id, customer_id)
