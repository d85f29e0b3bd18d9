"""3-D Secure and redirects over HTTP: from the create that waits for the payer to the captured payment."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.api.bodies import by_card, card, charge, order, paid_order
from tests.api.payer import CHALLENGED, DEVICE_THEN_CHALLENGE, FRICTIONLESS, REDIRECTED, path_of
from tests.api.storefront import ORDERS, Merchant, Storefront

pytestmark = pytest.mark.anyio

FORM = {"content-type": "application/x-www-form-urlencoded"}
DEVICE, CHALLENGE = "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED", "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED"


async def created(merchant: Merchant, number: str, **changes: Any) -> dict[str, Any]:
    """Returns an order whose payer has to act."""
    answer = await merchant.create(paid_order(paymentMethod=by_card(cardDetails=card(number=number)), **changes))
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def act(merchant: Merchant, said: dict[str, Any], action: str, body: Any, **headers: str) -> httpx.Response:
    return await merchant.post(f"{ORDERS}/{said['id']}/payer-authentication/{action}", body, **headers)


def transaction(said: dict[str, Any]) -> dict[str, str]:
    return {"authenticationTransactionId": said["payerAuthentication"]["authenticationTransactionId"]}


async def test_a_challenge_that_is_passed_authorises_and_answers_exactly(store: Storefront, merchant: Merchant):
    said = await created(merchant, CHALLENGED)
    assert (said["status"], said["payment"]["nextAction"]) == (CHALLENGE, "CHALLENGE")
    asked = said["payerAuthentication"]
    assert (asked["status"], asked["threeDSVersion"]) == ("CHALLENGE_REQUIRED", "2.2.0")
    await store.client.post(path_of(asked["stepUpUrl"]), content="decision=accept", headers=FORM)
    answer = await act(merchant, said, "validate", transaction(said))
    assert answer.status_code == 200, answer.text
    assert list(answer.json()) == ["id", "externalId", "status", "amount", "currency", "customer", "payment"]
    customer = ["id", "externalId", "firstName", "lastName", "email", "phoneNumber"]
    assert list(answer.json()["customer"]) == customer
    assert (answer.json()["status"], answer.json()["amount"]) == ("AUTHORIZED", 150_000)
    later = await merchant.post("/api/sandbox/clock", {"advanceBy": "PT6S"})
    assert later.status_code == 200, later.text
    done = (await merchant.get(f"{ORDERS}/{said['id']}")).json()
    assert (done["status"], done["payerAuthentication"]["status"]) == ("COMPLETED", "AUTHENTICATED")
    assert (asked["eci"], done["payerAuthentication"]["eci"]) == (None, "05")


@pytest.mark.parametrize("by_page", [True, False])
async def test_a_challenge_that_is_failed_is_a_422_for_ever(store: Storefront, merchant: Merchant, by_page: bool):
    said = await created(merchant, CHALLENGED)
    body = transaction(said) if by_page else {"authenticationTransactionId": "please-fail"}
    if by_page:
        page = path_of(said["payerAuthentication"]["stepUpUrl"])
        await store.client.post(page, content="decision=refuse", headers=FORM)
    key = {"idempotency-key": "validate-1"}
    for _ in range(2):
        answer = await act(merchant, said, "validate", body, **key)
        assert (answer.status_code, answer.json()["code"]) == (422, "PAYER_AUTHENTICATION_FAILED")
    shown = (await merchant.get(f"{ORDERS}/{said['id']}")).json()
    assert (shown["status"], shown["payerAuthentication"]["status"]) == ("FAILED", "FAILED")
    known = "07" if by_page else None  # an id that contains `fail` has no session, so its card is unknown
    assert shown["payerAuthentication"]["eci"] == known


async def test_device_data_without_a_challenge_pays_at_once_or_soon(store: Storefront, merchant: Merchant):
    said = await created(merchant, FRICTIONLESS)
    asked = said["payerAuthentication"]
    assert (said["status"], asked["status"], asked["stepUpUrl"]) == (DEVICE, "DEVICE_DATA_REQUIRED", None)
    wrong = await act(merchant, said, "device-data", {"referenceId": "another"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "referenceId")
    body = {"referenceId": asked["referenceId"], "deviceInformation": {"ipAddress": "201.141.20.7"}}
    answer = await act(merchant, said, "device-data", body)
    assert (answer.status_code, answer.json()["status"]) in [(200, "AUTHORIZED"), (200, "COMPLETED")]
    assert answer.json()["payerAuthentication"]["eci"] == "05"


async def test_device_data_may_lead_to_a_challenge(store: Storefront, merchant: Merchant):
    said = await created(merchant, DEVICE_THEN_CHALLENGE)
    asked = (await act(merchant, said, "device-data", {})).json()
    assert (asked["status"], asked["payerAuthentication"]["deviceDataCollectionUrl"]) == (CHALLENGE, None)
    answer = await act(merchant, said, "validate", transaction(asked))
    assert (answer.status_code, answer.json()["status"]) == (200, "AUTHORIZED")


async def test_a_redirect_is_finished_on_its_page(store: Storefront, merchant: Merchant):
    said = await created(merchant, REDIRECTED)
    assert (said["status"], said["payment"]["nextAction"]) == ("ACTION_REQUIRED", "REDIRECT")
    await store.client.post(path_of(said["payerAuthentication"]["stepUpUrl"]), content="decision=accept", headers=FORM)
    answer = await act(merchant, said, "validate", transaction(said))
    assert (answer.status_code, answer.json()["status"]) == (200, "AUTHORIZED")
    shown = (await merchant.get(f"{ORDERS}/{said['id']}")).json()
    assert shown["payerAuthentication"]["eci"] is None, "no network tells of a bank's own page"


async def test_a_virtual_terminal_asks_its_payer_for_nothing(merchant: Merchant):
    said = await created(merchant, CHALLENGED, virtualTerminal=True)
    assert (said["status"], said["payerAuthentication"]) == ("COMPLETED", None)


async def test_authentications_are_guarded(merchant: Merchant):
    said = await created(merchant, CHALLENGED)
    wrong = await act(merchant, said, "validate", {"authenticationTransactionId": "another"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "authenticationTransactionId")
    early = await act(merchant, said, "device-data", {})
    assert (early.status_code, early.json()["code"]) == (409, "INVALID_ORDER_STATE")
    assert early.json()["allowedStatuses"] == [DEVICE]
    paid = (await merchant.create(paid_order(externalId="paid"))).json()
    late = await act(merchant, paid, "validate", {"authenticationTransactionId": "x"})
    assert (late.status_code, late.json()["currentStatus"]) == (409, "COMPLETED")


async def test_a_session_that_nobody_used_expires(merchant: Merchant):
    said = await created(merchant, CHALLENGED)
    waiting = (await merchant.create(order(externalId="pending"))).json()
    body = charge(paymentMethod=by_card(cardDetails=card(number=CHALLENGED)))
    await merchant.post(f"{ORDERS}/{waiting['id']}/charge", body)
    await merchant.post("/api/sandbox/clock", {"advanceBy": "PT15M1S"})
    statuses = [(await merchant.get(f"{ORDERS}/{each}")).json()["status"] for each in (said["id"], waiting["id"])]
    assert statuses == ["FAILED", "PENDING"]
    late = await act(merchant, said, "validate", transaction(said))
    assert (late.status_code, late.json()["code"]) == (409, "INVALID_ORDER_STATE")
