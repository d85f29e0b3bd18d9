"""Payments by card at Stripe: two calls, and what a look-up finds after each way in which they can fail."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from tests.processors.stripe.conftest import RETURN_URL, Shop
from tests.processors.stripe.double import (
    BUSY,
    CUT_AFTER,
    CUT_BEFORE,
    FAILS_AFTER,
    FAILS_BEFORE,
    HELD,
    IN_USE,
    REFUSED,
    USED_UP,
    Double,
)
from uuid_utils.compat import uuid7

from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, CardReference, Declined, Voided
from ledger.domain.orders.statuses import NextAction
from ledger.processors.contract import (
    AuthenticationRequest,
    Card,
    CardToken,
    ProcessorTimedOut,
    ProcessorUnavailable,
)
from ledger.processors.stripe.processor import StripeProcessor
from ledger.processors.stripe.transport import VERSION

pytestmark = pytest.mark.anyio


def charged(double: Double) -> int:
    return sum(intent.get("amount_received", 0) for intent in double.intents.values())


async def test_an_intent_is_created_without_a_card_and_confirmed_with_its_token(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    request = shop.pay()
    answer = await stripe.authorize(request)
    assert answer == Approved(
        authorized=Decimal(10_000),
        captured=Decimal(10_000),
        processor_reference="pi_1",
        authorization_code="123456",
        eci="05",
        network_transaction_id="nti1",
    )
    [create], [confirm] = double.posts("/payment_intents"), double.posts("/confirm")
    assert (create["amount"], create["currency"], create["capture_method"]) == ("10000", "mxn", "automatic")
    assert create["metadata[ledger_payment]"] == str(request.payment_id)
    assert not [name for name in create if name.startswith("payment_method[") or "token" in name]
    assert (confirm["payment_method"], confirm["return_url"]) == ("pm_visa", RETURN_URL)
    assert {headers["Stripe-Version"] for headers in double.headers} == {VERSION}
    assert len({headers["Idempotency-Key"] for headers in double.headers}) == 2
    assert await stripe.look_up(shop.question(request, fence=True)) == answer


async def test_a_held_payment_has_the_validity_that_its_charge_has(shop: Shop, stripe: StripeProcessor) -> None:
    answer = await stripe.authorize(shop.pay(capture=False))
    assert isinstance(answer, Approved)
    assert (answer.authorized, answer.captured) == (10_000, 0)
    assert answer.validity_s == pytest.approx(600_000, abs=60)


@pytest.mark.parametrize("fault", [CUT_BEFORE, CUT_AFTER, FAILS_BEFORE, FAILS_AFTER, BUSY, IN_USE])
async def test_a_creation_that_fails_moves_nothing(
    shop: Shop, stripe: StripeProcessor, double: Double, fault: str
) -> None:
    double.faults["/payment_intents"] = [fault] * 4
    request = shop.pay()
    with pytest.raises(ProcessorUnavailable):
        await stripe.authorize(request)
    double.faults.clear()
    assert await stripe.look_up(shop.question(request)) is None
    assert await stripe.look_up(shop.question(request, fence=True)) is None
    assert not double.posts("/confirm")
    assert {intent["status"] for intent in double.intents.values()} <= {"canceled"}


@pytest.mark.parametrize(
    ("fault", "is_charged"), [(CUT_BEFORE, False), (CUT_AFTER, True), (FAILS_BEFORE, False), (FAILS_AFTER, True)]
)
async def test_a_confirmation_without_an_answer_is_unknown_until_the_look_up(
    shop: Shop, stripe: StripeProcessor, double: Double, fault: str, is_charged: bool
) -> None:
    double.faults["/confirm"] = [fault] * (2 if fault in {CUT_BEFORE, CUT_AFTER} else 1)
    request = shop.pay()
    with pytest.raises(ProcessorTimedOut):
        await stripe.authorize(request)
    found = await stripe.look_up(shop.question(request, fence=True))
    assert (isinstance(found, Approved), charged(double)) == (is_charged, 10_000 if is_charged else 0)
    [intent] = double.intents.values()
    assert intent["status"] == ("succeeded" if is_charged else "canceled")


@pytest.mark.parametrize("capture", [True, False])
async def test_a_confirmation_that_arrives_after_the_fence_is_refused(
    shop: Shop, stripe: StripeProcessor, double: Double, capture: bool
) -> None:
    double.faults["/confirm"] = [HELD]
    request = shop.pay(capture=capture)
    confirmation = asyncio.ensure_future(stripe.authorize(request))
    await double.held.wait()
    confirmation.cancel()
    assert await stripe.look_up(shop.question(request, fence=True)) is None
    double.gate.set()
    for _ in range(100):  # the request that waits at the double goes on
        await asyncio.sleep(0)
    [intent] = double.intents.values()
    assert (intent["status"], charged(double)) == ("canceled", 0)
    assert await stripe.look_up(shop.question(request, fence=True)) is None


async def test_a_confirmation_that_meets_a_fence_has_no_effect(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    for request in (shop.pay(), shop.pay(installments=3)):
        assert await stripe.look_up(shop.question(request, fence=True)) is None
        with pytest.raises(ProcessorUnavailable):
            await stripe.authorize(request)
    assert charged(double) == 0


async def test_a_fence_holds_although_stripe_fails_at_it(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    double.faults["/confirm"] = [HELD]
    request = shop.pay()
    confirmation = asyncio.ensure_future(stripe.authorize(request))
    await double.held.wait()
    confirmation.cancel()
    double.faults["/cancel"] = [FAILS_BEFORE, FAILS_BEFORE, FAILS_BEFORE]
    question = shop.question(request, fence=True)
    for _ in range(3):
        with pytest.raises(ProcessorTimedOut):
            await stripe.look_up(question)
    assert await stripe.look_up(question) is None
    double.gate.set()
    for _ in range(100):  # the request that waits at the double goes on
        await asyncio.sleep(0)
    assert (double.intents["pi_1"]["status"], charged(double)) == ("canceled", 0)


async def test_an_intent_that_stripe_does_not_cancel_is_not_fenced(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    double.faults["/confirm"] = [CUT_BEFORE] * 2
    request = shop.pay()
    with pytest.raises(ProcessorTimedOut):
        await stripe.authorize(request)
    double.faults["/cancel"] = [REFUSED]
    with pytest.raises(ProcessorTimedOut):
        await stripe.look_up(shop.question(request, fence=True))
    assert await stripe.look_up(shop.question(request, fence=True)) is None


async def test_a_payer_who_is_quicker_than_the_fence_has_paid(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    """The confirmation is carried out between the look-up's reading and its cancellation."""
    double.faults["/confirm"] = [CUT_BEFORE] * 2
    request = shop.pay()
    with pytest.raises(ProcessorTimedOut):
        await stripe.authorize(request)
    double.faults["/cancel"] = [HELD]
    look_up = asyncio.ensure_future(stripe.look_up(shop.question(request, fence=True)))
    await double.held.wait()
    double.approve("pi_1")
    double.gate.set()
    assert isinstance(await look_up, Approved)


