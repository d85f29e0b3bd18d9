"""Every rule finds the state that breaks it, and the states of real events break none."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    NOON,
    SPLIT,
    SPLIT_WITH_SURCHARGE,
    THREE_PERCENT,
    created,
    deposited,
    folded,
    paid,
    payment_id,
    reference_open,
    refund_requested,
    refunded,
)
from tests.domain.invoices.stamper import ENABLED, FISCAL, run
from tests.domain.invoices.test_refunds_of_one_payment import ALL, cancel
from tests.domain.test_subscription_debts import unpaid

from ledger.audit.invariants.answers import broken_amounts
from ledger.audit.invariants.broken import Broken
from ledger.audit.invariants.documents import broken_documents
from ledger.audit.invariants.logs import broken_claims, broken_positions, broken_versions, has_card_number
from ledger.audit.invariants.orders import broken_order, broken_sums
from ledger.audit.invariants.subscriptions import broken_payments, broken_subscription
from ledger.audit.invariants.vault import broken_vault
from ledger.domain.fold import fold
from ledger.domain.invoices.commands import Cancelled
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.terms import InvoiceTerms
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.streams import ClaimKind
from ledger.domain.subscriptions.events import ChargeBegun, ChargeTrigger
from ledger.domain.subscriptions.state import Charge, InvoiceStatus, Subscription, SubscriptionStatus

HISTORIES: tuple[tuple[Any, ...], ...] = (
    (created(), *paid(1, 10000), refund_requested(1, 4000), refunded(1, 4000)),
    (created(surcharge=THREE_PERCENT), *paid(1, 10000, 300)),
    (SPLIT_WITH_SURCHARGE, *paid(1, 4000, 120), *paid(2, 6000, 180), refund_requested(2, 6180), refunded(2, 6180)),
    (SPLIT, *reference_open(1, 10000), deposited(1, 4000), deposited(1, 6000, "dep-2")),
)


def names(broken: Iterable[Broken]) -> set[str]:
    return {one.invariant for one in broken}


def with_sum(order: Order, **sums: Any) -> Order:
    """Returns an order whose own sums are others than those of its payments."""
    order = replace(order)
    vars(order).update(sums)
    return order


def with_payment(order: Order, **changes: Any) -> Order:
    return replace(order, payments=(*order.payments[:-1], replace(order.payments[-1], **changes)))


@pytest.mark.parametrize("history", HISTORIES)
def test_an_order_breaks_no_rule_after_any_of_its_events(history: tuple[Any, ...]) -> None:
    order = None
    for event in history:
        before, order = order, evolve(order, event)
        assert list(broken_order(before, event, order)) == []


@pytest.mark.parametrize(
    ("invariant", "sums"),
    [
        ("I1", {"amount": Decimal(10_001)}),
        ("I2", {"amount": Decimal(10_001)}),
        ("I3", {"amount_paid": Decimal(1)}),
        ("I3", {"amount_refunded": Decimal(1)}),
        ("I6", {"status": OrderStatus.COMPLETED}),
    ],
)
def test_a_sum_that_is_not_that_of_the_payments_is_found(invariant: str, sums: dict[str, Any]) -> None:
    order = folded(HISTORIES[2])
    if invariant == "I2":  # what is pending follows from the amount: another amount breaks the other sums alone
        order = with_sum(order, amount_paid=Decimal(0))
        assert names(broken_sums(order)) >= {"I2", "I3"}
    else:
        assert invariant in names(broken_sums(with_sum(order, **sums)))


def test_a_split_order_whose_pending_amount_is_not_the_open_subtotal_is_found() -> None:
    order = folded(HISTORIES[2])
    assert "I5" in names(broken_sums(with_sum(order, surcharge_amount=Decimal(7), amount=Decimal(10_007))))


@pytest.mark.parametrize(
    ("invariant", "changes"),
    [
        ("I3", {"captured": Decimal(9_999)}),
        ("I3", {"refunded": Decimal(4_001)}),
        ("I4", {"refunded": Decimal(10_001)}),
        ("I4", {"authorized": Decimal(1)}),
        ("I7", {"status": PaymentStatus.CREATED}),
    ],
)
def test_a_payment_that_changed_otherwise_than_its_event_states_is_found(
    invariant: str, changes: dict[str, Any]
) -> None:
    *earlier, last = HISTORIES[0]
    before = folded(earlier)
    assert invariant in names(broken_order(before, last, with_payment(evolve(before, last), **changes)))


def test_an_order_or_payment_that_disappears_or_leaves_a_final_status_is_found() -> None:
    *earlier, last = HISTORIES[0]
    before = folded(earlier)
    assert "I3" in names(broken_order(before, last, replace(evolve(before, last), payments=())))
    is_final = with_sum(before, status=OrderStatus.REFUNDED)
    assert "I7" in names(broken_order(is_final, last, with_sum(evolve(before, last), status=OrderStatus.PENDING)))


def invoiced() -> Order:
    """Returns a split order that is paid in two parts and refunded in part, with all its documents."""
    history = (
        created(allow_partials=True, fiscal=FISCAL),
        ENABLED,
        *paid(1, 4000),
        *paid(2, 6000),
        refund_requested(2, 1000),
        refunded(2, 1000),
    )
    order = run(folded(history))
    assert order.invoices is not None
    assert len(order.invoices.documents) == 4
    return order


@pytest.mark.parametrize(
    ("invariant", "n", "changes"),
    [
        ("I8", 0, {"total": Decimal(8_999)}),
        ("I8", 2, {"applied_amount": Decimal(7_001), "remaining_balance": Decimal(-1_001)}),
        ("I8", 3, {"total": Decimal(1_001)}),
        ("I9", 0, {"total": Decimal(9_999)}),
        ("I9", 1, {"remaining_balance": Decimal(6_001)}),
        ("I9", 1, {"payment_id": UUID(int=1)}),
        ("I9", 2, {"payment_id": payment_id(1)}),
        ("I9", 3, {"payment_id": payment_id(1)}),
    ],
)
def test_a_document_that_states_other_money_is_found(invariant: str, n: int, changes: dict[str, Any]) -> None:
    order = invoiced()
    assert list(broken_documents(order)) == []
    assert order.invoices is not None
    documents = list(order.invoices.documents)
    documents[n] = replace(documents[n], terms=replace(documents[n].terms, **changes))
    wrong = replace(order, invoices=replace(order.invoices, documents=tuple(documents)))
    assert invariant in names(broken_documents(wrong))


def test_a_receipt_that_is_cancelled_before_the_credit_note_of_what_it_stated_breaks_nothing() -> None:
    gone = [step for n, amount in ((1, 4000), (2, 6000)) for step in (refund_requested(n, amount), refunded(n, amount))]
    order = run(
        fold(
            evolve, folded([created(allow_partials=True, fiscal=FISCAL), ENABLED, *paid(1, 4000), *paid(2, 6000)]), gone
        )
    )
    assert order.invoices is not None
    assert (order.invoices.applied(), order.invoices.credited()) == (10_000, 10_000)
    for receipt in order.invoices.receipts:
        order = cancel(order, Cancelled(), document=receipt)
        assert list(broken_documents(order)) == []
    order = run(order, request=ALL)
    assert list(broken_documents(order)) == []


def test_a_document_whose_lines_do_not_add_up_is_found() -> None:
    order = invoiced()
    assert order.invoices is not None
    first, *others = order.invoices.documents
    assert isinstance(first.terms, InvoiceTerms)
    line, *lines = first.terms.concepts
    terms = replace(first.terms, concepts=(replace(line, amount=line.amount + 1), *lines))
    documents = (replace(first, terms=terms), *others)
    assert names(broken_documents(replace(order, invoices=replace(order.invoices, documents=documents)))) == {"I9"}


def test_periods_that_overlap_or_leave_a_gap_and_two_invoices_of_one_order_are_found() -> None:
    state, _ = unpaid(2)
    first, second = state.invoices[:2]
    day = timedelta(days=1)

    def after(*invoices: Any) -> set[str]:
        return names(broken_subscription(state, None, replace(state, invoices=invoices)))

    assert after(*state.invoices) == set()
    assert after(first, replace(second, period_start=second.period_start - day)) == {"S1"}
    assert after(first, replace(second, period_start=second.period_start + day)) == {"S1"}
    assert after(first, replace(second, period_end=second.period_start)) == {"S1"}
    same = {"status": InvoiceStatus.PAID, "payment_order_id": UUID(int=1)}
    assert after(replace(first, **same), replace(second, **same)) == {"S2"}
    assert after(replace(first, amount=first.amount + 1), second) == {"S2"}


def test_a_move_of_a_subscription_that_is_in_no_table_and_a_second_charge_are_found() -> None:
    state, _ = unpaid(2)
    trialing = replace(state, status=SubscriptionStatus.TRIALING)
    assert names(broken_subscription(state, None, trialing)) == {"I7"}
    one = UUID(int=1)
    charge = {"invoice_id": one, "attempt": 1, "order_id": one, "payment_id": one, "payment_method_id": one}
    begun = ChargeBegun(**charge, trigger=next(iter(ChargeTrigger)), at=NOON)
    charging: Subscription = replace(state, charge=Charge(**charge, trigger=next(iter(ChargeTrigger)), begun_at=NOON))
    assert names(broken_subscription(state, begun, charging)) == set()
    assert names(broken_subscription(charging, begun, charging)) == {"S3"}


def test_an_invoice_and_its_order_have_the_same_amount() -> None:
    one, two, ten = UUID(int=1), UUID(int=2), Decimal(10)
    assert list(broken_payments({one: ten}, {one: ten, two: Decimal(0)})) == []
    for paid_by, captured in (({one: ten}, {}), ({}, {one: ten}), ({one: ten}, {one: Decimal(9)})):
        assert names(broken_payments(paid_by, captured)) == {"S2"}


@pytest.mark.parametrize("positions", [[1, 3], [1, 2], [2, 1, 3], [1, 2, 3, 4], [1, 2, 2]])
def test_positions_run_from_1_to_the_head(positions: list[int]) -> None:
    assert list(broken_positions([1, 2, 3], 3)) == []
    assert names(broken_positions(positions, 3)) == {"I10"}
    stream = UUID(int=1)
    assert list(broken_versions(stream, [1, 2, 3])) == []
    assert names(broken_versions(stream, [1, 3])) == names(broken_versions(stream, [2])) == {"I10"}


def test_a_key_has_one_stream_and_its_claim_names_it() -> None:
    key, one, two = (ClaimKind.ORDER_EXTERNAL_ID, "a"), UUID(int=1), UUID(int=2)
    assert list(broken_claims({key: [one]}, {key: one})) == []
    for expected, claims in (({key: [one, two]}, {key: one}), ({key: [one]}, {key: two}), ({key: [one]}, {})):
        assert names(broken_claims(expected, claims)) == {"I11"}
    assert names(broken_claims({}, {key: one})) == {"I11"}


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (True, b'{"note":"4242424242424242"}'),
        (True, b'{"note":"card 4111111111111111, thanks"}'),
        (False, b'{"note":"4242424242424241"}'),
        (False, b'{"at":"2026-01-31T12:00:00.123456Z","id":"01935f3a-4242-7242-8242-424242424242"}'),
        (False, b'{"sealed":"AQ4242424242424242=="}'),
        (False, b"{}"),
    ],
)
def test_a_card_number_in_an_event_is_found(found: bool, text: bytes) -> None:
    assert has_card_number(text) is found


def test_every_saved_card_has_its_number_and_no_other_number_is_settled() -> None:
    one, two = UUID(int=1), UUID(int=2)
    assert list(broken_vault({one}, {one: True, two: False})) == []
    assert names(broken_vault({one}, {})) == names(broken_vault(set(), {two: True})) == {"V1"}


def test_the_sums_of_an_answer_are_those_of_its_payments() -> None:
    shown: dict[str, Any] = {
        "amount": 103,
        "subtotalAmount": 100,
        "surchargeAmount": 3,
        "amountPaid": 103,
        "amountPending": 0,
        "amountRefunded": 0,
        "refundedAmount": 0,
        "allowPartials": False,
        "payments": [{"id": "p", "authorizedAmount": "103", "capturedAmount": "103", "refundedAmount": "0"}],
    }
    assert list(broken_amounts(shown)) == []
    for name in ("amount", "amountPaid", "amountPending", "amountRefunded"):
        assert list(broken_amounts(shown | {name: 1})) != []
