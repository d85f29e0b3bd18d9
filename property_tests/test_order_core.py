"""Any sequence of commands keeps an order's invariants: money adds up, moves are legal, nothing happens twice.

An `OrderUnderTest` sends commands to the deciders and folds the events. A `ReferenceModel` records the same events with
its own arithmetic, in fractions, and moves the order's status row by row of the contract's table. Both must agree after
every event.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.domain.builders import resubmit

from ledger.audit.invariants.orders import broken_order
from ledger.domain.fold import fold
from ledger.domain.money import plain
from ledger.domain.orders import commands, events
from ledger.domain.orders import processor_outcomes as outcomes
from ledger.domain.orders.capabilities import METHODS, Candidate
from ledger.domain.orders.decide.authorizations import decide_authorization_outcome
from ledger.domain.orders.decide.cancellation import decide_payer_erasure
from ledger.domain.orders.decide.payments import decide_charge, decide_create, decide_resubmission
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.terms import (
    CaptureMethod,
    CardSummary,
    MethodType,
    OrderTerms,
    PaymentMethod,
    SurchargePolicy,
)
from ledger.domain.rejections import AmountExceedsPending, IdempotencyMismatch, OrderNotPayable, Rejected
from ledger.journal.codec import CODEC

PROFILE = settings(deadline=None, derandomize=False)
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
CARD = PaymentMethod(
    method_id=uuid.UUID(int=9),
    type=MethodType.CARD,
    card=CardSummary(
        bin="424242", last4="4242", brand="VISA", type=None, country=None, issuer_bank=None, exp_month=1, exp_year=2030
    ),
)


class OrderSpec(Struct, frozen=True):
    """The terms of the order under test."""

    amount: Decimal
    split: bool
    pays_at_once: bool
    manual: bool
    rate: Decimal | None

    @property
    def quantum(self) -> Fraction:
        return Fraction(1) if self.amount == int(self.amount) else Fraction(1, 100)


class Charge(Struct, frozen=True):
    """Pays `quarters` of the unpaid amount, or all of it for None; 5 quarters are too much."""

    quarters: int | None
    name: str | None


class RecordOutcome(Struct, frozen=True):
    """Records an outcome of one of the payments: the newest for 0. Approvals are for `quarters` of the amount."""

    back: int
    word: str
    quarters: int


class Resubmit(Struct, frozen=True):
    """Sends the order's external id again."""

    with_method: bool
    other_amount: bool


class Erase(Struct, frozen=True):
    """Erases the customer."""


Step = Charge | RecordOutcome | Resubmit | Erase

WORDS = ["approved", "approved", "approved", "authorised", "declined", "unanswered", "not sent", "not found"]
whole = st.integers(1, 2_000_000).map(Decimal)
cents = st.integers(1, 2_000_000).map(lambda n: Decimal(n) / 100)
terms = st.builds(
    OrderSpec,
    amount=st.one_of(whole, cents, st.just(Decimal(999_999_999_999))),
    split=st.booleans(),
    pays_at_once=st.booleans(),
    manual=st.integers(0, 3).map(lambda n: n == 0),
    rate=st.sampled_from([None, "0.01", "3", "3.5", "4.176", "12.99", "49.99"]).map(
        lambda r: None if r is None else Decimal(r)
    ),
)
outcomes_drawn = st.builds(
    RecordOutcome,
    back=st.sampled_from([0, 0, 0, 1, 2]),
    word=st.sampled_from(WORDS),
    quarters=st.sampled_from([4, 4, 4, 1, 2, 3]),
)
charges = st.builds(
    Charge, quarters=st.sampled_from([None, 1, 2, 3, 4, 5]), name=st.sampled_from([None, None, "a", "b"])
)
resubmissions = st.builds(Resubmit, with_method=st.booleans(), other_amount=st.integers(0, 9).map(lambda n: n == 0))
erasures = st.builds(Erase)
steps = st.lists(st.one_of(outcomes_drawn, outcomes_drawn, charges, charges, resubmissions, erasures), max_size=14)


def half_up(amount: Fraction, quantum: Fraction) -> Fraction:
    return floor(amount / quantum + Fraction(1, 2)) * quantum


