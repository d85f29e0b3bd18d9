"""The outcomes of an authorisation: what they change on a payment, and what they leave unchanged."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    MANUAL,
    NOON,
    SPLIT,
    abandoned,
    approved,
    authorization_requested,
    authorized,
    authorized_and_captured,
    capture_requested,
    captured,
    captured_by_steps,
    created,
    declined,
    folded,
    key,
    late_capture,
    paid,
    payment_id,
    record_authorization,
    scheduled,
    started,
    unanswered,
)
from tests.domain.scenario import given

from ledger.domain.orders.decide.authorizations import decide_authorization_outcome
from ledger.domain.orders.events import AbandonedBecause, LateAuthorizationReported, RefusedBy
from ledger.domain.orders.processor_outcomes import Approved, Declined, NotFound, NotSent, Unanswered
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus

NO_ANSWER = Unanswered(reason="no answer")
REFUSED = Declined(code="INSUFFICIENT_FUNDS")
IN_FLIGHT = (created(pending=False), started(1, 10000), authorization_requested(1, 10000))
MANUALLY = (
    created(pending=False, capture_method=MANUAL),
    started(1, 10000),
    authorization_requested(1, 10000, capture=False),
)
OUTCOMES = [approved(10000), approved(10000, 0), REFUSED, NO_ANSWER, NotSent(), NotFound()]


def test_a_sale_in_one_call_is_an_authorisation_and_a_capture():
    order = (
        given(*IN_FLIGHT).when(record_authorization(1, approved(10000))).then(authorized(1, 10000), captured(1, 10000))
    )
    assert order.status is OrderStatus.COMPLETED
    assert order.payments[0].capture_keys == (key(1),)
    assert order.payments[0].status is PaymentStatus.CAPTURED
    assert order.open_intent is None


def test_a_sale_of_an_older_log_is_the_same_payment():
    spelled_out = captured_by_steps(1, 10000)
    older, newer = (folded([*IN_FLIGHT, *sale]) for sale in (spelled_out, authorized_and_captured(1, 10000)))
    differs = {"keys": (key(1),), "capture_amount": Decimal(0)}  # no call reads either after the capture
    assert replace(older, payments=(replace(older.payments[0], **differs),)) == newer


def test_a_part_that_is_captured_with_the_whole_authorisation_takes_the_steps_of_a_capture():
    steps = authorized(1, 10000), *captured_by_steps(1, 4000)[1:]
    order = given(*IN_FLIGHT).when(record_authorization(1, approved(10000, 4000))).then(*steps)
    assert order.payments[0].status is PaymentStatus.PARTIALLY_CAPTURED


def test_an_approval_without_a_capture_only_authorises():
    order = given(*MANUALLY).when(record_authorization(1, approved(10000, 0))).then(authorized(1, 10000))
    assert order.status is OrderStatus.AUTHORIZED
    assert order.amount_paid == 0


def test_a_partial_authorisation_is_captured_at_once():
    order = given(*IN_FLIGHT).when(record_authorization(1, approved(5000))).then(*authorized_and_captured(1, 5000))
    assert order.status is OrderStatus.PARTIALLY_PAID
    assert order.payments[0].status is PaymentStatus.PARTIALLY_CAPTURED
    assert order.amount_pending == 5000


def test_a_partial_authorisation_for_manual_capture_authorises_the_order_in_part():
    order = given(*MANUALLY).when(record_authorization(1, approved(5000, 0))).then(authorized(1, 5000))
    assert order.status is OrderStatus.PARTIALLY_AUTHORIZED


def test_a_capture_that_was_not_requested_is_recorded():
    order = given(*MANUALLY).when(record_authorization(1, approved(10000))).then(*authorized_and_captured(1, 10000))
    assert order.status is OrderStatus.COMPLETED


def test_a_capture_above_the_reported_authorisation_raises_the_authorisation():
    order = (
        given(*IN_FLIGHT).when(record_authorization(1, approved(4000, 5000))).then(*authorized_and_captured(1, 5000))
    )
    assert order.payments[0].authorized == 5000


def test_a_processors_amounts_are_stored_in_their_shortest_form():
    events = given(*IN_FLIGHT).when(record_authorization(1, approved("5E+3", "5000.00"))).then_events()
    assert {str(event.amount) for event in events} == {"5000"}


def test_a_declined_payment_fails_the_order():
    order = given(*IN_FLIGHT).when(record_authorization(1, REFUSED)).then(declined(1))
    assert order.status is OrderStatus.FAILED
    assert order.payments[0].failure.code == "INSUFFICIENT_FUNDS"


def test_a_declined_split_payment_leaves_the_order_as_it_was():
    history = (SPLIT, *paid(1, 4000), started(2, 6000), authorization_requested(2, 6000))
    order = given(*history).when(record_authorization(2, REFUSED)).then(declined(2))
    assert order.status is OrderStatus.PARTIALLY_PAID
    order = (
        given(SPLIT, started(1, 6000), authorization_requested(1, 6000))
        .when(record_authorization(1, REFUSED))
        .then(declined(1))
    )
    assert order.status is OrderStatus.PENDING


def test_a_refusal_by_risk_rules_is_distinct_from_the_issuers():
    refusal = Declined(code="SUSPECTED_FRAUD", refused_by=RefusedBy.RISK)
    (event,) = given(*IN_FLIGHT).when(record_authorization(1, refusal)).then_events()
    assert (event.refused_by, event.code) == (RefusedBy.RISK, "SUSPECTED_FRAUD")


def test_an_unknown_decline_code_becomes_a_generic_decline():
    (event,) = given(*IN_FLIGHT).when(record_authorization(1, Declined(code="51_NSF_ACME"))).then_events()
    assert (event.code, event.message) == ("GENERIC_DECLINE", "The payment was declined.")


def test_a_missing_answer_is_unknown_and_not_declined():
    order = given(*IN_FLIGHT).when(record_authorization(1, NO_ANSWER)).then(unanswered(1))
    assert order.status is OrderStatus.PROCESSING
    assert order.payments[0].status is PaymentStatus.PENDING_AUTHORIZATION
    assert order.open_intent.idempotency_key == "key-1"


def test_an_outcome_is_recorded_as_unknown_once():
    given(*IN_FLIGHT, unanswered(1)).when(record_authorization(1, Unanswered(reason="still no answer"))).then()


@pytest.mark.parametrize(
    ("outcome", "because"), [(NotSent(), AbandonedBecause.NOT_SENT), (NotFound(), AbandonedBecause.NOT_FOUND)]
)
def test_a_payment_that_never_reached_the_processor_is_abandoned(outcome, because):
    for history in (IN_FLIGHT, (*IN_FLIGHT, unanswered(1))):
        order = given(*history).when(record_authorization(1, outcome)).then(abandoned(1, because))
        assert order.status is OrderStatus.FAILED
        assert order.payments[0].was_not_sent is (because is AbandonedBecause.NOT_SENT)


@pytest.mark.parametrize("outcome", [approved(10000), REFUSED, NotFound()])
def test_an_unknown_outcome_is_replaced_by_the_next_outcome(outcome):
    order = given(*IN_FLIGHT, unanswered(1)).when(record_authorization(1, outcome)).then_events()
    assert order


ENDED = {
    "captured": (*IN_FLIGHT, *authorized_and_captured(1, 10000)),
    "captured in part": (*IN_FLIGHT, *authorized_and_captured(1, 5000)),
    "declined": (*IN_FLIGHT, declined(1)),
    "abandoned": (*IN_FLIGHT, abandoned(1)),
    "authorised": (*MANUALLY, authorized(1, 10000)),
}


@pytest.mark.parametrize("ended", ENDED)
@pytest.mark.parametrize("outcome", [REFUSED, NO_ANSWER, NotSent(), NotFound()], ids=repr)
def test_the_first_final_outcome_counts(ended, outcome):
    given(*ENDED[ended]).when(record_authorization(1, outcome)).then()


@pytest.mark.parametrize("ended", ["captured", "captured in part", "authorised"])
def test_an_authorisation_that_is_recorded_is_not_recorded_again(ended):
    given(*ENDED[ended]).when(record_authorization(1, approved(10000, 0))).then()


@pytest.mark.parametrize("ended", ["declined", "abandoned"])
def test_a_late_authorisation_of_a_failed_payment_is_recorded_once_and_brings_no_money(ended):
    late = LateAuthorizationReported(
        payment_id=payment_id(1), amount=Decimal(10000), processor_reference="ref", at=NOON
    )
    order = given(*ENDED[ended]).when(record_authorization(1, approved(10000, 0))).then(late)
    assert (order.status, order.payments[0].status) == (OrderStatus.FAILED, PaymentStatus.FAILED)
    assert (order.amount_paid, order.payments[0].authorized) == (0, 0)
    given(*ENDED[ended], late).when(record_authorization(1, approved(10000, 0))).then()


@pytest.mark.parametrize("ended", [(*IN_FLIGHT, declined(1)), (*IN_FLIGHT, unanswered(1), abandoned(1))])
def test_a_late_capture_on_a_failed_payment_is_recorded(ended):
    order = given(*ended).when(record_authorization(1, approved(10000))).then(late_capture(1, 10000))
    assert order.status is OrderStatus.COMPLETED
    assert order.payments[0].status is PaymentStatus.FAILED
    assert order.amount_paid == order.payments[0].captured == 10000


def test_a_late_capture_beside_a_second_payment_is_overpaid():
    history = (
        *IN_FLIGHT,
        abandoned(1),
        started(2, 10000),
        authorization_requested(2, 10000),
        *authorized_and_captured(2, 10000),
    )
    order = given(*history).when(record_authorization(1, approved(10000))).then(late_capture(1, 10000))
    assert order.status is OrderStatus.COMPLETED
    assert order.overpaid_amount == 10000
    assert order.amount_pending == 0


def test_a_capture_reported_after_its_authorisation_is_recorded():
    granted = (*MANUALLY, authorized(1, 10000))
    given(*granted).when(record_authorization(1, approved(10000))).then(
        scheduled(1, 10000), capture_requested(1, 10000), captured(1, 10000)
    )
    given(*granted, scheduled(1, 10000)).when(record_authorization(1, approved(10000))).then(
        capture_requested(1, 10000), captured(1, 10000)
    )
    given(*granted, scheduled(1, 10000), capture_requested(1, 10000)).when(
        record_authorization(1, approved(10000))
    ).then(captured(1, 10000))


def test_only_newly_captured_money_is_recorded():
    order = (
        given(*IN_FLIGHT, *authorized_and_captured(1, 4000))
        .when(record_authorization(1, approved(10000)))
        .then(captured(1, 6000))
    )
    assert order.payments[0].status is PaymentStatus.CAPTURED
    assert order.payments[0].captured == 10000
    order = (
        given(*IN_FLIGHT, *authorized_and_captured(1, 10000))
        .when(record_authorization(1, approved(11000)))
        .then(late_capture(1, 1000, granted=11000))
    )
    assert order.overpaid_amount == 1000


def test_an_approval_of_zero_is_a_bug_of_the_adapter():
    nothing = Approved(authorized=Decimal(0), captured=Decimal(0), processor_reference="ref")
    with pytest.raises(AssertionError):
        decide_authorization_outcome(folded(IN_FLIGHT), record_authorization(1, nothing))


def test_an_outcome_for_a_payment_of_another_order_is_a_bug():
    with pytest.raises(AssertionError):
        decide_authorization_outcome(folded(IN_FLIGHT), record_authorization(2, approved(10000)))
