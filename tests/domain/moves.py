"""The contract's tables 2.1 and 2.2 as stories: what had happened, what then comes, and the move that follows.

A row is (from, trigger, guard, to, history, command). `from` and `to` are of the order's first payment in one table and of
the order in the other.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.domain.asking import (
    DISPUTE,
    VOID,
    add,
    authentication_answered,
    batch,
    cancel,
    cancellation_id,
    capture,
    capture_answered,
    deposit,
    dispute,
    due_capture,
    expire,
    gave_back,
    issues,
    payer_must,
    reference_answered,
    refund,
    refund_answered,
    took,
    void_answered,
)
from tests.domain.story import (
    DEADLINE,
    MANUAL,
    NOON,
    SPLIT,
    acting,
    approved,
    asked,
    authorized,
    captured,
    charge,
    continued,
    create,
    created,
    declined,
    deposited,
    new_payment,
    paid,
    payment_id,
    reference_open,
    refund_asked,
    refund_id,
    refunded,
    scheduled,
    settle,
    started,
    taken,
)

from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.commands import DisputeStage, SettlementStage
from ledger.domain.orders.processor_outcomes import Declined, NotSent, Unanswered
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus

P, O = PaymentStatus, OrderStatus  # noqa: E741 - two columns of one table
DDR, CHR = O.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED, O.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED
OPENED, WON, LOST = DisputeStage.OPENED, DisputeStage.WON, DisputeStage.LOST
LISTED, MATCHED, REFUSED = SettlementStage.LISTED, SettlementStage.MATCHED, SettlementStage.REFUSED
DEVICE, CHALLENGE, REDIRECT = NextAction.DEVICE_DATA, NextAction.CHALLENGE, NextAction.REDIRECT
NO = Declined(code="DO_NOT_HONOR")
ONE = payment_id(1)

Row = tuple[Any, str, str, Any, tuple[Any, ...], Any]

ONCE = created(pending=False)
BY_HAND = created(pending=False, capture_method=MANUAL)
SPLIT_BY_HAND = created(allow_partials=True, capture_method=MANUAL)


def card(order: Any, n: int = 1, amount: int = 10000) -> tuple[Any, ...]:
    """The order, and its card payment at the processor."""
    return order, started(n, amount), asked(n, amount, capture=order.capture_method is not MANUAL)


def granted(order: Any, amount: int = 10000, part: int = 10000) -> tuple[Any, ...]:
    return (*card(order, 1, part), authorized(1, amount))


def capturing(order: Any, amount: int = 10000, grant: int = 10000) -> tuple[Any, ...]:
    asked_for = e.CaptureRequested(
        payment_id=ONE, amount=took(amount).amount, idempotency_key="capture-1", deadline_at=DEADLINE, at=NOON
    )
    return (*granted(order, grant), scheduled(1, amount), asked_for)


def voiding(order: Any, grant: int = 10000) -> tuple[Any, ...]:
    return (
        *granted(order, grant),
        e.VoidRequested(payment_id=ONE, idempotency_key=VOID, deadline_at=DEADLINE, at=NOON),
    )


def waiting(order: Any, action: NextAction, part: int = 10000) -> tuple[Any, ...]:
    """A card payment whose payer has to act."""
    return (*card(order, 1, part), acting(1, action))


def going_on(order: Any, action: NextAction, part: int = 10000) -> tuple[Any, ...]:
    """The payer acted, and the processor is asked to go on."""
    return (*waiting(order, action, part), continued(1, part, action))


def at_store(order: Any, part: int = 10000) -> tuple[Any, ...]:
    """A reference that waits for its deposit."""
    return (order, *reference_open(1, part))


def ended(because: e.ExpiredBecause = e.ExpiredBecause.REFERENCE) -> Any:
    return e.PaymentExpired(payment_id=ONE, because=because, at=NOON)


def withdrawn(because: e.CancelledBecause = e.CancelledBecause.REPLACED) -> Any:
    return e.PaymentCancelled(payment_id=ONE, because=because, at=NOON)


PAID = (created(), *paid(1, 10000))
PAID_SPLIT = (SPLIT, *paid(1, 10000))
UNDERPAID = (*at_store(created()), deposited(1, 6000))
IN_BATCH = (*PAID, e.SettlementListed(payment_id=ONE, batch_id="lote-0", at=NOON))
CANCELLING = e.CancellationRequested(cancellation_id=cancellation_id(), refund_captured=False, at=NOON)
GIVING_ALL_BACK = e.CancellationRequested(cancellation_id=cancellation_id(), refund_captured=True, at=NOON)
DUE_NOW = timedelta()

HELD_STORIES: dict[PaymentStatus, tuple[Any, ...]] = {
    P.CAPTURED: PAID,
    P.PARTIALLY_CAPTURED: (ONCE, started(1, 10000), asked(1, 10000), *taken(1, 6000)),
    P.PENDING_SETTLEMENT: IN_BATCH,
    P.SETTLED: (*IN_BATCH, e.SettlementMatched(payment_id=ONE, batch_id="lote-0", at=NOON)),
    P.PARTIALLY_REFUNDED: (*PAID, refund_asked(1, 3000, 9), refunded(1, 3000, 9)),
}
REST = {
    P.CAPTURED: 10000,
    P.PARTIALLY_CAPTURED: 6000,
    P.PENDING_SETTLEMENT: 10000,
    P.SETTLED: 10000,
    P.PARTIALLY_REFUNDED: 7000,
}


def disputed(history: tuple[Any, ...], amount: int) -> tuple[Any, ...]:
    return (*history, e.DisputeOpened(payment_id=ONE, dispute_id=DISPUTE, amount=took(amount).amount, at=NOON))


_OF_HELD_MONEY: list[Row] = [
    row
    for status, history in HELD_STORIES.items()
    for row in (
        (status, "refund accepted", "R ≤ refundable", P.PENDING_REFUND, history, refund(1000)),
        (
            P.PENDING_REFUND,
            "refund refused",
            f"it came from {status}",
            status,
            (*history, refund_asked(1, 1000)),
            refund_answered(o.RefundRefused(code="X")),
        ),
        (
            P.PENDING_REFUND,
            "refund confirmed",
            f"all, from {status}",
            P.REFUNDED,
            (*history, refund_asked(1, REST[status])),
            refund_answered(gave_back(REST[status])),
        ),
        (
            P.PENDING_REFUND,
            "refund confirmed",
            f"a part, from {status}",
            P.PARTIALLY_REFUNDED,
            (*history, refund_asked(1, 1000)),
            refund_answered(gave_back(1000)),
        ),
        (status, "chargeback opened", "", P.DISPUTED, history, dispute(OPENED)),
        (P.DISPUTED, "won", f"it came from {status}", status, disputed(history, 1000), dispute(WON)),
        (P.DISPUTED, "lost", f"a part, from {status}", P.PARTIALLY_REFUNDED, disputed(history, 1000), dispute(LOST)),
        (P.DISPUTED, "lost", f"all, from {status}", P.REFUNDED, disputed(history, REST[status]), dispute(LOST)),
    )
]

PAYMENT_ROWS: list[Row] = [
    (None, "payment created", "", P.CREATED, (created(),), charge()),
    (P.CREATED, "sent to card processor", "", P.PENDING_AUTHORIZATION, (created(),), charge()),
    (P.CREATED, "reference issued", "", P.REQUIRES_ACTION, at_store(created())[:3], reference_answered(issues())),
    (
        P.CREATED,
        "refused",
        "nothing was sent to the payer",
        P.FAILED,
        at_store(created())[:3],
        reference_answered(o.ReferenceRefused(code="X")),
    ),
    (P.CREATED, "order cancelled", "not yet sent", P.CANCELLED, at_store(created())[:3], cancel()),
    (P.PENDING_AUTHORIZATION, "approved", "= asked", P.AUTHORIZED, card(BY_HAND), settle(1, approved(10000, 0))),
    (
        P.PENDING_AUTHORIZATION,
        "approved",
        "0 < approved < asked",
        P.PARTIALLY_AUTHORIZED,
        card(BY_HAND),
        settle(1, approved(6000, 0)),
    ),
    (
        P.PENDING_AUTHORIZATION,
        "3DS or other action needed",
        "",
        P.REQUIRES_ACTION,
        card(ONCE),
        settle(1, payer_must()),
    ),
    (P.PENDING_AUTHORIZATION, "declined", "", P.FAILED, card(ONCE), settle(1, NO)),
    (P.PENDING_AUTHORIZATION, "cancel asked", "", P.PENDING_CANCELLATION, card(ONCE), cancel()),
    (
        P.REQUIRES_ACTION,
        "device data received",
        "challenge follows",
        P.REQUIRES_ACTION,
        going_on(ONCE, DEVICE),
        authentication_answered(payer_must(), step=DEVICE),
    ),
    (
        P.REQUIRES_ACTION,
        "device data received",
        "frictionless",
        P.PENDING_AUTHORIZATION,
        going_on(ONCE, DEVICE),
        authentication_answered(approved(10000, 0), step=DEVICE),
    ),
    (
        P.REQUIRES_ACTION,
        "validate succeeds",
        "",
        P.AUTHORIZED,
        going_on(ONCE, CHALLENGE),
        authentication_answered(approved(10000, 0)),
    ),
    (
        P.REQUIRES_ACTION,
        "authentication fails",
        "",
        P.FAILED,
        going_on(ONCE, CHALLENGE),
        authentication_answered(Declined(code="AUTHENTICATION_FAILED")),
    ),
    (P.REQUIRES_ACTION, "session ends", "15 minutes", P.EXPIRED, waiting(ONCE, CHALLENGE), expire()),
    (P.REQUIRES_ACTION, "reference ends", "nothing deposited", P.EXPIRED, at_store(created()), expire()),
    (P.REQUIRES_ACTION, "cancel", "", P.CANCELLED, at_store(created()), cancel()),
    (P.REQUIRES_ACTION, "deposit", "total ≥ expected", P.CAPTURED, at_store(created()), deposit(10000)),
    (P.REQUIRES_ACTION, "deposit", "0 < total < expected", P.PARTIALLY_CAPTURED, at_store(created()), deposit(1)),
    (P.AUTHORIZED, "capture accepted", "", P.PENDING_CAPTURE, granted(BY_HAND), capture()),
    (P.PARTIALLY_AUTHORIZED, "capture accepted", "", P.PENDING_CAPTURE, granted(BY_HAND, 6000), capture()),
    (P.AUTHORIZED, "void asked", "", P.PENDING_CANCELLATION, granted(BY_HAND), cancel()),
    (P.PARTIALLY_AUTHORIZED, "void asked", "", P.PENDING_CANCELLATION, granted(BY_HAND, 6000), cancel()),
    (P.AUTHORIZED, "validity ends", "7 days", P.EXPIRED, granted(BY_HAND), expire()),
    (P.PARTIALLY_AUTHORIZED, "validity ends", "7 days", P.EXPIRED, granted(BY_HAND, 6000), expire()),
    (P.PENDING_CAPTURE, "capture sent", "", P.CAPTURING, (*granted(ONCE), scheduled(1, 10000)), due_capture()),
    (P.PENDING_CAPTURE, "void asked", "", P.PENDING_CANCELLATION, (*granted(ONCE), scheduled(1, 10000)), cancel()),
    (P.CAPTURING, "confirmed", "= authorised", P.CAPTURED, capturing(BY_HAND), capture_answered(took(10000))),
    (P.CAPTURING, "confirmed", "less", P.PARTIALLY_CAPTURED, capturing(BY_HAND, 6000), capture_answered(took(6000))),
    (
        P.CAPTURING,
        "refused",
        "retryable",
        P.AUTHORIZED,
        capturing(BY_HAND),
        capture_answered(o.CaptureRefused(code="X", retryable=True)),
    ),
    (P.CAPTURING, "refused", "final", P.FAILED, capturing(BY_HAND), capture_answered(o.CaptureRefused(code="X"))),
    (P.PARTIALLY_CAPTURED, "further deposit", "reaches expected", P.CAPTURED, UNDERPAID, deposit(4000, name="dep-2")),
    (
        P.PARTIALLY_CAPTURED,
        "further capture",
        "via CAPTURING",
        P.CAPTURING,
        (*capturing(BY_HAND, 6000), captured(1, 6000)),
        capture(4000, "capture-2"),
    ),
    (P.CAPTURED, "listed in a settlement batch", "", P.PENDING_SETTLEMENT, PAID, batch(LISTED)),
    (
        P.PARTIALLY_CAPTURED,
        "listed in a settlement batch",
        "",
        P.PENDING_SETTLEMENT,
        HELD_STORIES[P.PARTIALLY_CAPTURED],
        batch(LISTED),
    ),
    (P.PENDING_SETTLEMENT, "settlement line matched", "", P.SETTLED, IN_BATCH, batch(MATCHED, name="lote-0")),
    (P.PENDING_SETTLEMENT, "batch refused", "", P.CAPTURED, IN_BATCH, batch(REFUSED, name="lote-0")),
    (
        P.PENDING_CANCELLATION,
        "processor confirms",
        "",
        P.CANCELLED,
        voiding(SPLIT_BY_HAND),
        void_answered(o.Voided(processor_reference="ref")),
    ),
    (
        P.PENDING_CANCELLATION,
        "processor refuses",
        "granted in full",
        P.AUTHORIZED,
        voiding(SPLIT_BY_HAND),
        void_answered(o.VoidRefused(code="X")),
    ),
    (
        P.PENDING_CANCELLATION,
        "processor refuses",
        "granted in part",
        P.PARTIALLY_AUTHORIZED,
        voiding(SPLIT_BY_HAND, 6000),
        void_answered(o.VoidRefused(code="X")),
    ),
    *_OF_HELD_MONEY,
    (P.EXPIRED, "late deposit", "", P.CAPTURED, (*at_store(created()), ended()), deposit(10000)),
    (P.CANCELLED, "late deposit", "", P.CAPTURED, (*at_store(created()), withdrawn()), deposit(10000)),
]
"""Table 2.1."""

_LATE_PART = (*at_store(SPLIT), ended())
_REPLACED = (*at_store(created()), started(2, 10000), asked(2, 10000), withdrawn())
_CANCELLED = (*at_store(created()), e.OrderCancelled(at=NOON), withdrawn(e.CancelledBecause.ORDER_CANCELLED))
_HALF_BEHIND_A_REFERENCE = (
    *at_store(created(capture_method=MANUAL)),
    started(2, 10000),
    asked(2, 10000, capture=False),
    withdrawn(),
    authorized(2, 6000),
)
_FAILED_REFERENCE = (*at_store(ONCE), ended())


def _of_sessions() -> list[Row]:
    """What 3-D Secure and redirects lead to."""
    rows: list[Row] = []
    for status, action in ((DDR, DEVICE), (CHR, CHALLENGE), (O.ACTION_REQUIRED, REDIRECT)):
        name = action.lower()
        rows += [
            (
                status,
                f"{name} done",
                "capture delayed",
                O.AUTHORIZED,
                going_on(ONCE, action),
                authentication_answered(approved(10000, 0), step=action),
            ),
            (
                status,
                f"{name} done",
                "captured now, a part",
                O.PARTIALLY_PAID,
                going_on(SPLIT, action, 4000),
                authentication_answered(approved(4000), step=action),
            ),
            (
                status,
                f"{name} fails",
                "single",
                O.FAILED,
                going_on(ONCE, action),
                authentication_answered(Declined(code="AUTHENTICATION_FAILED"), step=action),
            ),
            (status, f"{name} expires", "single", O.FAILED, waiting(ONCE, action), expire()),
            (status, f"{name} expires", "split", O.PENDING, waiting(SPLIT, action, 4000), expire()),
            (status, "cancel", "no money held", O.CANCELLED, waiting(ONCE, action), cancel()),
            (status, "a further part", "split", O.PROCESSING, waiting(SPLIT, action, 4000), add(2, 4000)),
        ]
    for status, action in ((DDR, DEVICE), (O.ACTION_REQUIRED, REDIRECT)):
        done = authentication_answered(approved(10000), step=action)
        rows.append((status, f"{action.lower()} done", "captured now", O.COMPLETED, going_on(ONCE, action), done))
    follows = authentication_answered(payer_must(), step=DEVICE)
    rows.append((DDR, "device data", "challenge", CHR, going_on(ONCE, DEVICE), follows))
    return rows


def _of_grants() -> list[Row]:
    """What authorisations lead to."""
    rows: list[Row] = []
    for status, grant in ((O.AUTHORIZED, 10000), (O.PARTIALLY_AUTHORIZED, 6000)):
        rows += [
            (
                status,
                "captured",
                "less",
                O.PARTIALLY_PAID,
                capturing(BY_HAND, 4000, grant),
                capture_answered(took(4000)),
            ),
            (status, "void asked", "", O.CANCELLATION_REQUESTED, granted(BY_HAND, grant), cancel()),
            (status, "authorisation lapses", "single", O.FAILED, granted(BY_HAND, grant), expire()),
            (status, "authorisation lapses", "split", O.PENDING, granted(SPLIT_BY_HAND, grant), expire()),
            (
                status,
                "a further part",
                "split",
                O.PROCESSING,
                granted(SPLIT_BY_HAND, grant * 4 // 10, 4000),
                add(2, 4000),
            ),
            (
                O.CANCELLATION_REQUESTED,
                "processor refuses",
                f"back to {status}",
                status,
                (*granted(BY_HAND, grant), CANCELLING, *voiding(BY_HAND)[-1:]),
                void_answered(o.VoidRefused(code="X")),
            ),
        ]
    return rows


ORDER_ROWS: list[Row] = [
    (None, "create pending", "", O.PENDING, (), create()),
    (None, "create with method", "", O.PROCESSING, (), create(payment=new_payment())),
    (O.PENDING, "charge", "", O.PROCESSING, (created(),), charge()),
    (O.PENDING, "add payment", "split", O.PROCESSING, (SPLIT,), add(1, 4000)),
    (O.PENDING, "split payment captured", "net < amount", O.PARTIALLY_PAID, _LATE_PART, deposit(4000)),
    (O.PENDING, "split payment captured", "net ≥ amount", O.COMPLETED, _LATE_PART, deposit(10000)),
    (O.PENDING, "cancel", "", O.CANCELLED, (created(),), cancel()),
    (O.PROCESSING, "approved and captured", "net ≥ amount", O.COMPLETED, card(ONCE), settle(1, approved(10000))),
    (O.PROCESSING, "approved and captured", "net < amount", O.PARTIALLY_PAID, card(ONCE), settle(1, approved(6000))),
    (O.PROCESSING, "approved", "capture manual", O.AUTHORIZED, card(BY_HAND), settle(1, approved(10000, 0))),
    (O.PROCESSING, "approved for less", "", O.PARTIALLY_AUTHORIZED, card(BY_HAND), settle(1, approved(6000, 0))),
    (O.PROCESSING, "3DS device data needed", "", DDR, card(ONCE), settle(1, payer_must(DEVICE))),
    (O.PROCESSING, "3DS challenge needed", "", CHR, card(ONCE), settle(1, payer_must())),
    (O.PROCESSING, "other action", "redirect", O.ACTION_REQUIRED, card(ONCE), settle(1, payer_must(REDIRECT))),
    (
        O.PROCESSING,
        "reference issued",
        "net = 0",
        O.REFERENCE_GENERATED,
        at_store(created())[:3],
        reference_answered(issues()),
    ),
    (O.PROCESSING, "declined", "single tender", O.FAILED, card(ONCE), settle(1, NO)),
    (O.PROCESSING, "declined", "split", O.PENDING, card(SPLIT, 1, 4000), settle(1, NO)),
    (O.PROCESSING, "time-out", "stays", O.PROCESSING, card(ONCE), settle(1, Unanswered(reason="no answer"))),
    (O.PROCESSING, "cancel asked", "", O.CANCELLATION_REQUESTED, card(ONCE), cancel()),
    *_of_sessions(),
    (O.REFERENCE_GENERATED, "cancel", "no money held", O.CANCELLED, at_store(created()), cancel()),
    (O.REFERENCE_GENERATED, "deposit", "covers", O.COMPLETED, at_store(created()), deposit(10000)),
    (O.REFERENCE_GENERATED, "deposit", "less", O.PARTIALLY_PAID, at_store(created()), deposit(9999)),
    (O.REFERENCE_GENERATED, "expires", "created pending", O.PENDING, at_store(created()), expire()),
    (O.REFERENCE_GENERATED, "expires", "immediate", O.FAILED, at_store(ONCE), expire()),
    (O.REFERENCE_GENERATED, "charge with another method", "", O.PROCESSING, at_store(created()), charge(2)),
    (O.AUTHORIZED, "captured", "covers", O.COMPLETED, capturing(BY_HAND), capture_answered(took(10000))),
    (
        O.PARTIALLY_AUTHORIZED,
        "captured",
        "covers with what else came",
        O.COMPLETED,
        _HALF_BEHIND_A_REFERENCE,
        deposit(10000),
    ),
    *_of_grants(),
    (O.PARTIALLY_PAID, "add payment", "stays", O.PARTIALLY_PAID, (SPLIT, *paid(1, 4000)), add(2, 2000)),
    (
        O.PARTIALLY_PAID,
        "split payment captured",
        "net ≥ amount",
        O.COMPLETED,
        (SPLIT, *paid(1, 4000), started(2, 6000), asked(2, 6000)),
        settle(2, approved(6000)),
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
        (SPLIT, *paid(1, 4000), refund_asked(1, 4000, 9), refunded(1, 4000, 9)),
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
        (*PAID, refund_asked(1, 1000)),
        refund_answered(o.RefundRefused(code="X")),
    ),
    (
        O.REFUND_PROCESSING,
        "refund confirmed",
        "single, net > 0",
        O.PARTIALLY_REFUNDED,
        (*PAID, refund_asked(1, 1000)),
        refund_answered(gave_back(1000)),
    ),
    (
        O.REFUND_PROCESSING,
        "refund confirmed",
        "single, net = 0",
        O.REFUNDED,
        (*PAID, refund_asked(1, 10000)),
        refund_answered(gave_back(10000)),
    ),
    (
        O.REFUND_PROCESSING,
        "refund confirmed",
        "split, net < amount",
        O.PARTIALLY_PAID,
        (*PAID_SPLIT, refund_asked(1, 1000)),
        refund_answered(gave_back(1000)),
    ),
    (
        O.PARTIALLY_REFUNDED,
        "refund accepted",
        "",
        O.REFUND_PROCESSING,
        HELD_STORIES[P.PARTIALLY_REFUNDED],
        refund(1000),
    ),
    (
        O.PARTIALLY_REFUNDED,
        "chargeback lost",
        "a further part",
        O.PARTIALLY_REFUNDED,
        HELD_STORIES[P.PARTIALLY_REFUNDED],
        dispute(LOST, 1000),
    ),
    (
        O.PARTIALLY_REFUNDED,
        "chargeback lost",
        "the rest",
        O.REFUNDED,
        HELD_STORIES[P.PARTIALLY_REFUNDED],
        dispute(LOST),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "processor confirms",
        "nothing captured",
        O.CANCELLED,
        (*granted(BY_HAND), CANCELLING, *voiding(BY_HAND)[-1:]),
        void_answered(o.Voided(processor_reference="ref")),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "processor confirms",
        "all refunded",
        O.REFUNDED,
        (SPLIT, *paid(1, 4000), GIVING_ALL_BACK, refund_asked(1, 4000)),
        refund_answered(gave_back(4000)),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "processor refuses",
        "money stays",
        O.PARTIALLY_PAID,
        (SPLIT, *paid(1, 4000), GIVING_ALL_BACK, refund_asked(1, 4000)),
        refund_answered(o.RefundRefused(code="X")),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "money arrived first",
        "covers",
        O.COMPLETED,
        (*card(ONCE), CANCELLING, e.PaymentCancellationRequested(payment_id=ONE, at=NOON)),
        settle(1, approved(10000)),
    ),
    (
        O.CANCELLATION_REQUESTED,
        "only one payment of a split order was voided",
        "split, net = 0",
        O.PENDING,
        voiding(SPLIT_BY_HAND),
        void_answered(o.Voided(processor_reference="ref")),
    ),
    (O.FAILED, "charge", "", O.PROCESSING, (*card(created()), declined(1)), charge(2)),
    (O.FAILED, "same externalId again", "", O.PROCESSING, (*card(ONCE), declined(1)), create(payment=new_payment(2))),
    (O.FAILED, "late deposit", "covers", O.COMPLETED, _FAILED_REFERENCE, deposit(10000)),
    (O.FAILED, "late deposit", "less", O.PARTIALLY_PAID, _FAILED_REFERENCE, deposit(9999)),
    (O.CANCELLED, "late deposit", "covers", O.COMPLETED, _CANCELLED, deposit(10000)),
    (O.CANCELLED, "late deposit", "less", O.PARTIALLY_PAID, _CANCELLED, deposit(9999)),
]
"""Table 2.2."""


def _part(n: int, *events: Any) -> tuple[Any, ...]:
    return started(n, 4000), asked(n, 4000, capture=False), *events


def _parts(n: int) -> dict[OrderStatus, tuple[tuple[Any, ...], Any]]:
    """For each status that shows what a part waits for: the part that waits so, and what ends it without money."""
    void = e.VoidRequested(payment_id=payment_id(n), idempotency_key=VOID, deadline_at=DEADLINE, at=NOON)
    return {
        O.PROCESSING: (_part(n), settle(n, NO)),
        O.REFERENCE_GENERATED: (reference_open(n, 4000), expire(n)),
        O.AUTHORIZED: (_part(n, authorized(n, 4000)), expire(n)),
        O.PARTIALLY_AUTHORIZED: (_part(n, authorized(n, 2000)), expire(n)),
        O.ACTION_REQUIRED: (_part(n, acting(n, REDIRECT)), expire(n)),
        DDR: (_part(n, acting(n, DEVICE)), expire(n)),
        CHR: (_part(n, acting(n, CHALLENGE)), expire(n)),
        O.CANCELLATION_REQUESTED: (
            _part(n, authorized(n, 4000), void),
            void_answered(o.Voided(processor_reference="ref"), n),
        ),
    }


OLDER_PART_ROWS: list[Row] = [
    (shown, "the newest part ends", "split", behind, (SPLIT_BY_HAND, *older, *newest), end)
    for shown, (newest, end) in _parts(2).items()
    for behind, (older, _) in _parts(1).items()
    if shown is not behind
]
"""The newest part of a split order ends, and what the one before it waits for shows."""

_REFUNDED_REFERENCE = (*at_store(created()), deposited(1, 10000), refund_asked(1, 10000), refunded(1, 10000))
_REFUNDED_PART = (
    *at_store(SPLIT, 4000),
    deposited(1, 4000),
    refund_asked(1, 4000),
    refunded(1, 4000),
    e.OrderCancelled(at=NOON),
)
_HALF_GIVEN_BACK = (
    *at_store(created()),
    deposited(1, 4000),
    started(2, 6000),
    asked(2, 6000),
    *taken(2, 3000),
    GIVING_ALL_BACK,
    refund_asked(2, 3000),
    refund_asked(1, 4000),
    refunded(2, 3000),
)

REPORTED_ROWS: list[Row] = [
    (
        CHR,
        "challenge passed",
        "captured now",
        O.COMPLETED,
        going_on(ONCE, CHALLENGE),
        authentication_answered(approved(10000)),
    ),
    (O.REFUNDED, "late deposit", "single", O.PARTIALLY_REFUNDED, _REFUNDED_REFERENCE, deposit(500, name="dep-2")),
    (O.REFUNDED, "late deposit", "split, less", O.PARTIALLY_PAID, _REFUNDED_PART, deposit(500, name="dep-2")),
    (O.REFUNDED, "late deposit", "split, covers", O.COMPLETED, _REFUNDED_PART, deposit(10000, name="dep-2")),
    (
        O.CANCELLATION_REQUESTED,
        "refund refused",
        "single, another went through",
        O.PARTIALLY_REFUNDED,
        _HALF_GIVEN_BACK,
        refund_answered(o.RefundRefused(code="X")),
    ),
]
"""What a processor or a bank says that comes after all."""

NO_ANSWER = Unanswered(reason="no answer")
_NO_MORE = e.RefundRefused(refund_id=refund_id(1), payment_id=ONE, code="X", at=NOON)

SILENT_ROWS: list[Row] = [
    (P.CAPTURING, "time-out", "stays", P.CAPTURING, capturing(BY_HAND), capture_answered(NO_ANSWER)),
    (P.CAPTURING, "never sent", "", P.AUTHORIZED, capturing(BY_HAND), capture_answered(NotSent())),
    (P.PENDING_AUTHORIZATION, "never sent", "", P.FAILED, card(ONCE), settle(1, NotSent())),
    (
        P.FAILED,
        "a capture reported late",
        "stays",
        P.FAILED,
        (*card(ONCE), declined(1)),
        settle(1, approved(10000)),
    ),
    (
        P.PENDING_REFUND,
        "accepted, not confirmed",
        "stays",
        P.PENDING_REFUND,
        (*PAID, refund_asked(1, 1000)),
        refund_answered(o.RefundPending(processor_reference="ref")),
    ),
    (
        P.CAPTURED,
        "a refused refund carried out after all",
        "",
        P.PARTIALLY_REFUNDED,
        (*PAID, refund_asked(1, 1000), _NO_MORE),
        refund_answered(gave_back(1000)),
    ),
]
"""What no table names: no answer, and an answer after the last word."""
