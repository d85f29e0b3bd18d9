"""Reconciliation: compares the records of every account with the log in both directions, and records effects that the
log lacks.

A call whose outcome is still open is left to the recovery. An effect that only the ledger has recorded cannot be
repaired: an operator asks the processor. Look-ups run side by side, at most eight at a time of each merchant: a
merchant whose look-ups hang delays no other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from ledger.background.fair_slots import FairSlots
from ledger.background.periodic import run_periodically
from ledger.background.reactions.quarantine import UNREADABLE
from ledger.background.reconciliation.comparison import (
    Difference,
    Missing,
    difference_of,
    intent_of,
    is_recorded,
    payment_of,
    possible_actions,
    records_of,
)
from ledger.domain.orders.decide.outcomes import Outcome
from ledger.domain.orders.events import CancelledBecause, PaymentCancelled, VoidRequested
from ledger.domain.orders.payment import Intent, Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.processor_call import ProcessorCall
from ledger.operations.pipeline.execute import record_outcome
from ledger.operations.pipeline.processor_requests import Asking, look_up_call
from ledger.operations.pipeline.unit_of_work import UnitOfWork, load_order
from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import Processor, ProcessorRecord, ProcessorTimedOut, ProcessorUnavailable
from ledger.telemetry.metrics import RECONCILIATION_DIFFERENCES

_log = structlog.get_logger()

MARGIN: Final = timedelta(minutes=15)
"""The least age of a compared record: an outcome that has just been answered is about to be recorded."""
OVERLAP: Final = timedelta(days=1)
"""How far a day's comparison goes back into the day before, which an outage may have cut short."""
_EVERY_S: Final = 600.0
"""How often a worker looks whether a day has passed."""
_LOOK_S: Final = 60.0

_VOIDED: Final = frozenset({PaymentStatus.CANCELLED, PaymentStatus.FAILED})
"""The statuses of a payment that was voided: FAILED if its capture had been refused."""

FindPayments = Callable[[UUID, str], Awaitable[Sequence[tuple[UUID, UUID]]]]
"""Returns the (order, payment) of a merchant that have a name."""
Moved = Callable[[datetime, datetime], Awaitable[Sequence[tuple[UUID, UUID]]]]
"""Returns the (merchant, order) with money that moved in a time."""
TakeDay = Callable[[datetime], Awaitable[datetime | None]]
"""Takes the time up to a moment, and returns since when it is to be compared; None if no day has passed."""
GiveBack = Callable[[datetime, datetime], Awaitable[None]]
"""Gives back a time that was taken and not compared."""