class PaymentRecord:
    """What the reference model records of one payment."""

    def __init__(self, event: events.PaymentStarted) -> None:
        self.subtotal, self.surcharge = Fraction(event.subtotal), Fraction(event.surcharge)
        self.granted = self.captured = Fraction(0)
        self.live = True

    @property
    def gross(self) -> Fraction:
        return self.subtotal + self.surcharge

    def subtotal_of(self, amount: Fraction, quantum: Fraction) -> Fraction:
        if amount >= self.gross:
            return amount - self.surcharge
        return half_up(amount * self.subtotal / self.gross, quantum)


class ReferenceModel:
    """Records the events with other arithmetic, and follows the rows of the order's table."""

    def __init__(self, spec: OrderSpec) -> None:
        self.terms = spec
        self.split = spec.split and not spec.pays_at_once
        self.subtotal = Fraction(spec.amount)
        self.payments: dict[uuid.UUID, PaymentRecord] = {}
        self.status: OrderStatus | None = None
        self.late = False
        self.amount_when_covered: Decimal | None = None

    @property
    def covered(self) -> Fraction:
        return sum(
            (p.subtotal_of(p.captured, self.terms.quantum) for p in self.payments.values() if p.captured), Fraction(0)
        )

    @property
    def captured_surcharge(self) -> Fraction:
        return sum((p.captured for p in self.payments.values()), Fraction(0)) - self.covered

    @property
    def held_or_reserved(self) -> Fraction:
        """The parts of the subtotal that are held or can still be captured."""
        open_ = [p for p in self.payments.values() if p.live]
        return self.covered + sum((p.subtotal_of(p.granted or p.gross, self.terms.quantum) for p in open_), Fraction(0))

    def record(self, event: Any) -> None:
        money_held = any(p.captured for p in self.payments.values())
        match event:
            case events.OrderCreated():
                self.status = OrderStatus.PENDING
            case events.PaymentStarted():
                self.payments[event.payment_id] = PaymentRecord(event)
                self.status = self.status if money_held else OrderStatus.PROCESSING
            case events.PaymentAuthorized():
                payment = self.payments[event.payment_id]
                payment.granted = Fraction(event.amount)
                in_full = (
                    OrderStatus.AUTHORIZED if payment.granted >= payment.gross else OrderStatus.PARTIALLY_AUTHORIZED
                )
                self.status = self.status if money_held else in_full
            case events.PaymentCaptured() | events.LateCaptureReported():
                payment = self.payments[event.payment_id]
                self.late = self.late or not payment.live
                payment.captured += Fraction(event.amount)
                payment.live = False
                self.status = OrderStatus.COMPLETED if self.covered >= self.subtotal else OrderStatus.PARTIALLY_PAID
            case events.PaymentDeclined() | events.AuthorizationAbandoned():
                self.payments[event.payment_id].live = False
                nothing = OrderStatus.PENDING if self.split else OrderStatus.FAILED
                self.status = self.status if money_held else nothing

    def check(self, order: Order) -> None:
        assert order.status is self.status  # I6
        net = order.amount_paid - order.amount_refunded
        assert order.overpaid_amount == max(Decimal(0), net - order.amount)
        assert order.amount_paid == sum(p.captured for p in self.payments.values())  # I3
        assert order.unpaid_subtotal == max(Fraction(0), self.subtotal - self.covered)
        for payment in order.payments:
            assert payment.captured == self.payments[payment.payment_id].captured
        self._check_surcharge(order)
        if not self.late:
            assert order.overpaid_amount == 0
            assert self.held_or_reserved <= self.subtotal

    def _check_surcharge(self, order: Order) -> None:
        if self.terms.rate is None:
            assert order.surcharge_amount is None
        elif self.split:
            assert order.surcharge_amount == self.captured_surcharge
            assert order.amount_pending == order.unpaid_subtotal  # I5
        elif self.payments and not self.covered:
            assert order.surcharge_amount == list(self.payments.values())[-1].surcharge
        elif order.status is OrderStatus.COMPLETED:
            # Further money does not raise the amount of a paid order. A part that grows late may round otherwise.
            self.amount_when_covered = self.amount_when_covered or order.amount
            assert abs(order.amount - self.amount_when_covered) <= len(self.payments) * self.terms.quantum
        amounts = [order.amount, order.amount_pending, order.surcharge_amount or Decimal(0), order.amount_paid]
        assert all(Fraction(amount) % self.terms.quantum == 0 for amount in amounts)


