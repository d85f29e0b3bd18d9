"""3-D Secure and redirects: what the payer does, what the processor then says (contract N17, N18, N41, N42, section 8.3)."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.domain.asking import SUBMITTED, VALIDATED, authentication_answered, device_data, payer_must, validate
from tests.domain.moves import BY_HAND, CHALLENGE, DEVICE, ONCE, ONE, REDIRECT, card, going_on, waiting
from tests.domain.scenario import given
from tests.domain.story import (
    NOON,
    SESSION,
    SPLIT,
    acting,
    approved,
    asked,
    authorized,
    continued,
    declined,
    folded,
    paid,
    settle,
    started,
    taken,
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


def going(key: str, step: NextAction, **changes: object) -> e.AuthenticationRequested:
    fields = {name: getattr(continued(1, 10000, step), name) for name in e.AuthenticationRequested.__struct_fields__}
    fields |= {"idempotency_key": key, "transaction_id": SESSION.transaction_id}
    return e.AuthenticationRequested(**(fields | changes))  # type: ignore[arg-type]


def test_a_payer_has_a_session_of_fifteen_minutes() -> None:
    events = given(*card(ONCE)).when(settle(1, payer_must())).then_events()
    assert events == [acting(1)]
    assert events[0].expires_at == NOON + timedelta(minutes=15)


def test_a_processor_may_give_its_payers_another_time() -> None:
    for history, command in (
        (card(ONCE), settle(1, payer_must())),
        (going_on(ONCE, DEVICE), authentication_answered(payer_must(), step=DEVICE)),
    ):
        events = given(*history).when(replace(command, session_s=60)).then_events()
        assert events[0].expires_at == NOON + timedelta(minutes=1)


def test_device_data_goes_on_with_the_payment() -> None:
    given(*waiting(ONCE, DEVICE)).when(device_data()).then(going(SUBMITTED, DEVICE))


def test_device_data_may_be_followed_by_a_challenge() -> None:
    order = given(*going_on(ONCE, DEVICE)).when(authentication_answered(payer_must(), step=DEVICE)).then(acting(1))
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
def test_a_session_never_goes_back(now: NextAction, asked_for: NextAction, follows: NextAction) -> None:
    given(*going_on(ONCE, now)).when(authentication_answered(payer_must(asked_for), step=now)).then(acting(1, follows))


def test_a_frictionless_payment_is_authorised_and_captured_later() -> None:
    order = (
        given(*going_on(ONCE, DEVICE))
        .when(authentication_answered(approved(10000, 0), step=DEVICE))
        .then(authenticated(frictionless=True, resumed=True), authorized(1, 10000), IN_FIVE_SECONDS)
    )
    assert order.status is OrderStatus.AUTHORIZED


def test_a_payer_who_passes_leaves_the_order_authorised() -> None:
    order = (
        given(*going_on(ONCE, CHALLENGE))
        .when(authentication_answered(approved(10000, 0)))
        .then(authenticated(), authorized(1, 10000), IN_FIVE_SECONDS)
    )
    assert order.status is OrderStatus.AUTHORIZED


def test_without_a_delay_the_capture_comes_with_the_authorisation() -> None:
    given(*waiting(ONCE, CHALLENGE)).when(validate(capture_delay_s=0)).then(
        going(VALIDATED, CHALLENGE, capture=True, capture_delay_s=0)
    )
    given(*going_on(ONCE, CHALLENGE)).when(authentication_answered(approved(10000))).then(
        authenticated(), *taken(1, 10000)
    )


def test_a_merchant_who_captures_by_hand_is_waited_for() -> None:
    given(*going_on(BY_HAND, CHALLENGE)).when(authentication_answered(approved(10000, 0))).then(
        authenticated(), authorized(1, 10000)
    )


def test_a_failed_challenge_fails_the_payment() -> None:
    failed = e.PayerAuthenticationFailed(payment_id=ONE, code="AUTHENTICATION_FAILED", at=NOON)
    order = (
        given(*going_on(ONCE, CHALLENGE))
        .when(authentication_answered(Declined(code="AUTHENTICATION_FAILED")))
        .then(failed)
    )
    assert order.status is OrderStatus.FAILED


def test_an_issuer_may_decline_a_payer_who_passed() -> None:
    events = (
        given(*going_on(ONCE, CHALLENGE))
        .when(authentication_answered(Declined(code="INSUFFICIENT_FUNDS")))
        .then_events()
    )
    assert events == [declined(1)]


def test_the_id_must_be_that_of_the_payments_challenge() -> None:
    given(*waiting(ONCE, CHALLENGE)).when(validate(transaction_id="other")).then_rejected(
        InvalidField, field="authenticationTransactionId"
    )
    given(*waiting(ONCE, CHALLENGE)).when(validate(transaction_id="fail", is_simulated=True)).then(
        going(VALIDATED, CHALLENGE, transaction_id="fail")
    )


def test_the_reference_must_be_that_of_the_payments_session() -> None:
    given(*waiting(ONCE, DEVICE)).when(device_data(reference_id="other")).then_rejected(
        InvalidField, field="referenceId"
    )


@pytest.mark.parametrize("command", [device_data(), validate()])
def test_an_order_that_waits_for_nobody_takes_neither(command: object) -> None:
    with pytest.raises(InvalidOrderState):
        given(*card(ONCE)).when(command).then_events()


def test_a_session_that_is_over_takes_nothing() -> None:
    with pytest.raises(InvalidOrderState):
        decide_validation(folded(waiting(ONCE, CHALLENGE)), validate(at=NOON + timedelta(minutes=15)))


def test_one_who_validates_twice_at_once_waits() -> None:
    given(*going_on(ONCE, CHALLENGE)).when(validate()).then_rejected(RequestInProgress)


def test_a_part_that_no_longer_fits_fails_before_it_is_authorised() -> None:
    history = (*waiting(SPLIT, CHALLENGE, 6000), *paid(2, 5000))
    events = given(*history).when(validate()).then_events()
    assert [(type(event), event.code) for event in events] == [(e.PaymentDeclined, "AMOUNT_EXCEEDS_PENDING")]
    order = folded([*history, *events])
    assert (order.payments[0].status, order.status) == (PaymentStatus.FAILED, OrderStatus.PARTIALLY_PAID)


def test_a_session_reserves_nothing_until_the_processor_is_asked_to_go_on() -> None:
    assert folded(waiting(SPLIT, CHALLENGE, 6000)).reserved == 0
    assert folded(going_on(SPLIT, CHALLENGE, 6000)).reserved == 6000


@pytest.mark.parametrize(
    ("outcome", "because"), [(NotSent(), e.AbandonedBecause.NOT_SENT), (NotFound(), e.AbandonedBecause.NOT_FOUND)]
)
def test_a_call_that_came_to_nothing_lets_the_payer_try_again(outcome: object, because: e.AbandonedBecause) -> None:
    abandoned = e.CallAbandoned(payment_id=ONE, call=e.ProcessorCall.AUTHENTICATION, because=because, at=NOON)
    order = given(*going_on(ONCE, CHALLENGE)).when(authentication_answered(outcome)).then(abandoned)  # type: ignore[arg-type]
    assert order.status is OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED
    given(*going_on(ONCE, CHALLENGE), abandoned).when(validate()).then(going(VALIDATED, CHALLENGE))


def test_a_silence_is_noted_once() -> None:
    silence = e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.AUTHENTICATION, reason="no answer", at=NOON)
    given(*going_on(ONCE, CHALLENGE)).when(authentication_answered(Unanswered(reason="no answer"))).then(silence)


def test_money_taken_after_the_session_expired_is_recorded() -> None:
    expired = e.PaymentExpired(payment_id=ONE, because=e.ExpiredBecause.SESSION, at=NOON)
    events = given(*waiting(ONCE, CHALLENGE), expired).when(authentication_answered(approved(10000))).then_events()
    assert [type(event) for event in events] == [e.LateCaptureReported]
    order = folded([*waiting(ONCE, CHALLENGE), expired, *events])
    assert order.status is OrderStatus.COMPLETED


def test_an_approval_for_less_is_granted_in_part() -> None:
    less = Approved(authorized=Decimal(6000), captured=Decimal(0), processor_reference="ref", authorization_code="A1")
    order = folded(
        [
            *going_on(BY_HAND, CHALLENGE),
            *given(*going_on(BY_HAND, CHALLENGE)).when(authentication_answered(less)).then_events(),
        ]
    )
    assert order.status is OrderStatus.PARTIALLY_AUTHORIZED


def test_a_further_part_of_a_split_order_may_wait_beside_it() -> None:
    order = folded([*waiting(SPLIT, CHALLENGE, 4000), started(2, 4000)])
    assert order.status is OrderStatus.PROCESSING


def test_a_part_that_failed_so_is_known_when_it_is_repeated_and_no_other_part_goes_on() -> None:
    other = (started(3, 6000), asked(3, 6000), acting(3))
    history = (SPLIT, *other, *waiting(SPLIT, CHALLENGE, 6000)[1:], *paid(2, 5000))
    events = given(*history).when(validate()).then_events()
    assert [event.payment_id for event in events] == [ONE]


@pytest.mark.parametrize(
    ("history", "command"),
    [
        (going_on(ONCE, CHALLENGE), authentication_answered(replace(approved(10000), eci="02"))),
        (going_on(ONCE, DEVICE), authentication_answered(replace(approved(10000), eci="02"), step=DEVICE)),
        (going_on(ONCE, CHALLENGE), authentication_answered(Declined(code="AUTHENTICATION_FAILED", eci="02"))),
        (waiting(ONCE, CHALLENGE), settle(1, replace(approved(6000), eci="02"))),
    ],
    ids=["challenge", "frictionless", "failed", "reported unasked"],
)
def test_the_networks_word_is_kept(history: tuple[object, ...], command: object) -> None:
    authenticated, *_ = given(*history).when(command).then_events()
    assert authenticated.eci == "02"
