"""The tables of moves are complete, and an order's status follows from its payments by legal moves only."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.domain.builders import SPEI, created, folded, started

from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import LIVE, Order
from ledger.domain.orders.statuses import ORDER_EDGES, PAYMENT_EDGES, NextAction, OrderStatus, PaymentStatus

P, O = PaymentStatus, OrderStatus  # noqa: E741 - the two tables are read side by side
HELD = (P.CAPTURED, P.PARTIALLY_CAPTURED, P.PENDING_SETTLEMENT, P.SETTLED, P.PARTIALLY_REFUNDED)


@pytest.mark.parametrize(
    ("edges", "statuses", "final", "count"),
    [
        (PAYMENT_EDGES, PaymentStatus, {P.FAILED, P.REFUNDED}, 66),
        (ORDER_EDGES, OrderStatus, {O.REFUNDED}, 87),
    ],
    ids=["payment", "order"],
)
def test_every_status_is_reachable_and_only_final_ones_have_no_moves(edges, statuses, final, count):
    reached = {None}
    while more := {target for origin, target in edges if origin in reached} - reached:
        reached |= more
    assert reached == {None, *statuses}
    assert {status for status in statuses if not any(a == status != b for a, b in edges)} == final
    assert len(edges) == count


def test_every_status_with_money_leads_to_a_refund_and_a_dispute_and_back():
    for held in HELD:
        assert {(held, P.PENDING_REFUND), (held, P.DISPUTED)} <= PAYMENT_EDGES
        assert {(P.PENDING_REFUND, held), (P.DISPUTED, held)} <= PAYMENT_EDGES


def order_with(*payments: Payment, split: bool = False, pending: bool = True, **changes) -> Order:
    return replace(folded([created(100, allow_partials=split, pending=pending)]), payments=payments, **changes)


def payment(status: P, n: int = 1, **changes) -> Payment:
    opened = folded([created(100), started(n, 100, 0, SPEI)]).payments[0]
    return replace(opened, status=status, **{k: Decimal(v) if isinstance(v, int) else v for k, v in changes.items()})


@pytest.mark.parametrize(
    ("order", "status"),
    [
        (order_with(closed=True), O.CANCELLED),
        (order_with(payment(P.REFUNDED, captured=50, refunded=50), closed=True), O.REFUNDED),
        (order_with(payment(P.CAPTURED, captured=100), closed=True), O.COMPLETED),
        (order_with(payment(P.CAPTURED, captured=100), cancel_requested=True), O.CANCELLATION_REQUESTED),
        (order_with(payment(P.PENDING_REFUND, captured=100)), O.REFUND_PROCESSING),
        (order_with(payment(P.PARTIALLY_REFUNDED, captured=100, refunded=1), split=True), O.PARTIALLY_PAID),
        (order_with(payment(P.REFUNDED, captured=100, refunded=100), split=True), O.PARTIALLY_PAID),
        (order_with(payment(P.SETTLED, captured=100), split=True), O.COMPLETED),
        (order_with(payment(P.PARTIALLY_REFUNDED, captured=100, refunded=1)), O.PARTIALLY_REFUNDED),
        (order_with(payment(P.REFUNDED, captured=100, refunded=100)), O.REFUNDED),
        (order_with(payment(P.PARTIALLY_CAPTURED, captured=99)), O.PARTIALLY_PAID),
        (order_with(payment(P.CAPTURED, captured=100)), O.COMPLETED),
        (
            order_with(payment(P.REQUIRES_ACTION, next_action=NextAction.DEVICE_DATA)),
            O.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED,
        ),
        (
            order_with(payment(P.REQUIRES_ACTION, next_action=NextAction.CHALLENGE)),
            O.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED,
        ),
        (order_with(payment(P.REQUIRES_ACTION, next_action=NextAction.DISPLAY_REFERENCE)), O.REFERENCE_GENERATED),
        (order_with(payment(P.REQUIRES_ACTION, next_action=NextAction.REDIRECT)), O.ACTION_REQUIRED),
        (order_with(payment(P.AUTHORIZED, authorized=100)), O.AUTHORIZED),
        (order_with(payment(P.PENDING_CAPTURE, authorized=100)), O.AUTHORIZED),
        (order_with(payment(P.CAPTURING, authorized=99)), O.PARTIALLY_AUTHORIZED),
        (order_with(payment(P.PARTIALLY_AUTHORIZED, authorized=99)), O.PARTIALLY_AUTHORIZED),
        (order_with(payment(P.CREATED)), O.PROCESSING),
        (order_with(payment(P.PENDING_AUTHORIZATION)), O.PROCESSING),
        (order_with(payment(P.PENDING_CANCELLATION)), O.CANCELLATION_REQUESTED),
        (order_with(payment(P.AUTHORIZED, authorized=100), payment(P.FAILED, 2)), O.AUTHORIZED),
        (order_with(payment(P.AUTHORIZED, authorized=100), payment(P.CREATED, 2)), O.PROCESSING),
        (order_with(), O.PENDING),
        (order_with(payment(P.FAILED), split=True), O.PENDING),
        (order_with(payment(P.EXPIRED)), O.PENDING),
        (order_with(payment(P.EXPIRED), pending=False), O.FAILED),
        (order_with(payment(P.EXPIRED), payment(P.FAILED, 2)), O.FAILED),
        (order_with(payment(P.FAILED)), O.FAILED),
    ],
)
def test_the_status_of_an_order_follows_from_its_payments(order, status):
    assert order.status is status


LEADS_TO = {
    None: {P.PENDING_AUTHORIZATION, P.REQUIRES_ACTION, P.FAILED},
    NextAction.DEVICE_DATA: {
        P.REQUIRES_ACTION,
        P.PENDING_AUTHORIZATION,
        P.AUTHORIZED,
        P.FAILED,
        P.EXPIRED,
        P.CANCELLED,
    },
    NextAction.CHALLENGE: {P.AUTHORIZED, P.FAILED, P.EXPIRED, P.CANCELLED},
    NextAction.REDIRECT: {P.AUTHORIZED, P.FAILED, P.EXPIRED, P.CANCELLED},
    NextAction.DISPLAY_REFERENCE: {P.CAPTURED, P.PARTIALLY_CAPTURED, P.EXPIRED, P.CANCELLED},
}
"""The statuses after CREATED (None) or after each action of the payer. The payment table does not distinguish cards
from references."""


class Walk:
    """A random walk of an order's payments along the payment table. Asserts that each change of the order is legal."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.split = rng.random() < 0.5
        self.pending = self.split or rng.random() < 0.5
        self.closed = False
        self.payments: list[Payment] = []
        self.returns_to: dict[int, PaymentStatus] = {}
        self.status: OrderStatus | None = None
        if not self.pending:
            self.open_payment()
        self.check_status()

    @property
    def order(self) -> Order:
        return order_with(*self.payments, split=self.split, pending=self.pending, closed=self.closed)

    def check_status(self) -> None:
        status = self.order.status
        assert status is self.status or (self.status, status) in ORDER_EDGES, (self.status, status)
        self.status = status

    def step(self) -> bool:
        """Makes one random change. Returns False where no change is possible."""
        busy = self.payments_in(LIVE | {P.PENDING_REFUND, P.DISPUTED})
        held = self.payments_in(HELD)
        if busy:
            self.move(self.rng.choice(busy))
        elif self.closed or self.rng.random() < 0.1:
            late = self.payments_in({P.EXPIRED, P.CANCELLED})
            if not late or self.status is O.REFUNDED:
                return False
            self.move(late[0])
            self.closed = False
        elif self.status in {O.PENDING, O.FAILED, O.PARTIALLY_PAID} and self.rng.random() < 0.6:
            self.open_payment()
        elif held:
            self.move(self.rng.choice(held))
        elif self.status in {O.PENDING, O.PARTIALLY_PAID}:
            self.close()
        else:
            return False
        self.check_status()
        return True

    def payments_in(self, statuses) -> list[int]:
        return [n for n, each in enumerate(self.payments) if each.status in statuses]

    def open_payment(self) -> None:
        self.payments.append(payment(P.CREATED, len(self.payments) + 1))

    def close(self) -> None:
        self.closed = self.order.amount_paid == self.order.amount_refunded

    def move(self, n: int) -> None:
        before = self.payments[n]
        targets = {b for a, b in PAYMENT_EDGES if a == before.status}
        if before.status in {P.CREATED, P.REQUIRES_ACTION}:
            targets &= LEADS_TO[before.next_action]
        if before.status in {P.PENDING_REFUND, P.DISPUTED}:
            targets = {self.returns_to[n], P.PARTIALLY_REFUNDED, P.REFUNDED}
        target = self.rng.choice(sorted(targets))
        if target in {P.PENDING_REFUND, P.DISPUTED}:
            self.returns_to[n] = before.status
        self.payments[n] = self.after_move(before, target)
        if target is P.CANCELLED and not self.split:
            self.close()

    def after_move(self, before: Payment, target: PaymentStatus) -> Payment:
        """Returns the payment in its new status, with the money that this move changes."""
        rest = 100 - sum(each.captured - each.refunded for each in self.payments)
        left = before.captured - before.refunded
        if target is P.REQUIRES_ACTION:
            return replace(before, status=target, next_action=self.next_action(before))
        if target in {P.AUTHORIZED, P.PARTIALLY_AUTHORIZED} and not before.authorized:
            return replace(before, status=target, authorized=Decimal(100 if target is P.AUTHORIZED else 50))
        if target in {P.CAPTURED, P.PARTIALLY_CAPTURED} and not before.captured:
            return replace(before, status=target, captured=max(Decimal(1), rest if target is P.CAPTURED else rest // 2))
        if target is P.REFUNDED or (target is P.PARTIALLY_REFUNDED and left == 1):
            return replace(before, status=P.REFUNDED, refunded=before.captured)
        if target is P.PARTIALLY_REFUNDED and before.status in {P.PENDING_REFUND, P.DISPUTED}:
            return replace(before, status=target, refunded=before.refunded + 1)
        return replace(before, status=target)

    def next_action(self, before: Payment) -> NextAction:
        """Returns what the payment waits for: a reference is shown from CREATED, a card's payer acts later."""
        if before.status is P.CREATED:
            return NextAction.DISPLAY_REFERENCE
        if before.status is P.REQUIRES_ACTION:
            return NextAction.CHALLENGE
        return self.rng.choice([NextAction.DEVICE_DATA, NextAction.CHALLENGE, NextAction.REDIRECT])


def test_random_moves_of_payments_move_the_order_by_its_table():
    rng = random.Random(20260131)
    reached = set()
    for _ in range(3000):
        walk = Walk(rng)
        reached.add(walk.status)
        for _ in range(25):
            if not walk.step():
                break
            reached.add(walk.status)
    assert reached == set(OrderStatus)
