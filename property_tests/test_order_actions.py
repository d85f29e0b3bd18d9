"""Any sequence of commands and outcomes of an order keeps its invariants: its money adds up and its moves are legal.

Every command and every outcome is drawn, plausible or not: outcomes of abandoned calls, deposits on ended references,
refunds while others are in flight. A refused command must be refused twice, an accepted one must give no events the
second time.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw
from tests.domain.scenario import given as given_events
from tests.domain.transition_rows import NO_ANSWER_ROWS, OLDER_PART_ROWS, ORDER_ROWS, PAYMENT_ROWS, REPORTED_ROWS, Row

from ledger.audit.invariants.orders import broken_order
from ledger.domain.fold import fold
from ledger.domain.orders import commands as c
from ledger.domain.orders import events
from ledger.domain.orders import processor_outcomes as outcomes
from ledger.domain.orders.capabilities import METHODS, Candidate
from ledger.domain.orders.commands import DisputeStage, SettlementStage
from ledger.domain.orders.decide.authentication import decide_device_data, decide_validation
from ledger.domain.orders.decide.cancellation import decide_cancellation, decide_payment_cancellation
from ledger.domain.orders.decide.captures import decide_capture
from ledger.domain.orders.decide.changes import decide_change
from ledger.domain.orders.decide.disputes_and_settlement import decide_dispute, decide_settlement
from ledger.domain.orders.decide.outcomes import decide_outcome, outcome_command
from ledger.domain.orders.decide.overpayments import decide_overpayment_refund
from ledger.domain.orders.decide.payments import decide_charge, decide_create, decide_payment, decide_resubmission
from ledger.domain.orders.decide.references import decide_deposit
from ledger.domain.orders.decide.refunds import decide_refund, decide_refund_reversal
from ledger.domain.orders.decide.releases import decide_release_of_rest
from ledger.domain.orders.decide.unanswered_calls import can_be_repeated, decide_repetition
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.payment import EntryAction, Payment
from ledger.domain.orders.state import LIVE, Order
from ledger.domain.orders.statuses import (
    NextAction,
    OrderStatus,
    PaymentStatus,
)
from ledger.domain.orders.terms import (
    CaptureMethod,
    MethodType,
    OrderTerms,
    PaymentMethod,
    ReminderPolicy,
    SurchargePolicy,
)
from ledger.domain.orders.timers import decide_timer, timer_key, timers_of
from ledger.domain.rejections import Rejected
from ledger.journal.codec import CODEC

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NO_ANSWER: list[Any] = [outcomes.Unanswered(reason="no answer"), outcomes.NotSent(), outcomes.NotFound()]
CARD, SPEI = MethodType.CARD, MethodType.SPEI
REMINDERS = ReminderPolicy(days=(1,), time_zone="UTC")

Draw = Callable[[Any], Any]


class OrderUnderTest:
    """One order, and the commands and outcomes that Hypothesis draws for it."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.order: Order | None = None
        self.log: list[Any] = []
        self.now = START
        self.reached: set[Any] = set()
        self.calls: list[Any] = []
        self.ids = iter(range(1, 10_000))
        self.gone_back: defaultdict[uuid.UUID, Decimal] = defaultdict(Decimal)
        """What went back of each payment's money."""
        self.given_twice: defaultdict[uuid.UUID, Decimal] = defaultdict(Decimal)
        """What the processor reported as refunded beyond what it had captured: only after a late refund."""
        split, at_once = draw(st.booleans()), draw(st.booleans())
        rate = draw(st.sampled_from([None, Decimal("3.5"), Decimal(12)]))
        policy = None if rate is None else SurchargePolicy(rate=rate, methods=(CARD,))
        create = c.CreateOrder(
            order_id=uuid.UUID(int=1),
            order_number="PO0000000001",
            customer_id=uuid.UUID(int=2),
            at=self.now,
            terms=OrderTerms(
                external_id="pedido",
                amount=draw(st.sampled_from([Decimal(10_000), Decimal(7), Decimal("333.33")])),
                currency="MXN",
                allow_partials=split,
                capture_method=draw(st.sampled_from(CaptureMethod)),
            ),
            payment=self._payment(None) if at_once else None,
            surcharge=policy,
        )
        self._apply(decide_create(None, create))

    @property
    def is_split(self) -> bool:
        return self.order is not None and self.order.terms.allow_partials

    def step(self) -> None:
        assert self.order is not None
        names = ["outcome"] * 6 + ["pay"] * 3 + ["due"] * 2 + ["late"]
        names += ["refund", "refund", "cancel", "capture", "device", "validate", "void", "deposit", "deposit", "repeat"]
        names += ["dispute", "settlement", "wait", "overpayment", "release", "change", "reversal"]
        getattr(self, "_" + self.draw(st.sampled_from(names)))(self.order)

    def resubmit(self) -> None:
        """Sends the order's creation once more, with a new payment."""
        assert self.order is not None
        terms, status, count = self.order.terms, self.order.status, len(self.order.payments)
        repeated = OrderTerms(external_id=terms.external_id, amount=terms.amount, currency=terms.currency)
        self._send(decide_resubmission, c.ResubmitOrder(terms=repeated, at=self.now, payment=self._payment(None)))
        opened = len(self.order.payments) - count
        assert opened == (status is OrderStatus.FAILED)

    def _outcome(self, order: Order) -> None:
        intents = [p.intent for p in order.payments if p.intent is not None]
        if intents:
            intent = self.draw(st.sampled_from(intents))
            self.calls.append(intent)
            self._send(decide_outcome, outcome_command(intent, self._answer(intent), self.now))

    def _late(self, order: Order) -> None:  # noqa: ARG002 - every step's shape
        """Records an outcome of a call that has one already, or was abandoned."""
        if self.calls:
            intent = self.draw(st.sampled_from(self.calls))
            self._send(decide_outcome, outcome_command(intent, self._answer(intent), self.now))

    def _answer(self, intent: Any) -> Any:
        amount = max(self._quantum, intent.amount * self.draw(st.sampled_from([4, 4, 4, 2])) / 4 // 1)
        approved = outcomes.Approved(
            authorized=amount, captured=amount if intent.capture else Decimal(0), processor_reference="ref"
        )
        step = self.draw(st.sampled_from([NextAction.DEVICE_DATA, NextAction.CHALLENGE, NextAction.REDIRECT]))
        names = [None] if step is NextAction.DEVICE_DATA else [None, "ref"]
        session = outcomes.ActionRequired(
            next_action=step,
            authentication_transaction_id=f"txn-{intent.idempotency_key}",
            reference_id="ref",
            processor_reference=self.draw(st.sampled_from(names)),  # with one, the payer authorises the payment there
        )
        answers: dict[EntryAction, list[Any]] = {
            EntryAction.AUTHORIZATION: [approved, approved, session, session, outcomes.Declined(code="X")],
            EntryAction.DEVICE_DATA: [approved, session, outcomes.Declined(code="X")],
            EntryAction.AUTHENTICATION: [approved, approved, session, outcomes.Declined(code="AUTHENTICATION_FAILED")],
            EntryAction.CAPTURE: [
                outcomes.Captured(amount=amount, processor_reference="ref"),
                outcomes.Captured(amount=intent.amount, processor_reference="ref"),
                outcomes.Captured(amount=amount, processor_reference="ref", released=intent.amount - amount or None),
                outcomes.CaptureRefused(code="X", retryable=self.draw(st.booleans())),
            ],
            EntryAction.CANCELLATION: [outcomes.Voided(processor_reference="ref"), outcomes.VoidRefused(code="X")],
            EntryAction.RELEASE: [
                outcomes.Released(amount=intent.amount),
                outcomes.Released(amount=Decimal(0)),
                outcomes.ReleaseRefused(code="X"),
            ],
            EntryAction.REFUND: [
                outcomes.Refunded(amount=intent.amount, processor_reference="ref"),
                outcomes.Refunded(amount=intent.amount, processor_reference="ref"),
                outcomes.RefundPending(processor_reference="ref"),
                outcomes.RefundRefused(code="X"),
                outcomes.RefundRefused(code="X", returned=min(self._quantum, intent.amount - self._quantum)),
            ],
            EntryAction.REFERENCE: [
                outcomes.ReferenceIssued(
                    reference="1", processor_reference="ref", expires_at=self.now + timedelta(hours=72)
                ),
                outcomes.ReferenceIssued(
                    reference="1", processor_reference="ref", expires_at=self.now + timedelta(hours=72)
                ),
                outcomes.ReferenceRefused(code="X"),
            ],
        }
        if intent.ends is not None:
            taken = self.draw(st.sampled_from([Decimal(0), amount]))
            quicker = outcomes.Approved(authorized=amount, captured=taken, processor_reference="ref")
            voided, failed = answers[EntryAction.CANCELLATION][0], outcomes.Declined(code="AUTHENTICATION_FAILED")
            answers[EntryAction.CANCELLATION] = [voided, voided, quicker, failed]
        postponed = [outcomes.NotSent(until=self.now)] if can_be_repeated(self.order, intent) else []
        return self.draw(st.sampled_from(answers[intent.action] * 2 + NO_ANSWER + postponed))

    def _repeat(self, order: Order) -> None:
        """Sends an open call again, as a worker that has read it now or before its latest repetition."""
        intents = [p.intent for p in order.payments if p.intent is not None]
        if intents:
            intent = self.draw(st.sampled_from(intents))
            after = self.draw(st.sampled_from([intent.deadline_at, intent.first_deadline_at or intent.deadline_at]))
            self.now += timedelta(seconds=1)
            command = c.RepeatCall(
                payment_id=intent.payment_id,
                idempotency_key=intent.idempotency_key,
                after=after,
                deadline_at=self.now,
                at=self.now,
            )
            self._send(decide_repetition, command)

    def _pay(self, order: Order) -> None:
        part = None
        if self.is_split:
            part = self.draw(st.sampled_from([None, 1, 2, 4]))
        amount = (
            None if part is None else max(order.quantum, order.unpaid_subtotal / part // order.quantum * order.quantum)
        )
        payment = self._payment(amount)
        if self.draw(st.booleans()):
            self._send(decide_payment, c.AddPayment(payment=payment, at=self.now))
        else:
            self._send(decide_charge, c.ChargeOrder(payment=payment, at=self.now))

    def _refund(self, order: Order) -> None:
        held = max(order.refundable, order.quantum)
        whole = self.draw(st.sampled_from([1, 1, 2, 3, 10]))
        amount = max(order.quantum, held / whole // order.quantum * order.quantum)
        if self.draw(st.integers(0, 5)) == 0:
            amount += order.quantum
        named = self.draw(st.sampled_from([None, *(p.payment_id for p in order.payments)]))
        refund = c.RefundOrder(refund_id=self._id(), amount=amount, deadline_at=self.now, at=self.now, payment_id=named)
        self._send(decide_refund, refund)
        for refund_ in order.refunds:  # a message about an earlier refund
            for part in refund_.parts:
                if self.draw(st.booleans()):
                    outcome = self.draw(
                        st.sampled_from(
                            [
                                outcomes.Refunded(amount=part.amount, processor_reference="ref"),
                                outcomes.RefundRefused(code="X"),
                                outcomes.RefundRefused(
                                    code="X",
                                    returned=min(self._quantum, part.amount - self._quantum),
                                    is_final=self.draw(st.booleans()),
                                ),
                            ]
                        )
                    )
                    command = c.RecordRefundOutcome(
                        refund_id=refund_.refund_id, payment_id=part.payment_id, outcome=outcome, at=self.now
                    )
                    self._send(decide_outcome, command)

    def _reversal(self, order: Order) -> None:
        """Reports that a part of a refund came back."""
        parts = [(refund.refund_id, part) for refund in order.refunds for part in refund.parts]
        if parts:
            refund_id, part = self.draw(st.sampled_from(parts))
            returned = self.draw(st.sampled_from([Decimal(0), Decimal(0), part.amount - order.quantum]))
            command = c.ReverseRefund(
                refund_id=refund_id, payment_id=part.payment_id, code="X", at=self.now, returned=returned
            )
            self._send(decide_refund_reversal, command)

    def _overpayment(self, order: Order) -> None:  # noqa: ARG002 - every step's shape
        refund = c.RefundOverpayment(refund_id=self._id(), deadline_at=self.now, at=self.now)
        self._send(decide_overpayment_refund, refund)

    def _cancel(self, order: Order) -> None:  # noqa: ARG002 - every step's shape
        cancel = c.CancelOrder(
            cancellation_id=self._id(),
            refund_id=self._id(),
            deadline_at=self.now,
            at=self.now,
            refund_captured=self.draw(st.booleans()),
        )
        self._send(decide_cancellation, cancel)

    def _capture(self, order: Order) -> None:
        amount = self.draw(st.sampled_from([None, None, order.quantum, order.quantum * 5]))
        final = self.draw(st.booleans())
        capture = c.CapturePayment(
            idempotency_key=self._key(), deadline_at=self.now, at=self.now, amount=amount, final=final
        )
        self._send(decide_capture, capture)

    def _release(self, order: Order) -> None:
        named = self.draw(st.sampled_from([None, *(p.payment_id for p in order.payments)]))
        release = c.ReleaseRest(idempotency_key=self._key(), deadline_at=self.now, at=self.now, payment_id=named)
        self._send(decide_release_of_rest, release)

    def _change(self, order: Order) -> None:
        """Changes terms; the amount of an order whose payment has begun is refused."""
        amount = self.draw(st.sampled_from([UNSET, order.terms.amount, order.terms.amount + 1]))
        due_date = self.draw(st.sampled_from([UNSET, None, self.now]))
        changes = c.OrderChanges(
            amount=amount,
            description=self.draw(st.sampled_from([UNSET, None, "otro"])),
            metadata=self.draw(st.sampled_from([UNSET, None, Raw(b'{"a":1}'), Raw(b'{"a":null,"b":[]}')])),
            due_date=due_date,
        )
        before, has_payments = order.terms.amount, bool(order.payments)
        self._send(decide_change, c.ChangeOrder(changes=changes, reminders=REMINDERS, at=self.now))
        assert self.order is not None
        assert self.order.terms.amount == before or not has_payments

    def _device(self, order: Order) -> None:  # noqa: ARG002 - every step's shape
        command = c.SubmitDeviceData(
            idempotency_key=self._key(),
            deadline_at=self.now,
            at=self.now,
            capture_delay_s=self.draw(st.sampled_from([0, 5])),
        )
        self._send(decide_device_data, command)

    def _validate(self, order: Order) -> None:  # noqa: ARG002 - every step's shape
        command = c.ValidateAuthentication(
            transaction_id="fail",
            idempotency_key=self._key(),
            deadline_at=self.now,
            at=self.now,
            simulated=frozenset({"sandbox"}),
        )
        self._send(decide_validation, command)

    def _void(self, order: Order) -> None:
        if order.payments:
            payment = self._payment_of(order)
            command = c.CancelPayment(
                payment_id=payment.payment_id, idempotency_key=self._key(), deadline_at=self.now, at=self.now
            )
            self._send(decide_payment_cancellation, command)

    def _deposit(self, order: Order) -> None:
        referred = [p for p in order.payments if p.reference is not None]
        if referred:
            payment = self.draw(st.sampled_from(referred))
            amount = max(order.quantum, payment.amount * self.draw(st.sampled_from([1, 2, 2, 3])) / 2 // 1)
            command = c.RecordDeposit(
                payment_id=payment.payment_id,
                deposit_id=self._key(),
                amount=amount,
                processor_reference="ref",
                at=self.now,
            )
            self._send(decide_deposit, command)

    def _dispute(self, order: Order) -> None:
        if order.payments:
            payment = self._payment_of(order)
            name = payment.dispute.dispute_id if payment.dispute else self._key()
            amount = self.draw(st.sampled_from([None, order.quantum, payment.amount]))
            command = c.RecordDispute(
                payment_id=payment.payment_id,
                dispute_id=name,
                stage=self.draw(st.sampled_from(DisputeStage)),
                at=self.now,
                amount=amount,
            )
            self._send(decide_dispute, command)

    def _settlement(self, order: Order) -> None:
        if order.payments:
            payment = self._payment_of(order)
            command = c.RecordSettlement(
                payment_id=payment.payment_id,
                batch_id=payment.batch.batch_id if payment.batch and self.draw(st.booleans()) else self._key(),
                stage=self.draw(st.sampled_from(SettlementStage)),
                at=self.now,
            )
            self._send(decide_settlement, command)

    def _wait(self, order: Order) -> None:  # noqa: ARG002 - every step's shape
        self.now += self.draw(st.sampled_from([timedelta(seconds=6), timedelta(minutes=16), timedelta(days=4)]))

    def _due(self, order: Order) -> None:
        """Handles timers when they are due or too early, each twice with the same key."""
        for timer in timers_of(order):
            if self.order is not None and self.draw(st.booleans()):
                if self.draw(st.booleans()):
                    self.now = max(self.now, timer.at)
                key, at = timer_key(order, timer), self.now
                self._send(lambda o, timer: decide_timer(o, timer, key, at, at), timer)  # noqa: B023 - sent at once

    def _payment_of(self, order: Order) -> Payment:
        return self.draw(st.sampled_from(order.payments))

    def _payment(self, amount: Decimal | None) -> c.NewPayment:
        kind = self.draw(st.sampled_from([CARD, CARD, SPEI]))
        payment_id = self._id()
        return c.NewPayment(
            payment_id=payment_id,
            method=PaymentMethod(method_id=uuid.UUID(int=9), type=kind),
            candidates=(Candidate(account="sandbox", processor="sandbox", methods=METHODS),),
            idempotency_key=str(payment_id),
            deadline_at=self.now,
            amount=amount,
        )

    def _id(self) -> uuid.UUID:
        return uuid.UUID(int=next(self.ids))

    def _key(self) -> str:
        return f"key-{next(self.ids)}"

    @property
    def _quantum(self) -> Decimal:
        return Decimal(1) if self.order is None else self.order.quantum

    def _send(self, decide: Callable[[Any, Any], list[Any]], command: Any) -> None:
        before = self.order
        try:
            decided = decide(before, command)
        except Rejected as refusal:
            self.reached.add(type(refusal))
            with pytest.raises(type(refusal)):
                decide(before, command)
            return
        self._apply(decided)
        if decided:
            assert decide(self.order, command) == [], command

    def _apply(self, decided: list[Any]) -> None:
        for event in decided:
            before = self.order
            after = evolve(before, event)
            assert list(broken_order(before, event, after)) == []
            if isinstance(event, events.PaymentRefunded | events.LateRefundReported | events.DisputeLost):
                held = before.payment(event.payment_id)
                counted = min(event.amount, held.captured - held.refunded)
                self.gone_back[event.payment_id] += counted
                self.given_twice[event.payment_id] += event.amount - counted
            if isinstance(event, events.RefundReversed):
                self._come_back(before.payment(event.payment_id), event.amount)
            self.log.append(event)
            self.order = after
            self.reached |= {type(event), after.status, *(p.status for p in after.payments)}
            self._check(after)

    def _come_back(self, payment: Payment, amount: Decimal) -> None:
        """Counts money that came back: what was given beyond the captured money first."""
        one = payment.payment_id
        left = self.gone_back[one] + self.given_twice[one] - amount
        self.gone_back[one] = min(left, payment.captured)
        self.given_twice[one] = left - self.gone_back[one]

    def _check(self, order: Order) -> None:
        given_twice = sum(self.given_twice.values())
        assert order.amount_refunded == sum(self.gone_back.values())  # I3
        for payment in order.payments:
            assert 0 <= payment.charged_back <= payment.refunded
        given = sum(part.amount for r in order.refunds for part in r.parts if part.status.value == "SUCCEEDED")
        charged_back = sum(p.charged_back for p in order.payments)
        assert given == order.amount_refunded - charged_back + given_twice
        assert not given_twice or any(type(event) is events.LateRefundReported for event in self.log)


@pytest.mark.parametrize("examples", [100, pytest.param(600, marks=pytest.mark.long)])
def test_any_sequence_of_commands_and_outcomes_keeps_the_invariants_of_an_order(examples):
    @settings(max_examples=examples, deadline=None)
    @given(st.data())
    def holds(data):
        order_under_test = OrderUnderTest(data.draw)
        for _ in range(data.draw(st.integers(5, 30))):
            order_under_test.step()
        encoded = [CODEC.encode(event) for event in order_under_test.log]
        loaded = fold(evolve, None, (CODEC.decode(each.topic.decode(), each.data) for each in encoded))
        assert loaded == order_under_test.order

    holds()


def reached_by(history: Sequence[Any]) -> Iterator[Any]:
    """Yields the types of a history's events, and the statuses of the order and its payments after each."""
    order: Order | None = None
    for event in history:
        order = evolve(order, event)
        yield from (type(event), order.status, *(payment.status for payment in order.payments))


def history_of(row: Row) -> list[Any]:
    """Returns the events of a row of the tables, with those that follow from its command."""
    history, command = row[4:]
    return [*history, *given_events(*history).when(command).then_events()]


def test_the_rows_of_the_tables_reach_every_event_and_status() -> None:
    rows = [*PAYMENT_ROWS, *ORDER_ROWS, *OLDER_PART_ROWS, *REPORTED_ROWS, *NO_ANSWER_ROWS]
    seen = {thing for row in rows for thing in reached_by(history_of(row))}
    assert set(ALL_EVENTS_AND_STATUSES) - seen == set()


@pytest.mark.long
def test_random_sequences_reach_every_event_and_status() -> None:
    """The property above is worth as much as its sequences: in these many, every event and every status occurs."""
    rng, seen = Random(7), set[Any]()
    for _ in range(RUNS_MAX):
        order_under_test = OrderUnderTest(partial(draw_from, rng))
        for _ in range(rng.randint(10, 45)):
            order_under_test.step()
        seen |= order_under_test.reached
        if seen >= set(ALL_EVENTS_AND_STATUSES):
            return
    assert set(ALL_EVENTS_AND_STATUSES) - seen == set()


def draw_from(rng: Random, strategy: Any) -> Any:
    """Returns a random example of a strategy, without Hypothesis' bookkeeping: thirty times as fast."""
    strategy = getattr(strategy, "wrapped_strategy", strategy)
    if hasattr(strategy, "elements"):
        return rng.choice(list(strategy.elements))
    if hasattr(strategy, "start"):
        return rng.randint(strategy.start, strategy.end)
    return rng.random() < 0.5


OF_INVOICES = get_args(events.InvoiceEvent)
"""property_tests/test_invoices.py moves an order with electronic invoices."""

OF_REMINDERS = get_args(events.ReminderEvent)
"""They change no status and no amount; tests/domain/test_reminders.py reaches each."""

OF_DESTINATIONS = (events.RefundDestinationChanged, events.PayoutRequested)
"""tests/domain/test_payouts.py names accounts for refunds that wait for the merchant."""

OF_CHANGES = get_args(events.ChangeEvent)
"""They change no status; tests/domain/test_changes.py reaches each."""

OF_GLOBAL_INVOICES = get_args(events.GlobalInvoiceEvent)
"""They change no status and no amount; tests/domain/test_global_invoices.py reaches each."""

ALL_EVENTS_AND_STATUSES = [
    *(
        event
        for event in get_args(events.OrderEvent)
        if event is not events.PayerForgotten
        and event not in (*OF_INVOICES, *OF_REMINDERS, *OF_DESTINATIONS, *OF_CHANGES, *OF_GLOBAL_INVOICES)
    ),
    *OrderStatus,
    *PaymentStatus,
]
RUNS_MAX = 16000


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_an_external_id_never_has_two_live_payments_of_one_tender(data: Any) -> None:
    """I11: the same external id again, in any state of the order, never opens a second order."""
    order_under_test = OrderUnderTest(data.draw)
    for _ in range(data.draw(st.integers(0, 20))):
        order_under_test.step()
        order_under_test.resubmit()
    order = order_under_test.order
    assert order is not None
    assert sum(type(event) is events.OrderCreated for event in order_under_test.log) == 1
    live = [payment for payment in order.payments if payment.status in LIVE]
    assert order.terms.allow_partials or len(live) <= 1
