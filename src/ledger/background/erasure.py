"""Finishes interrupted erasures, so that no row still shows a person whose key is destroyed.

It repeats what the operation does. The versions of the orders decide between two workers that do it at once, as between
any two writers. Erasures run side by side, in slots that the merchants share fairly, and one that fails waits for a
minute: it delays no other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from ledger.background.fair_slots import FairSlots
from ledger.background.periodic import run_periodically
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import OrdersOf, erase_payer

_log = structlog.get_logger()

_POLL_S: Final = 5.0
_AFTER_FAILURE_S: Final = 60.0
_AT_ONCE: Final = 100
"""How many erasures one sweep begins with, and how many of one merchant are begun."""

Unfinished = Callable[[int, Collection[UUID]], Awaitable[Sequence[tuple[UUID, UUID]]]]
"""Returns at most so many (merchant, customer) whose erasure is not recorded as finished, without these customers, from
each merchant in turn."""
Finished = Callable[[UUID, UUID], Awaitable[None]]


class ErasureSweep:
    """Continues erasures. Setting `stop` ends `run` after the erasures that have begun."""

    def __init__(self, ledger: Ledger, unfinished: Unfinished, orders_of: OrdersOf, finished: Finished) -> None:
        self._ledger = ledger
        self._unfinished, self._orders_of, self._finished = unfinished, orders_of, finished
        self._slots = FairSlots[UUID]()  # by customer
        self._failed: dict[UUID, float] = {}  # until which monotonic time a customer is left alone

    async def run(self, stop: asyncio.Event) -> None:
        """Begins with what is unfinished every five seconds until `stop` is set."""
        await run_periodically(self._begin, stop, pause_s=_POLL_S, log_waiting=_log_waiting)
        await self._slots.stop()

    async def sweep(self) -> None:
        """Finishes every erasure that is unfinished now. Raises a Fault."""
        await self._begin()
        await self._slots.drain()

    async def _begin(self) -> None:
        """Begins with what is unfinished now, and does not wait for its end. Raises a Fault."""
        self._failed = {customer: until for customer, until in self._failed.items() if until > time.monotonic()}
        skipped = {*self._failed, *self._slots.keys}
        for merchant_id, customer_id in await self._unfinished(_AT_ONCE, skipped):
            if self._slots.started[merchant_id] < _AT_ONCE:
                self._slots.start(merchant_id, customer_id, partial(self._finish, merchant_id, customer_id))

    async def _finish(self, merchant_id: UUID, customer_id: UUID) -> None:
        actor = Actor(merchant_id=merchant_id, request_id="forgetting")
        try:
            await erase_payer(self._ledger, actor, customer_id, self._orders_of, cause=customer_id)
            await self._finished(merchant_id, customer_id)
        except Exception as fault:  # noqa: BLE001 - an erasure that fails must not delay the others
            self._failed[customer_id] = time.monotonic() + _AFTER_FAILURE_S
            _log_waiting(type(fault).__name__)


def _log_waiting(reason: str) -> None:
    _log.warning("forgetting_waits", reason=reason)
