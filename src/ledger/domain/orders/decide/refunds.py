"""The deciders of refunds: which payments give back which part, and the outcome of a refund's calls.

Allow one refund in flight per payment, and count its amount as refunded already (`Payment.refundable`): then no
sequence of events refunds more than was captured.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from ledger.domain.fold import fold
from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.capabilities import Rules
from ledger.domain.orders.commands import RecordRefundOutcome, RefundOrder, ReverseRefund
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.disputes_and_settlement import taken_again
from ledger.domain.orders.decide.guards import (
    require_chargeable,
    require_multiple,
    require_payment,
    rules_of,
    wrong_state,
)
from ledger.domain.orders.decide.unanswered_calls import call_postponed, call_unanswered
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    LateRefundReported,
    OrderEvent,
    PaymentRefunded,
    ProcessorCall,
    RefundAccepted,
    RefundRefused,
    RefundReopened,
    RefundRequested,
    RefundReversed,
)
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import NotFound, NotSent, Refunded, RefundPending, Unanswered
from ledger.domain.orders.processor_outcomes import RefundRefused as Refusal
from ledger.domain.orders.refund import RefundPart, RefundStatus, returned_refund_id
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import REFUNDABLE_STATUSES, PaymentStatus
from ledger.domain.orders.terms import Destination, DestinationType, MethodType
from ledger.domain.rejections import (
    IdempotencyMismatch,
    InvalidField,
    OrderNotRefundable,
    RefundExceedsBalance,
    RefundInProgress,
    RefundWindowExpired,
)

RETURNED_REASON: Final = "A part of a refund that failed."
"""The reason of the refund that has what went back."""
_EXCEEDS: Final = "The amount exceeds what can be refunded: refund at most refundableAmount."
_DISPUTED: Final = "Nothing can be refunded now: wait until the order's dispute has ended."
Shares = list[tuple[Payment, Decimal]]


def decide_refund(order: Order, command: RefundOrder) -> list[OrderEvent]:
    """Refunds money of an order (contract N35 to N39, sections 8.7, 8.11). The same refund, by either id, is absorbed.

    Raises InvalidField, PaymentNotFound, IdempotencyMismatch, InvalidOrderState, OrderNotRefundable, RefundInProgress,
    RefundWindowExpired, RefundExceedsBalance.
    """
    if order.refund(command.refund_id) is not None or _is_repeated(order, command):
        return []
    require_multiple(order, command.amount)
    requested = _requested_shares(order, command)
    if order.cancel_requested:
        raise wrong_state(order, "The order is being cancelled: refund it after the cancellation has an outcome.")
    if order.amount_paid == 0:
        raise OrderNotRefundable("Nothing was captured on this order to be refunded.", currentStatus=order.status)
    asked = order.payments if requested is None else [payment for payment, _ in requested]
    if any(payment.is_being_released for payment in asked):
        raise wrong_state(order, "The rest of an authorisation is being released: refund after its outcome.")
    shares = _newest_first(order, command) if requested is None else _require_refundable(requested, command)
    _require_whole_payouts(shares, command)
    _require_destination_taken(shares, command)
    for payment, amount in shares:
        require_chargeable(amount, rules_of(command.rules, payment).smallest_amount)
    return [refund_requested(command, payment, amount) for payment, amount in shares]


def refund_all(order: Order, command: RefundOrder) -> list[OrderEvent]:
    """Returns the requests that refund all held money, payment by payment, for a cancellation with `refundCaptured`.

    Raises OrderNotRefundable if an account gives nothing back.
    """
    free = [payment for payment in newest_capture_first(order) if is_free(payment) and payment.refundable > 0]
    for payment in free:
        require_given_back(payment, command.rules)
    return [refund_requested(command, payment, payment.refundable) for payment in free]


def decide_refund_outcome(order: Order, command: RecordRefundOutcome) -> list[OrderEvent]:
    """Records the outcome of one payment's part of a refund. Returns no events if it is recorded already.

    Never refuses. Reopens a failed part that the processor carried out after all; otherwise the
    money is recorded as it was reported.
    """
    refund, payment = order.refund(command.refund_id), order.payment(command.payment_id)
    part = None if refund is None else refund.part(command.payment_id)
    assert part is not None, "an outcome follows an intent"
    if part.status is RefundStatus.PENDING:
        outcome = _pending_part_outcome(payment, part, command)
        return with_cancellation_closed(order, [*outcome, *_returned(order, payment, part, command)])
    if part.status is not RefundStatus.FAILED or part.is_final:
        return []
    if isinstance(command.outcome, Refusal):
        return with_cancellation_closed(order, _failed_before(order, payment, part, command.outcome, command))
    if not isinstance(command.outcome, Refunded | RefundPending):
        return []
    if not _can_give_back(payment) or part.amount > payment.refundable:
        return _late_refund(payment, part, command)
    reopened = RefundReopened(refund_id=command.refund_id, payment_id=command.payment_id, at=command.at)
    return with_cancellation_closed(order, [reopened, *_pending_part_outcome(payment, part, command)])


def decide_unrequested_refund(
    order: Order, command: RefundOrder, outcome: Refunded | RefundPending
) -> list[OrderEvent]:
    """Records a refund of `command.payment_id` that was made without a request, with its outcome.

    A processor refunds no money that a lost dispute has taken, so such a refund was made before the bank took it: it is
    recorded late, once it has succeeded (decision 0111). Raises what `decide_refund` raises.
    """
    assert command.payment_id is not None, "a processor refunds one payment"
    payment = require_payment(order, command.payment_id)
    if (
        isinstance(outcome, Refunded)
        and _was_taken(payment, command.amount)
        and order.refund(command.refund_id) is None
    ):
        return [
            LateRefundReported(
                refund_id=command.refund_id,
                payment_id=payment.payment_id,
                amount=command.amount,
                processor_reference=outcome.processor_reference,
                at=command.at,
                reason=command.reason,
                ends_payment=_is_ended_by(payment, command.amount),
            )
        ]
    requested = decide_refund(order, command)
    recorded = RecordRefundOutcome(
        refund_id=command.refund_id, payment_id=payment.payment_id, outcome=outcome, at=command.at
    )
    return [*requested, *decide_refund_outcome(fold(evolve, order, requested), recorded)]


def _was_taken(payment: Payment, amount: Decimal) -> bool:
    """Returns whether the payment would hold this amount if no lost dispute had taken money of it."""
    return _can_give_back(payment) and payment.refundable < amount <= payment.refundable + payment.charged_back


def decide_refund_reversal(order: Order, command: ReverseRefund) -> list[OrderEvent]:
    """Records that a part of a refund that had succeeded came back. Returns no events for a part in another status.

    What stays with the payer is a refund of its own, and what a bank has reported to take by a lost dispute is taken of
    the money. Decide it by what the processor has now, never by an answer that may be older than the success.

    Raises InvalidOrderState if one of both follows while another refund or a dispute is open.
    """
    refund, before = order.refund(command.refund_id), order.payment(command.payment_id)
    part = None if refund is None else refund.part(command.payment_id)
    if part is None or part.status is not RefundStatus.SUCCEEDED:
        return []
    back = RefundReversed(
        refund_id=command.refund_id,
        payment_id=command.payment_id,
        amount=part.amount,
        code=command.code,
        at=command.at,
        message=command.message,
    )
    after = evolve(order, back)
    stays = _stays(after, part, command)
    after = fold(evolve, after, stays)
    came_back = before.refunded - after.payment(command.payment_id).refunded
    taken = taken_again(after, command.payment_id, came_back, command.at)
    return with_cancellation_closed(order, [back, *stays, *taken])


def _stays(order: Order, part: RefundPart, command: ReverseRefund) -> list[OrderEvent]:
    """Returns the events of what stays with the payer of a refund that came back. Raises InvalidOrderState."""
    payment = order.payment(command.payment_id)
    if command.returned and not _can_give_back(payment):
        raise wrong_state(order, "A part of the refund stays with the payer, and another refund or a dispute is open.")
    outcome = Refusal(
        code=command.code,
        message=command.message,
        returned=command.returned,
        returned_reference=command.returned_reference,
    )
    failed = RecordRefundOutcome(
        refund_id=command.refund_id, payment_id=command.payment_id, outcome=outcome, at=command.at
    )
    return _returned(order, payment, part, failed)


def _failed_before(
    order: Order, payment: Payment, part: RefundPart, refusal: Refusal, command: RecordRefundOutcome
) -> list[OrderEvent]:
    """Returns what a failure adds to one that is recorded: what went back all the same, and that it is final.

    What went back waits until no other refund or dispute of the payment is open.
    """
    is_held = _can_give_back(payment) and refusal.returned <= payment.refundable
    returned = _returned(order, payment, part, command) if is_held else []
    known = order.refund(returned_refund_id(command.refund_id, command.payment_id)) is not None
    if not refusal.is_final or (refusal.returned and not returned and not known):
        return returned
    return [_refused(refusal, command), *returned]


def _refused(refusal: Refusal, command: RecordRefundOutcome) -> RefundRefused:
    return RefundRefused(
        refund_id=command.refund_id,
        payment_id=command.payment_id,
        code=refusal.code,
        at=command.at,
        message=refusal.message,
        is_final=refusal.is_final,
    )


def _returned(order: Order, payment: Payment, part: RefundPart, command: RecordRefundOutcome) -> list[OrderEvent]:
    """Returns the events of what a failed refund gave back all the same: a refund of its own, which has succeeded.

    Returns none if it gave nothing back, or if they are recorded already.
    """
    refund_id, outcome = returned_refund_id(command.refund_id, command.payment_id), command.outcome
    if not isinstance(outcome, Refusal) or not outcome.returned or order.refund(refund_id) is not None:
        return []
    amount = min(outcome.returned, payment.captured - payment.refunded)  # less only after a late refund
    if not amount:
        return []
    about: dict[str, Any] = {"refund_id": refund_id, "payment_id": command.payment_id}
    requested = RefundRequested(
        **about,
        amount=shortest(amount),
        reason=RETURNED_REASON,
        processor=payment.processor,
        account=payment.account_in_event,
        idempotency_key=f"{refund_id}:{command.payment_id}",
        deadline_at=command.at,
        at=command.at,
        payout=part.destination_type is not None,
        destination=part.destination,
        destination_type=part.destination_type,
    )
    reference = outcome.returned_reference or ""
    returned = PaymentRefunded(**about, amount=shortest(amount), processor_reference=reference, at=command.at)
    return [requested, returned]


def _late_refund(payment: Payment, part: RefundPart, command: RecordRefundOutcome) -> list[OrderEvent]:
    if not isinstance(command.outcome, Refunded):
        return []  # accepted only: the processor reports the refund itself with a message
    return [
        LateRefundReported(
            refund_id=command.refund_id,
            payment_id=command.payment_id,
            amount=part.amount,
            processor_reference=command.outcome.processor_reference,
            at=command.at,
            ends_payment=_is_ended_by(payment, part.amount),
        )
    ]


def _is_ended_by(payment: Payment, amount: Decimal) -> bool:
    """Returns whether a late refund gives back all that a payment still holds, which no other refund or dispute has."""
    return payment.status is PaymentStatus.PARTIALLY_REFUNDED and payment.refunded + amount >= payment.captured


def _pending_part_outcome(payment: Payment, part: RefundPart, command: RecordRefundOutcome) -> list[OrderEvent]:
    refund_id, payment_id, at = command.refund_id, command.payment_id, command.at
    is_open_call = payment.intent is not None and payment.intent.refund_id == refund_id
    is_marked_unknown = payment.intent is not None and payment.intent.unknown
    match command.outcome:
        case Refunded(processor_reference=reference):
            return [
                PaymentRefunded(
                    refund_id=refund_id, payment_id=payment_id, amount=part.amount, processor_reference=reference, at=at
                )
            ]
        case RefundPending(processor_reference=reference) if is_open_call:
            return [RefundAccepted(refund_id=refund_id, payment_id=payment_id, processor_reference=reference, at=at)]
        case Refusal() as refusal:
            return [_refused(refusal, command)]
        case Unanswered() as outcome if is_open_call and not is_marked_unknown:
            return [call_unanswered(payment, ProcessorCall.REFUND, outcome, at)]
        case NotSent(until=datetime() as until) if is_open_call:
            return call_postponed(payment, ProcessorCall.REFUND, until, at)
        case NotSent() if is_open_call:
            return [_abandoned(command, AbandonedBecause.NOT_SENT)]
        case NotFound() if is_open_call:
            return [_abandoned(command, AbandonedBecause.NOT_FOUND)]
        case _:
            return []


def _abandoned(command: RecordRefundOutcome, because: AbandonedBecause) -> CallAbandoned:
    return CallAbandoned(payment_id=command.payment_id, call=ProcessorCall.REFUND, because=because, at=command.at)


def _is_repeated(order: Order, command: RefundOrder) -> bool:
    """Returns whether the order has a refund with this external id. Raises IdempotencyMismatch for another amount."""
    existing = None if command.external_id is None else order.refund_by_external_id(command.external_id)
    if existing is None:
        return False
    if existing.amount != command.amount:
        message = "The refund with this externalId has another amount: repeat that amount or use another externalId."
        raise IdempotencyMismatch(message, field="amount")
    return True


def _requested_shares(order: Order, command: RefundOrder) -> Shares | None:
    """Returns the payments and amounts that the command names, else None. Raises InvalidField, PaymentNotFound."""
    if not command.allocations:
        return None if command.payment_id is None else [(require_payment(order, command.payment_id), command.amount)]
    for index, allocation in enumerate(command.allocations):
        require_multiple(order, allocation.amount, f"allocations[{index}].amount")
    if sum((allocation.amount for allocation in command.allocations), ZERO) != command.amount:
        raise InvalidField("allocations", "must add up to amount")
    named = [allocation.payment_id for allocation in command.allocations]
    if len(set(named)) < len(named):
        raise InvalidField("allocations", "must name each payment once")
    if command.payment_id is not None and named != [command.payment_id]:
        raise InvalidField("allocations", "must name the payment that paymentId names, and no other")
    return [(require_payment(order, allocation.payment_id), allocation.amount) for allocation in command.allocations]


def _require_refundable(shares: Shares, command: RefundOrder) -> Shares:
    """Returns `shares`. Raises RefundInProgress, OrderNotRefundable, RefundWindowExpired, RefundExceedsBalance."""
    for payment, _ in shares:
        if payment.refunding:
            raise RefundInProgress("A refund of this payment is in progress: try later.", paymentId=payment.payment_id)
    for payment, _ in shares:
        if payment.status not in REFUNDABLE_STATUSES or not payment.captured or payment.dispute is not None:
            state = payment.status if payment.dispute is None else PaymentStatus.DISPUTED
            message = f"A payment that is {state} cannot be refunded."
            raise OrderNotRefundable(message, currentStatus=payment.status)
    for payment, amount in shares:
        require_given_back(payment, command.rules)
        if is_too_late(payment, command):
            raise RefundWindowExpired("The payment was captured too long ago for a refund to its card.")
        if amount > payment.refundable:
            raise RefundExceedsBalance(_EXCEEDS, refundableAmount=shortest(payment.refundable))
    return shares


def _newest_first(order: Order, command: RefundOrder) -> Shares:
    """Returns the shares of a refund: the newest captured payments first, each up to its rest (N36).

    Disputed payments are left out. Raises RefundInProgress, RefundWindowExpired, RefundExceedsBalance.
    """
    captured = newest_capture_first(order)
    free = [payment for payment in captured if _gives_back(payment, command)]
    amount, refundable = command.amount, sum((payment.refundable for payment in free), ZERO)
    if amount <= refundable:
        return _allocate(free, amount)
    refundable += sum((payment.refundable for payment in captured if payment.refunding), ZERO)
    if amount <= refundable:
        raise RefundInProgress("A refund of this order is in progress: try again after its outcome.")
    kept = [payment for payment in captured if is_free(payment) and is_kept(payment, command.rules)]
    if kept and amount <= refundable + sum((payment.refundable for payment in kept), ZERO):
        require_given_back(kept[0], command.rules)
    too_late = [payment for payment in captured if is_free(payment) and is_too_late(payment, command)]
    if amount <= refundable + sum((payment.refundable for payment in too_late), ZERO):
        raise RefundWindowExpired("The payment was captured too long ago for a refund to its card.")
    is_contested = refundable == 0 and any(payment.dispute is not None for payment in captured)
    raise RefundExceedsBalance(_DISPUTED if is_contested else _EXCEEDS, refundableAmount=shortest(refundable))


def _gives_back(payment: Payment, command: RefundOrder) -> bool:
    return is_free(payment) and not is_kept(payment, command.rules) and not is_too_late(payment, command)


def _require_whole_payouts(shares: Shares, command: RefundOrder) -> None:
    """Raises InvalidField for a part of a reference's money: some processors give back all of it or nothing (N39)."""
    for payment, amount in shares:
        if is_refused_part(payment, amount, command):
            whole = shortest(payment.refundable)
            raise InvalidField("amount", f"must be {whole}: money paid to this reference is refunded only as a whole")


