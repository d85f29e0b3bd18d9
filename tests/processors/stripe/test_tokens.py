"""Tokens of cards at Stripe: what is shown of them, and which can be charged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.processors.stripe.conftest import Shop
from tests.processors.stripe.double import Double

from ledger.domain.orders.terms import CardSummary
from ledger.processors.contract import CardToken, ForgetCardRequest, ProcessorUnavailable, TokenCard, TokenRequest
from ledger.processors.stripe.processor import StripeProcessor

pytestmark = pytest.mark.anyio

CARD = {"brand": "visa", "country": "MX", "exp_month": 4, "exp_year": 2031, "funding": "credit", "last4": "4242"}
CARD["fingerprint"] = "print-1"


def read(shop: Shop, token: str, customer: str | None = None) -> TokenRequest:
    deadline_at = datetime.now(UTC) + timedelta(seconds=10)
    return TokenRequest(
        merchant_id=shop.merchant_id, token=CardToken(token=token, customer=customer), deadline_at=deadline_at
    )


def method(token: str, **given: Any) -> dict[str, Any]:
    about = {"id": token, "object": "payment_method", "created": 1, "livemode": False, "customer": None, "type": "card"}
    return {**about, "card": CARD, "billing_details": {"name": "Ana López"}, **given}


def confirmation(token: str, double: Double, **given: Any) -> dict[str, Any]:
    preview = {"type": "card", "card": CARD, "customer": None, "billing_details": {"name": None}}
    about = {"id": token, "object": "confirmation_token", "created": 1, "livemode": False, "payment_intent": None}
    return {**about, "setup_intent": None, "expires_at": double.now + 600, "payment_method_preview": preview, **given}


async def test_a_token_shows_its_card(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    double.tokens["pm_1"] = method("pm_1")
    summary = CardSummary(
        bin=None,
        last4="4242",
        brand="VISA",
        type="CREDIT",
        country="MX",
        issuer_bank=None,
        exp_month=4,
        exp_year=2031,
        cardholder_name="Ana López",
    )
    assert await stripe.read_token(read(shop, "pm_1")) == TokenCard(summary=summary, fingerprint="print-1")
    double.tokens["ctoken_1"] = confirmation("ctoken_1", double)
    shown = await stripe.read_token(read(shop, "ctoken_1"))
    assert shown is not None
    assert (shown.summary.last4, shown.summary.cardholder_name) == ("4242", None)
    other = {**CARD, "brand": "cartes_bancaires", "funding": "prepaid", "country": None}
    double.tokens["pm_2"] = method("pm_2", card=other)
    shown = await stripe.read_token(read(shop, "pm_2"))
    assert shown is not None
    assert (shown.summary.brand, shown.summary.type, shown.summary.country) == ("UNKNOWN", None, None)


async def test_a_token_that_cannot_be_charged_is_none(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    double.tokens |= {
        "pm_3": method("pm_3", customer="cus_1"),
        "pm_4": method("pm_4", type="oxxo", card=None),
        "ctoken_2": confirmation("ctoken_2", double, payment_intent="pi_1"),
        "ctoken_3": confirmation("ctoken_3", double, setup_intent="seti_1"),
        "ctoken_4": confirmation("ctoken_4", double, expires_at=double.now - 1),
        "ctoken_5": confirmation("ctoken_5", double, payment_method_preview=None),
    }
    del double.tokens["pm_4"]["card"]
    unknown = ("pm_9", "ctoken_9", "tok_1", "pm_1/../../account", "pm_1?expand[]=x", "")
    for token in (*double.tokens, *unknown):
        assert await stripe.read_token(read(shop, token)) is None, token
    assert await stripe.read_token(read(shop, "pm_3", customer="cus_1")) is not None
    assert {path for _, path, _ in double.requests} <= {
        *(f"/v1/payment_methods/pm_{n}" for n in (3, 4, 9)),
        *(f"/v1/confirmation_tokens/ctoken_{n}" for n in (2, 3, 4, 5, 9)),
    }
    double.key = "sk_test_2"
    with pytest.raises(ProcessorUnavailable):
        await stripe.read_token(read(shop, "pm_3"))


async def test_a_saved_card_is_detached_once(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    double.tokens["pm_6"] = method("pm_6", customer="cus_1")
    for token in ("pm_6", "pm_6", "pm_9", "ctoken_1"):
        request = ForgetCardRequest(
            merchant_id=shop.merchant_id,
            idempotency_key=f"{len(double.requests)}",
            deadline_at=datetime.now(UTC) + timedelta(seconds=10),
            token=CardToken(token=token, customer="cus_1"),
        )
        await stripe.forget_card(request)
    assert double.tokens["pm_6"]["customer"] is None
    assert len(double.posts("/detach")) == 3
    double.key = "sk_test_2"
    with pytest.raises(ProcessorUnavailable):
        await stripe.forget_card(replace(request, token=CardToken(token="pm_6")))
