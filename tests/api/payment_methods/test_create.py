"""Cards that are saved without a payment, over HTTP: confirmed, declined, challenged, unanswered, and used."""

from __future__ import annotations

from typing import Any

import httpx
import psycopg
import pytest
from tests.api.bodies import ABSENT, NOW, by_card, card, encoded, paid_order, refusal_of
from tests.api.openapi.test_document import assert_described
from tests.api.payer import CHALLENGED, DEVICE_THEN_CHALLENGE, FRICTIONLESS, REDIRECTED
from tests.api.payment_methods.test_payment_methods import LIST, METHODS, by_saved, delete, listed, put
from tests.api.storefront import Merchant

from api.payment_methods.create import parse_create
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

OF_ANA = "/api/customers/ana/payment-methods"
PAYER = f"{METHODS}/{{id}}/payer-authentication"
DECLINED, RISKY, SILENT, OTHER = "4000000000000002", "4100000000000019", "4000000000000119", "5555555555554444"


@pytest.fixture
async def merchant(merchant: Merchant) -> Merchant:
    """A merchant with the customer of every test."""
    answer = await merchant.post("/api/customers", {"externalId": "ana", "firstName": "Ana"})
    assert answer.status_code == 201, answer.text
    return merchant


def a_card(number: str = "4242424242424242", **changes: Any) -> dict[str, Any]:
    details = card(number=number, **changes.pop("details", {}))
    return {"paymentMethod": by_card(cardDetails=details), **changes}


async def save(merchant: Merchant, number: str = "4242424242424242", **changes: Any) -> httpx.Response:
    headers = changes.pop("headers", {})
    return await merchant.post(OF_ANA, a_card(number, **changes), **headers)


async def resume(merchant: Merchant, method_id: str, step: str, body: Any, **headers: str) -> httpx.Response:
    return await merchant.post(f"{METHODS}/{method_id}/payer-authentication/{step}", body, **headers)


def kept(settings: Settings, merchant: Merchant) -> list[str]:
    """Returns the methods whose number the vault has."""
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url) as connection:
        query = "select payment_method_id::text from vault_card where merchant_id = %s order by 1"
        return [row[0] for row in connection.execute(query, [merchant.merchant_id])]


async def ids(merchant: Merchant) -> list[str]:
    return [each["id"] for each in (await listed(merchant)).json()["data"]]


async def test_a_confirmed_card_is_saved_and_can_be_charged_at_once(merchant: Merchant, settings: Settings) -> None:
    address = {"address": "Av. Juárez 1", "city": "Puebla", "country": "mx"}
    answer = await save(merchant, billingAddress=address)
    assert answer.status_code == 201, answer.text
    assert_described(answer, "post", LIST)
    shown = answer.json()
    assert (shown["status"], shown["isDefault"], shown["nextAction"], shown["failure"]) == ("ACTIVE", True, None, None)
    assert (shown["billingAddressLine1"], shown["billingCity"], shown["billingCountry"]) == (
        "Av. Juárez 1",
        "Puebla",
        "MX",
    )
    assert shown["cardDetails"]["last4"] == "4242"
    assert "4242424242424242" not in answer.text
    assert (await merchant.get(f"{METHODS}/{shown['id']}")).json() == shown
    assert await ids(merchant) == [shown["id"]] == kept(settings, merchant)
    paid = await merchant.create(paid_order(externalId="1", paymentMethod=by_saved(shown["id"])))
    assert (paid.json()["status"], paid.json()["payment"]["billingCity"]) == ("COMPLETED", "Puebla")
    second = await save(merchant, OTHER, isDefault=True)
    assert second.json()["isDefault"] is True
    assert await ids(merchant) == [second.json()["id"], shown["id"]]


@pytest.mark.parametrize(
    ("number", "code", "decline"),
    [(DECLINED, "PAYMENT_DECLINED", "GENERIC_DECLINE"), (RISKY, "RISK_REJECTED", "SUSPECTED_FRAUD"),
     ("4000000000000069", "PAYMENT_DECLINED", "CARD_EXPIRED")],
)  # fmt: skip
async def test_a_declined_card_is_not_saved_and_its_number_is_destroyed(
    merchant: Merchant, settings: Settings, number: str, code: str, decline: str
) -> None:
    key = {"idempotency-key": f"declined-{decline}"}
    answer = await save(merchant, number, headers=key)
    assert (answer.status_code, answer.json()["code"], answer.json()["declineCode"]) == (422, code, decline)
    assert {"advice", "retryable"} <= answer.json().keys()
    assert answer.json()["message"].endswith("The card is not saved."), "no payment was made"
    assert_described(answer, "post", LIST)
    assert (await ids(merchant), kept(settings, merchant)) == ([], [])
    again = await save(merchant, number, headers=key)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (422, "true")
    assert again.json()["declineCode"] == decline