def _require_destination_taken(shares: Shares, command: RefundOrder) -> None:
    """Raises InvalidField for a destination that the processor of a reference's money would not send it to."""
    for payment, _ in shares:
        is_reference = payment.started.method.type is not MethodType.CARD
        if command.destination is not None and is_reference and rules_of(command.rules, payment).returns_to_payer:
            raise InvalidField(
                "destination",
                f"must be left out: the account {payment.account} gives money back to the account that has paid",
            )


def is_refused_part(payment: Payment, amount: Decimal, command: RefundOrder) -> bool:
    """Returns whether a part of a reference's money would go back that its account gives back as a whole."""
    is_part = payment.started.method.type is not MethodType.CARD and amount < payment.refundable
    return is_part and not rules_of(command.rules, payment).partial_payouts


def is_kept(payment: Payment, rules: Rules) -> bool:
    """Returns whether the payment's account gives nothing back of what was paid by this method."""
    return payment.started.method.type in rules_of(rules, payment).kept


def require_given_back(payment: Payment, rules: Rules) -> None:
    """Raises OrderNotRefundable if the payment's account gives nothing back of what was paid by this method."""
    if is_kept(payment, rules):
        method = payment.started.method.type.lower()
        raise OrderNotRefundable(
            f"The account {payment.account} gives back no money that was paid by {method}: refund the payer yourself.",
            currentStatus=payment.status,
        )