class Reconciliation:
    """Compares the records of all accounts with the log. `find` and `moved` read what the projections have stored."""

    def __init__(self, ledger: Ledger, find: FindPayments, moved: Moved) -> None:
        self._ledger = ledger
        self._find = find
        self._moved = moved

    async def run(self, take_day: TakeDay, give_back: GiveBack, stop: asyncio.Event) -> None:
        """Compares once a day until `stop` is set. A day whose comparison fails is given back, and compared again."""

        async def compare() -> None:
            until = datetime.now(UTC) - MARGIN
            since = await take_day(until)
            if since is None:
                return
            try:
                async for _ in self.differences(since - OVERLAP, until):
                    pass
            except Exception as fault:
                await give_back(since, until)
                if not isinstance(fault, ProcessorTimedOut | ProcessorUnavailable):
                    raise
                _log.warning("reconciliation_waits", reason=type(fault).__name__)

        await run_periodically(compare, stop, pause_s=_EVERY_S)

    async def differences(self, since: datetime, until: datetime, *, repair: bool = True) -> AsyncIterator[Difference]:
        """Yields each difference of this time, counted and logged, of every account.

        An account that does not answer is compared the next time, and delays no other one. Raises ProcessorTimedOut or
        ProcessorUnavailable of it at the end.
        """
        listed, faults = _Listed(), list[Exception]()
        asked = _Questions()
        try:
            async for account in self._ledger.processors.every():
                try:
                    async for difference in self._listed(account, since, until, listed, asked, repair=repair):
                        yield _reported(difference)
                except (ProcessorTimedOut, ProcessorUnavailable) as fault:
                    listed.silent.add((account.merchant_id, account.name))
                    faults.append(fault)
            for merchant_id, order_id in await self._moved(since, until):
                async for processor, record, order in self._unlisted(merchant_id, order_id, listed):
                    asked.start(record, partial(self._missing_at_processor, processor, record, order))
            async for difference in asked.differences():
                yield _reported(difference)
        finally:
            asked.cancel()
        if faults:
            raise faults[0]

    async def _listed(
        self,
        account: ProcessorAccount,
        since: datetime,
        until: datetime,
        listed: _Listed,
        asked: _Questions,
        *,
        repair: bool,
    ) -> AsyncIterator[Difference]:
        """Reads what an account lists, and yields what the log has no payment for. Begins with what it has to ask."""
        async for record in account.processor.records(since, until):
            listed.keys.add((record.merchant_id, account.name, record.idempotency_key))
            found = await self._order_of(record, account.name)
            if found is None:
                yield difference_of(record)
                continue
            order, order_id, payment_id = found
            if order is not None and not is_recorded(order.payment(payment_id), order, record):
                place = (order_id, payment_id)
                ask = partial(self._missing_in_ledger, account.processor, record, place, repair=repair)
                asked.start(record, ask)

    # ------------------------------------------------------------------------------- the processor has it, the log not

    async def _missing_in_ledger(
        self, processor: Processor, record: ProcessorRecord, place: tuple[UUID, UUID], *, repair: bool
    ) -> Difference | None:
        order_id, payment_id = place
        order = await self._load(record.merchant_id, order_id)
        if order is None or is_recorded(order.payment(payment_id), order, record):
            return None  # it has waited for its turn
        repaired = repair and await self._repair(processor, order, order.payment(payment_id), record)
        return difference_of(record, order_id, payment_id, repaired=repaired)

    async def _order_of(self, record: ProcessorRecord, account: str) -> tuple[Order | None, UUID, UUID] | None:
        """Returns the order of a record, None if it cannot be read, with its id and the payment's.

        Returns None if no payment at this account is named in the record.
        """
        for name in (record.idempotency_key, record.processor_reference):
            for order_id, payment_id in await self._find(record.merchant_id, name):
                order = await self._load(record.merchant_id, order_id)
                if order is None or order.payment(payment_id).account == account:
                    return order, order_id, payment_id
        return None

    async def _load(self, merchant_id: UUID, order_id: UUID) -> Order | None:
        """Returns an order, or None if its log cannot be read: the quarantine reports that."""
        try:
            return await load_order(self._ledger, merchant_id, order_id)
        except UNREADABLE:
            return None

    async def _repair(self, processor: Processor, order: Order, payment: Payment, record: ProcessorRecord) -> bool:
        """Records the answer that the processor gives for the call now. Returns whether the log has it then."""
        try:
            answer = await self._look_up(processor, order, payment, record)
        except (ProcessorTimedOut, ProcessorUnavailable, TimeoutError):
            return False
        if answer is None:
            return False
        intent, outcome = answer
        actor = Actor(merchant_id=record.merchant_id, request_id="reconciliation")
        uow = UnitOfWork(self._ledger, actor, cause=payment.payment_id)
        call = ProcessorCall(ledger=self._ledger, merchant_id=record.merchant_id, order=order, intent=intent)
        await record_outcome(uow, call, outcome)
        repaired = await uow.order(order.terms.order_id)
        return is_recorded(repaired.payment(payment.payment_id), repaired, record)

    async def _look_up(
        self, processor: Processor, order: Order, payment: Payment, record: ProcessorRecord
    ) -> tuple[Intent, Outcome] | None:
        """Returns a record's call and the answer that the processor has for it, or None if it knows no such call."""
        for action in possible_actions(record):
            intent = intent_of(order, payment, record, action)
            timeout_s = self._ledger.call_timeouts.processor_timeout_s
            asking = Asking(deadline_at=datetime.now(UTC) + timedelta(seconds=timeout_s))
            with self._ledger.timeouts.within(timeout_s):
                outcome = await look_up_call(processor, record.merchant_id, order, intent, asking)
            if outcome is not None:
                return intent, outcome
        return None

    # ------------------------------------------------------------------------------- the log has it, the processor not

    async def _unlisted(
        self, merchant_id: UUID, order_id: UUID, listed: _Listed
    ) -> AsyncIterator[tuple[Processor, ProcessorRecord, Order]]:
        """Yields the records that the accounts should have for an order and did not list, each with its processor."""
        order = await self._load(merchant_id, order_id)
        if order is None:
            return
        voids = await self._voids(merchant_id, order)
        for name in dict.fromkeys(payment.account for payment in order.payments if payment.account):
            account = await self._ledger.processors.named(merchant_id, name)
            if account is None or (account.merchant_id, name) in listed.silent:
                continue
            for record in records_of(order, merchant_id, name, voids):
                if (merchant_id, name, record.idempotency_key) not in listed.keys:
                    yield account.processor, record, order

    async def _missing_at_processor(
        self, processor: Processor, record: ProcessorRecord, order: Order
    ) -> Difference | None:
        payment = payment_of(order, record.idempotency_key)
        try:
            if await self._look_up(processor, order, payment, record) is not None:
                return None
        except (ProcessorTimedOut, ProcessorUnavailable, TimeoutError):
            return None  # the next comparison covers this time once more
        return difference_of(record, order.terms.order_id, payment.payment_id, missing_in=Missing.AT_PROCESSOR)

    async def _voids(self, merchant_id: UUID, order: Order) -> dict[UUID, str]:
        """Returns the keys of the voids that have ended payments, by payment."""
        if not any(payment.status in _VOIDED for payment in order.payments):
            return {}
        keys, voided = dict[UUID, str](), dict[UUID, str]()
        for event in await self._ledger.journal.reader.stream(merchant_id, order.terms.order_id):
            if isinstance(event, VoidRequested):
                keys[event.payment_id] = event.idempotency_key
            elif isinstance(event, PaymentCancelled) and event.because is CancelledBecause.VOIDED:
                voided[event.payment_id] = keys[event.payment_id]
        return voided


