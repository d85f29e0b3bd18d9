"""Meses sin intereses: a payment by card in a number of months that its bank offers, and nothing charged otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.bodies import by_card, card, paid_order
from tests.api.orders.test_card_tokens import by_token
from tests.api.storefront import ORDERS, Merchant

from ledger.processors.sandbox.test_cards import TEST_TOKENS

pytestmark = pytest.mark.anyio

FEW = TEST_TOKENS["tok_few_installments"]
FIELD = "paymentMethod.installments"


async def test_a_card_is_paid_in_months_by_its_number_its_token_and_saved(merchant: Merchant) -> None:
    made = (await merchant.create(paid_order(paymentMethod=by_card(installments=6, persist=True)))).json()
    assert (made["status"], made["payment"]["installments"]) == ("COMPLETED", 6)
    saved = {"type": "payment_method_id", "paymentMethodId": made["paymentMethod"]["id"], "installments": 24}
    for n, method in enumerate((by_token(installments=3), saved, by_card()), 2):
        made = (await merchant.create(paid_order(externalId=f"order-{n}", paymentMethod=method))).json()
        assert (made["status"], made["payment"]["installments"]) == ("COMPLETED", method.get("installments"))


async def test_a_plan_that_the_bank_does_not_offer_charges_nothing_and_is_answered_with_those_it_offers(
    merchant: Merchant,
) -> None:
    other = by_card(cardDetails=card(number="378282246310005", cvc="1234"), installments=3)
    for n, (method, available) in enumerate(
        ((by_card(cardDetails=card(number=FEW), installments=12), [3, 6]), (other, []))
    ):
        body = paid_order(externalId=f"order-{n}", paymentMethod=method)
        answer = await merchant.create(body)
        refused = answer.json()
        assert (answer.status_code, refused["code"], refused["available"]) == (
            422,
            "INSTALLMENTS_NOT_AVAILABLE",
            available,
        )
        assert (refused["declineCode"], refused["retryable"], refused["advice"]) == (refused["code"], False, "FIX_DATA")
        assert (refused["status"], refused["paymentOrder"]["amountPaid"]) == ("FAILED", 0)
        shown = (await merchant.get(f"{ORDERS}/order-{n}")).json()["payments"][0]
        assert (shown["status"], shown["installments"]) == ("FAILED", method["installments"])
        assert shown["capturedAmount"] == shown["authorizedAmount"] == "0"
    again = await merchant.create(
        paid_order(externalId="order-0", paymentMethod=by_token("tok_few_installments", installments=6))
    )
    assert (again.status_code, again.json()["payment"]["installments"]) == (201, 6), again.text


async def test_months_are_for_pesos_and_for_accounts_that_offer_them(merchant: Merchant) -> None:
    dollars = await merchant.create(paid_order(currency="USD", paymentMethod=by_card(installments=3)))
    assert (dollars.status_code, dollars.json()["code"]) == (422, "METHOD_NOT_ENABLED")
    assert "instalments in USD" in dollars.json()["message"]
    narrow = {"processor": "sandbox", "methods": [{"type": "CARD", "installments": [3]}]}
    assert (await merchant.put("/api/v1/processor-accounts/narrow", narrow)).status_code == 201
    tokens = [{"account": each, "token": "tok_visa"} for each in ("narrow", "sandbox")]
    for months, account in ((3, "sandbox"), (12, "sandbox")):
        method = {"type": "card", "cardTokens": tokens, "installments": months}
        made = (await merchant.create(paid_order(externalId=f"order-{months}", paymentMethod=method))).json()
        assert made["payment"]["processorAccount"] == account
    only = {"type": "card", "cardTokens": tokens[:1], "installments": 12}
    refused = await merchant.create(paid_order(externalId="order-x", paymentMethod=only))
    reasons = {each["account"]: each["reason"] for each in refused.json()["accounts"]}
    assert reasons["narrow"] == "takes no card in 12 instalments in MXN"
    assert (await merchant.get(f"{ORDERS}/order-x")).status_code == 404


@pytest.mark.parametrize("wrong", [0, 1, 5, "6", 3.5, True, []])
async def test_another_number_of_months_is_refused_by_its_name(merchant: Merchant, wrong: Any) -> None:
    answer = await merchant.create(paid_order(paymentMethod=by_card(installments=wrong)))
    assert (answer.status_code, [each["field"] for each in answer.json()["errors"]]) == (400, [FIELD]), answer.text


async def test_months_of_anything_but_a_payment_by_card_are_refused(merchant: Merchant) -> None:
    answer = await merchant.create(paid_order(paymentMethod={"type": "spei", "installments": 3}))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, FIELD)
    answer = await merchant.post("/api/customers/x/payment-methods", {"paymentMethod": by_card(installments=3)})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, FIELD)