async def test_a_request_under_a_key_is_answered_as_the_first_time(merchant: Merchant) -> None:
    first = await save(merchant, headers={"idempotency-key": "save-1"})
    again = await save(merchant, headers={"idempotency-key": "save-1"})
    assert (again.status_code, again.json(), again.headers["idempotent-replayed"]) == (201, first.json(), "true")
    other = await save(merchant, OTHER, headers={"idempotency-key": "save-1"})
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    await delete(merchant, first.json()["id"])
    gone = await save(merchant, headers={"idempotency-key": "save-1"})
    assert (gone.status_code, gone.json()["code"]) == (404, "PAYMENT_METHOD_NOT_FOUND")


@pytest.mark.parametrize("erases", [False, True])
async def test_a_key_shows_no_card_that_was_removed_while_its_payer_was_to_act(
    merchant: Merchant, erases: bool
) -> None:
    key = {"idempotency-key": "removed"}
    waiting = (await save(merchant, CHALLENGED, headers=key)).json()
    assert waiting["status"] == "REQUIRES_ACTION"
    if erases:
        assert (await merchant.client.delete("/api/customers/ana", headers=merchant.key)).status_code == 200
    else:
        assert (await delete(merchant, waiting["id"])).status_code == 200
    again = await save(merchant, CHALLENGED, headers=key)
    assert (again.status_code, again.json()["code"]) == (404, "PAYMENT_METHOD_NOT_FOUND")


async def test_the_same_card_is_the_same_method(merchant: Merchant) -> None:
    first = (await save(merchant)).json()
    same = await save(merchant)
    assert (same.status_code, same.json(), same.headers["idempotent-replayed"]) == (200, first, "true")
    assert_described(same, "post", LIST)
    other = (await save(merchant, OTHER)).json()
    made_default = await save(merchant, OTHER, isDefault=True)
    assert (made_default.status_code, made_default.json()["isDefault"]) == (200, True)
    assert "idempotent-replayed" not in made_default.headers
    renewed = await save(merchant, details={"expiryYear": "2039"})
    assert (renewed.status_code, renewed.json()["id"]) == (201, first["id"])
    assert (renewed.json()["cardDetails"]["expYear"], renewed.json()["status"]) == (2039, "ACTIVE")
    bought = await merchant.create(
        paid_order(externalId="1", paymentMethod=by_card(cardDetails=card(number=OTHER), persist=True))
    )
    assert bought.json()["paymentMethod"]["id"] == other["id"]


async def test_a_payer_who_is_challenged_confirms_the_card_on_a_page(merchant: Merchant, settings: Settings) -> None:
    answer = await save(merchant, CHALLENGED, returnUrl="https://shop.example.com/cards?x=1", isDefault=True)
    assert answer.status_code == 201, answer.text
    assert_described(answer, "post", LIST)
    shown = answer.json()
    method_id, session = shown["id"], shown["payerAuthentication"]
    assert (shown["status"], shown["nextAction"], shown["isDefault"]) == ("REQUIRES_ACTION", "CHALLENGE", False)
    assert (session["status"], session["threeDSVersion"]) == ("CHALLENGE_REQUIRED", "2.2.0")
    assert (await merchant.get(f"{METHODS}/{method_id}")).json() == shown
    assert await ids(merchant) == [], "it is in no list before it is saved"
    assert kept(settings, merchant) == [method_id]
    for refused in (
        await merchant.create(paid_order(externalId="1", paymentMethod=by_saved(method_id))),
        await put(merchant, method_id, {"billingCity": "Puebla"}),
    ):
        assert (refused.status_code, refused.json()["code"]) == (404, "PAYMENT_METHOD_NOT_FOUND")
    page = session["stepUpUrl"].partition("/api/")[2]
    asked = await merchant.client.get(f"/api/{page}")
    assert "Confirma tu tarjeta" in asked.text
    assert "MXN" not in asked.text
    concluded = await merchant.client.post(f"/api/{page}", data={"decision": "accept"})
    assert f"https://shop.example.com/cards?x=1&amp;paymentMethodId={method_id}" in concluded.text
    assert f"/payment-methods/{method_id}/payer-authentication/validate" in concluded.text
    wrong = await resume(merchant, method_id, "device-data", {})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "INVALID_PAYMENT_METHOD_STATE")
    unknown = await resume(merchant, method_id, "validate", {"authenticationTransactionId": "other"})
    assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (400, "authenticationTransactionId")
    body = {"authenticationTransactionId": session["authenticationTransactionId"]}
    saved = await resume(merchant, method_id, "validate", body, **{"idempotency-key": "validate-1"})
    assert saved.status_code == 200, saved.text
    assert_described(saved, "post", f"{PAYER}/validate")
    assert (saved.json()["status"], saved.json()["isDefault"], saved.json()["id"]) == ("ACTIVE", True, method_id)
    assert saved.json()["payerAuthentication"] is None
    again = await resume(merchant, method_id, "validate", body, **{"idempotency-key": "validate-1"})
    assert (again.status_code, again.json(), again.headers["idempotent-replayed"]) == (200, saved.json(), "true")
    late = await resume(merchant, method_id, "validate", body)
    assert (late.status_code, late.json()["code"]) == (409, "INVALID_PAYMENT_METHOD_STATE")
    assert_described(late, "post", f"{PAYER}/validate")
    assert await ids(merchant) == [method_id]
    paid = await merchant.create(paid_order(externalId="2", paymentMethod=by_saved(method_id), virtualTerminal=True))
    assert paid.json()["status"] == "COMPLETED"


