"""Cases of authorisations: their answers, repeated calls, amounts, and what an account takes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from msgspec.structs import replace
from tests.processors.contract.account import AccountUnderTest, CardKind, Need, timeless
from tests.processors.contract.cases import Run, add_case, case, failure_of, outcome_of
from uuid_utils.compat import uuid7

from ledger.domain.orders.capabilities import MethodCapability
from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.processor_outcomes import Approved, CaptureRefused, Declined, VoidRefused
from ledger.domain.orders.statuses import Advice
from ledger.domain.orders.terms import BillingAddress, MethodType
from ledger.processors.contract import Card, Payer, ProcessorTimedOut, ProcessorUnavailable

DECLINES: Final[Mapping[CardKind, str]] = {
    CardKind.GENERIC: "GENERIC_DECLINE",
    CardKind.INSUFFICIENT_FUNDS: "INSUFFICIENT_FUNDS",
    CardKind.LOST: "CARD_LOST_OR_STOLEN",
    CardKind.STOLEN: "CARD_LOST_OR_STOLEN",
    CardKind.EXPIRED: "CARD_EXPIRED",
    CardKind.INVALID_CVV: "INVALID_CVV",
    CardKind.UNAVAILABLE: "ISSUER_UNAVAILABLE",
    CardKind.FRAUD: "SUSPECTED_FRAUD",
}
LARGEST: Final = 99_999_999
"""The largest amount that every processor takes, in minor units."""


@case(CardKind.APPROVED)
async def a_payment_is_authorized_and_captured_in_one_call(at: AccountUnderTest) -> None:
    request = await at.payment()
    answer = await at.processor.authorize(request)
    assert isinstance(answer, Approved)
    assert (answer.authorized, answer.captured) == (10_000, 10_000)
    assert await at.done() == [(request.idempotency_key, 10_000, 0, False)]
    [record] = await at.records()
    assert record.processor_reference == answer.processor_reference


@case(CardKind.APPROVED)
async def a_payment_is_held_until_it_is_captured(at: AccountUnderTest) -> None:
    answer = await at.processor.authorize(await at.payment(capture=False))
    assert isinstance(answer, Approved)
    assert (answer.authorized, answer.captured) == (10_000, 0)
    assert await at.done() == []


def _declined_with(kind: CardKind, code: str) -> Run:
    async def declined(at: AccountUnderTest) -> None:
        for capture in (True, False):
            request = await at.payment(kind, capture=capture)
            answer = await at.processor.authorize(request)
            assert isinstance(answer, Declined), answer
            assert (answer.code, bool(answer.message)) == (code, True)
            assert (answer.refused_by is RefusedBy.RISK) is (kind is CardKind.FRAUD)
            assert await at.processor.look_up(at.question(request)) == answer
            assert await at.processor.authorize(request) == answer, "a repeated call has the same answer"
        assert await at.done() == []

    return declined


for _kind, _code in DECLINES.items():
    add_case(f"{_kind} is declined".replace(" ", "_"), _declined_with(_kind, _code), _kind)


@case(CardKind.ADVISED)
async def a_decline_has_what_the_network_advises(at: AccountUnderTest) -> None:
    answer = await at.processor.authorize(await at.payment(CardKind.ADVISED))
    assert isinstance(answer, Declined)
    assert answer.network_advice is Advice.DO_NOT_RETRY


@case(CardKind.APPROVED, CardKind.GENERIC)
async def a_payer_whose_card_was_declined_pays_with_another_one(at: AccountUnderTest) -> None:
    about = {"order_id": uuid7()}
    assert isinstance(await at.processor.authorize(await at.payment(CardKind.GENERIC, **about)), Declined)
    paid = await at.payment(**about)
    assert isinstance(await at.processor.authorize(paid), Approved)
    assert await at.done() == [(paid.idempotency_key, 10_000, 0, False)]


@case(CardKind.APPROVED)
async def a_repeated_payment_has_the_same_answer_and_charges_once(at: AccountUnderTest) -> None:
    for capture in (True, False):
        request = await at.payment(capture=capture)
        answers = [timeless(await at.processor.authorize(request)) for _ in range(3)]
        assert isinstance(answers[0], Approved)
        assert answers.count(answers[0]) == 3
    assert [captured for _, captured, *_ in await at.done()] == [10_000]


@case(CardKind.APPROVED)
async def payments_with_one_key_at_once_charge_once(at: AccountUnderTest) -> None:
    request = await at.payment()
    outcomes = await asyncio.gather(*(outcome_of(at.processor.authorize(request)) for _ in range(5)))
    answers = [outcome for outcome in outcomes if not isinstance(outcome, ProcessorTimedOut)]
    assert isinstance(answers[0], Approved)
    assert answers.count(answers[0]) == len(answers)
    assert await at.done() == [(request.idempotency_key, 10_000, 0, False)]


@case(CardKind.APPROVED)
async def a_key_that_comes_with_another_amount_charges_no_more(at: AccountUnderTest) -> None:
    """A request with a known key is the same request: it has that answer, or none."""
    request = await at.payment()
    answer = await at.processor.authorize(request)
    other = await outcome_of(at.processor.authorize(replace(request, amount=Decimal(20_000))))
    assert other == answer or isinstance(other, ProcessorTimedOut), other
    assert await at.processor.look_up(at.question(request)) == answer
    assert await at.done() == [(request.idempotency_key, 10_000, 0, False)]


@case(CardKind.APPROVED)
async def two_keys_are_two_payments(at: AccountUnderTest) -> None:
    first, second = await at.payment(order_id=uuid7()), await at.payment(order_id=uuid7())
    references = {(await at.processor.authorize(each)).processor_reference for each in (first, second)}  # type: ignore[union-attr]
    assert len(references) == 2
    assert len(await at.done()) == 2


@case(CardKind.APPROVED, Need.SHARED)
async def a_key_of_another_merchant_is_another_payment(at: AccountUnderTest) -> None:
    ours = await at.payment()
    theirs = replace(await at.payment(), idempotency_key=ours.idempotency_key, merchant_id=uuid7())
    first, second = await at.processor.authorize(ours), await at.processor.authorize(theirs)
    assert isinstance(first, Approved)
    assert isinstance(second, Approved)
    assert first.processor_reference != second.processor_reference
    assert await at.processor.look_up(at.question(ours)) == first


@case(CardKind.APPROVED)
async def an_account_does_not_know_the_payments_of_another_one(at: AccountUnderTest) -> None:
    other = await at.elsewhere()
    paid = await other.payment()
    answer = await other.processor.authorize(paid)
    assert isinstance(answer, Approved)
    foreign = at.refund(answer.processor_reference)
    assert type(await at.processor.refund(foreign)).__name__ == "RefundRefused"
    assert await at.processor.look_up(replace(at.question(paid), merchant_id=at.merchant_id)) is None
    assert await at.done() == []
    assert await other.done() == [(paid.idempotency_key, 10_000, 0, False)]


@case(CardKind.APPROVED)
async def dollars_are_charged_as_dollars(at: AccountUnderTest) -> None:
    request = await at.payment(currency="USD", capture=False)
    answer = await at.processor.authorize(request)
    assert isinstance(answer, Approved)
    capture = replace(at.capture(answer.processor_reference), currency="USD")
    assert (await at.processor.capture(capture)).amount == 10_000  # type: ignore[union-attr]


@case(CardKind.APPROVED)
async def amounts_come_back_as_they_were_sent(at: AccountUnderTest) -> None:
    """The unit of the processor is its own: what it answers, lists and finds is what was asked for."""
    amounts = [1_000, 1_001, 33_333, 123_456, LARGEST]
    keys = {}
    for amount in amounts:
        request = await at.payment(amount=Decimal(amount))
        keys[request.idempotency_key] = amount
        answer = await at.processor.authorize(request)
        assert isinstance(answer, Approved)
        assert (answer.authorized, answer.captured) == (amount, amount)
        assert await at.processor.look_up(at.question(request)) == answer
    assert {key: captured for key, captured, *_ in await at.done()} == keys


@case(CardKind.APPROVED)
async def the_smallest_amount_of_each_method_can_be_charged(at: AccountUnderTest) -> None:
    for method in at.processor.capabilities.methods:
        if method.type is MethodType.CARD:
            currency, amount = (method.currencies or ("MXN",))[0], _smallest(at, method)
            answer = await at.processor.authorize(await at.payment(amount=amount, currency=currency))
            assert isinstance(answer, Approved), method
            assert answer.captured == amount


def _smallest(at: AccountUnderTest, method: MethodCapability) -> Decimal:
    smallest: Decimal = method.amount_min or at.processor.capabilities.smallest_amount
    return smallest


@case(CardKind.APPROVED, Need.FRACTIONS)
async def fractions_of_a_minor_unit_are_charged_captured_and_refunded(at: AccountUnderTest) -> None:
    unit = at.processor.capabilities.smallest_amount
    held = await at.authorized(amount=unit * 3)
    captured = await at.processor.capture(replace(at.capture(held), amount=unit * 2))
    assert captured.amount == unit * 2  # type: ignore[union-attr]
    refunded = await at.processor.refund(replace(at.refund(held), amount=unit))
    assert refunded.amount == unit  # type: ignore[union-attr]
    assert sorted((r.captured, r.refunded) for r in await at.records()) == [(0, unit), (unit * 2, 0)]


@case(CardKind.APPROVED, Need.WHOLE_UNITS)
async def a_fraction_of_the_unit_is_never_sent(at: AccountUnderTest) -> None:
    held = await at.authorized()
    sent, amount = at.posts(), Decimal("1000.5")
    refused = [
        await failure_of(at.processor.authorize(await at.payment(amount=amount))),
        await failure_of(at.processor.capture(replace(at.capture(held), amount=amount))),
        await failure_of(at.processor.refund(replace(at.refund(held), amount=amount))),
        await failure_of(at.processor.issue_reference(at.reference(MethodType.PAYCASH, amount=amount))),
    ]
    assert all(isinstance(failure, ProcessorUnavailable) for failure in refused)
    assert await at.done() == []
    assert at.posts() == sent


@case(CardKind.APPROVED, Need.NUMBERS)
async def a_cards_number_is_charged(at: AccountUnderTest) -> None:
    card = Card(number="4242424242424242", exp_month=12, exp_year=2031, cvc="987")
    assert isinstance(await at.processor.authorize(await at.payment(card=card)), Approved)


@case(CardKind.APPROVED, Need.TOKENS_ONLY)
async def a_cards_number_is_never_sent(at: AccountUnderTest) -> None:
    card = Card(number="4242424242424242", exp_month=12, exp_year=2031, cvc="987")
    sent = at.posts()
    assert isinstance(await failure_of(at.processor.authorize(await at.payment(card=card))), ProcessorUnavailable)
    assert at.posts() == sent


@case(CardKind.APPROVED)
async def a_payment_carries_its_payer_and_its_text(at: AccountUnderTest) -> None:
    address = BillingAddress(address="Reforma 1", city="CDMX", state="CDMX", postal_code="06500", country="MX")
    payer = Payer(name="Ana López", email="ana@example.com", phone="+525512345678", address=address)
    request = await at.payment(payer=payer, description="Una taza", virtual_terminal=True)
    answer = await at.processor.authorize(request)
    assert isinstance(answer, Approved)
    assert await at.processor.look_up(at.question(request, fence=at.processor.capabilities.can_fence)) == answer


@case(CardKind.APPROVED, CardKind.GENERIC, Need.VERIFIES)
async def a_card_is_verified_with_no_money(at: AccountUnderTest) -> None:
    verified = await at.payment(amount=Decimal(0), capture=False, payment_method_id=uuid7())
    answer = await at.processor.authorize(verified)
    assert isinstance(answer, Approved)
    assert (answer.authorized, answer.captured) == (0, 0)
    assert await at.processor.look_up(at.question(verified)) == answer
    wrong = await at.payment(CardKind.GENERIC, amount=Decimal(0), capture=False, payment_method_id=uuid7())
    assert isinstance(await at.processor.authorize(wrong), Declined)
    assert await at.done() == []


@case(CardKind.HALF)
async def a_partial_approval_grants_a_part(at: AccountUnderTest) -> None:
    answer = await at.processor.authorize(await at.payment(CardKind.HALF))
    assert isinstance(answer, Approved)
    assert (answer.authorized, answer.captured) == (5_000, 5_000)


@case(CardKind.CAPTURES_REFUSED)
async def a_card_whose_captures_are_refused_is_held(at: AccountUnderTest) -> None:
    answer = await at.processor.authorize(await at.payment(CardKind.CAPTURES_REFUSED))
    assert isinstance(answer, Approved)
    assert (answer.authorized, answer.captured) == (10_000, 0)
    assert isinstance(await at.processor.capture(at.capture(answer.processor_reference)), CaptureRefused)
    assert await at.done() == []


@case(CardKind.VOIDS_REFUSED)
async def a_void_can_be_refused(at: AccountUnderTest) -> None:
    held = await at.authorized(CardKind.VOIDS_REFUSED)
    assert isinstance(await at.processor.void(at.void(held)), VoidRefused)
    assert await at.done() == []


@case(CardKind.PLANS)
async def a_payment_is_made_in_instalments(at: AccountUnderTest) -> None:
    request = await at.payment(CardKind.PLANS, amount=Decimal(60_000), installments=6)
    answer = await at.processor.authorize(request)
    assert isinstance(answer, Approved)
    assert answer.captured == 60_000
    assert await at.processor.authorize(request) == answer
    assert await at.processor.look_up(at.question(request)) == answer
    assert await at.done() == [(request.idempotency_key, 60_000, 0, False)]


@case(CardKind.PLANS, CardKind.NO_PLANS)
async def a_plan_that_the_bank_does_not_offer_charges_nothing(at: AccountUnderTest) -> None:
    for kind, amount, months in ((CardKind.NO_PLANS, 60_000, 6), (CardKind.PLANS, 30_000, 24)):
        answer = await at.processor.authorize(await at.payment(kind, amount=Decimal(amount), installments=months))
        assert isinstance(answer, Declined)
        assert answer.code == "INSTALLMENTS_NOT_AVAILABLE"
    assert await at.done() == []


@case(CardKind.SAVED)
async def a_saved_card_is_charged_without_its_payer(at: AccountUnderTest) -> None:
    card = await at.card(CardKind.SAVED)
    for _ in range(2):
        assert isinstance(await at.processor.authorize(await at.payment(card=card, saved_card=True)), Approved)
    assert len(await at.done()) == 2


@case(CardKind.USED_ONCE)
async def a_token_that_is_used_up_is_not_charged_again(at: AccountUnderTest) -> None:
    first = await at.payment(CardKind.USED_ONCE, authenticate=True, return_url="https://shop.example/back")
    assert isinstance(await at.processor.authorize(first), Approved)
    second = await at.payment(card=first.card, authenticate=True, return_url="https://shop.example/back")
    assert isinstance(await outcome_of(at.processor.authorize(second)), Declined | ProcessorUnavailable)
    assert await at.done() == [(first.idempotency_key, 10_000, 0, False)]
