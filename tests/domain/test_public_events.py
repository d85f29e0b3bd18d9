"""The public events of a command: the tables are whole, each change is announced once, in the order of section 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.domain import test_subscriptions as renting
from tests.domain.announced import STREAM, Log, check_order, checked, named
from tests.domain.builders import (
    CUSTOMER,
    DEADLINE,
    NOON,
    SPLIT,
    VISA,
    authorized_and_captured,
    created,
    deposited,
    paid,
    payment_id,
    reference_open,
    refund_id,
    refund_requested,
    refunded,
    started,
)
from tests.domain.invoices import test_document_moves as moves
from tests.domain.invoices.stamper import SPLIT_FISCAL, next_command
from tests.domain.scenario import given
from tests.domain.test_transition_rows import named as row_name
from tests.domain.transition_rows import (
    NO_ANSWER_ROWS,
    OLDER_PART_ROWS,
    ONE,
    ORDER_ROWS,
    PAID,
    PAYMENT_ROWS,
    REPORTED_ROWS,
    SALE_ROWS,
    UNDERPAID,
    with_card_payment,
)
from tests.journal.samples import SAMPLES

from ledger.domain.customers import events as customers
from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.invoices.decide.stamping import decide_next
from ledger.domain.merchants.evolve import evolve as evolve_merchant
from ledger.domain.orders import events as e
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices import events as i
from ledger.domain.orders.invoices.state import DocumentStatus
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.payment_methods import events as methods
from ledger.domain.payment_methods.evolve import evolve as evolve_methods
from ledger.domain.plans import events as plans
from ledger.domain.plans.evolve import evolve as evolve_plan
from ledger.domain.plans.terms import Interval, OnRetriesExhausted, PlanTerms
from ledger.domain.products.evolve import evolve as evolve_product
from ledger.domain.public_events import kinds as kinds_module
from ledger.domain.public_events import statuses
from ledger.domain.public_events.announcing import public_events
from ledger.domain.public_events.command import CommandStream
from ledger.domain.public_events.kinds import KINDS, Kind, ResourceType, kinds_of, matches, unknown_patterns
from ledger.domain.public_events.topics import ANNOUNCED, LINES
from ledger.domain.streams import TOPICS
from ledger.domain.subscriptions import commands
from ledger.domain.subscriptions.decide.changes import decide_cancel, decide_change, decide_resume
from ledger.domain.subscriptions.decide.charges import decide_outcome, decide_refund
from ledger.domain.subscriptions.decide.due_work import decide_due
from ledger.domain.subscriptions.decide.request import decide_request
from ledger.domain.subscriptions.evolve import evolve as evolve_subscription
from ledger.domain.subscriptions.state import InvoiceStatus, SubscriptionStatus

ROWS = [*PAYMENT_ROWS, *SALE_ROWS, *ORDER_ROWS, *OLDER_PART_ROWS, *REPORTED_ROWS, *NO_ANSWER_ROWS]


# ---------------------------------------------------------------- the tables


def test_every_topic_of_the_log_has_kinds_or_a_reason_why_it_has_none() -> None:
    assert set(LINES) ^ set(TOPICS) == set()
    assert [topic for topic, line in LINES.items() if bool(line.kinds) == bool(line.why_none)] == []
    assert {topic for topic, line in LINES.items() if line.kinds} == ANNOUNCED
    assert {kind.name for kind in KINDS} - {kind.name for line in LINES.values() for kind in line.kinds} == set()


def test_every_status_has_a_kind_or_a_reason_why_it_has_none() -> None:
    assert set(statuses.ORDER_STATUSES) == set(OrderStatus)
    assert set(statuses.PAYMENT_STATUSES) == set(PaymentStatus)
    assert set(statuses.SUBSCRIPTION_STATUSES) == set(SubscriptionStatus)
    assert set(statuses.INVOICE_STATUSES) == set(InvoiceStatus)
    documents = (ResourceType.INVOICE, ResourceType.COMPLEMENT, ResourceType.CREDIT_NOTE)
    assert set(statuses.DOCUMENT_STATUSES) == {(kind, status) for kind in documents for status in DocumentStatus}
    lines = [
        *statuses.PAYMENT_STATUSES.values(),
        *statuses.SUBSCRIPTION_STATUSES.values(),
        *statuses.INVOICE_STATUSES.values(),
        *statuses.DOCUMENT_STATUSES.values(),
    ]
    assert all(bool(line.kinds) != bool(line.why_none) for line in lines)


def test_kinds_are_chosen_by_their_names_or_all_of_a_resource() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names) == sum(isinstance(each, Kind) for each in vars(kinds_module).values())
    assert all(kind.name.startswith(f"{kind.resource_type}.") and kind.description.endswith(".") for kind in KINDS)
    assert kinds_of(["payment_method.*", "plan.created"]) == {
        "payment_method.saved", "payment_method.updated", "payment_method.deleted", "plan.created",
    }  # fmt: skip
    assert not any(matches("payment.*", kind) for kind in KINDS if kind.resource_type is not ResourceType.PAYMENT)
    chosen = ["payment.captured", "payment", "payment.*", "*", "", "payment.captur", "paymen*", "Payment.captured"]
    assert unknown_patterns(chosen) == [1, 3, 4, 5, 6, 7]


# ---------------------------------------------------------------- orders


def test_each_move_of_the_tables_is_announced_once() -> None:
    """Every row of contract 2.1 and 2.2, and the moves beside them, as one command and event by event."""
    for row in ROWS:
        history, command = row[4:]
        decided = given(*history).when(command).then_events()
        try:
            at_once = check_order(Log(evolve, *history).command(decided))
            log = Log(evolve, *history)
            apart = [public for event in decided for public in check_order(log.command([event]))]
        except AssertionError as problem:
            raise AssertionError(row_name(row)) from problem
        assert _facts(at_once) == _facts(apart), row_name(row)


def _facts(found: Sequence[Any]) -> Counter[tuple[str, UUID]]:
    """Returns what is announced of each event of the log, however the events are grouped into commands."""
    stated = {
        "created", "captured", "late_deposit", "refunded", "settled", "disputed", "dispute_closed",
    }  # fmt: skip
    own = (each for each in found if each.kind.name.partition(".")[2] in stated and not each.kind.is_status)
    return Counter((each.kind.name, each.resource_id) for each in own)


def test_a_sale_in_one_call_is_created_and_completed() -> None:
    """It passes AUTHORIZED within one commit."""
    log = Log(evolve)
    assert log.announced(*with_card_payment(created(pending=False))) == ["payment_order.created", "payment.created"]
    captured = check_order(log.command(authorized_and_captured(1, 10000)))
    assert named(captured) == ["payment.captured", "payment_order.completed < PROCESSING"]
    payment, order = captured
    assert (payment.resource_id, payment.subject.payment_id, payment.position) == (ONE, ONE, 5)
    assert (order.resource_id, order.stream_id, order.version, order.position) == (STREAM, STREAM, 5, 5)


def test_steps_in_commands_of_their_own_are_announced_each() -> None:
    log = Log(evolve, *with_card_payment(created(pending=False)))
    authorized, captured = authorized_and_captured(1, 10000)
    assert log.announced(authorized) == [
        "payment.authorized < PENDING_AUTHORIZATION", "payment_order.authorized < PROCESSING",
    ]  # fmt: skip
    assert log.announced(captured) == ["payment.captured", "payment_order.completed < AUTHORIZED"]


def test_a_deposit_beyond_the_amount_is_overpaid_each_time_that_it_rises() -> None:
    log = Log(evolve, *UNDERPAID)
    assert log.announced(deposited(1, 5000, "dep-2")) == [
        "payment.captured", "payment_order.completed < PARTIALLY_PAID", "payment_order.overpaid",
    ]  # fmt: skip
    assert log.announced(deposited(1, 1, "dep-3")) == ["payment.captured", "payment_order.overpaid"]
    assert log.announced(refund_requested(1, 10)) == ["payment_order.refund_processing < COMPLETED"]
    assert log.announced(refunded(1, 10)) == [
        "payment.refunded",
        "payment_order.partially_refunded < REFUND_PROCESSING",
    ]


def test_each_deposit_of_one_command_is_a_fact_of_its_own() -> None:
    log = Log(evolve, created(), *reference_open(1, 10000))
    found = check_order(log.command([deposited(1, 4000), deposited(1, 6000, "dep-2"), deposited(1, 7, "dep-3")]))
    assert named(found) == [
        "payment.captured", "payment.captured", "payment.captured",
        "payment_order.completed < REFERENCE_GENERATED", "payment_order.overpaid",
    ]  # fmt: skip


def test_refunds_disputes_and_settlements_name_what_they_are_about() -> None:
    log = Log(evolve, *PAID)
    batch = e.SettlementMatched(payment_id=ONE, batch_id="lote", at=NOON)
    opened = e.DisputeOpened(payment_id=ONE, dispute_id="du_1", amount=Decimal(1), at=NOON)
    assert log.announced(e.SettlementListed(payment_id=ONE, batch_id="lote", at=NOON)) == []
    assert log.announced(batch) == ["payment.settled"]
    assert [each.subject.dispute_id for each in public_events([log.command([opened])])] == ["du_1"]
    log = Log(evolve, *PAID, refund_requested(1, 3000, 9))
    refused = e.RefundRefused(refund_id=log.state.refunds[0].refund_id, payment_id=ONE, code="X", at=NOON)
    failed, _ = check_order(log.command([refused]))
    assert (failed.kind.name, failed.subject.refund_id) == ("payment.refund_failed", log.state.refunds[0].refund_id)
    assert log.announced(e.RefundReopened(refund_id=failed.subject.refund_id, payment_id=ONE, at=NOON)) == [
        "payment_order.refund_processing < COMPLETED"
    ]


def test_each_part_of_a_refund_that_failed_is_announced_once() -> None:
    asked = (refund_requested(1, 5000), refund_requested(2, 5000))
    log = Log(evolve, SPLIT, *paid(1, 5000), *paid(2, 5000), *asked)
    for n, order in ((1, []), (2, ["payment_order.completed < REFUND_PROCESSING"])):
        refused = e.RefundRefused(refund_id=refund_id(1), payment_id=payment_id(n), code="X", at=NOON)
        found = check_order(log.command([refused]))
        assert named(found) == ["payment.refund_failed", *order]
        assert found[0].resource_id == payment_id(n)
    abandoned = e.CallAbandoned(
        payment_id=ONE, call=e.ProcessorCall.REFUND, because=e.AbandonedBecause.NOT_FOUND, at=NOON
    )
    log = Log(evolve, *PAID)
    twice = log.command([refund_requested(1, 1), abandoned, refund_requested(1, 1, 2), abandoned])
    assert [each.subject.refund_id for each in check_order(twice)] == [refund_id(1), refund_id(2)]


def test_changed_terms_are_one_update_and_a_final_capture_is_none() -> None:
    log = Log(evolve, created())
    changes = [
        e.OrderDescriptionChanged(description="otro", at=NOON), e.OrderInvoiceNumberChanged(invoice_number="F1", at=NOON),
    ]  # fmt: skip
    assert log.announced(*changes) == ["payment_order.updated"]
    assert log.announced(e.PayerForgotten(at=NOON)) == []
    released = e.AuthorizationReleased(
        payment_id=ONE, amount=Decimal(4000), because=e.ReleasedBecause.FINAL_CAPTURE, at=NOON
    )
    log = Log(evolve, *with_card_payment(created(capture_method="MANUAL")), authorized_and_captured(1, 6000, 10000)[0])
    assert log.announced(authorized_and_captured(1, 6000, 10000)[1], released) == [
        "payment.captured", "payment_order.partially_paid < AUTHORIZED",
    ]  # fmt: skip
    for because in e.ReleasedBecause:
        log = Log(evolve, *with_card_payment(created()), *authorized_and_captured(1, 6000, 10000))
        assert log.announced(replace(released, because=because)) == ["payment_order.updated"]
    assert Log(evolve).announced(created(), changes[0]) == ["payment_order.created"]


def test_a_reference_of_a_payment_that_has_ended_requires_nothing_of_its_payer() -> None:
    *before, issued = reference_open(1, 10000)
    ended = e.PaymentCancelled(payment_id=ONE, because=e.CancelledBecause.ORDER_CANCELLED, at=NOON)
    log = Log(evolve, created(), *before, ended)
    assert log.announced(issued) == []


def test_times_of_reminders_are_announced_and_messages_are_not() -> None:
    log = Log(evolve, created(), SAMPLES["reminders-scheduled.v1"])
    due = replace(SAMPLES["reminder-due.v1"], kind=e.ReminderKind.PAYMENT)
    overdue = replace(due, reminder_id=UUID(int=5), kind=e.ReminderKind.OVERDUE)
    assert log.announced(due) == ["payment_order.reminder_due"]
    assert log.announced(overdue) == ["payment_order.overdue"]
    assert log.announced(e.ReminderSent(reminder_id=due.reminder_id, at=NOON)) == []


# ---------------------------------------------------------------- documents


_DOCUMENT_KINDS = {
    "PENDING": None, "EMITTED": ("stamped", "emitted"), "FAILED": ("failed", "failed"),
    "REQUESTED": None, "WAITING": None, "CANCELLED": ("cancelled",) * 2, "REFUSED": ("cancellation_refused",) * 2,
}  # fmt: skip
"""What announces each status of an invoice, and of another document: as contract 2.4, with cancellations."""


def test_each_move_of_a_document_is_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    take, seen = moves.Course.take, set[str]()

    def checking(course: moves.Course, by: str, events: Sequence[Any]) -> None:
        log, before = Log(evolve), moves._statuses(course.order)
        log.state = course.order
        take(course, by, events)
        found = checked(log.command(events)) if events else []
        for id_, (type_, status) in moves._statuses(course.order).items():
            own = [each.kind.name.partition(".")[2] for each in found if each.resource_id == id_]
            kind = _DOCUMENT_KINDS[status] if before.get(id_, ("", None))[1] != status else None
            assert own == ([] if kind is None else [kind[type_ != "INVOICE"]])
        assert all(each.subject.document_id == each.resource_id for each in found)
        seen.update(each.kind.name for each in found)

    monkeypatch.setattr(moves.Course, "take", checking)
    moves.courses()
    of_documents = {resource_type for resource_type, _ in statuses.DOCUMENT_STATUSES}
    own = {kind.name for kind in KINDS if kind.resource_type in of_documents}
    assert own - seen == {"complement.deadline_near"}


def test_what_cannot_be_drawn_up_is_a_failed_invoice_and_a_near_deadline_is_announced() -> None:
    log = Log(evolve, *SPLIT_FISCAL, *PAID[1:])
    blocked = public_events([log.command([i.InvoicingBlocked(code="X", message="y", at=NOON, slots=("invoice",))])])
    assert named(blocked) == ["invoice.failed"]
    unknown = [SAMPLES["document-refused.v1"], SAMPLES["document-cancelled.v1"]]
    assert log.announced(*unknown) == []
    log.command(decide_next(log.state, next_command()))
    document = log.state.invoices.invoice
    assert document.document_id == blocked[0].resource_id, "the invoice has the id that was announced"
    other = i.InvoicingBlocked(code="X", message="y", at=NOON, slots=("receipt",))
    refused = i.DocumentRefused(document_id=document.document_id, code="X", message="y", at=NOON)
    assert named(checked(log.command([other, refused]))) == ["invoice.failed", "invoice.failed < PENDING"]
    near = i.ReceiptDeadlineNear(payment_id=ONE, receipt_due_at=DEADLINE, at=NOON)
    (warned,) = checked(log.command([near]))
    assert (warned.kind.name, warned.subject.payment_id) == ("complement.deadline_near", ONE)
    assert warned.resource_id == warned.subject.document_id != blocked[0].resource_id


# ---------------------------------------------------------------- customers, cards, plans, products


def test_customers_are_created_updated_once_and_deleted() -> None:
    created_ = customers.CustomerCreated(customer_id=CUSTOMER, external_id="ana", at=NOON)
    named_ = customers.CustomerDetailsChanged(customer_id=CUSTOMER, at=NOON, first_name="Ana")
    metadata = customers.CustomerMetadataChanged(customer_id=CUSTOMER, at=NOON)
    erased = customers.CustomerErased(customer_id=CUSTOMER, at=NOON)
    log = Log(evolve_customer)
    assert log.announced(created_, metadata) == ["customer.created"]
    assert log.announced(named_, metadata) == ["customer.updated"]
    assert log.announced(erased) == ["customer.deleted"]
    assert log.announced(named_) == []


def _saved(n: int, *, default: bool = False) -> methods.PaymentMethodSaved:
    return methods.PaymentMethodSaved(
        payment_method_id=UUID(int=n), customer_id=CUSTOMER, card=VISA, at=NOON, is_default=default
    )


def test_a_new_default_card_updates_two_methods() -> None:
    log = Log(evolve_methods)
    assert log.announced(_saved(1, default=True)) == ["payment_method.saved"]
    made = methods.PaymentMethodMadeDefault(payment_method_id=UUID(int=2), at=NOON)
    found = checked(log.command([_saved(2), made]))
    assert [(each.kind.name, each.resource_id.int) for each in found] == [
        ("payment_method.saved", 2), ("payment_method.updated", 1),
    ]  # fmt: skip
    back = replace(made, payment_method_id=UUID(int=1))
    assert log.announced(back) == ["payment_method.updated", "payment_method.updated"]
    attached = methods.PaymentMethodAttached(payment_method_id=UUID(int=1), subscription_id=UUID(int=9), at=NOON)
    assert log.announced(attached) == []
    deleted = methods.PaymentMethodDeleted(
        payment_method_id=UUID(int=1), because=methods.DeletedBecause.REQUESTED, at=NOON
    )
    found = checked(log.command([deleted, made]))
    assert [(each.kind.name, each.resource_id.int) for each in found] == [
        ("payment_method.deleted", 1), ("payment_method.updated", 2),
    ]  # fmt: skip


def test_a_card_that_is_being_verified_is_announced_once_it_is_saved() -> None:
    log = Log(evolve_methods)
    requested = SAMPLES["card-verification-requested.v1"]
    verified = replace(SAMPLES["card-verified.v1"], verification_id=requested.verification_id)
    assert log.announced(requested) == []
    assert log.announced(verified, replace(_saved(1), payment_method_id=requested.payment_method_id)) == [
        "payment_method.saved"
    ]


def test_plans_and_products() -> None:
    log = Log(evolve_plan)
    plan = UUID(int=3)
    terms = PlanTerms(amount=Decimal(1), currency="MXN", interval=Interval.MONTH)
    details = plans.PlanDetailsChanged(plan_id=plan, at=NOON, name="b")
    assert log.announced(plans.PlanCreated(plan_id=plan, name="a", terms=terms, at=NOON)) == ["plan.created"]
    assert log.announced(details, plans.PlanMetadataChanged(plan_id=plan, at=NOON)) == ["plan.updated"]
    assert log.announced(plans.PlanFirstUsed(plan_id=plan, subscription_id=plan, at=NOON)) == []
    assert log.announced(plans.PlanArchived(plan_id=plan, at=NOON)) == ["plan.archived"]
    assert log.announced(details) == ["plan.updated"]
    log = Log(evolve_product)
    imported = SAMPLES["product-imported.v1"]
    assert log.announced(imported) + log.announced(imported) == ["product.created", "product.updated"]


def test_other_streams_have_no_public_events() -> None:
    assert Log(evolve_merchant).announced(SAMPLES["merchant-registered.v1"]) == []


# ---------------------------------------------------------------- subscriptions


class Rented(Log):
    """A subscription, and the public events of each command on it."""

    def __init__(self, **terms: Any) -> None:
        super().__init__(evolve_subscription)
        self.now, self._terms = renting.START, terms

    def request(self, **changes: Any) -> list[str]:
        command = commands.RequestSubscription(
            subscription_id=STREAM, customer_id=CUSTOMER, plan=renting.plan(**self._terms),
            payment_method_id=UUID(int=9), time_zone=renting.MEXICO, at=self.now, **changes,
        )  # fmt: skip
        return self.announced(*decide_request(self.state, command))

    def settle(self, outcome: Any) -> list[str]:
        return self.announced(*decide_outcome(self.state, renting.outcome_of(self.state.charge, outcome, self.now)))

    def pass_period(self) -> list[str]:
        self.now = self.state.current_period_end
        return self.announced(*decide_due(self.state, commands.RunDue(at=self.now)))


def test_a_subscription_is_announced_with_its_first_invoice_once_it_starts() -> None:
    rented = Rented()
    assert rented.request() == []
    assert rented.settle(renting.HARD) == []  # it never began, and is requested again
    assert rented.request() == []
    assert rented.settle(renting.PAID) == [
        "subscription.created", "subscription_invoice.created", "subscription_invoice.paid",
    ]  # fmt: skip
    assert rented.pass_period() == ["subscription_invoice.created"]
    assert rented.settle(renting.PAID) == ["subscription_invoice.paid < OPEN", "subscription.renewed"]


def test_a_trial_and_what_is_owed() -> None:
    rented = Rented(max_retries=0, on_retries_exhausted=OnRetriesExhausted.UNPAID)
    assert rented.request(trial_end=rented.now + timedelta(days=9)) == ["subscription.created"]
    rented.now += timedelta(days=8)
    assert rented.announced(*decide_due(rented.state, commands.RunDue(at=rented.now))) == [
        "subscription.trial_will_end"
    ]
    assert rented.pass_period() == ["subscription_invoice.created"]
    assert rented.settle(renting.HARD) == [  # PAST_DUE on the way
        "subscription_invoice.payment_failed", "subscription.unpaid < TRIALING",
    ]  # fmt: skip
    another = commands.ChangeSubscription(at=rented.now, payment_method_id=UUID(int=5))
    assert rented.announced(*decide_change(rented.state, another)) == ["subscription.updated"]
    assert rented.settle(renting.PAID) == ["subscription_invoice.paid < OPEN", "subscription.activated < UNPAID"]
    paying = rented.state.invoices[-1].payment_order_id
    refund = commands.RecordRefund(order_id=paying, amount_refunded=Decimal(1), at=rented.now)
    assert rented.announced(*decide_refund(rented.state, refund)) == []


def test_the_end_of_a_subscription() -> None:
    rented = Rented()
    rented.request()
    rented.settle(renting.PAID)
    at_end = commands.CancelSubscription(at=rented.now, at_period_end=True)
    assert rented.announced(*decide_cancel(rented.state, at_end)) == ["subscription.updated"]
    resumed = decide_resume(rented.state, commands.ResumeSubscription(at=rented.now))
    assert rented.announced(*resumed) == ["subscription.updated"]
    rented.pass_period()
    assert rented.settle(renting.SOFT) == ["subscription_invoice.payment_failed", "subscription.past_due < ACTIVE"]
    assert rented.announced(*decide_cancel(rented.state, commands.CancelSubscription(at=rented.now))) == [
        "subscription.canceled < PAST_DUE", "subscription_invoice.voided < OPEN",
    ]  # fmt: skip


# ---------------------------------------------------------------- several streams


def test_the_order_within_a_command() -> None:
    """The log has a new order before its customer."""
    order, card, customer = Log(evolve, stream_id=UUID(int=1)), Log(evolve_methods), Log(evolve_customer)
    events = [created(pending=False), started(1, 10000), *authorized_and_captured(1, 10000)]
    ana = customers.CustomerCreated(customer_id=CUSTOMER, external_id="ana", at=NOON)
    streams = [order.command(events), card.command([_saved(1)], after=10), customer.command([ana], after=20)]
    expected = [
        "customer.created",
        "payment_method.saved",
        "payment_order.created",
        "payment.created",
        "payment.captured",
    ]
    assert named(public_events(streams)) == named(public_events(streams[::-1])) == expected


def test_what_is_announced_of_two_streams_is_what_is_announced_of_each() -> None:
    one, two = Log(evolve, *PAID, stream_id=UUID(int=1)), Log(evolve, *PAID, stream_id=UUID(int=2))
    streams = [one.command([refund_requested(1, 1)]), two.command([refund_requested(1, 1)], after=100)]
    found = public_events(streams)
    assert sorted(named(found)) == sorted(chain.from_iterable(named(public_events([each])) for each in streams))
    assert [each.stream_id.int for each in found] == [1, 2]


def test_a_stream_of_another_application_is_passed_over() -> None:
    foreign = Log(evolve, created()).command([e.OrderDescriptionChanged(at=NOON)])
    unknown = [each._replace(topic="Dog.Registered") for each in foreign.events]  # type: ignore[attr-defined]
    assert public_events([CommandStream(STREAM, None, object(), unknown)]) == []
    assert public_events([CommandStream(STREAM, foreign.before, foreign.after, unknown)]) == []