async def test_device_data_alone_or_a_redirect_can_confirm_a_card(merchant: Merchant) -> None:
    frictionless = (await save(merchant, FRICTIONLESS)).json()
    assert (frictionless["nextAction"], frictionless["payerAuthentication"]["status"]) == (
        "DEVICE_DATA",
        "DEVICE_DATA_REQUIRED",
    )
    page = frictionless["payerAuthentication"]["deviceDataCollectionUrl"].partition("/api/")[2]
    checked = await merchant.client.post(f"/api/{page}", data={"decision": "go"})
    assert f"/payment-methods/{frictionless['id']}/payer-authentication/device-data" in checked.text
    answer = await resume(
        merchant, frictionless["id"], "device-data", {"referenceId": frictionless["payerAuthentication"]["referenceId"]}
    )
    assert_described(answer, "post", f"{PAYER}/device-data")
    assert (answer.status_code, answer.json()["status"]) == (200, "ACTIVE")
    both = (await save(merchant, DEVICE_THEN_CHALLENGE)).json()
    challenged = (await resume(merchant, both["id"], "device-data", {})).json()
    assert (challenged["status"], challenged["nextAction"]) == ("REQUIRES_ACTION", "CHALLENGE")
    body = {"authenticationTransactionId": challenged["payerAuthentication"]["authenticationTransactionId"]}
    assert (await resume(merchant, both["id"], "validate", body)).json()["status"] == "ACTIVE"
    redirected = (await save(merchant, REDIRECTED)).json()
    body = {"authenticationTransactionId": redirected["payerAuthentication"]["authenticationTransactionId"]}
    assert redirected["nextAction"] == "REDIRECT"
    assert (await resume(merchant, redirected["id"], "validate", body)).json()["status"] == "ACTIVE"
    assert len(await ids(merchant)) == 3


async def test_a_failed_challenge_saves_nothing_and_the_card_can_be_tried_again(
    merchant: Merchant, settings: Settings
) -> None:
    shown = (await save(merchant, CHALLENGED)).json()
    page = shown["payerAuthentication"]["stepUpUrl"].partition("/api/")[2]
    await merchant.client.post(f"/api/{page}", data={"decision": "refuse"})
    body = {"authenticationTransactionId": shown["payerAuthentication"]["authenticationTransactionId"]}
    failed = await resume(merchant, shown["id"], "validate", body)
    assert (failed.status_code, failed.json()["code"]) == (422, "PAYER_AUTHENTICATION_FAILED")
    assert_described(failed, "post", f"{PAYER}/validate")
    after = (await merchant.get(f"{METHODS}/{shown['id']}")).json()
    assert (after["status"], after["failure"]["declineCode"]) == ("FAILED", "AUTHENTICATION_FAILED")
    assert (await ids(merchant), kept(settings, merchant)) == ([], [])
    again = (await save(merchant, CHALLENGED)).json()
    assert again["id"] != shown["id"]
    simulated = await resume(merchant, again["id"], "validate", {"authenticationTransactionId": "fail-1"})
    assert simulated.status_code == 422


async def test_a_challenge_expires_and_another_request_replaces_it(
    merchant: Merchant, settings: Settings, reacted: None
) -> None:
    first = (await save(merchant, CHALLENGED)).json()
    second = (await save(merchant, CHALLENGED)).json()
    assert first["id"] == second["id"]
    assert first["payerAuthentication"] != second["payerAuthentication"]
    body = {"authenticationTransactionId": first["payerAuthentication"]["authenticationTransactionId"]}
    assert (await resume(merchant, first["id"], "validate", body)).status_code == 400
    await merchant.post("/api/sandbox/clock", {"advanceBy": "PT16M"})
    shown = (await merchant.get(f"{METHODS}/{first['id']}")).json()
    assert (shown["status"], shown["nextAction"], shown["payerAuthentication"]) == ("EXPIRED", None, None)
    assert kept(settings, merchant) == []
    gone = await delete(merchant, first["id"])
    assert gone.status_code == 404


