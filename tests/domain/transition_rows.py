"""The contract's tables 2.1 and 2.2 as test rows: the events before, the command, and the move that follows.

A row is (from, trigger, guard, to, history, command). `from` and `to` are of the order's first payment in one table and
of the order in the other.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace
from tests.domain.action_builders import (
    DISPUTE,
    RELEASE_KEY,
    VOID_KEY,
    action_required,
    add_payment,
    cancel,
    cancellation_id,
    capture,
    capture_outcome,
    confirm_payout,
    deposit,
    dispute,
    expire,
    record_authentication,
    record_capture,
    record_reference,
    record_refund,
    record_release,
    record_void,
    reference_outcome,
    refund,
    refund_destination,
    refund_outcome,
    release,
    release_outcome,
    settlement,
    start_capture,
)
from tests.domain.builders import (
    DEADLINE,
    MANUAL,
    NOON,
    SPLIT,
    approved,
    authentication_requested,
    authorization_requested,
    authorized,
    authorized_and_captured,
    captured,
    charge,
    create,
    created,
    declined,
    deposited,
    new_payment,
    paid,
    payer_action_required,
    payment_id,
    record_authorization,
    reference_open,
    refund_id,
    refund_requested,
    refunded,
    scheduled,
    started,
)

from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.commands import DisputeStage, RepeatCall, ReverseRefund, SettlementStage
from ledger.domain.orders.processor_outcomes import Declined, NotSent, Unanswered
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus

P, O = PaymentStatus, OrderStatus  # noqa: E741 - two columns of one table
DDR, CHR = O.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED, O.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED
OPENED, WON, LOST = DisputeStage.OPENED, DisputeStage.WON, DisputeStage.LOST
LISTED, MATCHED, REFUSED = SettlementStage.LISTED, SettlementStage.MATCHED, SettlementStage.REFUSED
DEVICE, CHALLENGE, REDIRECT = NextAction.DEVICE_DATA, NextAction.CHALLENGE, NextAction.REDIRECT
DECLINE = Declined(code="DO_NOT_HONOR")
ONE = payment_id(1)
LATER = DEADLINE + timedelta(minutes=1)

Row = tuple[Any, str, str, Any, tuple[Any, ...], Any]

PAID_AT_CREATION = created(pending=False)
MANUAL_CAPTURE = created(pending=False, capture_method=MANUAL)
SPLIT_MANUAL_CAPTURE = created(allow_partials=True, capture_method=MANUAL)


def with_card_payment(order: Any, n: int = 1, amount: int = 10000) -> tuple[Any, ...]:
    """Returns the order's events with a card payment whose authorisation is requested."""
    return order, started(n, amount), authorization_requested(n, amount, capture=order.capture_method is not MANUAL)


def with_authorization(order: Any, amount: int = 10000, part: int = 10000) -> tuple[Any, ...]:
    return (*with_card_payment(order, 1, part), authorized(1, amount))


def capturing(order: Any, amount: int = 10000, grant: int = 10000) -> tuple[Any, ...]:
    asked_for = e.CaptureRequested(
        payment_id=ONE,
        amount=capture_outcome(amount).amount,
        idempotency_key="capture-1",
        deadline_at=DEADLINE,
        at=NOON,
    )
    return (*with_authorization(order, grant), scheduled(1, amount), asked_for)


def voiding(order: Any, grant: int = 10000) -> tuple[Any, ...]:
    return (
        *with_authorization(order, grant),
        e.VoidRequested(payment_id=ONE, idempotency_key=VOID_KEY, deadline_at=DEADLINE, at=NOON),
    )


def awaiting_payer(order: Any, action: NextAction, part: int = 10000) -> tuple[Any, ...]:
    """Returns the events of a card payment whose payer has to act."""
    return (*with_card_payment(order, 1, part), payer_action_required(1, action))


def in_session(order: Any, action: NextAction = NextAction.CHALLENGE, part: int = 10000) -> tuple[Any, ...]:
    """Returns the events of a payment that its payer authorises at the processor, by the step that it waits for."""
    *before, required = awaiting_payer(order, action, part)
    return (*before, replace(required, processor_reference="pi_1"))


def authenticating(order: Any, action: NextAction, part: int = 10000) -> tuple[Any, ...]:
    """Returns the events of a card payment whose payer acted and whose processor is asked to continue."""
    return (*awaiting_payer(order, action, part), authentication_requested(1, part, action))


def awaiting_deposit(order: Any, part: int = 10000) -> tuple[Any, ...]:
    """Returns the events of a payment whose reference waits for its deposit."""
    return (order, *reference_open(1, part))


def payment_expired(because: e.ExpiredBecause = e.ExpiredBecause.REFERENCE) -> Any:
    return e.PaymentExpired(payment_id=ONE, because=because, at=NOON)


def payment_cancelled(because: e.CancelledBecause = e.CancelledBecause.REPLACED) -> Any:
    return e.PaymentCancelled(payment_id=ONE, because=because, at=NOON)


