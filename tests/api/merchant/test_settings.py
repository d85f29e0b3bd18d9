"""The merchant's own settings over HTTP, and GET /v1/meta."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest
from tests.api.bodies import order
from tests.api.openapi.description import assert_described
from tests.api.storefront import JSON, Merchant, Storefront

from api.merchant.settings import CHANGE_MERCHANT, ChangeMerchantSettings, MerchantSettingsDocument
from ledger.domain.merchants.settings import SETTINGS
from ledger.security.api_keys import Scope
from ledger.settings import Settings, read_settings, request_limits

pytestmark = pytest.mark.anyio

MERCHANT = "/api/v1/merchant"
META = "/api/v1/meta"


async def put(merchant: Merchant, body: Any, **headers: str) -> httpx.Response:
    return await merchant.client.put(MERCHANT, json=body, headers=merchant.key | headers)


async def test_a_merchant_reads_itself(store: Storefront, merchant: Merchant):
    answer = await merchant.get(MERCHANT)
    assert answer.status_code == 200
    assert_described(answer, "get", MERCHANT)
    document = answer.json()
    assert (document["id"], document["name"]) == (str(merchant.merchant_id), "Café Tacuba")
    state = await store.ledger.merchant(merchant.merchant_id)
    assert document["settings"] == msgspec.json.decode(msgspec.json.encode(state.settings))


async def test_a_merchant_changes_what_it_sends_and_nothing_else(merchant: Merchant):
    before = (await merchant.get(MERCHANT)).json()
    changes: dict[str, Any] = {
        "surchargeRate": 3.50,
        "surchargeMethods": ["card", "SPEI"],
        "timeZone": "America/Tijuana",
        "paymentMethods": ["CARD", "SPEI"],
        "captureDelaySeconds": 30,
        "invoiceTrigger": "creation",
        "refundOverpayment": True,
        "fractionalAmounts": False,
        "exchangeRate": 17.25,
        "receiptDueDay": 17,
        "reminderDays": [7, 0],
    }
    changed = await put(merchant, {"settings": changes})
    assert changed.status_code == 200
    assert_described(changed, "put", MERCHANT)
    as_read = {"surchargeRate": "3.5", "surchargeMethods": ["CARD", "SPEI"], "invoiceTrigger": "CREATION",
               "exchangeRate": "17.25"}  # fmt: skip
    assert changed.json()["settings"] == before["settings"] | changes | as_read
    assert (await merchant.get(MERCHANT)).json() == changed.json()
    assert (await put(merchant, changed.json())).json() == changed.json()  # what was read can be sent back
    assert (await put(merchant, {"settings": {"surchargeRate": None}})).json()["settings"]["surchargeRate"] is None
    refused = await merchant.create(order(pending=False, paymentMethod={"type": "paycash"}))
    assert refused.json()["code"] == "METHOD_NOT_ENABLED"


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        ({"surchargeRate": 50, "timeZone": "Mars/Olympus", "captureDelaySeconds": -1},
         ["surchargeRate", "timeZone", "captureDelaySeconds"]),
        ({"surchargeRate": "lots", "surchargeMethods": ["BARTER"], "paymentMethods": [],
          "requireMerchantHeader": "yes", "invoiceTrigger": "NEVER", "refundOverpayment": 1},
         ["surchargeRate", "surchargeMethods", "paymentMethods", "requireMerchantHeader", "invoiceTrigger",
          "refundOverpayment"]),
        ({"surchargeRate": True, "timeZone": 5, "captureDelaySeconds": "5"},
         ["surchargeRate", "timeZone", "captureDelaySeconds"]),
        ({"surchargeRate": {}, "timeZone": "../../etc/passwd"}, ["surchargeRate", "timeZone"]),
        ({"timeZone": "x" * 65, "invoiceTrigger": "\x00"}, ["timeZone", "invoiceTrigger"]),
        ({"requestsPerMinute": 1_000_000, "requestsPerSecond": -1}, ["requestsPerMinute", "requestsPerSecond"]),
        ({"captureDelaySeconds": 604_801}, ["captureDelaySeconds"]),
        ({"exchangeRate": 0, "receiptDueDay": 29}, ["exchangeRate", "receiptDueDay"]),
        ({"exchangeRate": "much", "receiptDueDay": "5"}, ["exchangeRate", "receiptDueDay"]),
        ({"surchargeMethods": ["CARD,SPEI"], "paymentMethods": ["CARD", ""]}, ["surchargeMethods", "paymentMethods"]),
        ({"reminderDays": [91]}, ["reminderDays"]),
        ({"reminderDays": [1, 2, 3, 4, 5, 6]}, ["reminderDays"]),
        ({"reminderDays": [-1]}, ["reminderDays"]),
        ({"reminderDays": 3}, ["reminderDays"]),
    ],
)  # fmt: skip
async def test_every_wrong_setting_is_named(merchant: Merchant, sent: dict[str, Any], wrong: list[str]):
    answer = await put(merchant, {"settings": sent})
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    named = [error["field"] for error in answer.json()["errors"]]
    assert named == [f"settings.{name}" for name in wrong]
    assert_described(answer, "put", MERCHANT)


@pytest.mark.parametrize("body", [{}, {"settings": None}, {"timeZone": "America/Tijuana"}, {"settings": []}, []])
async def test_a_change_needs_settings(merchant: Merchant, body: Any):
    answer = await put(merchant, body)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == ["body" if body == [] else "settings"]


async def test_the_choices_are_named(merchant: Merchant):
    answer = await put(merchant, {"settings": {"paymentMethods": ["BARTER"], "invoiceTrigger": "NEVER"}})
    methods, trigger = answer.json()["errors"]
    assert methods["message"] == "must be a list of one or more of CARD, SPEI, PAYCASH, CIE_CASH_NET"
    assert trigger["message"] == "must be one of FIRST_CAPTURE, CREATION"


async def test_a_merchant_does_not_lift_its_own_rate_limits(store: Storefront):
    limited = await store.register(requests_per_minute=60, requests_per_second=30)
    answer = await put(limited, {"settings": {"requestsPerMinute": 0, "requestsPerSecond": 30}})
    assert [error["field"] for error in answer.json()["errors"]] == ["settings.requestsPerMinute"]
    assert answer.json()["errors"][0]["code"] == "READ_ONLY"
    for where in (MERCHANT, META):
        assert (await limited.get(where)).json()["limits"] == {"requestsPerMinute": 60, "requestsPerSecond": 30}


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        (Settings(), (1200, 100)),
        (Settings(environment="production"), (100, 10)),
        (read_settings({"LEDGER_REQUESTS_PER_MINUTE": "0", "LEDGER_REQUESTS_PER_SECOND": "7"}), (0, 7)),
    ],
)
def test_a_merchant_without_limits_of_its_own_has_those_of_the_environment(settings: Settings, limits: tuple[int, int]):
    assert request_limits(settings) == limits


async def test_a_repeated_change_is_answered_alike(merchant: Merchant):
    key = {"idempotency-key": "change-1"}
    body = {"settings": {"timeZone": "America/Tijuana"}}
    first = await put(merchant, body, **key)
    await put(merchant, {"settings": {"timeZone": "America/Cancun"}})
    again = await put(merchant, body, **key)
    assert (again.content, again.headers["idempotent-replayed"]) == (first.content, "true")
    assert (await merchant.get(MERCHANT)).json()["settings"]["timeZone"] == "America/Cancun"


async def test_settings_need_their_scope(store: Storefront, merchant: Merchant):
    other = await store.another_key(merchant, scopes=[scope for scope in Scope if scope is not Scope.SETTINGS])
    for answer in (await other.get(MERCHANT), await put(other, {"settings": {}})):
        assert (answer.status_code, answer.json()["code"]) == (401, "INSUFFICIENT_SCOPE")
    only = await store.another_key(merchant, scopes=["settings"])
    assert (await put(only, {"settings": {}})).status_code == 200


async def test_every_setting_can_be_read_and_is_described():
    names = set(SETTINGS)
    assert set(ChangeMerchantSettings.__struct_encode_fields__) == names
    assert set(MerchantSettingsDocument.__struct_encode_fields__) == names


async def test_the_example_works(merchant: Merchant):
    for example in CHANGE_MERCHANT.spec.examples.values():
        content = example["value"]
        assert (await merchant.client.put(MERCHANT, json=content, headers=merchant.key | JSON)).status_code == 200


async def test_meta_describes_the_units_and_the_key(store: Storefront, merchant: Merchant):
    answer = await merchant.get(META)
    assert_described(answer, "get", META)
    document = answer.json()
    assert (document["moneyUnit"], document["currencies"]) == ("minor", {"MXN": 2, "USD": 2})
    assert (document["environment"], document["merchantId"]) == ("sandbox", str(merchant.merchant_id))
    assert document["apiKey"]["scopes"] is None
    assert document["limits"].keys() == {"requestsPerMinute", "requestsPerSecond"}
    webhooks = await store.another_key(merchant, scopes=["webhooks"])
    assert (await webhooks.get(META)).json()["apiKey"]["scopes"] == ["webhooks"]
    assert (await store.client.get(META)).status_code == 401
