"""3-D Secure and redirects: the payer's steps and the processor's answers (contract N17, N18, N41, N42, section
8.3)."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.domain.action_builders import (
    DEVICE_DATA_KEY,
    VALIDATION_KEY,
    action_required,
    device_data,
    record_authentication,
    validate,
)
from tests.domain.builders import (
    NOON,
    SESSION,
    SPLIT,
    approved,
    authentication_requested,
    authorization_requested,
    authorized,
    authorized_and_captured,
    declined,
    folded,
    paid,
    payer_action_required,
    record_authorization,
    started,
)
from tests.domain.scenario import given
from tests.domain.transition_rows import (
    CHALLENGE,
    DEVICE,
    MANUAL_CAPTURE,
    ONE,
    PAID_AT_CREATION,
    REDIRECT,
    authenticating,
    awaiting_payer,
    with_card_payment,
)

from ledger.domain.orders import events as e
from ledger.domain.orders.decide.authentication import decide_validation
from ledger.domain.orders.processor_outcomes import Approved, Declined, NotFound, NotSent, Unanswered
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus
from ledger.domain.rejections import InvalidField, InvalidOrderState, RequestInProgress

IN_FIVE_SECONDS = e.CaptureScheduled(payment_id=ONE, amount=Decimal(10000), due_at=NOON + timedelta(seconds=5), at=NOON)


def authenticated(*, frictionless: bool = False, resumed: bool = False) -> e.PayerAuthenticated:
    return e.PayerAuthenticated(
        payment_id=ONE, at=NOON, frictionless=frictionless, resumed=resumed, transaction_id=SESSION.transaction_id
    )


def authentication_request(key: str, step: NextAction, **changes: object) -> e.AuthenticationRequested:
    fields = {
        name: getattr(authentication_requested(1, 10000, step), name)
        for name in e.AuthenticationRequested.__struct_fields__
    }
    fields |= {"idempotency_key": key, "transaction_id": SESSION.transaction_id}
    return e.AuthenticationRequested(**(fields | changes))  # type: ignore[arg-type]


def test_a_payer_has_a_session_of_fifteen_minutes() -> None:
    events = given(*with_card_payment(PAID_AT_CREATION)).when(record_authorization(1, action_required())).then_events()
    assert events == [payer_action_required(1)]
    assert events[0].expires_at == NOON + timedelta(minutes=15)


def test_a_processor_can_set_the_length_of_a_session() -> None:
    for history, command in (
        (with_card_payment(PAID_AT_CREATION), record_authorization(1, action_required())),
        (authenticating(PAID_AT_CREATION, DEVICE), record_authentication(action_required(), step=DEVICE)),
    ):
        events = given(*history).when(replace(command, session_s=60)).then_events()
        assert events[0].expires_at == NOON + timedelta(minutes=1)


def test_device_data_continues_the_payment() -> None:
    given(*awaiting_payer(PAID_AT_CREATION, DEVICE)).when(device_data()).then(
        authentication_request(DEVICE_DATA_KEY, DEVICE)
    )


def test_device_data_may_be_followed_by_a_challenge() -> None:
    order = (
        given(*authenticating(PAID_AT_CREATION, DEVICE))
        .when(record_authentication(action_required(), step=DEVICE))
        .then(payer_action_required(1))
    )
    assert order.status is OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED


@pytest.mark.parametrize(
    ("now", "asked_for", "follows"),
    [
        (DEVICE, REDIRECT, CHALLENGE),
        (DEVICE, DEVICE, DEVICE),
        (CHALLENGE, DEVICE, CHALLENGE),
        (REDIRECT, CHALLENGE, REDIRECT),
    ],
)
def test_a_challenge_never_leads_back_to_device_data(
    now: NextAction, asked_for: NextAction, follows: NextAction
) -> None:
    given(*authenticating(PAID_AT_CREATION, now)).when(
        record_authentication(action_required(asked_for), step=now)
    ).then(payer_action_required(1, follows))


def test_a_frictionless_payment_is_authorised_and_captured_later() -> None:
    order = (
        given(*authenticating(PAID_AT_CREATION, DEVICE))
        .when(record_authentication(approved(10000, 0), step=DEVICE))
        .then(authenticated(frictionless=True, resumed=True), authorized(1, 10000), IN_FIVE_SECONDS)
    )
    assert order.status is OrderStatus.AUTHORIZED


def test_a_passed_challenge_authorises_the_order() -> None:
    order = (
        given(*authenticating(PAID_AT_CREATION, CHALLENGE))
        .when(record_authentication(approved(10000, 0)))
        .then(authenticated(), authorized(1, 10000), IN_FIVE_SECONDS)
    )
    assert order.status is OrderStatus.AUTHORIZED


def test_without_a_capture_delay_the_authorisation_requests_the_capture() -> None:
    given(*awaiting_payer(PAID_AT_CREATION, CHALLENGE)).when(validate(capture_delay_s=0)).then(
        authentication_request(VALIDATION_KEY, CHALLENGE, capture=True, capture_delay_s=0)
    )
    given(*authenticating(PAID_AT_CREATION, CHALLENGE)).when(record_authentication(approved(10000))).then(
        authenticated(), *authorized_and_captured(1, 10000)
    )


def test_a_manual_capture_is_not_scheduled_after_authentication() -> None:
    given(*authenticating(MANUAL_CAPTURE, CHALLENGE)).when(record_authentication(approved(10000, 0))).then(
        authenticated(), authorized(1, 10000)
    )


def test_a_failed_challenge_fails_the_payment() -> None:
    failed = e.PayerAuthenticationFailed(payment_id=ONE, code="AUTHENTICATION_FAILED", at=NOON)
    order = (
        given(*authenticating(PAID_AT_CREATION, CHALLENGE))
        .when(record_authentication(Declined(code="AUTHENTICATION_FAILED")))
        .then(failed)
    )
    assert order.status is OrderStatus.FAILED


def test_an_issuer_can_decline_an_authenticated_payer() -> None:
    events = (
        given(*authenticating(PAID_AT_CREATION, CHALLENGE))
        .when(record_authentication(Declined(code="INSUFFICIENT_FUNDS")))
        .then_events()
    )
    assert events == [declined(1)]


def test_the_id_must_be_that_of_the_payments_challenge() -> None:
    given(*awaiting_payer(PAID_AT_CREATION, CHALLENGE)).when(validate(transaction_id="other")).then_rejected(
        InvalidField, field="authenticationTransactionId"
    )
    given(*awaiting_payer(PAID_AT_CREATION, CHALLENGE)).when(
        validate(transaction_id="fail", simulated=frozenset({"sandbox"}))
    ).then(authentication_request(VALIDATION_KEY, CHALLENGE, transaction_id="fail"))


def test_the_reference_must_be_that_of_the_payments_session() -> None:
    given(*awaiting_payer(PAID_AT_CREATION, DEVICE)).when(device_data(reference_id="other")).then_rejected(
        InvalidField, field="referenceId"
    )


@pytest.mark.parametrize("command", [device_data(), validate()])
def test_an_order_that_waits_for_no_payer_takes_neither_device_data_nor_a_validation(command: object) -> None:
    with pytest.raises(InvalidOrderState):
        given(*with_card_payment(PAID_AT_CREATION)).when(command).then_events()


def test_an_expired_session_takes_neither_device_data_nor_a_validation() -> None:
    with pytest.raises(InvalidOrderState):
        decide_validation(
            folded(awaiting_payer(PAID_AT_CREATION, CHALLENGE)), validate(at=NOON + timedelta(minutes=15))
        )


def test_a_second_validation_during_the_first_is_refused_as_in_progress() -> None:
    given(*authenticating(PAID_AT_CREATION, CHALLENGE)).when(validate()).then_rejected(RequestInProgress)


def test_a_part_that_was_paid_otherwise_fails_before_it_is_authorised() -> None:
    history = (*awaiting_payer(SPLIT, CHALLENGE, 6000), *paid(2, 5000))
    events = given(*history).when(validate()).then_events()
    assert [(type(event), event.code) for event in events] == [(e.PaymentDeclined, "AMOUNT_EXCEEDS_PENDING")]
    order = folded([*history, *events])
    assert (order.payments[0].status, order.status) == (PaymentStatus.FAILED, OrderStatus.PARTIALLY_PAID)


def test_a_session_reserves_nothing_until_its_authorisation_is_requested() -> None:
    assert folded(awaiting_payer(SPLIT, CHALLENGE, 6000)).reserved == 0
    assert folded(authenticating(SPLIT, CHALLENGE, 6000)).reserved == 6000


@pytest.mark.parametrize(
    ("outcome", "because"), [(NotSent(), e.AbandonedBecause.NOT_SENT), (NotFound(), e.AbandonedBecause.NOT_FOUND)]
)
def test_an_abandoned_call_lets_the_payer_try_again(outcome: object, because: e.AbandonedBecause) -> None:
    abandoned = e.CallAbandoned(payment_id=ONE, call=e.ProcessorCall.AUTHENTICATION, because=because, at=NOON)
    order = given(*authenticating(PAID_AT_CREATION, CHALLENGE)).when(record_authentication(outcome)).then(abandoned)  # type: ignore[arg-type]
    assert order.status is OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED
    given(*authenticating(PAID_AT_CREATION, CHALLENGE), abandoned).when(validate()).then(
        authentication_request(VALIDATION_KEY, CHALLENGE)
    )


def test_a_call_without_an_answer_is_recorded_once() -> None:
    unanswered = e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.AUTHENTICATION, reason="no answer", at=NOON)
    given(*authenticating(PAID_AT_CREATION, CHALLENGE)).when(
        record_authentication(Unanswered(reason="no answer"))
    ).then(unanswered)


def test_money_captured_after_the_session_expired_is_recorded() -> None:
    expired = e.PaymentExpired(payment_id=ONE, because=e.ExpiredBecause.SESSION, at=NOON)
    events = (
        given(*awaiting_payer(PAID_AT_CREATION, CHALLENGE), expired)
        .when(record_authentication(approved(10000)))
        .then_events()
    )
    assert [type(event) for event in events] == [e.LateCaptureReported]
    order = folded([*awaiting_payer(PAID_AT_CREATION, CHALLENGE), expired, *events])
    assert order.status is OrderStatus.COMPLETED


def test_an_approval_for_less_authorises_in_part() -> None:
    less = Approved(authorized=Decimal(6000), captured=Decimal(0), processor_reference="ref", authorization_code="A1")
    order = folded(
        [
            *authenticating(MANUAL_CAPTURE, CHALLENGE),
            *given(*authenticating(MANUAL_CAPTURE, CHALLENGE)).when(record_authentication(less)).then_events(),
        ]
    )
    assert order.status is OrderStatus.PARTIALLY_AUTHORIZED


def test_a_further_part_of_a_split_order_can_be_opened_during_a_session() -> None:
    order = folded([*awaiting_payer(SPLIT, CHALLENGE, 4000), started(2, 4000)])
    assert order.status is OrderStatus.PROCESSING


def test_a_repeated_validation_of_a_failed_part_continues_no_other_part() -> None:
    other = (started(3, 6000), authorization_requested(3, 6000), payer_action_required(3))
    history = (SPLIT, *other, *awaiting_payer(SPLIT, CHALLENGE, 6000)[1:], *paid(2, 5000))
    events = given(*history).when(validate()).then_events()
    assert [event.payment_id for event in events] == [ONE]


@pytest.mark.parametrize(
    ("history", "command"),
    [
        (authenticating(PAID_AT_CREATION, CHALLENGE), record_authentication(replace(approved(10000), eci="02"))),
        (
            authenticating(PAID_AT_CREATION, DEVICE),
            record_authentication(replace(approved(10000), eci="02"), step=DEVICE),
        ),
        (
            authenticating(PAID_AT_CREATION, CHALLENGE),
            record_authentication(Declined(code="AUTHENTICATION_FAILED", eci="02")),
        ),
        (awaiting_payer(PAID_AT_CREATION, CHALLENGE), record_authorization(1, replace(approved(6000), eci="02"))),
    ],
    ids=["challenge", "frictionless", "failed", "reported unasked"],
)
def test_the_eci_of_the_card_network_is_kept(history: tuple[object, ...], command: object) -> None:
    authenticated, *_ = given(*history).when(command).then_events()
    assert authenticated.eci == "02"