PAID = (created(), *paid(1, 10000))
PAID_SPLIT = (SPLIT, *paid(1, 10000))
UNDERPAID = (*awaiting_deposit(created()), deposited(1, 6000))
LISTED_IN_BATCH = (*PAID, e.SettlementListed(payment_id=ONE, batch_id="lote-0", at=NOON))
CANCELLING = e.CancellationRequested(cancellation_id=cancellation_id(), refund_captured=False, at=NOON)
CANCELLING_WITH_REFUND = e.CancellationRequested(cancellation_id=cancellation_id(), refund_captured=True, at=NOON)
DUE_NOW = timedelta()

HELD_HISTORIES: dict[PaymentStatus, tuple[Any, ...]] = {
    P.CAPTURED: PAID,
    P.PARTIALLY_CAPTURED: (
        PAID_AT_CREATION,
        started(1, 10000),
        authorization_requested(1, 10000),
        *authorized_and_captured(1, 6000),
    ),
    P.PENDING_SETTLEMENT: LISTED_IN_BATCH,
    P.SETTLED: (*LISTED_IN_BATCH, e.SettlementMatched(payment_id=ONE, batch_id="lote-0", at=NOON)),
    P.PARTIALLY_REFUNDED: (*PAID, refund_requested(1, 3000, 9), refunded(1, 3000, 9)),
}
REFUNDABLE = {
    P.CAPTURED: 10000,
    P.PARTIALLY_CAPTURED: 6000,
    P.PENDING_SETTLEMENT: 10000,
    P.SETTLED: 10000,
    P.PARTIALLY_REFUNDED: 7000,
}


def disputed(history: tuple[Any, ...], amount: int) -> tuple[Any, ...]:
    return (
        *history,
        e.DisputeOpened(payment_id=ONE, dispute_id=DISPUTE, amount=capture_outcome(amount).amount, at=NOON),
    )


_HELD_MONEY_ROWS: list[Row] = [
    row
    for status, history in HELD_HISTORIES.items()
    for row in (
        (status, "refund accepted", "R ≤ refundable", P.PENDING_REFUND, history, refund(1000)),
        (
            P.PENDING_REFUND,
            "refund refused",
            f"it came from {status}",
            status,
            (*history, refund_requested(1, 1000)),
            record_refund(o.RefundRefused(code="X")),
        ),
        (
            P.PENDING_REFUND,
            "refund confirmed",
            f"all, from {status}",
            P.REFUNDED,
            (*history, refund_requested(1, REFUNDABLE[status])),
            record_refund(refund_outcome(REFUNDABLE[status])),
        ),
        (
            P.PENDING_REFUND,
            "refund confirmed",
            f"a part, from {status}",
            P.PARTIALLY_REFUNDED,
            (*history, refund_requested(1, 1000)),
            record_refund(refund_outcome(1000)),
        ),
        (status, "chargeback opened", "", P.DISPUTED, history, dispute(OPENED)),
        (P.DISPUTED, "won", f"it came from {status}", status, disputed(history, 1000), dispute(WON)),
        (P.DISPUTED, "lost", f"a part, from {status}", P.PARTIALLY_REFUNDED, disputed(history, 1000), dispute(LOST)),
        (P.DISPUTED, "lost", f"all, from {status}", P.REFUNDED, disputed(history, REFUNDABLE[status]), dispute(LOST)),
    )
]