class OrderUnderTest:
    """One order, its log, and the commands sent to it, each twice."""

    def __init__(self, spec: OrderSpec) -> None:
        self.terms = spec
        self.log: list[Any] = []
        self.order: Order | None = None
        self.reference = ReferenceModel(spec)
        self.seen: set[Any] = set()
        self.ids = iter(range(1, 100))
        self._send(decide_create_or_resubmit, self._create(with_payment=spec.pays_at_once))

    def carry_out(self, step: Step) -> None:
        assert self.order is not None
        match step:
            case Charge():
                self._charge(self.order, step)
            case RecordOutcome() if self.order.payments:
                place = max(0, len(self.order.payments) - 1 - step.back)
                self._record_outcome(self.order.payments[place].payment_id, step)
            case Erase():
                self._send(decide_payer_erasure, commands.ErasePayer(at=self._now))
            case Resubmit():
                amount = self.terms.amount + 1 if step.other_amount else self.terms.amount
                self._send(decide_create_or_resubmit, self._create(with_payment=step.with_method, amount=amount))

    def _charge(self, order: Order, step: Charge) -> None:
        amount = None
        if step.quarters is not None and order.terms.allow_partials:
            amount = floor_to(order.unpaid_subtotal * step.quarters / 4, order.quantum)
            amount = max(order.quantum, amount)
        free = self.reference.subtotal - self.reference.held_or_reserved
        wanted = order.unpaid_subtotal if amount is None else amount
        repeated = step.name is not None and order.payment_by_external_id(step.name) is not None
        sent = self._send(decide_charge, commands.ChargeOrder(payment=self._payment(amount, step.name), at=self._now))
        if not repeated and order.status in {OrderStatus.PENDING, OrderStatus.PARTIALLY_PAID, OrderStatus.FAILED}:
            assert (sent == []) is (wanted > free)

    def _record_outcome(self, payment_id: uuid.UUID, step: RecordOutcome) -> None:
        assert self.order is not None
        payment = self.order.payment(payment_id)
        asked = payment.requested.amount if payment.requested is not None else payment.amount
        quarter = max(self.order.quantum, floor_to(asked * step.quarters / 4, self.order.quantum))
        outcome: outcomes.AuthorizationOutcome
        match step.word:
            case "approved" | "authorised":
                outcome = outcomes.Approved(
                    authorized=quarter,
                    captured=quarter if step.word == "approved" else Decimal(0),
                    processor_reference=f"ref-{payment_id.int}",
                )
            case "declined":
                outcome = outcomes.Declined(code="INSUFFICIENT_FUNDS")
            case "unanswered":
                outcome = outcomes.Unanswered(reason="no answer")
            case "not sent":
                outcome = outcomes.NotSent()
            case _:
                outcome = outcomes.NotFound()
        command = commands.RecordAuthorizationOutcome(payment_id=payment_id, outcome=outcome, at=self._now)
        captured_before = payment.captured
        self._send(decide_authorization_outcome, command)
        if isinstance(outcome, outcomes.Approved):  # captured money is always recorded
            assert self.order.payment(payment_id).captured == max(captured_before, outcome.captured)

    def _send(self, decide: Callable[[Any, Any], list[Any]], command: Any) -> list[Any]:
        before = self.order
        try:
            decided = decide(before, command)
        except Rejected as refusal:
            self.seen.add(type(refusal))
            with pytest.raises(type(refusal)):
                decide(before, command)
            return []
        for event in decided:
            self._apply(event)
        assert decide(self.order, command) == []
        return decided

    def _apply(self, event: Any) -> None:
        before = self.order
        after = evolve(before, event)
        self.reference.record(event)
        assert list(broken_order(before, event, after)) == []
        self.reference.check(after)
        self.log.append(event)
        self.seen |= {type(event), after.status, *(p.status for p in after.payments)}
        self.order = after

    @property
    def _now(self) -> datetime:
        return START + timedelta(seconds=len(self.log))

    def _payment(self, amount: Decimal | None = None, name: str | None = None) -> commands.NewPayment:
        n = next(self.ids)
        return commands.NewPayment(
            payment_id=uuid.UUID(int=n),
            method=CARD,
            candidates=(Candidate(account="sandbox", processor="sandbox", methods=METHODS),),
            idempotency_key=f"key-{n}",
            deadline_at=self._now + timedelta(seconds=30),
            amount=amount,
            external_id=name,
        )

    def _create(self, *, with_payment: bool, amount: Decimal | None = None) -> commands.CreateOrder:
        policy = None
        if self.terms.rate is not None:
            policy = SurchargePolicy(rate=self.terms.rate, methods=(MethodType.CARD,))
        return commands.CreateOrder(
            order_id=uuid.UUID(int=1),
            order_number="PO0000000001",
            customer_id=uuid.UUID(int=2),
            at=self._now,
            terms=OrderTerms(
                external_id="pedido",
                amount=self.terms.amount if amount is None else amount,
                currency="MXN",
                allow_partials=self.terms.split,
                capture_method=CaptureMethod.MANUAL if self.terms.manual else CaptureMethod.AUTOMATIC,
            ),
            payment=self._payment() if with_payment else None,
            surcharge=policy,
        )


