"""Recovery: looks up at the processor every call that has no outcome, and sends again what never reached it.

Never send an authorisation again: the card is not kept. Captures, voids, refunds and payouts are sent again under their
own keys for a day. After that, "not found" is final only when the processor can no longer apply the call late: it has
fenced the call's key, or its time for late arrivals is over. An unreadable or missing answer is looked up again without
end, with back-off, and so is an order that cannot be read; what waits does not delay other orders. Look-ups run side by
side in fair slots: look-ups that hang delay their own merchant alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from ledger.back_off import back_off_s
from ledger.background.fair_slots import FairSlots
from ledger.background.periodic import run_periodically
from ledger.background.reactions.quarantine import UNREADABLE
from ledger.domain.orders.decide.outcomes import Outcome
from ledger.domain.orders.decide.unanswered_calls import can_be_repeated
from ledger.domain.orders.invoices.state import Document
from ledger.domain.orders.payment import Intent
from ledger.domain.orders.processor_outcomes import NotFound
from ledger.domain.orders.state import Order
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.recover import recover_document
from ledger.operations.pipeline.execute import record_outcome
from ledger.operations.pipeline.processor_metrics import LOOK_UP, observed
from ledger.operations.pipeline.processor_requests import look_up_call
from ledger.operations.pipeline.repeat_call import repeat_call
from ledger.operations.pipeline.unit_of_work import UnitOfWork, load_order
from ledger.postgres.faults import Fault
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.telemetry.logs import stack_locations
from ledger.telemetry.metrics import REPEATED, SETTLED

_log = structlog.get_logger()

_ORDERS_MAX: Final = 1000
"""How many orders one sweep begins with, and how many of one merchant wait for their look-ups."""
_BACK_OFF_FIRST_S, _BACK_OFF_MAX_S = 1.0, 60.0
_RELOAD_S: Final = 10.0
"""How long an order with an open call that is due is not read again."""

Due = Callable[[datetime, int, Collection[UUID]], Awaitable[Sequence[tuple[UUID, UUID]]]]
"""Returns at most so many (merchant, order) whose open call was over before that real time, by its deadline or because
it came back without an answer; without these orders, from each merchant in turn."""


class Windows(Struct, frozen=True, kw_only=True):
    """When an unknown outcome is looked up, in seconds of real time."""

    margin_s: float = 5.0
    """How long after its deadline a call is first looked up, or after it came back without an answer."""
    late_s: float = 30.0
    """How long after its deadline "not found" can be final. A processor that cannot fence a key may need longer."""
    look_up_s: float = 10.0
    """How long one look-up may take."""
    repeat_s: float = 86_400.0
    """How long after its first deadline a call that never reached the processor is sent again."""
    poll_s: float = 1.0


class Recovery:
    """Finds the outcomes of calls that crashes and time-outs left open.

    `due` returns the orders with such calls. Setting `stop` ends `run` between two sweeps.
    """

    def __init__(self, ledger: Ledger, due: Due, windows: Windows = Windows()) -> None:  # noqa: B008 - frozen
        self._ledger = ledger
        self._due = due
        self._windows = windows
        self._tries: dict[str | UUID, tuple[int, datetime]] = {}  # by call, and by order
        self._slots = FairSlots[UUID]()  # by order

    async def run(self, stop: asyncio.Event) -> None:
        """Begins with every call that is due, every second until `stop` is set. Finishes the look-ups that run then."""
        await run_periodically(
            self._begin,
            stop,
            pause_s=self._windows.poll_s,
            log_waiting=lambda reason: _log.warning("recovery_waits", reason=reason),
        )
        await self._slots.stop()

    async def sweep(self) -> None:
        """Looks up every call that is due now."""
        await self._begin()
        await self._slots.drain()

    async def _begin(self) -> None:
        """Begins with every call that is due now, and does not wait for the look-ups."""
        now = datetime.now(UTC)
        self._tries = {key: tried for key, tried in self._tries.items() if tried[1] > now - timedelta(hours=1)}
        skipped = {key for key, (_, next_at) in self._tries.items() if isinstance(key, UUID) and next_at > now}
        skipped.update(self._slots.keys)
        before = now - timedelta(seconds=self._windows.margin_s)
        for merchant_id, order_id in await self._due(before, _ORDERS_MAX, skipped):
            if self._slots.started[merchant_id] < _ORDERS_MAX:
                self._slots.start(merchant_id, order_id, partial(self._try, merchant_id, order_id))

    async def _try(self, merchant_id: UUID, order_id: UUID) -> None:
        """Finds an order's outcomes. An order that cannot be read, or fails in any other way, is tried again later."""
        try:
            await self._recover(merchant_id, order_id)
        except UNREADABLE as fault:
            self._retry_later(order_id)
            _log.error("recovery_cannot_read", order_id=str(order_id), reason=repr(fault))
        except Fault:
            return  # the database is unreachable: the next sweep is soon enough
        except Exception as fault:  # noqa: BLE001 - an order that fails must not delay the others
            self._retry_later(order_id)
            reason = type(fault).__name__
            _log.error("recovery_failed", order_id=str(order_id), reason=reason, at=stack_locations(fault))

    async def _recover(self, merchant_id: UUID, order_id: UUID) -> None:
        order = await load_order(self._ledger, merchant_id, order_id)
        for payment in order.payments:
            if payment.intent is None or self._next_try(payment.intent) > datetime.now(UTC):
                continue
            repeats = self._can_repeat(order, payment.intent)
            if repeats and payment.intent.unsent:
                order = await self._send_again(merchant_id, order, payment.intent)
                continue
            outcome = await self._look_up(merchant_id, order, payment.intent, fence=not repeats)
            if outcome is None:
                self._retry_later(payment.intent.idempotency_key)
            elif repeats and isinstance(outcome, NotFound):
                order = await self._send_again(merchant_id, order, payment.intent)
            else:
                order = await self._record(merchant_id, order, payment.intent, outcome)
        order = await self._recover_documents(merchant_id, order)
        intents = (payment.intent for payment in order.payments if payment.intent is not None)
        documents = () if order.invoices is None else order.invoices.documents
        stamps = (self._next_look_up(each) for each in documents if each.open_intent is not None)
        next_at = min((*map(self._next_try, intents), *stamps), default=None)
        self._tries.pop(order_id, None)
        if next_at is not None:  # another process may see a call of the order come back before that
            self._tries[order_id] = (0, min(next_at, datetime.now(UTC) + timedelta(seconds=_RELOAD_S)))

    async def _recover_documents(self, merchant_id: UUID, order: Order) -> Order:
        """Finds the outcomes of the order's calls to the stamping provider; returns the order after them."""
        for document in () if order.invoices is None else order.invoices.documents:
            if document.open_intent is None or self._next_look_up(document) > datetime.now(UTC):
                continue
            windows, key = self._windows, document.document_id
            found = await recover_document(
                self._ledger, merchant_id, order, document, late_s=windows.late_s, timeout_s=windows.look_up_s
            )
            if not found:
                self._retry_later(str(key))
                continue
            self._tries.pop(str(key), None)
            SETTLED.inc()
            order = await load_order(self._ledger, merchant_id, order.terms.order_id)
        return order

    async def _record(self, merchant_id: UUID, order: Order, intent: Intent, outcome: Outcome) -> Order:
        order_id = order.terms.order_id
        actor = Actor(merchant_id=merchant_id, request_id="recovery")
        uow = UnitOfWork(self._ledger, actor, cause=intent.payment_id)
        await record_outcome(uow, order_id, intent, outcome)
        self._tries.pop(intent.idempotency_key, None)
        SETTLED.inc()
        _log.info(
            "payment_recovered",
            order_id=str(order_id),
            call=intent.action,
            outcome=type(outcome).__name__,
        )
        return await uow.order(order_id)

    def _can_repeat(self, order: Order, intent: Intent) -> bool:
        """Returns whether the call is sent again where the processor does not have it."""
        until = (intent.first_deadline_at or intent.deadline_at) + timedelta(seconds=self._windows.repeat_s)
        return datetime.now(UTC) < until and can_be_repeated(order, intent)

    async def _send_again(self, merchant_id: UUID, order: Order, intent: Intent) -> Order:
        order_id = order.terms.order_id
        after = await repeat_call(self._ledger, merchant_id, order_id, intent)
        if intent in (payment.intent for payment in after.payments):
            self._retry_later(intent.idempotency_key)  # its payer is being erased
            return after
        REPEATED.inc()
        _log.info("call_sent_again", order_id=str(order_id), call=intent.action, tries=intent.tries + 1)
        self._tries.pop(intent.idempotency_key, None)
        return after

    async def _look_up(self, merchant_id: UUID, order: Order, intent: Intent, *, fence: bool) -> Outcome | None:
        """Returns the outcome, or None where it is still unknown.

        Before a "not found" is final, a processor that can fence refuses the key where `fence` is True.
        """
        processor = self._ledger.processor
        if processor is None:
            return None
        can_fence, late_s = processor.capabilities.can_fence, self._windows.late_s
        if not can_fence:
            late_s = max(late_s, processor.capabilities.late_arrival_s)
        is_final = datetime.now(UTC) >= intent.deadline_at + timedelta(seconds=late_s)
        try:
            with self._ledger.timeouts.within(self._windows.look_up_s):
                look_up = look_up_call(processor, merchant_id, order, intent, fence=fence and is_final and can_fence)
                found = await observed(intent.processor, LOOK_UP, look_up)
        except (ProcessorTimedOut, ProcessorUnavailable, TimeoutError):
            return None
        return NotFound() if found is None and is_final else found

    def _next_try(self, intent: Intent) -> datetime:
        """Returns when this call may be looked up, for the first time or again."""
        tried = self._tries.get(intent.idempotency_key)
        return intent.over_at + timedelta(seconds=self._windows.margin_s) if tried is None else tried[1]

    def _next_look_up(self, document: Document) -> datetime:
        """Returns when the open call about this document may be looked up, for the first time or again."""
        tried, intent = self._tries.get(str(document.document_id)), document.open_intent
        assert intent is not None, "only a document with an open call is looked up"
        return intent.deadline_at + timedelta(seconds=self._windows.margin_s) if tried is None else tried[1]

    def _retry_later(self, key: str | UUID) -> None:
        tries = self._tries.get(key, (0, None))[0]
        pause_s = back_off_s(tries, _BACK_OFF_MAX_S, _BACK_OFF_FIRST_S)
        self._tries[key] = (tries + 1, datetime.now(UTC) + timedelta(seconds=pause_s))
