"""One action on an order that exists: load, decide, commit, carry out, tell; again from the start where somebody was first.

The rule a stranger would break: the intent is committed before the processor hears of it, and no connection is held while
it thinks. What is decided is decided on the order as it is committed to, never on an older one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.idempotency.events import RequestEvent
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.state import Order
from ledger.domain.rejections import ConcurrentUpdate
from ledger.journal.append import Change, VersionConflict
from ledger.journal.journal import Context
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.loading import fold, is_under_way, load_order
from ledger.operations.pipeline.processor_calls import Progress, make_calls, new_intents, withdraw_references
from ledger.operations.pipeline.processor_requests import NO_SECRETS, SecretInputs
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.operations.results import OrderResult, RequestTarget
from ledger.processors.contract import ProcessorUnavailable

ATTEMPTS: Final = 20

Decide = Callable[[Order, datetime], list[OrderEvent]]
"""What follows for an order as it stands, at a moment of the merchant's clock. No events: it is so already."""
TargetOf = Callable[[Order, list[OrderEvent]], RequestTarget]
"""What the action is about, from the order after its events; without events from what stood there before."""


async def execute(
    errand: UnitOfWork,
    order_id: UUID,
    decide: Decide,
    subject_of: TargetOf,
    enclosed: SecretInputs = NO_SECRETS,
    *,
    creates: bool = False,
) -> OrderResult:
    """Do to an order what `decide` says, once, and carry it out; what was done before is shown.

    Raises what `decide` raises, ConcurrentUpdate, ProcessorUnavailable where nothing was sent, a Fault of the journal.
    """
    ledger, merchant_id = errand.ledger, errand.merchant_id
    for _ in range(ATTEMPTS):
        order, version = await load_order(ledger, merchant_id, order_id)
        events = decide(order, ledger.clock.now(merchant_id))
        if not events:
            return await replayed_result(errand, order, version, subject_of(order, events))
        try:
            after, subject = await commit_and_call(
                errand, order, version, events, subject_of, enclosed, creates=creates
            )
        except VersionConflict:
            continue
        return await order_result(ledger, merchant_id, after, subject, created=creates)
    raise ConcurrentUpdate("The order is being changed by many requests at once.")


async def commit_and_call(
    errand: UnitOfWork,
    order: Order,
    version: int,
    events: list[OrderEvent],
    subject_of: TargetOf,
    enclosed: SecretInputs,
    *,
    creates: bool,
) -> tuple[Order, RequestTarget]:
    """Commit what was decided and make the calls that it announces. Raises VersionConflict before any call."""
    after = Progress(fold(order, events), version + len(events))
    subject = subject_of(after.order, events)
    intents = new_intents(after.order, events)
    record: list[RequestEvent | None] = [errand.accepted(order.terms.order_id, subject)]
    if not intents:
        record.append(errand.answered(after.version, created=creates))
    change = Change(order.terms.order_id, version, events, order, after.order)
    command_id = await errand.commit([change], record=record)
    withdraw_references(errand.ledger, errand.merchant_id, after.order, events)
    if intents:
        after = await make_calls(
            errand.ledger, errand.merchant_id, after, intents, errand.context(command_id), enclosed,
            lambda course: errand.settled(course.version, sent=course.sent, created=creates),
        )  # fmt: skip
        require_sent(after)
    return after.order, subject


def require_sent(course: Progress) -> None:
    """Raises ProcessorUnavailable once it is recorded that nothing was sent."""
    if not course.sent:
        raise ProcessorUnavailable("The payment processor cannot be reached; nothing was charged.")


async def replayed_result(errand: UnitOfWork, order: Order, version: int, subject: RequestTarget) -> OrderResult:
    """Show what the first request made, after giving it a while to come to its end."""
    ledger, merchant_id = errand.ledger, errand.merchant_id
    until = time.monotonic() + ledger.patience.replay_wait_s
    pause = 0.01
    while is_under_way(order, subject) and time.monotonic() < until:
        await asyncio.sleep(pause)
        pause = min(1.5 * pause, 0.25)
        order, version = await load_order(ledger, merchant_id, order.terms.order_id)
    if errand.key is not None:
        accepted = errand.accepted(order.terms.order_id, subject)
        await errand.commit([], record=[accepted, errand.answered(version, created=False, replayed=True)])
    return await order_result(ledger, merchant_id, order, subject, created=False, replayed=True)


async def order_result(
    ledger: Ledger, merchant_id: UUID, order: Order, subject: RequestTarget, *, created: bool, replayed: bool = False
) -> OrderResult:
    """What the caller is told: the order as it stands now, and its customer."""
    known = await ledger.customers.by_id(merchant_id, order.terms.customer_id)
    assert known is not None, "an order's customer does not go away"
    return OrderResult(
        order=order,
        customer=known.customer,
        payment_id=subject.payment_id,
        refund_id=subject.refund_id,
        created=created,
        replayed=replayed,
    )


def call_deadline(ledger: Ledger) -> datetime:
    """Until when, in real time, a call that is announced now is to be answered."""
    return datetime.now(UTC) + timedelta(seconds=ledger.patience.processor_timeout_s)


async def execute_fact(ledger: Ledger, merchant_id: UUID, order_id: UUID, decide: Decide, context: Context) -> Order:
    """The order after a fact. Raises what `decide` raises, ConcurrentUpdate, a Fault of the journal."""
    for _ in range(ATTEMPTS):
        order, version = await load_order(ledger, merchant_id, order_id)
        events = decide(order, ledger.clock.now(merchant_id))
        if not events:
            return order
        after = Progress(fold(order, events), version + len(events))
        try:
            change = Change(order_id, version, events, order, after.order)
            await ledger.journal.commit(merchant_id, uuid7(), [change], context=context)
        except VersionConflict:
            continue
        withdraw_references(ledger, merchant_id, after.order, events)
        return (await make_calls(ledger, merchant_id, after, new_intents(after.order, events), context)).order
    raise ConcurrentUpdate("The order is being changed by many requests at once.")