def decide_create_or_resubmit(order: Order | None, command: commands.CreateOrder) -> list[Any]:
    return decide_create(None, command) if order is None else decide_resubmission(order, resubmit(command))


def floor_to(amount: Decimal, quantum: Decimal) -> Decimal:
    return amount // quantum * quantum


def run_steps(spec: OrderSpec, commands_drawn: list[Step]) -> OrderUnderTest:
    order_under_test = OrderUnderTest(spec)
    for step in commands_drawn:
        order_under_test.carry_out(step)
    return order_under_test


@pytest.mark.parametrize("examples", [200, pytest.param(1500, marks=pytest.mark.long)])
def test_any_sequence_of_commands_keeps_the_invariants_of_an_order(examples):
    @settings(PROFILE, max_examples=examples)
    @given(terms, steps)
    def holds(spec, commands_drawn):
        order_under_test = run_steps(spec, commands_drawn)
        assert fold(evolve, None, order_under_test.log) == order_under_test.order

    holds()


@settings(PROFILE, max_examples=300)
@given(terms, steps)
def test_a_stored_and_loaded_order_equals_the_decided_one(spec, commands_drawn):
    order_under_test = run_steps(spec, commands_drawn)
    loaded: Order | None = None
    for event in order_under_test.log:
        encoded = CODEC.encode(event)
        loaded = evolve(loaded, CODEC.decode(encoded.topic.decode(), encoded.data))
        amounts = [value for field in event.__struct_fields__ if isinstance(value := getattr(event, field), Decimal)]
        assert all(str(amount) == plain(amount) for amount in amounts)
    assert loaded == order_under_test.order


EXPECTED = [
    events.OrderCreated,
    events.PaymentStarted,
    events.AuthorizationRequested,
    events.PaymentAuthorized,
    events.CaptureScheduled,
    events.CaptureRequested,
    events.PaymentCaptured,
    events.PaymentDeclined,
    events.AuthorizationOutcomeUnknown,
    events.AuthorizationAbandoned,
    events.LateCaptureReported,
    events.PayerForgotten,
    OrderStatus.PENDING,
    OrderStatus.PROCESSING,
    OrderStatus.AUTHORIZED,
    OrderStatus.PARTIALLY_AUTHORIZED,
    OrderStatus.PARTIALLY_PAID,
    OrderStatus.COMPLETED,
    OrderStatus.FAILED,
    PaymentStatus.PARTIALLY_CAPTURED,
    OrderNotPayable,
    AmountExceedsPending,
    IdempotencyMismatch,
]


@pytest.mark.parametrize("thing", EXPECTED, ids=lambda thing: getattr(thing, "__name__", str(thing)))
def test_the_drawn_commands_reach_every_event_status_and_rejection(thing):
    find(
        st.tuples(terms, steps),
        lambda example: thing in run_steps(*example).seen,
        settings=settings(
            max_examples=3000,
            deadline=None,
            database=None,
            phases=[p for p in settings().phases if p.name == "generate"],
        ),
    )
