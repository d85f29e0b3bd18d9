"""From intents to their outcomes: call the processor, record what came of it, and go on with what follows from that.

The rule a stranger would break: nothing that a processor said is ever dropped. When the order has moved on meanwhile, the
outcome is decided again on the order as it is now, until it is written. And only whoever committed an intent calls for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import AUTHORIZATION_S, SESSION_S
from ledger.domain.orders.decide.outcomes import Outcome, decide_outcome, outcome_command
from ledger.domain.orders.events import (
    AuthenticationRequested,
    AuthorizationRequested,
    CaptureRequested,
    OrderEvent,
    PaymentCancelled,
    ReferenceRequested,
    RefundRequested,
    VoidRequested,
)
from ledger.domain.orders.payment import Intent
from ledger.domain.orders.processor_outcomes import NotSent
from ledger.domain.orders.state import Order
from ledger.journal.append import Change, VersionConflict
from ledger.journal.journal import Context
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.loading import fold, load_order
from ledger.operations.pipeline.processor_requests import NO_SECRETS, SecretInputs, call_processor, withdraw_reference

_ANNOUNCING: Final = (
    AuthorizationRequested,
    AuthenticationRequested,
    CaptureRequested,
    VoidRequested,
    RefundRequested,
    ReferenceRequested,
)


class Progress(Struct, frozen=True):
    """How far an order has come. `sent` is False where calls were made and every one of them never left this process."""

    order: Order
    version: int
    sent: bool = True


AlsoCommit = Callable[[Progress], Sequence[Change]]
"""What else belongs into the commit of the last outcome, given where the order stands after it."""


def new_intents(order: Order, events: Sequence[OrderEvent]) -> list[Intent]:
    """The calls that these events, the order's newest, have announced and that nobody has made yet."""
    waiting = [payment.intent for payment in order.payments if payment.intent is not None]
    if not waiting:
        return waiting
    keys = {event.idempotency_key for event in events if isinstance(event, _ANNOUNCING)}
    return [intent for intent in waiting if intent.idempotency_key in keys]


async def make_calls(
    ledger: Ledger,
    merchant_id: UUID,
    course: Progress,
    intents: Sequence[Intent],
    context: Context,
    enclosed: SecretInputs = NO_SECRETS,
    beside: AlsoCommit = lambda _: (),
) -> Progress:
    """Make the calls of these intents, which the caller has committed, and those that follow from their outcomes.

    Raises a Fault of the journal: the recovery goes on then.
    """
    sent = not intents
    while intents:
        more: list[Intent] = []
        left = len(intents)
        for called in _called(ledger, merchant_id, course.order, intents, enclosed):
            intent, outcome = await called
            left -= 1
            sent = sent or not isinstance(outcome, NotSent)
            course = Progress(course.order, course.version, sent)
            course, events = await _record(
                ledger, merchant_id, course, intent, outcome, context, beside if not (left or more) else None
            )
            more += new_intents(course.order, events)
        intents = more
    return course


async def record_outcome(
    ledger: Ledger, merchant_id: UUID, course: Progress, intent: Intent, outcome: Outcome, context: Context
) -> Progress:
    """Record what became of an intent and go on with what follows. Raises a Fault."""
    course, events = await _record(ledger, merchant_id, course, intent, outcome, context, None)
    return await make_calls(ledger, merchant_id, course, new_intents(course.order, events), context)


def withdraw_references(ledger: Ledger, merchant_id: UUID, order: Order, events: Sequence[OrderEvent]) -> None:
    """Tell the processor, beside whatever comes next, which references these events have put an end to."""
    until = datetime.now(UTC) + timedelta(seconds=ledger.patience.processor_timeout_s)
    for event in events:
        if isinstance(event, PaymentCancelled):
            payment = order.payment(event.payment_id)
            if payment.reference is not None:
                ledger.begin(withdraw_reference(ledger, merchant_id, order, payment, until))


def _called(
    ledger: Ledger, merchant_id: UUID, order: Order, intents: Sequence[Intent], enclosed: SecretInputs
) -> Iterable[Awaitable[tuple[Intent, Outcome]]]:
    """Each intent with its outcome, as they come: several calls are made at once, so that none waits out another's deadline."""

    async def one(intent: Intent) -> tuple[Intent, Outcome]:
        return intent, await call_processor(ledger, merchant_id, order, intent, enclosed)

    if len(intents) == 1:  # as there mostly is: no task for it
        return [one(intents[0])]
    return asyncio.as_completed([one(intent) for intent in intents])


def _times(ledger: Ledger) -> tuple[int, int]:
    """How long the processor gives a payer to act, and how long what it grants can be captured, in seconds."""
    if ledger.processor is None:
        return SESSION_S, AUTHORIZATION_S
    able = ledger.processor.capabilities
    return int(able.authentication_session_s), int(able.authorization_validity_s)


async def _record(
    ledger: Ledger,
    merchant_id: UUID,
    course: Progress,
    intent: Intent,
    outcome: Outcome,
    context: Context,
    beside: AlsoCommit | None,
) -> tuple[Progress, Sequence[OrderEvent]]:
    """Write what became of an intent; where the order stands afterwards, and the events that were written."""
    order, version = course.order, course.version
    await ledger.clock.refresh(merchant_id)  # the processor has taken its time
    while True:
        events = decide_outcome(order, outcome_command(intent, outcome, ledger.clock.now(merchant_id), *_times(ledger)))
        if not events:
            return Progress(order, version, course.sent), events
        after = Progress(fold(order, events), version + len(events), course.sent)
        changes = [Change(order.terms.order_id, version, events, order, after.order)]
        if beside is not None and not new_intents(after.order, events):
            changes += beside(after)
        try:
            await ledger.journal.commit(merchant_id, uuid7(), changes, context=context)
        except VersionConflict:
            order, version = await load_order(ledger, merchant_id, order.terms.order_id)
            continue
        return after, events
