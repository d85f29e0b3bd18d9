"""Accounts with Stripe over HTTP: connected, checked and refused by what stands in for Stripe."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace
from tests.api.bodies import paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront, opened
from tests.processors.stripe.double import DECLINED, USED_UP, Double
from tests.processors.stripe.test_tokens import confirmation, method

from ledger.settings import Settings

pytestmark = pytest.mark.anyio

ONE = "/api/v1/processor-accounts/stripe-mx"
BODY = {"processor": "stripe", "secretKey": "sk_test_1", "publishableKey": "pk_test_1", "webhookSecrets": ["whsec_1"]}


@pytest.fixture(scope="module")
async def double() -> Double:
    double = Double()
    double.account = {"id": "acct_1", "object": "account", "country": "MX", "charges_enabled": True}
    double.account["capabilities"] = {"card_payments": "active", "mx_bank_transfer_payments": "active"}
    return double


@pytest.fixture(scope="module")
async def store(settings: Settings, double: Double) -> AsyncIterator[Storefront]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", double.serve)
    async with (
        TestServer(app) as server,
        opened(replace(settings, stripe_url=str(server.make_url("")).rstrip("/"))) as store,
    ):
        yield store


async def test_an_account_is_connected_if_stripe_accepts_its_key(merchant: Merchant, double: Double):
    account = await merchant.put(ONE, BODY)
    assert account.status_code == 201, account.text
    shown = account.json()
    assert (shown["processor"], shown["mode"], shown["country"]) == ("stripe", "TEST", "MX")
    methods = {(method["type"], *method["currencies"]): method for method in shown["methods"]}
    assert set(methods) == {("CARD", "MXN"), ("CARD", "USD"), ("SPEI", "MXN")}
    assert methods["CARD", "MXN"].items() >= {"amountMin": 1000, "installments": [3, 6, 9, 12, 18, 24]}.items()
    double.account["capabilities"] |= {"oxxo_payments": "pending"}
    check = (await merchant.post(f"{ONE}/check", {})).json()
    assert (check["reachable"], len(check["problems"])) == (True, 1)
    without = {name: value for name, value in BODY.items() if name != "webhookSecrets"}
    assert (await merchant.put(ONE, without)).status_code == 200
    problems = (await merchant.post(f"{ONE}/check", {})).json()["problems"]
    assert "send webhookSecrets" in problems[1], "Stripe's messages are refused, which no other answer shows"
    oxxo = await merchant.put(ONE, BODY | {"methods": [{"type": "PAYCASH"}]})
    assert [each["field"] for each in oxxo.json()["errors"]] == ["methods[0].type"]


async def test_keys_of_the_wrong_kind_are_named_and_a_refused_one_has_stripes_words(merchant: Merchant, double: Double):
    for field, value in (
        ("secretKey", "pk_test_2"),
        ("secretKey", "sk_live_1"),
        ("publishableKey", "sk_test_1"),
        ("publishableKey", "pk_live_1"),
        ("webhookSecrets[0]", ["sk_test_1"]),
    ):
        refused = await merchant.put(ONE, BODY | {field.partition("[")[0]: value})
        assert [each["field"] for each in refused.json()["errors"]] == [field], value
    foreign = await merchant.put(ONE, BODY | {"publishableKey": "pk_test_foreign"})
    assert (foreign.status_code, [each["field"] for each in foreign.json()["errors"]]) == (400, ["publishableKey"])
    refused = await merchant.put(ONE, BODY | {"secretKey": "sk_test_unknown"})
    assert (refused.status_code, refused.json()["code"]) == (422, "PROCESSOR_KEY_REFUSED")
    assert "sk_test_unknown" not in refused.text
    asked = len(double.requests)
    assert (await merchant.get(ONE)).status_code == 404
    assert len(double.requests) == asked, "only PUT and check ask Stripe"


async def test_payments_go_to_the_account_and_are_captured_and_refunded_there(
    merchant: Merchant, double: Double, monkeypatch: pytest.MonkeyPatch
):
    assert (await merchant.put(ONE, BODY)).status_code == 201
    double.tokens["pm_1"] = method("pm_1")
    token = {"type": "card", "cardTokens": [{"account": "stripe-mx", "token": "pm_1"}]}
    paid = await merchant.create(paid_order(externalId="card", amount=150_000, paymentMethod=token))
    assert (paid.status_code, paid.json()["status"]) == (201, "COMPLETED"), paid.text
    [payment] = paid.json()["payments"]
    assert (payment["processor"], payment["processorAccount"]) == ("stripe", "stripe-mx")
    assert double.intents[payment["processorReference"]]["amount"] == 150_000
    double.tokens["pm_2"] = method("pm_2")
    monkeypatch.setitem(DECLINED, "pm_2", "insufficient_funds")
    short = {"type": "card", "cardTokens": [{"account": "stripe-mx", "token": "pm_2"}]}
    declined = (await merchant.create(paid_order(externalId="short", paymentMethod=short))).json()["paymentOrder"]
    assert declined["payments"][0]["processorReference"] in double.intents, "it can be found on Stripe's pages"
    assert (await merchant.create(paid_order(externalId="number"))).json()["payments"][0]["processor"] == "sandbox"
    assert (await merchant.delete(ONE)).json()["status"] == "DISCONNECTED"
    refunded = await merchant.post(f"{ORDERS}/card/refund", {"amount": 50_000})
    assert refunded.status_code == 200, refunded.text
    assert [refund["amount"] for refund in double.refunds.values()] == [50_000]
    refused = await merchant.create(paid_order(externalId="late", paymentMethod=token))
    assert (refused.status_code, refused.json()["code"]) == (422, "CARD_TOKEN_INVALID")


async def test_a_token_that_is_used_up_moves_nothing(
    merchant: Merchant, double: Double, monkeypatch: pytest.MonkeyPatch
):
    """Stripe shows the use of a confirmation token, and that of a payment method only when it is charged."""
    assert (await merchant.put(ONE, BODY)).status_code == 201
    double.tokens["ctoken_3"] = confirmation("ctoken_3", double, payment_intent="pi_1")
    double.tokens["pm_3"] = method("pm_3")
    monkeypatch.setitem(USED_UP, "pm_3", USED_UP["pm_used"])
    tokens = {name: [{"account": "stripe-mx", "token": name}] for name in ("ctoken_3", "pm_3")}
    shown, hidden = [
        await merchant.create(paid_order(externalId=name, paymentMethod={"type": "card", "cardTokens": sent}))
        for name, sent in tokens.items()
    ]
    body = hidden.json()
    assert [shown.json()["code"], body["code"], body["declineCode"], body["advice"], body["retryable"]] == [
        "CARD_TOKEN_INVALID",
        "PAYMENT_DECLINED",
        "CARD_TOKEN_INVALID",
        "FIX_DATA",
        False,
    ]
    assert shown.json()["field"] == "paymentMethod.cardTokens[0].token"
    assert (await merchant.get(f"{ORDERS}/ctoken_3")).status_code == 404
    assert (await merchant.get(f"{ORDERS}/pm_3")).json()["status"] == "FAILED"
    double.tokens["pm_4"] = method("pm_4")
    entered = {"type": "card", "cardTokens": [{"account": "stripe-mx", "token": "pm_4"}]}
    again = await merchant.create(paid_order(externalId="pm_3", paymentMethod=entered))
    assert (again.status_code, again.json()["status"]) == (201, "COMPLETED"), "the same order gets a new payment"
    charged = len(double.transactions)
    customer = await merchant.post("/api/customers", {"externalId": "ana-3", "firstName": "Ana"})
    cards = f"/api/customers/{customer.json()['id']}/payment-methods"
    for sent in tokens.values():
        refused = await merchant.post(cards, {"paymentMethod": {"type": "card", "cardTokens": sent}})
        assert (refused.status_code, refused.json()["code"]) == (422, "CARD_TOKEN_INVALID"), "there is no order to fail"
        assert refused.json()["field"] == "paymentMethod.cardTokens[0].token"
    assert ((await merchant.get(cards)).json()["data"], len(double.transactions)) == ([], charged)


@pytest.mark.parametrize("on_to", [None, "https://shop.example/cards?a=1"])
async def test_a_payer_whose_card_is_saved_comes_back_over_a_page_of_the_ledger(
    merchant: Merchant, double: Double, store: Storefront, on_to: str | None
):
    assert (await merchant.put(ONE, BODY)).status_code == 201
    double.tokens["pm_3ds_1"] = method("pm_3ds_1")
    await merchant.post("/api/customers", {"externalId": "ana", "firstName": "Ana"})
    token = {"type": "card", "cardTokens": [{"account": "stripe-mx", "token": "pm_3ds_1"}]}
    for passes, title, status in ((False, "was not saved", "FAILED"), (True, "is saved", "ACTIVE")):
        asked = await merchant.post("/api/customers/ana/payment-methods", {"paymentMethod": token, "returnUrl": on_to})
        card, session = asked.json()["id"], asked.json()["payerAuthentication"]
        assert (asked.json()["status"], session["stepUpUrl"]) == ("REQUIRES_ACTION", "https://hooks.stripe.test/3ds")
        intent = session["authenticationTransactionId"]
        address = urlsplit(double.intents[intent]["next_action"]["redirect_to_url"]["return_url"])
        page = f"{address.path}?{address.query}&setup_intent={intent}&setup_intent_client_secret=x"
        for language, words in (("en", "has not confirmed the card"), ("es", "aún no confirma la tarjeta")):
            waiting = await store.client.get(page, headers={"accept-language": language})
            assert (waiting.status_code, words in waiting.text) == (200, True), waiting.text
        if passes:
            double.approve(intent)
        else:
            double.decline(intent, code="setup_intent_authentication_failure")
        ended = (await store.client.get(page, headers={"accept-language": "en"})).text
        assert f"Your card {title}" in ended
        assert (f"{on_to}&amp;paymentMethodId={card}" in ended) is (on_to is not None)
        assert "client_secret" not in ended
        assert (await merchant.get(f"/api/payment-methods/{card}")).json()["status"] == status
    await merchant.delete("/api/customers/ana")
    assert "no se guardó" in (await store.client.get(page)).text


async def test_an_account_whose_tokens_cannot_be_read_is_asked_last(
    merchant: Merchant, double: Double, monkeypatch: pytest.MonkeyPatch
):
    assert (await merchant.put(ONE, BODY)).status_code == 201
    assert (await merchant.put("/api/v1/processor-accounts/second", {"processor": "sandbox"})).status_code == 201
    monkeypatch.setattr(double, "key", "sk_test_rolled")
    tokens = [{"account": "second", "token": "tok_visa"}, {"account": "stripe-mx", "token": "pm_1"}]
    method = {"type": "card", "cardTokens": tokens}
    answers = [await merchant.create(paid_order(externalId=str(n), paymentMethod=method)) for n in range(6)]
    assert [each.status_code for each in answers] == [503] * 5 + [201]
    assert answers[-1].json()["payment"]["processorAccount"] == "second"
    health = {each["method"]: each["state"] for each in (await merchant.get(ONE)).json()["health"]}
    assert (health["CARD"], health["SPEI"]) == ("OPEN", "CLOSED")


async def test_limits_are_within_what_each_currency_has(merchant: Merchant, double: Double):
    def limits(**limit: object) -> dict[str, object]:
        return BODY | {"methods": [{"type": "CARD", **limit}]}

    left = (await merchant.put(ONE, limits(installments=[3, 6]))).json()["methods"]
    assert {each["currencies"][0]: each.get("installments") for each in left} == {"MXN": [3, 6], "USD": None}
    for limit, field, words in (
        ({"amountMax": 10}, "amountMax", "at least 1000"),
        ({"amountMin": 100_000_000}, "amountMin", "at most 99999999"),
        ({"amountMin": 5000, "amountMax": 4000}, "amountMax", "not be less"),
    ):
        [error] = (await merchant.put(ONE, limits(**limit))).json()["errors"]
        assert (error["field"], words in error["message"]) == (f"methods[0].{field}", True), error


async def test_what_no_account_takes_is_refused_with_the_reason_before_any_order(merchant: Merchant, double: Double):
    double.account["capabilities"] |= {"oxxo_payments": "active"}
    assert (await merchant.put(ONE, BODY)).status_code == 201
    assert (await merchant.delete("/api/v1/processor-accounts/sandbox")).status_code == 200
    nameless = paid_order(amount=150_000, customer={"externalId": "ana"}, paymentMethod={"type": "paycash"})
    refused = (await merchant.create(nameless)).json()
    assert (refused["code"], [each["account"] for each in refused["accounts"]]) == (
        "METHOD_NOT_ENABLED",
        ["sandbox", "stripe-mx"],
    )
    assert refused["accounts"][1]["reason"] == "takes paycash only from a customer with firstName and email"
    assert (await merchant.create(nameless | {"customer": {"externalId": "ana"}, "pending": True})).status_code == 201
    charge = f"{ORDERS}/{nameless['externalId']}/charge", {"paymentMethod": {"type": "paycash"}}
    assert (await merchant.post(*charge)).json()["accounts"][1]["reason"].endswith("firstName and email")
    known = {"firstName": "Ana", "email": "ana@example.com"}
    assert (await merchant.put("/api/customers/ana", known)).status_code == 200
    assert (await merchant.post(*charge)).json()["status"] == "REFERENCE_GENERATED"
    again = await merchant.create(nameless | {"externalId": "again"})
    assert again.json()["status"] == "REFERENCE_GENERATED", "a known customer has what the request leaves out"
    assert (await merchant.post("/api/sandbox/clock", {"advanceBy": "P30D"})).status_code == 200
    later = await merchant.create(nameless | {"externalId": "later"})
    first, second = (
        datetime.fromisoformat(each.json()["paymentMethod"]["cieDetails"]["expiresAt"]) for each in (again, later)
    )
    assert second - first > timedelta(days=29), "Stripe's time is not the merchant's"
    fraction = await merchant.create(paid_order(externalId="fraction", amount=1000.5, paymentMethod={"type": "spei"}))
    assert (fraction.status_code, fraction.json()["code"]) == (422, "AMOUNT_NOT_CHARGEABLE")


async def test_a_security_code_beside_a_token_is_refused(merchant: Merchant, double: Double):
    token = {"type": "card", "cardTokens": [{"account": "stripe-mx", "token": "pm_1"}], "cvc": "123"}
    refused = (await merchant.create(paid_order(paymentMethod=token))).json()
    assert [each["field"] for each in refused["errors"]] == ["paymentMethod.cvc"]
    without = (await merchant.create(paid_order(paymentMethod={"type": "card"}))).json()
    assert "cardTokens" in without["message"]
    named = await merchant.post("/api/sandbox/processor", {"mode": "OK", "account": "Second"})
    assert named.json()["errors"][0]["message"] == "must match ^[a-z0-9-]{1,32}$"