async def test_a_silent_processor_leaves_a_pending_card_that_is_looked_up(
    merchant: Merchant, settings: Settings, reacted: None
) -> None:
    answer = await save(merchant, SILENT)
    assert (answer.status_code, answer.json()["status"]) == (201, "PENDING")
    method_id = answer.json()["id"]
    busy = await save(merchant, SILENT)
    assert (busy.status_code, busy.json()["code"]) == (409, "REQUEST_IN_PROGRESS")
    assert await ids(merchant) == []
    await merchant.post("/api/sandbox/clock", {"advanceBy": "PT1M"})
    shown = (await merchant.get(f"{METHODS}/{method_id}")).json()
    assert shown["status"] == "ACTIVE"
    assert await ids(merchant) == [method_id] == kept(settings, merchant)


async def test_a_processor_that_is_down_saves_nothing_and_the_key_can_be_used_again(
    merchant: Merchant, settings: Settings
) -> None:
    await merchant.post("/api/sandbox/processor", {"mode": "DOWN"})
    key = {"idempotency-key": "down-1"}
    answer = await save(merchant, headers=key)
    assert (answer.status_code, answer.json()["code"]) == (503, "PROCESSOR_UNAVAILABLE")
    assert_described(answer, "post", LIST)
    assert kept(settings, merchant) == []
    challenged = None
    await merchant.post("/api/sandbox/processor", {"mode": "OK"})
    assert (await save(merchant, headers=key)).json()["status"] == "ACTIVE"
    challenged = (await save(merchant, CHALLENGED)).json()
    await merchant.post("/api/sandbox/processor", {"mode": "DOWN", "times": 1})
    body = {"authenticationTransactionId": challenged["payerAuthentication"]["authenticationTransactionId"]}
    assert (await resume(merchant, challenged["id"], "validate", body)).status_code == 503
    assert (await resume(merchant, challenged["id"], "validate", body)).json()["status"] == "ACTIVE"


async def test_a_card_that_waits_for_its_payer_can_be_deleted_and_is_erased_with_its_customer(
    merchant: Merchant, settings: Settings
) -> None:
    first, second = (await save(merchant, CHALLENGED)).json(), (await save(merchant, REDIRECTED)).json()
    assert (await delete(merchant, first["id"])).json() == {"id": first["id"], "deleted": True}
    assert (await merchant.get(f"{METHODS}/{first['id']}")).status_code == 404
    assert kept(settings, merchant) == [second["id"]]
    body = {"authenticationTransactionId": first["payerAuthentication"]["authenticationTransactionId"]}
    assert (await resume(merchant, first["id"], "validate", body)).status_code == 404
    failed = (await save(merchant, SILENT)).json()
    await merchant.delete("/api/customers/ana")
    for method in (second, failed):
        assert (await merchant.get(f"{METHODS}/{method['id']}")).status_code == 404
    assert kept(settings, merchant) == []
    assert (await save(merchant)).json()["code"] == "CUSTOMER_NOT_FOUND"


async def test_cards_are_not_saved_for_a_merchant_without_them_or_for_an_unknown_customer(merchant: Merchant) -> None:
    unknown = await merchant.post("/api/customers/beto/payment-methods", a_card())
    assert (unknown.status_code, unknown.json()["code"]) == (404, "CUSTOMER_NOT_FOUND")
    await merchant.put("/api/v1/merchant", {"settings": {"paymentMethods": ["SPEI"]}})
    refused = await save(merchant)
    assert (refused.status_code, refused.json()["code"]) == (422, "METHOD_NOT_ENABLED")


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["paymentMethod"]),
        ({"paymentMethod": {"type": "spei"}}, ["paymentMethod.type"]),
        ({"paymentMethod": by_saved("0198c0de-0000-7000-8000-000000000099")}, ["paymentMethod.type"]),
        ({"paymentMethod": {"type": "card"}, "isDefault": "yes"}, ["paymentMethod.cardTokens", "isDefault"]),
        (a_card(details={"cvc": ABSENT}), ["paymentMethod.cardDetails.cvc"]),
        (a_card(billingAddress={"country": "MEX"}), ["billingAddress.country"]),
        (a_card(billingAddress={"city": "4242 4242 4242 4242"}), ["billingAddress.city"]),
        (a_card(returnUrl="javascript:alert(1)"), ["returnUrl"]),
        (a_card(billingAdress={}), ["billingAdress"]),
    ],
)
def test_a_wrong_request_names_its_fields(body: Any, fields: list[str]) -> None:
    refused = refusal_of(encoded(body), lambda sent: parse_create(sent, NOW))
    assert [each.field for each in refused.errors] == fields
