"""What every operation is given: the journal, the processor, a clock, and what is known of merchants.

The rule a stranger would break: an operation that has begun is not cancelled with the request that asked for it. It
runs to its outcome in a task of its own; the request only waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import Struct

from ledger.customers.state import Customer
from ledger.deadlines import Deadlines
from ledger.gateways.contract import Processor
from ledger.journal.journal import Journal
from ledger.merchants.evolve import evolve as evolve_merchant
from ledger.merchants.state import Merchant
from ledger.operations.known import KnownCustomers
from ledger.operations.ordinals import Ordinals
from ledger.orders.state import Order

T = TypeVar("T")

_MERCHANT_TTL_S: Final = 2.0


class OrderReceipt(Struct, frozen=True, kw_only=True):
    """What an operation on an order ended in. `payment_id` or `refund_id` names what it is about, if that is not the order
    as a whole.

    `created` tells a new order or a new payment from what already stood; `replayed` that nothing happened because the
    same thing had been asked before; `repeated` that this is the answer which the same idempotency key got the first time.
    """

    order: Order
    customer: Customer
    payment_id: UUID | None
    created: bool
    replayed: bool = False
    repeated: bool = False
    refund_id: UUID | None = None


class RefundReceipt(Struct, frozen=True, kw_only=True):
    """What asking for a refund ended in: the order, and which of its refunds it is about. The flags as in `OrderReceipt`."""

    order: Order
    customer: Customer
    refund_id: UUID
    created: bool
    replayed: bool = False
    repeated: bool = False


class Clock:
    """The merchant's clock: what every event is dated by. This one shows real time to everybody (see `operations.clocks`)."""

    def now(self, merchant_id: UUID) -> datetime:  # noqa: ARG002 - in production every merchant lives in real time
        """The merchant's present moment, aware, in UTC."""
        return datetime.now(UTC)

    async def look(self, merchant_id: UUID) -> None:
        """Make sure that `now` knows of every move of the clock that has been answered. Raises a Fault."""


class Patience(Struct, frozen=True, kw_only=True):
    """How long things may take, in seconds of real time."""

    processor_timeout_s: float = 30.0
    replay_wait_s: float = 10.0
    """How long a repeated request waits for the first one's outcome (contract N29)."""


class Ledger:
    """One process's way to act. Wired once; operations are functions that take it first."""

    def __init__(
        self,
        journal: Journal,
        processor: Processor | None,
        ordinals: Ordinals,
        *,
        clock: Clock | None = None,
        patience: Patience = Patience(),  # noqa: B008 - frozen, shared on purpose
    ) -> None:
        self.journal = journal
        self.processor = processor
        self.ordinals = ordinals
        self.clock = clock or Clock()
        self.patience = patience
        self.customers = KnownCustomers(journal)
        self.deadlines = Deadlines()
        self._merchants: dict[UUID, tuple[float, Merchant]] = {}
        self._running: set[asyncio.Task[Any]] = set()

    async def merchant(self, merchant_id: UUID) -> Merchant:
        """The merchant's settings, at most two seconds old."""
        known = self._merchants.get(merchant_id)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        merchant, _ = await self.journal.load(merchant_id, merchant_id, evolve_merchant)
        assert merchant is not None, "a key speaks for a merchant that was never registered"
        if len(self._merchants) > 50_000:
            self._merchants.clear()
        self._merchants[merchant_id] = (time.monotonic() + _MERCHANT_TTL_S, merchant)
        return merchant

    async def complete(self, operation: Coroutine[Any, Any, T]) -> T:
        """Run an operation to its end, whatever becomes of the caller."""
        task = asyncio.get_running_loop().create_task(operation)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start something that nobody waits for. It must not raise."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def drain(self) -> None:
        """Wait for the operations whose callers have gone."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