async def test_a_confirmation_that_is_quicker_than_the_fence_keeps_its_hold(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    """It is carried out after the look-up's reading. A cancellation would release what the caller was told is held."""
    double.faults["/pi_1"] = [HELD]
    request = shop.pay(capture=False)
    look_up = asyncio.ensure_future(stripe.look_up(shop.question(request, fence=True)))
    async with asyncio.timeout(10):
        await double.held.wait()
    answer = await stripe.authorize(request)
    double.gate.set()
    found = await look_up
    assert isinstance(answer, Approved)
    assert isinstance(found, Approved)
    assert (found.processor_reference, double.intents["pi_1"]["status"]) == ("pi_1", "requires_capture")


async def test_a_known_key_with_other_parameters_is_not_declined(shop: Shop, stripe: StripeProcessor) -> None:
    """The first payment may have been charged: only a look-up tells."""
    request = shop.pay()
    answer = await stripe.authorize(request)
    for other in ({"amount": Decimal(20_000)}, {"card": CardToken(token="pm_mastercard")}):
        with pytest.raises(ProcessorTimedOut):
            await stripe.authorize(replace(request, **other))
    assert await stripe.look_up(shop.question(request, fence=True)) == answer


async def test_a_look_up_survives_a_failure_that_stripe_repeats(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    """The intent was created, but the stored answer of its creation is a failure: it is found in the list."""
    double.faults["/payment_intents"] = [FAILS_AFTER]
    others = [shop.pay() for _ in range(3)]
    request = shop.pay()
    with pytest.raises(ProcessorUnavailable):
        await stripe.authorize(request)
    for other in others:
        await stripe.authorize(other)
    double.approve("pi_1")  # as if it had been confirmed all the same
    assert isinstance(await stripe.look_up(shop.question(request, fence=True)), Approved)


async def test_an_old_call_is_looked_up_in_the_list_and_creates_nothing(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    double.now -= 80_000
    paid, unpaid = shop.pay(), shop.pay()
    assert isinstance(await stripe.authorize(paid), Approved)
    double.forget_keys()
    then = datetime.now(UTC) - timedelta(seconds=80_000)
    before = len(double.posts("/payment_intents"))
    assert isinstance(await stripe.look_up(shop.question(paid, announced_at=then, fence=True)), Approved)
    assert await stripe.look_up(shop.question(unpaid, announced_at=then, fence=True)) is None
    assert len(double.posts("/payment_intents")) == before


async def test_a_key_that_stripe_forgot_too_early_finds_the_first_intent(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    """The clock of the ledger went back by a day, so that it takes the call for a new one."""
    request = shop.pay()
    assert isinstance(await stripe.authorize(request), Approved)
    double.forget_keys()
    double.now += 90_000
    assert isinstance(await stripe.look_up(shop.question(request, fence=True)), Approved)


async def test_the_payer_is_sent_to_the_bank_and_asked_for_when_back(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    asked = await stripe.authorize(shop.pay("pm_3ds"))
    assert asked == ActionRequired(
        next_action=NextAction.CHALLENGE,
        authentication_transaction_id="pi_1",
        reference_id="pi_1",
        step_up_url="https://hooks.stripe.test/3ds",
        processor_reference="pi_1",
    )
    request = AuthenticationRequest(
        authentication_transaction_id="pi_1", capture=False, **_about(shop.pay(), "idempotency_key")
    )
    assert await stripe.validate_authentication(request) == asked
    double.approve("pi_1")
    approved = await stripe.validate_authentication(request)
    assert isinstance(approved, Approved)
    question = shop.question(shop.pay(), step=EntryAction.AUTHENTICATION, authentication_transaction_id="pi_1")
    assert await stripe.look_up(question) == approved


async def test_an_authentication_that_failed_or_ended_is_declined(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    for failed in (True, False):
        asked = await stripe.authorize(shop.pay("pm_3ds"))
        assert isinstance(asked, ActionRequired)
        intent = asked.authentication_transaction_id
        request = AuthenticationRequest(
            authentication_transaction_id=intent, capture=False, **_about(shop.pay(), "idempotency_key")
        )
        if failed:
            double.decline(intent, code="payment_intent_authentication_failure", message="The payer failed.")
        else:
            assert await stripe.void(shop.void(intent)) == Voided(processor_reference=intent)
        answer = await stripe.validate_authentication(request)
        assert isinstance(answer, Declined)
        assert answer.code == "AUTHENTICATION_FAILED"


async def test_an_intent_whose_payer_failed_takes_no_other_card(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    """Its client secret is in the payer's browser: it is cancelled before the decline counts, unless he was quicker."""
    await stripe.authorize(shop.pay("pm_3ds"))
    known = {"authentication_transaction_id": "pi_1"}
    request = AuthenticationRequest(**known, capture=False, **_about(shop.pay(), "idempotency_key"))
    question = shop.question(shop.pay(), step=EntryAction.AUTHENTICATION, **known)
    double.decline("pi_1", code="payment_intent_authentication_failure", message="The payer failed.")
    double.faults["/cancel"] = [REFUSED]
    with pytest.raises(ProcessorTimedOut):
        await stripe.validate_authentication(request)
    double.faults["/cancel"] = [CUT_AFTER, CUT_AFTER]
    with pytest.raises(ProcessorTimedOut):
        await stripe.look_up(question)
    assert double.intents["pi_1"]["status"] == "canceled"
    declined = await stripe.look_up(question)
    assert isinstance(declined, Declined)
    assert (declined.code, await stripe.validate_authentication(request)) == ("AUTHENTICATION_FAILED", declined)
    double.intents["pi_1"] |= {"status": "requires_payment_method", "last_payment_error": None}
    double.faults["/cancel"] = [HELD]
    asking = asyncio.create_task(stripe.look_up(question))
    await double.held.wait()
    double.approve("pi_1")
    double.gate.set()
    assert isinstance(await asking, Approved)


@pytest.mark.parametrize("given", [{"authenticate": False, "virtual_terminal": True}, {"return_url": None}])
async def test_a_payer_who_cannot_be_authenticated_is_declined(
    shop: Shop, stripe: StripeProcessor, double: Double, given: dict[str, object]
) -> None:
    answer = await stripe.authorize(shop.pay("pm_3ds", **given))
    assert isinstance(answer, Declined)
    assert answer.code == "AUTHENTICATION_REQUIRED"
    assert double.posts("/confirm")[0]["off_session"] == "true"


async def test_a_card_whose_bank_has_no_page_is_not_verified(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    """A setup intent cannot be off-session: it waits for a payer who has nowhere to go, and is cancelled."""
    refused = await stripe.authorize(shop.pay("pm_3ds", amount=Decimal(0), capture=False, authenticate=False))
    assert isinstance(refused, Declined)
    assert (refused.code, refused.processor_reference) == ("AUTHENTICATION_REQUIRED", None)
    assert double.intents["seti_1"]["status"] == "canceled"
    request = shop.pay(amount=Decimal(0), capture=False)
    approved = Approved(authorized=Decimal(0), captured=Decimal(0), processor_reference="seti_3")
    assert await stripe.authorize(request) == approved
    assert await stripe.look_up(shop.question(request, fence=True)) == approved


async def test_declines_are_told_apart(shop: Shop, stripe: StripeProcessor) -> None:
    short, blocked = shop.pay("pm_insufficient"), shop.pay("pm_fraudulent")
    declined = await stripe.authorize(short)
    assert declined == Declined(
        code="INSUFFICIENT_FUNDS", message="Your card was declined.", processor_reference="pi_1"
    ), "the merchant finds the payment at Stripe"
    assert await stripe.look_up(shop.question(short, fence=True)) == declined
    by_rules = await stripe.authorize(blocked)
    assert isinstance(by_rules, Declined)
    assert (by_rules.code, by_rules.refused_by) == ("SUSPECTED_FRAUD", RefusedBy.RISK)
    unknown = await stripe.authorize(shop.pay("pm_unknown"))
    assert isinstance(unknown, Declined)
    assert (unknown.code, unknown.message) == ("CARD_TOKEN_INVALID", "No such PaymentMethod: '***'")
    for token in USED_UP:
        used = await stripe.authorize(shop.pay(token))
        assert isinstance(used, Declined)
        assert used.code == "CARD_TOKEN_INVALID"


@pytest.mark.parametrize("path", ["/payment_intents", "/confirm"])
async def test_what_stripe_refuses_of_a_request_is_no_decline(
    shop: Shop, stripe: StripeProcessor, double: Double, path: str
) -> None:
    """No bank was asked: the request had no effect, and the same payment can be tried again."""
    double.faults[path] = [REFUSED]
    with capture_logs() as logs, pytest.raises(ProcessorUnavailable):
        await stripe.authorize(shop.pay())
    assert [line["message"] for line in logs] == ["This is not allowed."]
    assert charged(double) == 0


async def test_instalments_are_asked_for_before_the_card_is_charged(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    assert isinstance(await stripe.authorize(shop.pay(installments=6)), Approved)
    [prepared], [confirm] = double.posts("/pi_1"), double.posts("/confirm")
    options = "payment_method_options[card][installments]"
    assert (prepared[f"{options}[enabled]"], prepared["payment_method"]) == ("true", "pm_visa")
    plan = {name.removeprefix(options): value for name, value in confirm.items() if name.startswith(options)}
    assert plan == {"[plan][type]": "fixed_count", "[plan][interval]": "month", "[plan][count]": "6"}
    refused = await stripe.authorize(shop.pay(installments=24))
    assert refused == Declined(
        code="INSTALLMENTS_NOT_AVAILABLE",
        message="The card's bank does not offer 24 months; it offers 3, 6, 12.",
        available_installments=(3, 6, 12),
        processor_reference="pi_4",
    )
    assert len(double.posts("/confirm")) == 1


async def test_other_tokens_and_their_customers(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    await stripe.authorize(shop.pay("ctoken_1", installments=6))
    assert double.posts("/confirm")[0]["confirmation_token"] == "ctoken_1"
    await stripe.authorize(shop.pay(card=CardToken(token="pm_saved", customer="cus_9"), authenticate=False))
    assert list(double.intents.values())[1]["customer"] == "cus_9"
    number = Card(number="4242424242424242", exp_month=12, exp_year=2031)
    with pytest.raises(ProcessorUnavailable):
        await stripe.authorize(shop.pay(card=number))


@pytest.mark.parametrize(("token", "kept"), [("pm_visa", "pm_visa"), ("ctoken_1", "pm_1"), ("pm_3ds", "pm_3ds")])
async def test_a_card_is_saved_for_a_customer_of_its_own(
    shop: Shop, stripe: StripeProcessor, double: Double, token: str, kept: str
) -> None:
    """With a payment, and without one. Its reference comes with the approval, and with the look-up of that."""
    for terms in ({}, {"amount": Decimal(0), "capture": False}):
        request = shop.pay(token, save_as=uuid7(), **terms)
        answer = await stripe.authorize(request)
        intent, customer = list(double.intents.values())[-1], list(double.customers.values())[-1]
        if token == "pm_3ds":
            assert isinstance(answer, ActionRequired)
            double.approve(intent["id"])
            about = _about(request, "idempotency_key", "save_as")
            answer = await stripe.validate_authentication(
                AuthenticationRequest(authentication_transaction_id=intent["id"], capture=False, **about)
            )
        assert isinstance(answer, Approved)
        assert answer.saved_card == CardReference(token=kept, customer=customer["id"], fingerprint="print-1")
        assert kept not in repr(answer)
        assert customer["metadata"]["ledger_payment_method"] == str(request.save_as)
        assert await stripe.look_up(shop.question(request, fence=True)) == answer
    assert double.intents["pi_1"]["setup_future_usage"] == "off_session"
    later = await stripe.authorize(shop.pay(card=CardToken(token=kept, customer="cus_1"), authenticate=False))
    assert isinstance(later, Declined if token == "pm_3ds" else Approved)
    assert getattr(later, "saved_card", None) is None


async def test_a_card_whose_customer_cannot_be_made_is_not_charged(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    double.faults["/customers"] = [FAILS_BEFORE]
    with pytest.raises(ProcessorUnavailable):
        await stripe.authorize(shop.pay(save_as=uuid7()))
    assert charged(double) == 0


def _about(request: object, *more: str) -> dict[str, object]:
    names = ("merchant_id", "deadline_at", "order_id", "payment_id", *more)
    return {name: getattr(request, name) for name in names}
