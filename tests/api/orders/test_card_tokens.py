"""Cards by tokens: the number went from the payer's browser to the processor, and the ledger gets a token of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.bodies import APPROVED, by_card, card, charge, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront

from ledger.domain.merchants.settings import CardEntry
from ledger.processors.contract import CardToken, ProcessorTimedOut, TokenRequest
from ledger.processors.sandbox.processor import SandboxProcessor

pytestmark = pytest.mark.anyio

TOKENS = "paymentMethod.cardTokens"


def by_token(token: str = "tok_visa", account: str = "sandbox", **others: Any) -> dict[str, Any]:
    return {"type": "card", "cardTokens": [{"account": account, "token": token}], **others}


async def test_a_token_pays_an_order_and_shows_its_card(merchant: Merchant) -> None:
    made = (await merchant.create(paid_order(paymentMethod=by_token()))).json()
    assert (made["status"], made["payment"]["status"]) == ("COMPLETED", "CAPTURED")
    details = made["paymentMethod"]["cardDetails"]
    assert (details["last4"], details["brand"], details["expYear"]) == ("4242", "VISA", 2040)
    declined = await merchant.create(paid_order(externalId="order-2", paymentMethod=by_token("tok_declined")))
    assert (declined.status_code, declined.json()["declineCode"]) == (422, "GENERIC_DECLINE")
    await merchant.create(order(externalId="order-3"))
    charged = await merchant.post(f"{ORDERS}/order-3/charge", charge(paymentMethod=by_token("tok_mastercard")))
    assert (charged.status_code, charged.json()["paymentMethod"]["cardDetails"]["brand"]) == (200, "MASTERCARD")
    await merchant.create(order(externalId="order-4", allowPartials=True))
    part = {"amount": 50000, "externalId": "part-1", "paymentMethod": by_token(), "billingAddress": {"country": "MX"}}
    added = await merchant.post(f"{ORDERS}/order-4/payments", part)
    assert (added.status_code, added.json()["amountPaid"]) == (201, 50000), added.text


async def test_a_token_that_no_card_can_be_charged_by_is_refused_before_an_order_is_recorded(
    merchant: Merchant,
) -> None:
    for method, field in (
        (by_token("tok_unknown"), f"{TOKENS}[0].token"),
        (by_token(account="stripe-mx"), f"{TOKENS}[0].account"),
    ):
        answer = await merchant.create(paid_order(paymentMethod=method))
        assert (answer.status_code, answer.json()["code"]) == (422, "CARD_TOKEN_INVALID")
        assert answer.json()["field"] == field
        assert answer.json()["message"].startswith(field)
        assert (await merchant.get(f"{ORDERS}/order-1")).status_code == 404
    several = [{"account": "stripe-mx", "token": "pm_1"}, {"account": "sandbox", "token": "tok_unknown"}]
    answer = await merchant.create(paid_order(paymentMethod={"type": "card", "cardTokens": several}))
    assert answer.json()["field"] == f"{TOKENS}[1].token"
    several[1]["token"] = "tok_visa"
    assert (await merchant.create(paid_order(paymentMethod={"type": "card", "cardTokens": several}))).status_code == 201


async def test_a_repeated_request_shows_its_payment_although_its_token_is_used_up(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await merchant.create(paid_order(paymentMethod=by_token()))
    await merchant.create(order(externalId="order-2"))
    body = charge(externalId="payment-1", paymentMethod=by_token())
    charged = await merchant.post(f"{ORDERS}/order-2/charge", body)

    async def used_up(*_: object) -> None:
        return None

    monkeypatch.setattr(SandboxProcessor, "read_token", used_up)
    again = await merchant.create(paid_order(paymentMethod=by_token()))
    assert (again.status_code, again.json()) == (200, first.json())
    assert (await merchant.post(f"{ORDERS}/order-2/charge", body)).json() == charged.json()
    other = await merchant.create(paid_order(externalId="order-3", paymentMethod=by_token()))
    assert other.json()["code"] == "CARD_TOKEN_INVALID"


async def test_a_processor_that_cannot_read_a_token_is_a_503_and_nothing_is_recorded(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(_: SandboxProcessor, request: TokenRequest) -> None:
        assert repr(request.token) == "CardToken(***)"
        raise ProcessorTimedOut("no answer")

    monkeypatch.setattr(SandboxProcessor, "read_token", silent)
    answer = await merchant.create(paid_order(paymentMethod=by_token()))
    assert (answer.status_code, answer.json()["code"]) == (503, "PROCESSOR_UNAVAILABLE")
    assert (await merchant.get(f"{ORDERS}/order-1")).status_code == 404


@pytest.mark.parametrize(
    ("method", "code", "fields"),
    [
        (by_token(cardDetails=card()), "CONFLICTING_FIELDS", {TOKENS, "paymentMethod.cardDetails"}),
        (by_token(options={"card": card()}), "CONFLICTING_FIELDS", {TOKENS, "paymentMethod.options"}),
        (by_token(paymentMethodId="pm-1"), "CONFLICTING_FIELDS", {TOKENS, "paymentMethod.paymentMethodId"}),
        (
            {"type": "card", "cardDetails": card(), "paymentMethodId": "pm-1"},
            "CONFLICTING_FIELDS",
            {"paymentMethod.cardDetails", "paymentMethod.paymentMethodId"},
        ),
        (
            {"type": "card", "options": {"card": card()}, "paymentMethodId": "pm-1"},
            "CONFLICTING_FIELDS",
            {"paymentMethod.options", "paymentMethod.paymentMethodId"},
        ),
        (by_token() | {"type": "spei"}, "VALIDATION_ERROR", {TOKENS}),
        (by_token() | {"cardTokens": []}, "VALIDATION_ERROR", {TOKENS}),
        (by_token() | {"cardTokens": "tok_visa"}, "VALIDATION_ERROR", {TOKENS}),
        (by_token() | {"cardTokens": [{"account": "sandbox"}]}, "VALIDATION_ERROR", {f"{TOKENS}[0].token"}),
        (by_token() | {"cardTokens": [{"token": "tok_visa"}]}, "VALIDATION_ERROR", {f"{TOKENS}[0].account"}),
        (by_token("tok visa"), "VALIDATION_ERROR", {f"{TOKENS}[0].token"}),
        (by_token(APPROVED), "CARD_NUMBER_NOT_ALLOWED", {f"{TOKENS}[0].token"}),
        (by_token() | {"cardTokens": 2 * by_token()["cardTokens"]}, "VALIDATION_ERROR", {f"{TOKENS}[1].account"}),
    ],
)
async def test_wrong_tokens_are_named_by_their_field(
    merchant: Merchant, method: dict[str, Any], code: str, fields: set[str]
) -> None:
    answer = await merchant.create(paid_order(paymentMethod=method))
    assert (answer.status_code, answer.json()["code"]) == (400, code), answer.text
    assert {each["field"] for each in answer.json()["errors"]} == fields


async def test_a_merchant_of_tokens_alone_is_sent_no_number(store: Storefront) -> None:
    merchant = await store.register(card_entry=CardEntry.TOKENS)
    for method, field in (
        (by_card(), "paymentMethod.cardDetails.number"),
        ({"type": "payment_method_id", "paymentMethodId": "x", "cvc": "123"}, "paymentMethod.cvc"),
    ):
        answer = await merchant.create(paid_order(paymentMethod=method))
        assert (answer.status_code, answer.json()["code"]) == (400, "CARD_NUMBER_NOT_ACCEPTED")
        assert [each["field"] for each in answer.json()["errors"]] == [field]
        assert APPROVED not in answer.text
    paid = (await merchant.create(paid_order(paymentMethod=by_token(persist=True)))).json()
    saved = {"type": "payment_method_id", "paymentMethodId": paid["paymentMethod"]["id"]}
    again = await merchant.create(paid_order(externalId="order-2", paymentMethod=saved))
    assert (again.status_code, again.json()["status"]) == (201, "COMPLETED"), again.text
    cards = f"/api/customers/{paid['customer']['id']}/payment-methods"
    other = await merchant.post(cards, {"paymentMethod": by_token("tok_mastercard")})
    assert (other.status_code, other.json()["cardDetails"]["brand"]) == (201, "MASTERCARD"), other.text
    wrong = await merchant.post(cards, {"paymentMethod": by_token("tok_unknown")})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "CARD_TOKEN_INVALID")


def test_a_token_prints_as_stars() -> None:
    assert "tok_visa" not in repr(CardToken(token="tok_visa"))


async def test_the_first_connected_account_with_a_token_is_asked_and_only_it_gets_the_card(merchant: Merchant) -> None:
    connected = await merchant.put("/api/v1/processor-accounts/second", {"processor": "sandbox"})
    assert connected.status_code == 201, connected.text
    both = [{"account": "second", "token": "tok_mastercard"}, {"account": "sandbox", "token": "tok_visa"}]
    made = (await merchant.create(paid_order(paymentMethod={"type": "card", "cardTokens": both}))).json()
    assert (made["payment"]["processorAccount"], made["paymentMethod"]["cardDetails"]["brand"]) == ("sandbox", "VISA")
    only = by_token("tok_mastercard", account="second")
    made = (await merchant.create(paid_order(externalId="order-2", paymentMethod=only))).json()
    assert (made["payment"]["processorAccount"], made["paymentMethod"]["cardDetails"]["brand"]) == (
        "second",
        "MASTERCARD",
    )
    assert (await merchant.delete("/api/v1/processor-accounts/second")).status_code == 200
    answer = await merchant.create(paid_order(externalId="order-3", paymentMethod=only))
    assert (answer.status_code, answer.json()["code"]) == (422, "CARD_TOKEN_INVALID")
