"""What a payer may read about a decline, in Spanish and English."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.api.bodies import by_card, card, order, paid_order
from tests.api.openapi.description import assert_described
from tests.api.storefront import ORDERS, Merchant, opened

from api.fields.payer_language import payer_language
from ledger.domain.orders.declines import DECLINES, payer_message
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

SPANISH, ENGLISH = "La tarjeta no tiene fondos suficientes.", "The card has insufficient funds."
POOR = by_card(cardDetails=card(number="4000000000009995"))


def test_every_decline_has_a_text_in_both_languages():
    for code in [*DECLINES, "SOMETHING_NEW"]:
        assert payer_message(code, "es") != payer_message(code, "en")


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (b"en", "en"), (b"en-US,en;q=0.9,es;q=0.8", "en"), (b"es-MX,es;q=0.9,en;q=0.8", "es"), (b"EN;q=0.1", "en"),
        (b"en;q=0.2, es;q=0.3", "es"), (b"fr, de", "xx"), (b"en;q=0", "xx"), (b"en;q=x", "xx"), (b"*", "xx"), (b"", "xx"),
    ],
)  # fmt: skip
def test_the_header_decides_about_the_language(header: bytes, language: str):
    assert payer_language({b"accept-language": header}, "xx") == language


async def test_a_decline_is_explained_to_the_payer(merchant: Merchant):
    declined = await merchant.create(paid_order(paymentMethod=POOR))
    assert_described(declined, "post", ORDERS)
    assert (declined.json()["message"], declined.json()["payerMessage"]) == (ENGLISH, SPANISH)
    assert declined.json()["paymentOrder"]["payments"][0]["payerMessage"] == SPANISH

    one = f"{ORDERS}/{declined.json()['id']}"
    charge = {"paymentMethod": POOR, "billingAddress": {"city": "Puebla"}, "metadata": {"payerMessage": "x"}}
    again = (await merchant.post(f"{one}/charge", charge, **{"accept-language": "en-US,en"})).json()
    assert again["payerMessage"] == ENGLISH
    assert [each["payerMessage"] for each in again["paymentOrder"]["payments"]] == [ENGLISH, ENGLISH]
    assert again["paymentOrder"]["payment"]["payerMessage"] == ENGLISH

    spanish, english = (await merchant.get(one)).json(), (await merchant.get(one, **{"accept-language": "en"})).json()
    assert {each["payerMessage"] for each in spanish["payments"]} == {SPANISH}
    assert {each["payerMessage"] for each in english["payments"]} == {ENGLISH}
    for language, text in (("es", SPANISH), ("en", ENGLISH)):
        listed = await merchant.get(f"{one}/payments", **{"accept-language": language})
        assert {each["payerMessage"] for each in listed.json()["data"]} == {text}
        first = f"{one}/payments/{listed.json()['data'][0]['id']}"
        shown = await merchant.get(first, **{"accept-language": language})
        assert shown.json() == listed.json()["data"][0]
        assert_described(shown, "get", f"{ORDERS}/{{id}}/payments/{{paymentId}}")
        order_ = await merchant.get(one, **{"accept-language": language})
        assert {each.headers["vary"] for each in (listed, shown, order_)} == {"accept-language"}
    for each in (*spanish["payments"], *english["payments"]):
        del each["payerMessage"]
    assert spanish == english


async def test_the_customers_language_counts_where_the_request_has_none(merchant: Merchant):
    created = await merchant.post(
        "/api/customers", {"externalId": "bob", "notificationPreferences": {"language": "en"}}
    )
    declined = await merchant.create(paid_order(customer={"id": created.json()["id"]}, paymentMethod=POOR))
    assert declined.json()["payerMessage"] == ENGLISH
    one = f"{ORDERS}/{declined.json()['id']}"
    reads = (await merchant.get(one), await merchant.get(f"{one}/payments"))
    assert [each.json().get("payments", each.json().get("data"))[0]["payerMessage"] for each in reads] == [ENGLISH] * 2
    assert (await merchant.get(one, **{"accept-language": "es"})).json()["payments"][0]["payerMessage"] == SPANISH


async def test_texts_about_wrong_orders_say_what_to_do(merchant: Merchant):
    lines = [{"description": "Café", "quantity": 2, "unitPrice": 70000.5}]
    wrong = (await merchant.create(order(lineItems=lines))).json()
    assert wrong["message"] == (
        "lineItems must add up to amount: the sum of quantity × unitPrice is 140001, and amount is 150000."
    )
    unpaid = (await merchant.create(order(pending=False))).json()
    assert unpaid["message"] == "paymentMethod is required, unless pending is true: such an order is paid later."
    await merchant.put("/api/v1/merchant", {"settings": {"paymentMethods": ["CARD"]}})
    refused = (await merchant.create(order(pending=False, paymentMethod={"type": "spei"}))).json()
    assert refused["message"] == (
        "Payments by spei are not enabled for this merchant: use card, or add SPEI to settings.paymentMethods with "
        "PUT /v1/merchant."
    )


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (b"", {}, "body must be valid JSON: it ends before it is complete."),
        (b"{'amount': 4500}", {}, "body must be valid JSON: it is malformed at byte 1."),
        (b'{"amount": 4500,}', {}, "body must be valid JSON: it is malformed at byte 16."),
        (
            b"amount=4500",
            {"content-type": "application/x-www-form-urlencoded"},
            "The body must be JSON in UTF-8: send it with the header content-type: application/json.",
        ),
    ],
)
async def test_texts_about_unreadable_bodies_say_what_to_do(
    merchant: Merchant, body: bytes, headers: dict[str, str], message: str
):
    assert (await merchant.post(ORDERS, body, **headers)).json()["message"] == message


async def test_an_address_without_an_operation_leads_to_the_reference(merchant: Merchant):
    for path, advice in (
        ("/api/v1/orders", "check the path. /docs shows them all."),
        ("/api/v1/payment-orders", "did you mean /api/v2/payment-orders?"),
        ("/v2/payment-orders", "did you mean /api/v2/payment-orders?"),
    ):
        message = (await merchant.get(path)).json()["message"]
        assert message == f"There is no operation at this address: {advice}"


async def test_disputed_money_is_not_refundable(merchant: Merchant):
    created = (await merchant.create(paid_order())).json()
    await merchant.post("/api/sandbox/clock", {"advanceBy": "PT1S"})  # the reactions note the payment's name
    payment_id, one = created["payment"]["id"], f"{ORDERS}/{created['id']}"
    opened = await merchant.post("/api/sandbox/disputes", {"paymentId": payment_id, "outcome": "OPENED"})
    assert opened.status_code == 200
    unnamed = await merchant.post(f"{one}/refund", {"amount": 1000})
    named = await merchant.post(f"{one}/refund", {"amount": 1000, "paymentId": payment_id})
    assert (unnamed.status_code, unnamed.json()["code"]) == (422, "REFUND_AMOUNT_EXCEEDS_BALANCE")
    assert (unnamed.json()["refundableAmount"], "dispute" in unnamed.json()["message"]) == (0, True)
    assert (named.status_code, named.json()["code"]) == (409, "ORDER_NOT_REFUNDABLE")


async def test_production_without_a_processor_names_what_is_missing(settings: Settings, database_url: str):
    real = replace(settings, environment="production", database_url=database_url)
    async with opened(real) as store:
        merchant = await store.register()
        by_transfer = order(pending=False, paymentMethod={"type": "spei"})
        for body, kind in ((paid_order(), "card"), (by_transfer, "spei")):
            refused = await merchant.create(body)
            assert (refused.status_code, refused.json()["code"]) == (422, "METHOD_NOT_ENABLED")
            assert refused.json()["message"] == (
                f"No {kind} processor is connected: connect an account by PUT /v1/processor-accounts/{{name}} first."
            )
        assert (await merchant.create(order())).status_code == 201, "an order can be created and paid later"