PAYMENT_ROWS: list[Row] = [
    (None, "payment created", "", P.CREATED, (created(),), charge()),
    (P.CREATED, "sent to card processor", "", P.PENDING_AUTHORIZATION, (created(),), charge()),
    (
        P.CREATED,
        "reference issued",
        "",
        P.REQUIRES_ACTION,
        awaiting_deposit(created())[:3],
        record_reference(reference_outcome()),
    ),
    (
        P.CREATED,
        "refused",
        "nothing was sent to the payer",
        P.FAILED,
        awaiting_deposit(created())[:3],
        record_reference(o.ReferenceRefused(code="X")),
    ),
    (P.CREATED, "order cancelled", "not yet sent", P.CANCELLED, awaiting_deposit(created())[:3], cancel()),
    (
        P.PENDING_AUTHORIZATION,
        "approved",
        "= asked",
        P.AUTHORIZED,
        with_card_payment(MANUAL_CAPTURE),
        record_authorization(1, approved(10000, 0)),
    ),
    (
        P.PENDING_AUTHORIZATION,
        "approved",
        "0 < approved < asked",
        P.PARTIALLY_AUTHORIZED,
        with_card_payment(MANUAL_CAPTURE),
        record_authorization(1, approved(6000, 0)),
    ),
    (
        P.PENDING_AUTHORIZATION,
        "3DS or other action needed",
        "",
        P.REQUIRES_ACTION,
        with_card_payment(PAID_AT_CREATION),
        record_authorization(1, action_required()),
    ),
    (
        P.PENDING_AUTHORIZATION,
        "declined",
        "",
        P.FAILED,
        with_card_payment(PAID_AT_CREATION),
        record_authorization(1, DECLINE),
    ),
    (
        P.PENDING_AUTHORIZATION,
        "cancel asked",
        "",
        P.PENDING_CANCELLATION,
        with_card_payment(PAID_AT_CREATION),
        cancel(),
    ),
    (
        P.REQUIRES_ACTION,
        "device data received",
        "challenge follows",
        P.REQUIRES_ACTION,
        authenticating(PAID_AT_CREATION, DEVICE),
        record_authentication(action_required(), step=DEVICE),
    ),
    (
        P.REQUIRES_ACTION,
        "device data received",
        "frictionless",
        P.PENDING_AUTHORIZATION,
        authenticating(PAID_AT_CREATION, DEVICE),
        record_authentication(approved(10000, 0), step=DEVICE),
    ),
    (
        P.REQUIRES_ACTION,
        "validate succeeds",
        "",
        P.AUTHORIZED,
        authenticating(PAID_AT_CREATION, CHALLENGE),
        record_authentication(approved(10000, 0)),
    ),
    (
        P.REQUIRES_ACTION,
        "authentication fails",
        "",
        P.FAILED,
        authenticating(PAID_AT_CREATION, CHALLENGE),
        record_authentication(Declined(code="AUTHENTICATION_FAILED")),
    ),
    (P.REQUIRES_ACTION, "session ends", "15 minutes", P.EXPIRED, awaiting_payer(PAID_AT_CREATION, CHALLENGE), expire()),
    (P.REQUIRES_ACTION, "reference ends", "nothing deposited", P.EXPIRED, awaiting_deposit(created()), expire()),
    (P.REQUIRES_ACTION, "cancel", "", P.CANCELLED, awaiting_deposit(created()), cancel()),
    (P.REQUIRES_ACTION, "deposit", "total ≥ expected", P.CAPTURED, awaiting_deposit(created()), deposit(10000)),
    (
        P.REQUIRES_ACTION,
        "deposit",
        "0 < total < expected",
        P.PARTIALLY_CAPTURED,
        awaiting_deposit(created()),
        deposit(1),
    ),
    (P.AUTHORIZED, "capture accepted", "", P.PENDING_CAPTURE, with_authorization(MANUAL_CAPTURE), capture()),
    (
        P.PARTIALLY_AUTHORIZED,
        "capture accepted",
        "",
        P.PENDING_CAPTURE,
        with_authorization(MANUAL_CAPTURE, 6000),
        capture(),
    ),
    (P.AUTHORIZED, "void asked", "", P.PENDING_CANCELLATION, with_authorization(MANUAL_CAPTURE), cancel()),
    (
        P.PARTIALLY_AUTHORIZED,
        "void asked",
        "",
        P.PENDING_CANCELLATION,
        with_authorization(MANUAL_CAPTURE, 6000),
        cancel(),
    ),
    (P.AUTHORIZED, "validity ends", "7 days", P.EXPIRED, with_authorization(MANUAL_CAPTURE), expire()),
    (P.PARTIALLY_AUTHORIZED, "validity ends", "7 days", P.EXPIRED, with_authorization(MANUAL_CAPTURE, 6000), expire()),
    (
        P.PENDING_CAPTURE,
        "capture sent",
        "",
        P.CAPTURING,
        (*with_authorization(PAID_AT_CREATION), scheduled(1, 10000)),
        start_capture(),
    ),
    (
        P.PENDING_CAPTURE,
        "void asked",
        "",
        P.PENDING_CANCELLATION,
        (*with_authorization(PAID_AT_CREATION), scheduled(1, 10000)),
        cancel(),
    ),
    (
        P.CAPTURING,
        "confirmed",
        "= authorised",
        P.CAPTURED,
        capturing(MANUAL_CAPTURE),
        record_capture(capture_outcome(10000)),
    ),
    (
        P.CAPTURING,
        "confirmed",
        "less",
        P.PARTIALLY_CAPTURED,
        capturing(MANUAL_CAPTURE, 6000),
        record_capture(capture_outcome(6000)),
    ),
    (
        P.CAPTURING,
        "refused",
        "retryable",
        P.AUTHORIZED,
        capturing(MANUAL_CAPTURE),
        record_capture(o.CaptureRefused(code="X", retryable=True)),
    ),
    (
        P.CAPTURING,
        "refused",
        "final",
        P.FAILED,
        capturing(PAID_AT_CREATION),
        record_capture(o.CaptureRefused(code="X")),
    ),
    (
        P.CAPTURING,
        "refused",
        "by hand",
        P.AUTHORIZED,
        capturing(MANUAL_CAPTURE),
        record_capture(o.CaptureRefused(code="X")),
    ),
    (P.PARTIALLY_CAPTURED, "further deposit", "reaches expected", P.CAPTURED, UNDERPAID, deposit(4000, name="dep-2")),
    (
        P.PARTIALLY_CAPTURED,
        "further capture",
        "via CAPTURING",
        P.CAPTURING,
        (*capturing(MANUAL_CAPTURE, 6000), captured(1, 6000)),
        capture(4000, "capture-2"),
    ),
    (P.CAPTURED, "listed in a settlement batch", "", P.PENDING_SETTLEMENT, PAID, settlement(LISTED)),
    (
        P.PARTIALLY_CAPTURED,
        "listed in a settlement batch",
        "",
        P.PENDING_SETTLEMENT,
        HELD_HISTORIES[P.PARTIALLY_CAPTURED],
        settlement(LISTED),
    ),
    (
        P.PENDING_SETTLEMENT,
        "settlement line matched",
        "",
        P.SETTLED,
        LISTED_IN_BATCH,
        settlement(MATCHED, name="lote-0"),
    ),
    (P.PENDING_SETTLEMENT, "batch refused", "", P.CAPTURED, LISTED_IN_BATCH, settlement(REFUSED, name="lote-0")),
    (
        P.SETTLED,
        "paid-out batch sent back by the bank",
        "",
        P.CAPTURED,
        HELD_HISTORIES[P.SETTLED],
        settlement(REFUSED, name="lote-0"),
    ),
    (
        P.PENDING_CANCELLATION,
        "processor confirms",
        "",
        P.CANCELLED,
        voiding(SPLIT_MANUAL_CAPTURE),
        record_void(o.Voided(processor_reference="ref")),
    ),
    (
        P.PENDING_CANCELLATION,
        "processor refuses",
        "granted in full",
        P.AUTHORIZED,
        voiding(SPLIT_MANUAL_CAPTURE),
        record_void(o.VoidRefused(code="X")),
    ),
    (
        P.PENDING_CANCELLATION,
        "processor refuses",
        "granted in part",
        P.PARTIALLY_AUTHORIZED,
        voiding(SPLIT_MANUAL_CAPTURE, 6000),
        record_void(o.VoidRefused(code="X")),
    ),
    *_HELD_MONEY_ROWS,
    (P.EXPIRED, "late deposit", "", P.CAPTURED, (*awaiting_deposit(created()), payment_expired()), deposit(10000)),
    (P.CANCELLED, "late deposit", "", P.CAPTURED, (*awaiting_deposit(created()), payment_cancelled()), deposit(10000)),
]
"""Table 2.1."""

