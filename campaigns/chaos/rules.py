"""What must hold of a log and its read models, whatever was killed while they were written.

Recompute what a rule checks from the events, or from what a client would read; never trust a total that the service stores.
Each rule yields what is wrong, in words that name the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from campaigns.chaos.evidence import MerchantEvidence
from ledger.audit.invariants.documents import broken_documents
from ledger.audit.invariants.logs import broken_claims, broken_positions, broken_versions
from ledger.audit.invariants.orders import broken_order
from ledger.domain.customers.events import CustomerCreated
from ledger.domain.money import ZERO
from ledger.domain.orders.events import LateCaptureReported, OrderCreated, PaymentCaptured
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.streams import ClaimKind
from ledger.journal.inline import Row
from projections.inline import TABLES
from projections.rebuild import replay


def everything(evidence: MerchantEvidence, window: timedelta = timedelta(0)) -> list[str]:
    """Returns the findings of all rules, each with the rule's name."""
    found = {
        "views": views_follow_from_the_log(evidence),
        "invariants": orders_keep_their_invariants(evidence),
        "log": the_log_has_no_gap(evidence),
        "twice": nothing_happened_twice(evidence),
        "book": the_book_agrees(evidence),
        "open": nothing_is_left_open(evidence, window),
    }
    return [f"{rule}: {what}" for rule, broken in found.items() for what in broken]


def views_follow_from_the_log(evidence: MerchantEvidence) -> Iterator[str]:
    """Every cell of every read model follows from the fold of the events."""
    try:
        expected = replay(evidence.merchant_id, [(e.stream_id, e.version, e.event) for e in evidence.log])
    except AssertionError as broken:
        yield f"the log cannot be folded: {broken}"
        return
    # Rows of orders show an erased customer until the worker has finished the erasure.
    excused = {id_.bytes for id_, order in evidence.orders.items() if order.terms.customer_id in evidence.unfinished}
    for table in TABLES:
        columns = [name for name, _ in table.columns]
        there, should = (
            Counter(row for row in rows[table.name] if row[1] not in excused) for rows in (evidence.rows, expected)
        )
        yield from (f"{table.name}: {what}" for what in _differences(columns, there - should, should - there))


def the_log_has_no_gap(evidence: MerchantEvidence) -> Iterator[str]:
    """Positions are 1 … head, and the versions of each stream 1 … n, in the order of their positions."""
    yield from map(str, broken_positions([recorded.position for recorded in evidence.log], evidence.head))
    for stream_id, log in evidence.streams.items():
        yield from map(str, broken_versions(stream_id, [recorded.version for recorded in log]))


def orders_keep_their_invariants(evidence: MerchantEvidence) -> Iterator[str]:
    """I1 to I9 of section 4.5 on every order after every event; what is served of it has the same status and sums."""
    heads = {
        UUID(bytes=row[1]): (row[3].decode(), msgspec.json.decode(row[-2]))
        for row in evidence.rows["payment_order"]
        if row[-2]  # an order in flight is not rendered
    }
    for order_id, history in evidence.histories.items():
        order = history[-1]
        for recorded, before, after in zip(evidence.streams[order_id], (None, *history), history, strict=False):
            for broken in (*broken_order(before, recorded.event, after), *broken_documents(after)):
                yield f"order {order_id}: {broken}"
        if order_id in heads:
            status, served = heads[order_id]
            for what in _served_otherwise(order, status, served):
                yield f"order {order_id}: {what}"


def nothing_happened_twice(evidence: MerchantEvidence) -> Iterator[str]:
    """I11: no external id has two orders, no payment was captured twice, no order that is paid at once was paid twice."""
    named: dict[tuple[ClaimKind, str], list[UUID]] = {}
    for stream_id, log in evidence.streams.items():
        match log[0].event:
            case OrderCreated(external_id=name):
                named.setdefault((ClaimKind.ORDER_EXTERNAL_ID, name), []).append(stream_id)
            case CustomerCreated(external_id=name):
                named.setdefault((ClaimKind.CUSTOMER_EXTERNAL_ID, name), []).append(stream_id)
            case _:
                continue
    yield from map(str, broken_claims(named, evidence.claims))
    for order_id, order in evidence.orders.items():
        yield from (f"order {order_id}: {broken}" for broken in _paid_twice(evidence, order_id, order))