def newest_capture_first(order: Order) -> list[Payment]:
    """Returns the payments with captured money."""
    captured = (payment for payment in order.payments if payment.captured)
    return sorted(captured, key=lambda payment: payment.capture_ordinal, reverse=True)


def is_free(payment: Payment) -> bool:
    """Returns whether the payment can give money back now."""
    return _can_give_back(payment) and not payment.is_being_released


def _can_give_back(payment: Payment) -> bool:
    """Returns whether neither a refund nor a dispute of the payment is open, and its status lets money go back."""
    return payment.status in REFUNDABLE_STATUSES and not payment.refunding and payment.dispute is None


def is_too_late(payment: Payment, command: RefundOrder) -> bool:
    """Returns whether the refund window of a card payment is over."""
    if payment.started.method.type is not MethodType.CARD or payment.captured_at is None:
        return False
    return command.at > payment.captured_at + timedelta(seconds=rules_of(command.rules, payment).card_window_s)


def _allocate(payments: Iterable[Payment], amount: Decimal) -> Shares:
    shares: Shares = []
    for payment in payments:
        share = min(amount, payment.refundable)
        if share > 0:
            shares.append((payment, share))
            amount -= share
    return shares


def refund_requested(command: RefundOrder, payment: Payment, amount: Decimal) -> RefundRequested:
    """Returns the event that requests one payment's part of a refund."""
    payout = payment.started.method.type is not MethodType.CARD
    to, destination = _destination(command, payment) if payout else (None, None)
    return RefundRequested(
        refund_id=command.refund_id,
        payment_id=payment.payment_id,
        amount=shortest(amount),
        reason=command.reason,
        processor=payment.processor,
        account=payment.account_in_event,
        idempotency_key=f"{command.refund_id}:{payment.payment_id}",
        deadline_at=command.deadline_at,
        at=command.at,
        external_id=command.external_id,
        payout=payout,
        destination=destination,
        destination_type=to,
        by_merchant=to is DestinationType.MANUAL and not rules_of(command.rules, payment).simulates_payouts,
    )


def _destination(command: RefundOrder, payment: Payment) -> tuple[DestinationType, Destination | None]:
    """Returns where a payout goes: to the account that the merchant names, else to the one that has paid, if the ledger
    or the processor knows it.
    """
    if rules_of(command.rules, payment).returns_to_payer:
        return DestinationType.PAYING_ACCOUNT, None
    if command.destination is not None:
        return DestinationType.ACCOUNT, command.destination
    if payment.paying_account is not None:
        return DestinationType.PAYING_ACCOUNT, Destination(clabe=payment.paying_account)
    return DestinationType.MANUAL, None