_LATE_PART = (*awaiting_deposit(SPLIT), payment_expired())
_REPLACED = (*awaiting_deposit(created()), started(2, 10000), authorization_requested(2, 10000), payment_cancelled())
_CANCELLED = (
    *awaiting_deposit(created()),
    e.OrderCancelled(at=NOON),
    payment_cancelled(e.CancelledBecause.ORDER_CANCELLED),
)
_HALF_AUTHORIZED_AFTER_REFERENCE = (
    *awaiting_deposit(created(capture_method=MANUAL)),
    started(2, 10000),
    authorization_requested(2, 10000, capture=False),
    payment_cancelled(),
    authorized(2, 6000),
)
_FAILED_REFERENCE = (*awaiting_deposit(PAID_AT_CREATION), payment_expired())


def _session_rows() -> list[Row]:
    """Returns the rows of 3-D Secure and redirects."""
    rows: list[Row] = []
    for status, action in ((DDR, DEVICE), (CHR, CHALLENGE), (O.ACTION_REQUIRED, REDIRECT)):
        name = action.lower()
        rows += [
            (
                status,
                f"{name} done",
                "capture delayed",
                O.AUTHORIZED,
                authenticating(PAID_AT_CREATION, action),
                record_authentication(approved(10000, 0), step=action),
            ),
            (
                status,
                f"{name} done",
                "captured now, a part",
                O.PARTIALLY_PAID,
                authenticating(SPLIT, action, 4000),
                record_authentication(approved(4000), step=action),
            ),
            (
                status,
                f"{name} fails",
                "single",
                O.FAILED,
                authenticating(PAID_AT_CREATION, action),
                record_authentication(Declined(code="AUTHENTICATION_FAILED"), step=action),
            ),
            (status, f"{name} expires", "single", O.FAILED, awaiting_payer(PAID_AT_CREATION, action), expire()),
            (status, f"{name} expires", "split", O.PENDING, awaiting_payer(SPLIT, action, 4000), expire()),
            (status, "cancel", "no money held", O.CANCELLED, awaiting_payer(PAID_AT_CREATION, action), cancel()),
            *_cancelled_session(status, action),
            (
                status,
                "a further part",
                "split",
                O.PROCESSING,
                awaiting_payer(SPLIT, action, 4000),
                add_payment(2, 4000),
            ),
        ]
    for status, action in ((DDR, DEVICE), (O.ACTION_REQUIRED, REDIRECT)):
        done = record_authentication(approved(10000), step=action)
        rows.append(
            (
                status,
                f"{action.lower()} done",
                "captured now",
                O.COMPLETED,
                authenticating(PAID_AT_CREATION, action),
                done,
            )
        )
    follows = record_authentication(action_required(), step=DEVICE)
    rows.append((DDR, "device data", "challenge", CHR, authenticating(PAID_AT_CREATION, DEVICE), follows))
    return rows


