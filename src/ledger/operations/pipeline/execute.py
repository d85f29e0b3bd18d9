"""The only loop of the ledger that decides and commits, and the only place that calls processors.

An intent is committed before the processor receives the call; no database connection is held during the call. An
attempt decides on the state that its commit checks, never on an older one. A call whose deadline has passed is not
made: the recovery may have settled its intent by then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import structlog
from msgspec.structs import replace

from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.customers.state import Customer
from ledger.domain.orders.decide.outcomes import Outcome, decide_outcome, outcome_command
from ledger.domain.orders.events import (
    AuthenticationRequested,
    AuthorizationRequested,
    CallRepeated,
    CaptureRequested,
    LateAuthorizationReported,
    LateCaptureReported,
    LateRefundReported,
    PaymentCancelled,
    ReferenceRequested,
    RefundReopened,
    RefundRequested,
    VoidRequested,
)
from ledger.domain.orders.payment import Intent
from ledger.domain.orders.processor_outcomes import ActionRequired, NotSent, Unanswered
from ledger.domain.orders.state import Order
from ledger.domain.orders.validity import AUTHORIZATION_S, CHALLENGE_S
from ledger.domain.rejections import ConcurrentUpdate, PaymentMethodNotFound, Rejected
from ledger.journal.append import Change, Conflict
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import NothingSent, OrderResult
from ledger.operations.pipeline.idempotency import answered_before, has_open_call, record_rejection
from ledger.operations.pipeline.processor_metrics import OPERATIONS, observed
from ledger.operations.pipeline.processor_requests import (
    NO_SECRETS,
    SecretInputs,
    not_sent,
    send_request,
    with_number,
    withdraw_reference,
)
from ledger.operations.pipeline.unit_of_work import Loaded, Plan, UnitOfWork
from ledger.processors.card_data import masked
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.telemetry.metrics import CONTRADICTIONS

ATTEMPTS: Final = 20
ATTEMPTS_AT_A_FACT: Final = 1_000
"""An outcome has happened: it is recorded however many others change the order meanwhile."""

_log = structlog.get_logger()

_UNREADABLE: Final = Unanswered(reason="The processor's answer could not be read.")
_SILENT: Final = Unanswered(reason="The processor did not answer in time.")

_INTENTS: Final = (
    AuthorizationRequested,
    AuthenticationRequested,
    CaptureRequested,
    VoidRequested,
    RefundRequested,
    ReferenceRequested,
    CallRepeated,
)

_CONTRADICTIONS: Final = frozenset({LateAuthorizationReported, LateCaptureReported, LateRefundReported, RefundReopened})
"""What the ledger records where a processor reports an effect of a call that the ledger had settled otherwise."""

Attempt = Callable[[Conflict | None], Awaitable[Plan]]
"""Loads, decides and returns a plan. The argument is the conflict that the previous attempt met."""


async def execute_request(uow: UnitOfWork, attempt: Attempt) -> OrderResult:
    """Executes a merchant's request on an order, or returns the answer that its idempotency key received before.

    Raises what `attempt` raises, ConcurrentUpdate, ProcessorUnavailable where nothing was sent, a Fault of the journal;
    with a key also IdempotencyKeyReused and RequestInProgress. Records a rejection that will not change.
    """
    if uow.key is None:
        return await _result(uow, await execute(uow, attempt))
    answer = await answered_before(uow)
    if answer is not None:
        return answer
    try:
        return await _result(uow, await execute(uow, attempt))
    except Rejected as rejection:
        await record_rejection(uow, rejection)
        raise


async def execute(uow: UnitOfWork, attempt: Attempt, *, is_fact: bool = False) -> Plan:
    """Commits what `attempt` decides, makes the processor calls that it announces, and records their outcomes.

    `is_fact` keeps trying where a request would give up. Returns the plan of the last attempt. Raises what `attempt`
    raises, ConcurrentUpdate, a Fault of the journal.
    """
    conflict: Conflict | None = None
    for _ in range(ATTEMPTS_AT_A_FACT if is_fact else ATTEMPTS):
        latest_s = time.monotonic() + uow.ledger.call_timeouts.processor_timeout_s  # not after any deadline of the plan
        plan = await attempt(conflict)
        change = plan.changes[0]
        if not change.events:
            return plan
        intents = _new_intents(change)
        try:
            await uow.commit(plan, calls=len(intents))
        except Conflict as met:
            conflict = met
            continue
        kinds = set(map(type, change.events))
        if PaymentCancelled in kinds:
            _withdraw_references(uow, change)
        if not _CONTRADICTIONS.isdisjoint(kinds):
            _report_contradictions(uow, plan)
        if intents:
            await _make_calls(uow, plan, intents, latest_s)
        return plan
    raise ConcurrentUpdate("Too many requests change this at once. Send the request again.")


async def record_outcome(
    uow: UnitOfWork, order_id: UUID, intent: Intent, outcome: Outcome, secrets: SecretInputs = NO_SECRETS
) -> None:
    """Records the outcome of a call and makes the calls that follow from it. Raises a Fault of the journal."""
    ledger, outcome = uow.ledger, masked(outcome)
    uow.calls_open -= 1
    uow.calls_ended += 1
    uow.calls_sent += not isinstance(outcome, NotSent) or outcome.until is not None  # it will be sent
    uow.now = await ledger.clock.refresh(uow.merchant_id)  # the call took time

    async def attempt(_: Conflict | None) -> Plan:
        loaded = uow.streams.get(order_id)
        order = await uow.order(order_id) if loaded is None else loaded.state
        command = outcome_command(intent, outcome, uow.now, *_payer_times(ledger))
        return Plan(changes=[uow.change_order(order_id, decide_outcome(order, command))], secrets=secrets)

    await execute(uow, attempt, is_fact=True)
    if isinstance(outcome, NotSent) and outcome.until is not None and not _is_postponed(uow, order_id, intent):
        uow.calls_sent -= 1  # the recovery has settled it as never arrived


def _is_postponed(uow: UnitOfWork, order_id: UUID, intent: Intent) -> bool:
    order: Order = uow.streams[order_id].state
    return any(
        each.intent is not None and each.intent.idempotency_key == intent.idempotency_key for each in order.payments
    )


async def _make_calls(uow: UnitOfWork, plan: Plan, intents: Sequence[Intent], latest_s: float) -> None:
    """Makes the calls of committed intents side by side and records each outcome as it comes."""
    order: Order = plan.changes[0].after
    calls: Iterable[Awaitable[tuple[Intent, Outcome]]] = [
        _call(uow, order, intent, plan.secrets, latest_s) for intent in intents
    ]
    if len(intents) > 1:
        calls = asyncio.as_completed(calls)
    for call in calls:
        intent, outcome = await call
        await record_outcome(uow, order.terms.order_id, intent, outcome, plan.secrets)


async def _call(
    uow: UnitOfWork, order: Order, intent: Intent, secrets: SecretInputs, latest_s: float
) -> tuple[Intent, Outcome]:
    """Makes one call. Never raises: whatever goes wrong is an outcome.

    Only a processor that can prove that nothing left this process makes it "not sent", and a deadline that has passed,
    by the real time or by the monotonic clock (`latest_s`): a process may have been stopped, or its machine's clock
    set.
    """
    ledger = uow.ledger
    assert ledger.processor is not None, "no intent is committed without a processor"
    assert intent.payment_id is not None, "an intent is a payment's"
    if secrets.saved_card is not None:
        try:
            opened = await with_number(ledger, uow.merchant_id, intent, secrets)
        except ProcessorUnavailable:
            return intent, NotSent()
        if opened is None:
            uow.not_sent_because = PaymentMethodNotFound("The saved payment method was deleted; nothing was charged.")
            return intent, NotSent()
        secrets = opened
    left_s = min((intent.deadline_at - datetime.now(UTC)).total_seconds(), latest_s - time.monotonic())
    if left_s <= 0:
        _log.warning(
            "processor_call_not_made", processor=intent.processor, call=intent.action, late_s=round(-left_s, 1)
        )
        return intent, not_sent(order, intent)
    try:
        with ledger.timeouts.within(left_s):
            request = send_request(ledger.processor, uow.merchant_id, order, intent, secrets)
            answer = await observed(intent.processor, OPERATIONS[intent.action], request)
    except ProcessorUnavailable:
        return intent, not_sent(order, intent)
    except (ProcessorTimedOut, TimeoutError):
        return intent, _come_back(_SILENT)
    except Exception as fault:  # noqa: BLE001 - an answer that cannot be read is an unknown outcome
        _log.error("processor_failed", processor=intent.processor, reason=type(fault).__name__)
        return intent, _come_back(_UNREADABLE)
    if isinstance(answer, ActionRequired) and order.payment(intent.payment_id).started.virtual_terminal:
        # No payer is present, and the request did not allow it: an answer to something else.
        return intent, _come_back(_UNREADABLE)
    return intent, answer


def _come_back(outcome: Unanswered) -> Unanswered:
    """Returns the outcome of a call that came back now, so that the recovery does not wait for its deadline."""
    return replace(outcome, came_back_at=datetime.now(UTC))


async def _result(uow: UnitOfWork, plan: Plan) -> OrderResult:
    """Returns the order after the plan and all its calls.

    Raises ProcessorUnavailable where no call left this process.
    """
    change = plan.changes[0]
    if not change.events:
        await _wait_for_calls(uow, plan)
        if uow.key is not None:
            await uow.record_answer(plan, replayed=True)
    elif uow.calls_ended and not uow.calls_sent:
        raise uow.not_sent_because or NothingSent(uow.streams[change.stream_id].state)
    order: Order = uow.streams[change.stream_id].state
    customer_id = order.terms.customer_id
    loaded = uow.streams.get(customer_id)
    if loaded is None:
        loaded = Loaded(*await uow.ledger.journal.load(uow.merchant_id, customer_id, evolve_customer))
    customer: Customer | None = loaded.state
    assert customer is not None, "an order's customer is never deleted"
    return OrderResult(
        order=order,
        customer=customer,
        payment_id=plan.target.payment_id,
        refund_id=plan.target.refund_id,
        created=uow.creates and bool(change.events),
        replayed=not change.events,
    )


async def _wait_for_calls(uow: UnitOfWork, plan: Plan) -> None:
    """Waits for the calls of the request that this one repeats, for a limited time (contract N29)."""
    until = time.monotonic() + uow.ledger.call_timeouts.replay_wait_s
    pause = 0.01
    while has_open_call(await uow.order(plan.stream_id), plan.target) and time.monotonic() < until:
        await asyncio.sleep(pause)
        pause = min(1.5 * pause, 0.25)
        uow.streams.pop(plan.stream_id)


def _report_contradictions(uow: UnitOfWork, plan: Plan) -> None:
    for event in plan.events:
        if type(event) in _CONTRADICTIONS:
            kind = type(event).__name__
            CONTRADICTIONS.labels(kind).inc()
            ids = {"merchant_id": str(uow.merchant_id), "order_id": str(plan.stream_id)}
            _log.error("processor_contradicts_ledger", kind=kind, payment_id=str(event.payment_id), **ids)


def _new_intents(change: Change) -> list[Intent]:
    """Returns the intents that the change's events announce and that are still open after them."""
    order: Any = change.after
    if not isinstance(order, Order):
        return []
    open_intents = [payment.intent for payment in order.payments if payment.intent is not None]
    if not open_intents:
        return open_intents
    keys = {event.idempotency_key for event in change.events if isinstance(event, _INTENTS)}
    return [intent for intent in open_intents if intent.idempotency_key in keys]


def _withdraw_references(uow: UnitOfWork, change: Change) -> None:
    """Asks the processor, in the background, to stop showing the references that the change has cancelled."""
    for event in change.events:
        if isinstance(event, PaymentCancelled):
            order: Order = change.after
            payment = order.payment(event.payment_id)
            if payment.reference is not None:
                until = uow.ledger.call_deadline()
                uow.ledger.begin(withdraw_reference(uow.ledger, uow.merchant_id, order, payment, until))


def _payer_times(ledger: Ledger) -> tuple[int, int]:
    """Returns how long a payer has to act and how long an authorisation can be captured, in seconds."""
    if ledger.processor is None:
        return CHALLENGE_S, AUTHORIZATION_S
    capabilities = ledger.processor.capabilities
    return int(capabilities.authentication_session_s), int(capabilities.authorization_validity_s)