class _Listed:
    """What the accounts have listed: keys by merchant and account. Those that did not answer are `silent`."""

    def __init__(self) -> None:
        self.keys = set[tuple[UUID, str, str]]()
        self.silent = set[tuple[UUID | None, str]]()


class _Questions:
    """The comparisons that ask the processor, side by side and shared fairly by the merchants."""

    def __init__(self) -> None:
        self._slots = FairSlots[tuple[UUID, str]]()
        self._found = deque[Difference]()
        self.cancel = self._slots.cancel

    def start(self, record: ProcessorRecord, compare: Callable[[], Awaitable[Difference | None]]) -> None:
        async def ask() -> None:
            difference = await compare()
            if difference is not None:
                self._found.append(difference)

        self._slots.start(record.merchant_id, (record.merchant_id, record.idempotency_key), ask)

    async def differences(self) -> AsyncIterator[Difference]:
        """Yields each difference as it is found, until all comparisons have ended. Raises what one has raised."""
        while self._slots.keys or self._found:
            while self._found:
                yield self._found.popleft()
            if self._slots.keys:
                await self._slots.ended(_LOOK_S)


def _reported(difference: Difference) -> Difference:
    RECONCILIATION_DIFFERENCES.labels(difference.missing_in, str(difference.repaired).lower()).inc()
    ids = {"merchant_id": str(difference.merchant_id), "order_id": str(difference.order_id)}
    _log.error("reconciliation_differs", missing_in=difference.missing_in, repaired=difference.repaired, **ids)
    return difference
