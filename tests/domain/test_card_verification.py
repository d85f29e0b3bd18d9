"""A card that is saved without a payment: verified first, and saved once, whatever comes in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.domain.test_payment_methods import CARD, CUSTOMER, saved

from ledger.domain.fold import fold
from ledger.domain.orders.statuses import Advice
from ledger.domain.orders.terms import AuthenticationSession
from ledger.domain.payment_methods.commands import (
    Challenged,
    DeletePaymentMethod,
    EraseMethods,
    ExpireVerification,
    NotCarriedOut,
    RecordVerification,
    Refused,
    ResumeVerification,
    SaveCard,
    Unknown,
    Verified,
    VerifyCard,
)
from ledger.domain.payment_methods.decide import METHODS_MAX, decide_delete, decide_erase_methods, decide_save
from ledger.domain.payment_methods.due import EXPIRY, LOOK_UP, due_of
from ledger.domain.payment_methods.events import (
    Billing,
    CardVerificationAbandoned,
    CardVerificationChallenged,
    CardVerificationDeclined,
    CardVerificationEnded,
    CardVerificationRequested,
    CardVerificationResumed,
    CardVerificationUnanswered,
    CardVerified,
    PaymentMethodExpiryChanged,
    PaymentMethodMadeDefault,
    PaymentMethodSaved,
)
from ledger.domain.payment_methods.evolve import evolve
from ledger.domain.payment_methods.state import SavedMethods
from ledger.domain.payment_methods.terms import EndedBecause, PayerStep, VerificationEnd
from ledger.domain.payment_methods.verification import (
    FAILED_MAX,
    FAILED_WITHIN,
    UNSENT_MAX,
    decide_resumption,
    decide_verification,
    decide_verification_expiry,
    decide_verification_outcome,
)
from ledger.domain.rejections import (
    InvalidField,
    InvalidPaymentMethodState,
    PaymentMethodLimitReached,
    PaymentMethodNotFound,
    RequestInProgress,
    TooManyCardVerifications,
)

AT, LATER = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 0, 5, tzinfo=UTC)
DEADLINE = AT + timedelta(seconds=30)
CHECK, AGAIN, ONE, TWO = (UUID(int=n) for n in (11, 12, 2, 3))
SESSION = AuthenticationSession(transaction_id="tx", reference_id="ref", access_token="secret", step_up_url="https://b")
BILLING = Billing(city="Puebla")


def verify(method: UUID = ONE, check: UUID = CHECK, at: datetime = AT, **changes: Any) -> VerifyCard:
    card = replace(CARD, **changes.pop("card", {}))
    return VerifyCard(
        verification_id=check, payment_method_id=method, customer_id=CUSTOMER, card=card, processor="sandbox",
        deadline_at=DEADLINE, at=at, **changes,
    )  # fmt: skip


def outcome(of: Any, check: UUID = CHECK, key: str | None = None) -> RecordVerification:
    return RecordVerification(verification_id=check, idempotency_key=key or str(check), outcome=of, at=LATER)


def resume(*steps: PayerStep, at: datetime = LATER, **changes: Any) -> ResumeVerification:
    return ResumeVerification(
        payment_method_id=ONE, steps=steps, idempotency_key="two", deadline_at=DEADLINE, at=at, **changes
    )


def after(*events: Any, given: SavedMethods | None = None) -> SavedMethods:
    return fold(evolve, given, events)


def begun(given: SavedMethods | None = None, **changes: Any) -> SavedMethods:
    return after(*decide_verification(given, verify(**changes)), given=given)


def then(methods: SavedMethods, of: Any, **changes: Any) -> tuple[list[Any], SavedMethods]:
    events = decide_verification_outcome(methods, outcome(of, **changes))
    return events, after(*events, given=methods)


CHALLENGED = then(begun(), Challenged(action=PayerStep.CHALLENGE, session=SESSION, session_s=900))[1]


def test_a_verified_card_is_saved_with_its_address_and_made_the_default_if_asked_for() -> None:
    [requested] = decide_verification(None, verify(billing=BILLING))
    assert isinstance(requested, CardVerificationRequested)
    assert requested.idempotency_key == str(CHECK)
    events, methods = then(after(requested), Verified(processor_reference="r", eci="05"))
    assert events == [
        CardVerified(verification_id=CHECK, processor_reference="r", eci="05", at=LATER),
        PaymentMethodSaved(
            payment_method_id=ONE, customer_id=CUSTOMER, card=CARD, at=LATER, is_default=True, billing=BILLING
        ),
    ]
    assert methods.verifications[0].card.cardholder_name is None, "the method has the name now"
    assert (methods.open_verification(ONE), methods.had(ONE)) == (None, False)
    second = begun(methods, method=TWO, check=AGAIN, is_default=True)
    events, methods = then(second, Verified(), check=AGAIN)
    assert events[-1] == PaymentMethodMadeDefault(payment_method_id=TWO, at=LATER)
    assert [method.is_default for method in methods.live] == [False, True]


@pytest.mark.parametrize(
    ("of", "event", "end"),
    [
        (
            Refused(code="CARD_EXPIRED", message="no", by_risk=True, network_advice=Advice.DO_NOT_RETRY),
            CardVerificationDeclined(
                verification_id=CHECK,
                code="CARD_EXPIRED",
                message="no",
                by_risk=True,
                network_advice=Advice.DO_NOT_RETRY,
                at=LATER,
            ),
            VerificationEnd.DECLINED,
        ),
        (
            NotCarriedOut(sent=False),
            CardVerificationAbandoned(verification_id=CHECK, at=LATER),
            VerificationEnd.NOT_SENT,
        ),
        (
            NotCarriedOut(sent=True),
            CardVerificationAbandoned(verification_id=CHECK, sent=True, at=LATER),
            VerificationEnd.NOT_FOUND,
        ),
    ],
)
def test_a_card_that_is_not_confirmed_is_not_saved_and_its_id_is_used_up(of: Any, event: Any, end: Any) -> None:
    events, methods = then(begun(billing=BILLING), of)
    assert events == [event]
    assert methods.verifications[0].network_advice == getattr(event, "network_advice", None)
    assert methods.live == []
    assert methods.had(ONE)
    [verification] = methods.verifications
    assert (verification.ended, verification.billing, verification.card.cardholder_name) == (end, None, None)
    assert then(methods, Verified())[0] == [], "a later answer to the same call saves nothing"


def test_an_unknown_outcome_stays_open_and_is_looked_up_until_it_is_known() -> None:
    methods = begun()
    [due] = due_of(methods)
    assert (due.kind, due.at) == (LOOK_UP, AT + timedelta(seconds=60))
    events, methods = then(methods, Unknown(reason="silent"))
    assert events == [CardVerificationUnanswered(verification_id=CHECK, reason="silent", at=LATER)]
    assert then(methods, Unknown(reason="silent"))[0] == []
    [due] = due_of(methods)
    assert (due.kind, due.at) == (LOOK_UP, LATER + timedelta(seconds=5))
    _, methods = then(methods, Verified())
    assert [method.payment_method_id for method in methods.live] == [ONE]
    assert list(due_of(methods)) == []


def test_a_payer_who_has_to_act_leaves_the_verification_open_until_its_session_ends() -> None:
    events, methods = then(begun(), Challenged(action=PayerStep.DEVICE_DATA, session=SESSION, session_s=900))
    expires_at = LATER + timedelta(seconds=900)
    assert events == [
        CardVerificationChallenged(
            verification_id=CHECK, action=PayerStep.DEVICE_DATA, expires_at=expires_at, session=SESSION, at=LATER
        )
    ]
    assert [(due.kind, due.at) for due in due_of(methods)] == [(EXPIRY, expires_at)]
    [resumed] = decide_resumption(methods, resume(PayerStep.DEVICE_DATA, reference_id="ref"))
    assert isinstance(resumed, CardVerificationResumed)
    assert (resumed.step, resumed.transaction_id) == (PayerStep.DEVICE_DATA, "tx")
    methods = after(resumed, given=methods)
    assert decide_verification_expiry(methods, ExpireVerification(payment_method_id=ONE, at=expires_at)) == []
    with pytest.raises(RequestInProgress):
        decide_resumption(methods, resume(PayerStep.DEVICE_DATA))
    assert then(methods, Verified())[0] == [], "the first call has its outcome"
    _, methods = then(methods, Challenged(action=PayerStep.DEVICE_DATA, session=SESSION, session_s=900), key="two")
    events, methods = then(after(*decide_resumption(methods, resume(PayerStep.DEVICE_DATA)), given=methods),
                           Challenged(action=PayerStep.REDIRECT, session=SESSION, session_s=900), key="two")  # fmt: skip
    assert methods.verifications[0].next_action is PayerStep.CHALLENGE, "device data leads to a challenge"


def test_a_call_without_effect_lets_the_payer_act_again() -> None:
    methods = after(*decide_resumption(CHALLENGED, resume(PayerStep.CHALLENGE)), given=CHALLENGED)
    _, methods = then(methods, NotCarriedOut(sent=False), key="two")
    assert methods.had(ONE) is False
    [resumed] = decide_resumption(methods, resume(PayerStep.CHALLENGE, transaction_id="tx"))
    assert isinstance(resumed, CardVerificationResumed)


@pytest.mark.parametrize(
    ("methods", "command", "refusal"),
    [
        (CHALLENGED, resume(PayerStep.DEVICE_DATA), InvalidPaymentMethodState),
        (CHALLENGED, resume(PayerStep.CHALLENGE, at=LATER + timedelta(minutes=15)), InvalidPaymentMethodState),
        (CHALLENGED, resume(PayerStep.CHALLENGE, transaction_id="other"), InvalidField),
        (CHALLENGED, resume(PayerStep.CHALLENGE, reference_id="other"), InvalidField),
        (begun(), resume(PayerStep.CHALLENGE), InvalidPaymentMethodState),
        (after(saved(ONE)), resume(PayerStep.CHALLENGE), InvalidPaymentMethodState),
        (after(saved(TWO)), resume(PayerStep.CHALLENGE), PaymentMethodNotFound),
    ],
)
def test_a_payer_can_continue_only_what_waits_for_this_step(methods: Any, command: Any, refusal: Any) -> None:
    with pytest.raises(refusal):
        decide_resumption(methods, command)


def test_a_session_that_ends_ends_its_verification() -> None:
    at = LATER + timedelta(minutes=15)
    early = ExpireVerification(payment_method_id=ONE, at=at - timedelta(seconds=1))
    assert decide_verification_expiry(CHALLENGED, early) == []
    events = decide_verification_expiry(CHALLENGED, ExpireVerification(payment_method_id=ONE, at=at))
    assert events == [CardVerificationEnded(verification_id=CHECK, because=EndedBecause.EXPIRED, at=at)]
    methods = after(*events, given=CHALLENGED)
    assert methods.had(ONE)
    assert decide_verification_expiry(methods, ExpireVerification(payment_method_id=ONE, at=at)) == []


def test_the_same_card_is_one_method_and_is_verified_again_only_with_another_expiry() -> None:
    given = after(saved(ONE, default=True), saved(TWO))
    assert decide_verification(given, verify()) == []
    assert decide_verification(given, verify(TWO, is_default=True)) == [
        PaymentMethodMadeDefault(payment_method_id=TWO, at=AT)
    ]
    renewed = begun(given, card={"exp_year": 2035})
    events, methods = then(renewed, Verified())
    assert events[1:] == [PaymentMethodExpiryChanged(payment_method_id=ONE, exp_month=12, exp_year=2035, at=LATER)]
    assert len(methods.live) == 2
    _, methods = then(renewed, Refused(code="GENERIC_DECLINE"))
    assert (methods.had(ONE), len(methods.live)) == (False, 2), "the method stays as it was"


def test_a_card_that_is_verified_again_and_again_makes_its_customer_no_larger() -> None:
    methods = None
    for n in range(50):
        methods = begun(methods, check=UUID(int=100 + n), card={"exp_year": 2035 + n % 2})
        _, methods = then(methods, Verified(), check=UUID(int=100 + n))
    assert methods is not None
    assert (len(methods.live), len(methods.verifications)) == (1, 1)


def test_a_second_verification_of_a_card_waits_for_the_processor_and_replaces_one_that_waits_for_its_payer() -> None:
    with pytest.raises(RequestInProgress):
        decide_verification(begun(), verify(check=AGAIN))
    ended, requested = decide_verification(CHALLENGED, verify(check=AGAIN))
    assert ended == CardVerificationEnded(verification_id=CHECK, because=EndedBecause.REPLACED, at=AT)
    methods = after(ended, requested, given=CHALLENGED)
    assert then(methods, Verified(), key="two")[0] == []
    assert len(then(methods, Verified(), check=AGAIN)[1].live) == 1


def test_a_card_that_a_payment_saves_meanwhile_is_saved_once() -> None:
    bought = SaveCard(payment_method_id=ONE, customer_id=CUSTOMER, card=CARD, at=AT)
    methods = after(*decide_save(begun(), bought), given=begun())
    assert [type(event) for event in then(methods, Verified())[0]] == [CardVerified]
    assert then(methods, Refused(code="GENERIC_DECLINE"))[1].had(ONE) is False


def test_a_card_that_is_deleted_or_erased_while_it_is_verified_is_not_saved_by_a_later_answer() -> None:
    for given in (begun(), CHALLENGED, begun(after(saved(ONE, default=True)), card={"exp_year": 2035})):
        events = decide_delete(given, DeletePaymentMethod(payment_method_id=ONE, at=LATER))
        assert events[0] == CardVerificationEnded(verification_id=CHECK, because=EndedBecause.DELETED, at=LATER)
        methods = after(*events, given=given)
        assert (methods.live, methods.had(ONE), then(methods, Verified())[0]) == ([], True, [])
        with pytest.raises(PaymentMethodNotFound):
            decide_delete(methods, DeletePaymentMethod(payment_method_id=ONE, at=LATER))
        erased = after(*decide_erase_methods(given, EraseMethods(at=LATER)), given=given)
        assert (erased.live, then(erased, Verified())[0]) == ([], [])
        assert decide_erase_methods(erased, EraseMethods(at=LATER)) == []


def test_cards_that_are_being_verified_take_places_among_a_customers_cards() -> None:
    given = after(*(saved(UUID(int=n)) for n in range(100, 99 + METHODS_MAX)))
    given = begun(given)
    with pytest.raises(PaymentMethodLimitReached):
        decide_verification(given, verify(TWO, AGAIN))
    with pytest.raises(PaymentMethodLimitReached):
        decide_save(given, SaveCard(payment_method_id=TWO, customer_id=CUSTOMER, card=CARD, at=AT))
    assert len(then(given, Verified())[1].live) == METHODS_MAX


def test_a_client_that_tests_stolen_cards_is_stopped_for_a_day() -> None:
    methods: SavedMethods | None = None
    for n in range(FAILED_MAX):
        check = UUID(int=100 + n)
        methods = begun(methods, method=UUID(int=200 + n), check=check)
        _, methods = then(methods, Refused(code="GENERIC_DECLINE"), check=check)
    with pytest.raises(TooManyCardVerifications):
        decide_verification(methods, verify())
    assert decide_verification(methods, verify(at=AT + FAILED_WITHIN))
    down: SavedMethods | None = None
    for n in range(UNSENT_MAX):
        check = UUID(int=100 + n)
        down = begun(down, method=UUID(int=200 + n), check=check)
        _, down = then(down, NotCarriedOut(sent=False), check=check)
    with pytest.raises(TooManyCardVerifications, match="could not be sent"):
        decide_verification(down, verify())
    assert decide_verification(down, verify(at=AT + FAILED_WITHIN))


def test_a_session_at_its_processor_is_asked_about_after_its_time_and_gets_no_more_of_it() -> None:
    asked = Challenged(action=PayerStep.CHALLENGE, session=SESSION, session_s=900, processor_reference="seti_1")
    waiting = then(begun(), asked)[1]
    end = waiting.verifications[0].action_expires_at
    assert end is not None
    with pytest.raises(InvalidPaymentMethodState):
        decide_resumption(CHALLENGED, resume(PayerStep.CHALLENGE, at=end))
    resumed = after(*decide_resumption(waiting, resume(PayerStep.CHALLENGE, at=end)), given=waiting)
    again = after(*decide_verification_outcome(resumed, replace(outcome(asked, key="two"), at=end)), given=resumed)
    assert again.verifications[0].action_expires_at == end
    assert decide_verification_expiry(again, ExpireVerification(payment_method_id=ONE, at=end)) != []
    ends = {"REPLACED": "seti_1", "DELETED": "seti_1", "CUSTOMER_ERASED": "seti_1", "EXPIRED": None}
    for because, kept in ends.items():
        ended = CardVerificationEnded(verification_id=CHECK, because=EndedBecause(because), at=end)
        assert after(ended, given=again).verifications[0].session_reference == kept