def the_book_agrees(evidence: MerchantEvidence) -> Iterator[str]:
    """The processor's rows and the ledger agree about what was captured, by key and in both directions."""
    captured: dict[str, tuple[Payment, Decimal]] = {}
    for order in evidence.orders.values():
        for payment in order.payments:
            if payment.requested is not None:
                captured[payment.requested.idempotency_key] = payment, payment.captured
    for key, booked in evidence.book.items():
        if key not in captured:
            yield f"the book has a charge {key} that no order knows"
            continue
        payment, taken = captured[key]
        if payment.intent is None and taken != booked.captured:
            yield f"payment {payment.payment_id}: {taken} in the ledger, {booked.captured} in the book"
        if payment.intent is None and booked.declined and not (payment.failure or _was_cancelled_before(payment)):
            yield f"payment {payment.payment_id}: is {payment.status}, and the book says that it was declined"
    for key, (payment, taken) in captured.items():
        if key not in evidence.book and (taken or payment.authorized):
            yield f"payment {payment.payment_id}: {taken} in the ledger, nothing in the book"


def _was_cancelled_before(payment: Payment) -> bool:
    """Returns whether a cancellation was requested before the processor's answer: then a decline ends it as cancelled."""
    return payment.status is PaymentStatus.CANCELLED and payment.cancellation_requested and not payment.authorized


def nothing_is_left_open(evidence: MerchantEvidence, window: timedelta) -> Iterator[str]:
    """Every call to the processor with a deadline before the recovery's window has an outcome."""
    for order_id, order in evidence.orders.items():
        for payment in order.payments:
            if payment.intent is not None and payment.intent.deadline_at + window < evidence.at:
                waited = (evidence.at - payment.intent.deadline_at).total_seconds()
                yield f"order {order_id}: payment {payment.payment_id} is open {waited:.1f} s after its deadline"


def _differences(columns: Sequence[str], surplus: Iterable[Row], missing: Iterable[Row]) -> Iterator[str]:
    """Yields in words which rows are surplus and which are missing; the cells, if both are about the same key."""
    lacking = {row[:2]: row for row in missing}
    for row in surplus:
        should = lacking.pop(row[:2], None)
        if should is None:
            yield f"{_words(row[:3])} should not be there"
        else:
            cells = [name for name, a, b in zip(columns, row, should, strict=True) if a != b]
            yield f"{_words(row[:2])}: {', '.join(cells)} differ"
    for row in lacking.values():
        yield f"{_words(row[:3])} is missing"


def _served_otherwise(order: Order, status: str, served: Mapping[str, Any]) -> Iterator[str]:
    sums = {
        "subtotalAmount": order.terms.amount,
        "amount": order.amount,
        "amountPaid": order.amount_paid,
        "amountPending": order.amount_pending,
        "amountRefunded": order.amount_refunded,
        "refundedAmount": order.amount_refunded,
    }
    for name, amount in sums.items():
        if Decimal(str(served[name])) != amount:
            yield f"it is served with {name} {served[name]}, not {amount}"
    if not status == served["status"] == order.status:
        yield f"its row says {status}, its document {served['status']}, its payments {order.status} (I6)"


def _paid_twice(evidence: MerchantEvidence, order_id: UUID, order: Order) -> Iterator[str]:
    for payment in order.payments:
        if len(_taken(evidence, order_id, payment.payment_id)) > 1:
            yield f"payment {payment.payment_id} was captured twice"
    keys = Counter(payment.requested.idempotency_key for payment in order.payments if payment.requested is not None)
    if repeated := [key for key, n in keys.items() if n > 1]:
        yield f"idempotency key {repeated[0]} stands on two payments"
    # A payment that was never sent frees its external id, so that the same request can make it: by the processor's rows.
    sent = (p for p in order.payments if not p.was_not_sent or _is_booked(p, evidence))
    named = Counter(payment.started.external_id for payment in sent)
    if doubled := [name for name, n in named.items() if name is not None and n > 1]:
        yield f"two payments are called {doubled[0]!r}"
    booked = sum((evidence.book[key].captured for key in keys if key in evidence.book), ZERO)
    if booked > order.amount or order.amount_paid > order.amount:
        yield f"{order.amount_paid} of {order.amount} were taken, {booked} by the book"


def _is_booked(payment: Payment, evidence: MerchantEvidence) -> bool:
    return payment.requested is not None and payment.requested.idempotency_key in evidence.book


def _taken(evidence: MerchantEvidence, order_id: UUID, payment_id: UUID) -> list[Decimal]:
    return [
        recorded.event.amount
        for recorded in evidence.streams[order_id]
        if isinstance(recorded.event, PaymentCaptured | LateCaptureReported) and recorded.event.payment_id == payment_id
    ]


def _words(cells: Sequence[Any]) -> str:
    return " ".join(cell.hex() if isinstance(cell, bytes) else str(cell) for cell in cells)