def _authorization_rows() -> list[Row]:
    """Returns the rows of full and partial authorisations."""
    rows: list[Row] = []
    for status, grant in ((O.AUTHORIZED, 10000), (O.PARTIALLY_AUTHORIZED, 6000)):
        rows += [
            (
                status,
                "captured",
                "less",
                O.PARTIALLY_PAID,
                capturing(MANUAL_CAPTURE, 4000, grant),
                record_capture(capture_outcome(4000)),
            ),
            (status, "void asked", "", O.CANCELLATION_REQUESTED, with_authorization(MANUAL_CAPTURE, grant), cancel()),
            (status, "authorisation lapses", "single", O.FAILED, with_authorization(MANUAL_CAPTURE, grant), expire()),
            (
                status,
                "authorisation lapses",
                "split",
                O.PENDING,
                with_authorization(SPLIT_MANUAL_CAPTURE, grant),
                expire(),
            ),
            (
                status,
                "a further part",
                "split",
                O.PROCESSING,
                with_authorization(SPLIT_MANUAL_CAPTURE, grant * 4 // 10, 4000),
                add_payment(2, 4000),
            ),
            (
                O.CANCELLATION_REQUESTED,
                "processor refuses",
                f"back to {status}",
                status,
                (*with_authorization(MANUAL_CAPTURE, grant), CANCELLING, *voiding(MANUAL_CAPTURE)[-1:]),
                record_void(o.VoidRefused(code="X")),
            ),
        ]
    return rows


def _cancelled_session(status: O, action: NextAction) -> list[Row]:
    if action is DEVICE:
        return []
    history = in_session(PAID_AT_CREATION, action)
    return [(status, "cancel", "a session that the processor ends", O.CANCELLATION_REQUESTED, history, cancel())]


ORDER_ROWS: list[Row] = [
    (None, "create pending", "", O.PENDING, (), create()),
    (None, "create with method", "", O.PROCESSING, (), create(payment=new_payment())),
    (O.PENDING, "charge", "", O.PROCESSING, (created(),), charge()),
    (O.PENDING, "add payment", "split", O.PROCESSING, (SPLIT,), add_payment(1, 4000)),
    (O.PENDING, "split payment captured", "net < amount", O.PARTIALLY_PAID, _LATE_PART, deposit(4000)),
    (O.PENDING, "split payment captured", "net ≥ amount", O.COMPLETED, _LATE_PART, deposit(10000)),
    (O.PENDING, "cancel", "", O.CANCELLED, (created(),), cancel()),
    (
        O.PROCESSING,
        "approved and captured",
        "net ≥ amount",
        O.COMPLETED,
        with_card_payment(PAID_AT_CREATION),
        record_authorization(1, approved(10000)),
    ),
    (
        O.PROCESSING,
        "approved and captured",
        "net < amount",
        O.PARTIALLY_PAID,
        with_card_payment(PAID_AT_CREATION),
        record_authorization(1, approved(6000)),
    ),
    (
        O.PROCESSING,
        "approved",
        "capture manual",
        O.AUTHORIZED,
        with_card_payment(MANUAL_CAPTURE),
        record_authorization(1, approved(10000, 0)),
    ),
    (
        O.PROCESSING,
        "approved for less",
        "",
        O.PARTIALLY_AUTHORIZED,
        with_card_payment(MANUAL_CAPTURE),
        record_authorization(1, approved(6000, 0)),
    ),
    (
        O.PROCESSING,
        "3DS device data needed",
        "",
        DDR,
        with_card_payment(PAID_AT_CREATION),
        record_authorization(1, action_required(DEVICE)),
    ),
    (
        O.PROCESSING,
        "3DS challenge needed",
        "",
        CHR,
        with_card_payment(PAID_AT_CREATION),
        record_authorization(1, action_required()),
    ),
    (
        O.PROCESSING,
        "other action",
        "redirect",
        O.ACTION_REQUIRED,
        with_card_payment(PAID_AT_CREATION),
        record_authorization(1, action_required(REDIRECT)),
    ),
    (
        O.PROCESSING,
        "reference issued",
        "net = 0",
        O.REFERENCE_GENERATED,
        awaiting_deposit(created())[:3],
        record_reference(reference_outcome()),
    ),
    (
        O.PROCESSING,
        "declined",
        "single tender",
        O.FAILED,
        with_card_payment(PAID_AT_CREATION),
        record_authorization(1, DECLINE),
    ),
    (O.PROCESSING, "declined", "split", O.PENDING, with_card_payment(SPLIT, 1, 4000), record_authorization(1, DECLINE)),
    (
        O.PROCESSING,
        "time-out",
        "stays",
        O.PROCESSING,
        with_card_payment(PAID_AT_CREATION),
        record_authorization(1, Unanswered(reason="no answer")),
    ),
    (O.PROCESSING, "cancel asked", "", O.CANCELLATION_REQUESTED, with_card_payment(PAID_AT_CREATION), cancel()),
    *_session_rows(),
    (O.REFERENCE_GENERATED, "cancel", "no money held", O.CANCELLED, awaiting_deposit(created()), cancel()),
    (O.REFERENCE_GENERATED, "deposit", "covers", O.COMPLETED, awaiting_deposit(created()), deposit(10000)),
    (O.REFERENCE_GENERATED, "deposit", "less", O.PARTIALLY_PAID, awaiting_deposit(created()), deposit(9999)),
    (O.REFERENCE_GENERATED, "expires", "created pending", O.PENDING, awaiting_deposit(created()), expire()),
    (O.REFERENCE_GENERATED, "expires", "immediate", O.FAILED, awaiting_deposit(PAID_AT_CREATION), expire()),
    (O.REFERENCE_GENERATED, "charge with another method", "", O.PROCESSING, awaiting_deposit(created()), charge(2)),
    (
        O.AUTHORIZED,
        "captured",
        "covers",
        O.COMPLETED,
        capturing(MANUAL_CAPTURE),
        record_capture(capture_outcome(10000)),
    ),
    (
        O.PARTIALLY_AUTHORIZED,
        "captured",
        "covers with what else came",
        O.COMPLETED,
        _HALF_AUTHORIZED_AFTER_REFERENCE,
        deposit(10000),
    ),
    *_authorization_rows(),
    (O.PARTIALLY_PAID, "add payment", "stays", O.PARTIALLY_PAID, (SPLIT, *paid(1, 4000)), add_payment(2, 2000)),
    (
        O.PARTIALLY_PAID,
        "split payment captured",
        "net ≥ amount",
        O.COMPLETED,
        (SPLIT, *paid(1, 4000), started(2, 6000), authorization_requested(2, 6000)),
        record_authorization(2, approved(6000)),
    ),
    (
        O.PARTIALLY_PAID,
        "cancel with refundCaptured",
        "net > 0",
        O.CANCELLATION_REQUESTED,
        (SPLIT, *paid(1, 4000)),
        cancel(refund_captured=True),
    ),
    (
        O.PARTIALLY_PAID,
        "cancel",
        "net = 0, refunds > 0",
        O.REFUNDED,
        (SPLIT, *paid(1, 4000), refund_requested(1, 4000, 9), refunded(1, 4000, 9)),
        cancel(),
    ),
    (O.PARTIALLY_PAID, "refund accepted", "", O.REFUND_PROCESSING, (SPLIT, *paid(1, 4000)), refund(1000)),
    (O.PARTIALLY_PAID, "chargeback lost", "single, a part", O.PARTIALLY_REFUNDED, UNDERPAID, dispute(LOST, 1000)),
    (O.PARTIALLY_PAID, "chargeback lost", "single, all", O.REFUNDED, UNDERPAID, dispute(LOST)),
    (O.COMPLETED, "refund accepted", "", O.REFUND_PROCESSING, PAID, refund(1000)),
    (O.COMPLETED, "chargeback lost", "single, a part", O.PARTIALLY_REFUNDED, PAID, dispute(LOST, 1000)),
    (O.COMPLETED, "chargeback lost", "single, all", O.REFUNDED, PAID, dispute(LOST)),
    (O.COMPLETED, "chargeback lost", "split", O.PARTIALLY_PAID, PAID_SPLIT, dispute(LOST, 1000)),
    (
        O.REFUND_PROCESSING,
        "refund refused",
        "the status before",
        O.COMPLETED,
        (*PAID, refund_requested(1, 1000)),
        record_refund(o.RefundRefused(code="X")),
    ),
    (
        O.REFUND_PROCESSING,
        "refund confirmed",
        "single, net > 0",
        O.PARTIALLY_REFUNDED,
        (*PAID, refund_requested(1, 1000)),
        record_refund(refund_outcome(1000)),
    ),
    (
        O.REFUND_PROCESSING,
        "refund confirmed",
        "single, net = 0",
        O.REFUNDED,
        (*PAID, refund_requested(1, 10000)),
        record_refund(refund_outcome(10000)),
    ),
    (
        O.REFUND_PROCESSING,
        "refund confirmed",
        "split, net < amount",
        O.PARTIALLY_PAID,
        (*PAID_SPLIT, refund_requested(1, 1000)),
        record_refund(refund_outcome(1000)),
    ),
    (
        O.PARTIALLY_REFUNDED,
        "refund accepted",
        "",
        O.REFUND_PROCESSING,
        HELD_HISTORIES[P.PARTIALLY_REFUNDED],
        refund(1000),
    ),
    (
        O.PARTIALLY_REFUNDED,
        "chargeback lost",
        "a further part",
        O.PARTIALLY_REFUNDED,
        HELD_HISTORIES[P.PARTIALLY_REFUNDED],
        dispute(LOST, 1000),
    ),
    (
        O.PARTIALLY_REFUNDED,
        "chargeback lost",
        "the rest",
        O.REFUNDED,
        HELD_HISTORIES[P.PARTIALLY_REFUNDED],
        dispute(LOST),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "processor confirms",
        "nothing captured",
        O.CANCELLED,
        (*with_authorization(MANUAL_CAPTURE), CANCELLING, *voiding(MANUAL_CAPTURE)[-1:]),
        record_void(o.Voided(processor_reference="ref")),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "processor confirms",
        "all refunded",
        O.REFUNDED,
        (SPLIT, *paid(1, 4000), CANCELLING_WITH_REFUND, refund_requested(1, 4000)),
        record_refund(refund_outcome(4000)),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "processor refuses",
        "money stays",
        O.PARTIALLY_PAID,
        (SPLIT, *paid(1, 4000), CANCELLING_WITH_REFUND, refund_requested(1, 4000)),
        record_refund(o.RefundRefused(code="X")),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "money arrived first",
        "covers",
        O.COMPLETED,
        (*with_card_payment(PAID_AT_CREATION), CANCELLING, e.PaymentCancellationRequested(payment_id=ONE, at=NOON)),
        record_authorization(1, approved(10000)),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "only one payment of a split order was voided",
        "split, net = 0",
        O.PENDING,
        voiding(SPLIT_MANUAL_CAPTURE),
        record_void(o.Voided(processor_reference="ref")),
    ),
    (O.FAILED, "charge", "", O.PROCESSING, (*with_card_payment(created()), declined(1)), charge(2)),
    (
        O.FAILED,
        "same externalId again",
        "",
        O.PROCESSING,
        (*with_card_payment(PAID_AT_CREATION), declined(1)),
        create(payment=new_payment(2)),
    ),
    (O.FAILED, "late deposit", "covers", O.COMPLETED, _FAILED_REFERENCE, deposit(10000)),
    (O.FAILED, "late deposit", "less", O.PARTIALLY_PAID, _FAILED_REFERENCE, deposit(9999)),
    (O.CANCELLED, "late deposit", "covers", O.COMPLETED, _CANCELLED, deposit(10000)),
    (O.CANCELLED, "late deposit", "less", O.PARTIALLY_PAID, _CANCELLED, deposit(9999)),
]
"""Table 2.2."""


def _part(n: int, *events: Any) -> tuple[Any, ...]:
    return started(n, 4000), authorization_requested(n, 4000, capture=False), *events


def _parts(n: int) -> dict[OrderStatus, tuple[tuple[Any, ...], Any]]:
    """Returns for each status that a waiting part shows: the events of that part, and a command that ends it unpaid."""
    void = e.VoidRequested(payment_id=payment_id(n), idempotency_key=VOID_KEY, deadline_at=DEADLINE, at=NOON)
    return {
        O.PROCESSING: (_part(n), record_authorization(n, DECLINE)),
        O.REFERENCE_GENERATED: (reference_open(n, 4000), expire(n)),
        O.AUTHORIZED: (_part(n, authorized(n, 4000)), expire(n)),
        O.PARTIALLY_AUTHORIZED: (_part(n, authorized(n, 2000)), expire(n)),
        O.ACTION_REQUIRED: (_part(n, payer_action_required(n, REDIRECT)), expire(n)),
        DDR: (_part(n, payer_action_required(n, DEVICE)), expire(n)),
        CHR: (_part(n, payer_action_required(n, CHALLENGE)), expire(n)),
        O.CANCELLATION_REQUESTED: (
            _part(n, authorized(n, 4000), void),
            record_void(o.Voided(processor_reference="ref"), n),
        ),
    }


_SALE = with_card_payment(PAID_AT_CREATION)

SALE_ROWS: list[Row] = [
    (P.AUTHORIZED, "captured in the call", "all", P.CAPTURED, _SALE, record_authorization(1, approved(10000))),
    (
        P.PARTIALLY_AUTHORIZED,
        "captured in the call",
        "all of a part",
        P.PARTIALLY_CAPTURED,
        _SALE,
        record_authorization(1, approved(6000)),
    ),
]
"""What a payment passes through within one outcome."""

OLDER_PART_ROWS: list[Row] = [
    (shown, "the newest part ends", "split", behind, (SPLIT_MANUAL_CAPTURE, *older, *newest), end)
    for shown, (newest, end) in _parts(2).items()
    for behind, (older, _) in _parts(1).items()
    if shown is not behind
]
"""The newest part of a split order ends, and the order shows what the part before it waits for."""

_REFUNDED_REFERENCE = (
    *awaiting_deposit(created()),
    deposited(1, 10000),
    refund_requested(1, 10000),
    refunded(1, 10000),
)
_REFUNDED_PART = (
    *awaiting_deposit(SPLIT, 4000),
    deposited(1, 4000),
    refund_requested(1, 4000),
    refunded(1, 4000),
    e.OrderCancelled(at=NOON),
)
_HALF_REFUNDED = (
    *awaiting_deposit(created()),
    deposited(1, 4000),
    started(2, 6000),
    authorization_requested(2, 6000),
    *authorized_and_captured(2, 3000),
    CANCELLING_WITH_REFUND,
    refund_requested(2, 3000),
    refund_requested(1, 4000),
    refunded(2, 3000),
)

_ALL_REFUNDED = (created(), *paid(1, 10000), refund_requested(1, 10000), refunded(1, 10000))
_PART_REFUNDED = (created(), *paid(1, 10000), refund_requested(1, 4000), refunded(1, 4000))
_PART_OF_LESS_REFUNDED = (
    *awaiting_deposit(created()),
    deposited(1, 6000),
    refund_requested(1, 4000),
    refunded(1, 4000),
)
COMES_BACK = ReverseRefund(refund_id=refund_id(1), payment_id=payment_id(1), code="UNKNOWN", at=NOON)

REPORTED_ROWS: list[Row] = [
    (
        CHR,
        "challenge passed",
        "captured now",
        O.COMPLETED,
        authenticating(PAID_AT_CREATION, CHALLENGE),
        record_authentication(approved(10000)),
    ),
    (O.REFUNDED, "late deposit", "single", O.PARTIALLY_REFUNDED, _REFUNDED_REFERENCE, deposit(500, name="dep-2")),
    (O.REFUNDED, "late deposit", "split, less", O.PARTIALLY_PAID, _REFUNDED_PART, deposit(500, name="dep-2")),
    (O.REFUNDED, "late deposit", "split, covers", O.COMPLETED, _REFUNDED_PART, deposit(10000, name="dep-2")),
    (O.REFUNDED, "refund came back", "single", O.COMPLETED, _ALL_REFUNDED, COMES_BACK),
    (O.PARTIALLY_REFUNDED, "refund came back", "single", O.COMPLETED, _PART_REFUNDED, COMES_BACK),
    (O.PARTIALLY_REFUNDED, "refund came back", "single, less", O.PARTIALLY_PAID, _PART_OF_LESS_REFUNDED, COMES_BACK),
    (
        O.CANCELLATION_REQUESTED,
        "refund refused",
        "single, another went through",
        O.PARTIALLY_REFUNDED,
        _HALF_REFUNDED,
        record_refund(o.RefundRefused(code="X")),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "void reported",
        "single, not cancelled",
        O.FAILED,
        voiding(PAID_AT_CREATION),
        record_void(o.Voided(processor_reference="ref")),
    ),
]
"""Late reports of a processor or a bank."""

NO_ANSWER = Unanswered(reason="no answer")
_REFUND_REFUSED = e.RefundRefused(refund_id=refund_id(1), payment_id=ONE, code="X", at=NOON)

_HALF_TAKEN = (*capturing(MANUAL_CAPTURE, 6000), captured(1, 6000))
_RELEASING = (
    *_HALF_TAKEN,
    e.ReleaseRequested(
        payment_id=ONE,
        amount=capture_outcome(4000).amount,
        idempotency_key=RELEASE_KEY,
        deadline_at=DEADLINE,
        at=NOON,
    ),
)

_PAID_OUT_BY_HAND = (
    *awaiting_deposit(created()),
    deposited(1, 10000),
    refund_requested(1, 1000, payout=True, by_merchant=True),
)

NO_ANSWER_ROWS: list[Row] = [
    (
        P.PENDING_REFUND,
        "an account is named for a payout",
        "stays",
        P.PENDING_REFUND,
        _PAID_OUT_BY_HAND,
        refund_destination(),
    ),
    (
        P.PENDING_REFUND,
        "a payout by hand confirmed",
        "",
        P.PARTIALLY_REFUNDED,
        _PAID_OUT_BY_HAND,
        confirm_payout(),
    ),
    (P.PARTIALLY_CAPTURED, "release accepted", "stays", P.PARTIALLY_CAPTURED, _HALF_TAKEN, release()),
    (
        P.PARTIALLY_CAPTURED,
        "released",
        "stays",
        P.PARTIALLY_CAPTURED,
        _RELEASING,
        record_release(release_outcome(4000)),
    ),
    (
        P.PARTIALLY_CAPTURED,
        "release refused",
        "stays",
        P.PARTIALLY_CAPTURED,
        _RELEASING,
        record_release(o.ReleaseRefused(code="X")),
    ),
    (P.CAPTURING, "time-out", "stays", P.CAPTURING, capturing(MANUAL_CAPTURE), record_capture(NO_ANSWER)),
    (P.CAPTURING, "never sent", "", P.AUTHORIZED, capturing(MANUAL_CAPTURE), record_capture(NotSent())),
    (
        P.CAPTURING,
        "never sent",
        "stays until it is sent again",
        P.CAPTURING,
        capturing(MANUAL_CAPTURE),
        record_capture(NotSent(until=DEADLINE)),
    ),
    (
        P.CAPTURING,
        "sent again",
        "stays",
        P.CAPTURING,
        capturing(MANUAL_CAPTURE),
        RepeatCall(payment_id=ONE, idempotency_key="capture-1", after=DEADLINE, deadline_at=LATER, at=NOON),
    ),
    (
        P.PENDING_AUTHORIZATION,
        "never sent",
        "",
        P.FAILED,
        with_card_payment(PAID_AT_CREATION),
        record_authorization(1, NotSent()),
    ),
    (
        P.FAILED,
        "a capture reported late",
        "stays",
        P.FAILED,
        (*with_card_payment(PAID_AT_CREATION), declined(1)),
        record_authorization(1, approved(10000)),
    ),
    (
        P.PENDING_REFUND,
        "accepted, not confirmed",
        "stays",
        P.PENDING_REFUND,
        (*PAID, refund_requested(1, 1000)),
        record_refund(o.RefundPending(processor_reference="ref")),
    ),
    (
        P.CAPTURED,
        "a refused refund carried out after all",
        "",
        P.PARTIALLY_REFUNDED,
        (*PAID, refund_requested(1, 1000), _REFUND_REFUSED),
        record_refund(refund_outcome(1000)),
    ),
    (
        P.FAILED,
        "an authorisation reported late",
        "stays",
        P.FAILED,
        (*with_card_payment(PAID_AT_CREATION), declined(1)),
        record_authorization(1, approved(10000, 0)),
    ),
    (
        P.PENDING_REFUND,
        "a refund reported late beside another one",
        "stays",
        P.PENDING_REFUND,
        (*PAID, refund_requested(1, 1000), _REFUND_REFUSED, refund_requested(1, 1000, 2)),
        record_refund(refund_outcome(1000)),
    ),
]
"""What no table names: a missing answer, and an answer after a final outcome."""
