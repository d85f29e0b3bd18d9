"""Disputes and settlements over HTTP, as a bank and an acquirer report them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from tests.api.bodies import order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront

pytestmark = pytest.mark.anyio

DISPUTES, SETTLEMENTS = "/api/sandbox/disputes", "/api/sandbox/settlements"


async def paid(merchant: Merchant, **changes: Any) -> dict[str, Any]:
    said = (await merchant.create(paid_order(**changes))).json()
    await merchant.post("/api/sandbox/clock", {"advanceBy": "PT1S"})  # the reactions note the payment's name
    return dict(said)


async def test_a_dispute_is_opened_and_won(merchant: Merchant):
    said = await paid(merchant)
    statuses = []
    for outcome in ("OPENED", "WON"):
        answer = await merchant.post(DISPUTES, {"paymentId": said["payment"]["id"], "outcome": outcome})
        assert answer.status_code == 200, answer.text
        shown = answer.json()["paymentOrder"]
        statuses.append((shown["payments"][0]["status"], shown["status"]))
    assert statuses == [("DISPUTED", "COMPLETED"), ("CAPTURED", "COMPLETED")]


async def test_a_dispute_that_is_lost_takes_its_part(merchant: Merchant):
    said = await paid(merchant)
    body = {"paymentId": said["payment"]["id"], "outcome": "LOST", "amount": 50_000}
    shown = (await merchant.post(DISPUTES, body)).json()["paymentOrder"]
    assert (shown["status"], shown["amountRefunded"]) == ("PARTIALLY_REFUNDED", 50_000)
    events = [(event["action"], event["status"]) for event in shown["payments"][0]["paymentEvents"]]
    assert ("CHARGEBACK", "SUCCESS") in events


async def test_payments_are_listed_settled_and_sent_back(merchant: Merchant):
    said = await paid(merchant)
    path = f"{ORDERS}/{said['id']}/payments/{said['payment']['id']}"
    statuses = []
    for stage in ("LISTED", "REFUSED", "LISTED", "MATCHED"):
        answer = await merchant.post(SETTLEMENTS, {"paymentIds": [said["payment"]["id"]], "stage": stage})
        assert [line["waitsFor"] for line in answer.json()["lines"]] == [None]
        statuses.append((await merchant.get(path)).json()["status"])
    assert statuses == ["PENDING_SETTLEMENT", "CAPTURED", "PENDING_SETTLEMENT", "SETTLED"]


async def test_without_ids_everything_that_can_be_is_settled(merchant: Merchant):
    said = await paid(merchant)
    await merchant.create(order(externalId="unpaid"))
    lines = (await merchant.post(SETTLEMENTS, {})).json()["lines"]
    assert [(line["paymentId"], line["stage"]) for line in lines] == [
        (said["payment"]["id"], "LISTED"),
        (said["payment"]["id"], "MATCHED"),
    ]
    assert (await merchant.post(SETTLEMENTS, {})).json()["lines"] == []


@pytest.mark.parametrize("stage", ["MATCHED", "REFUSED"])
async def test_only_listed_payments_are_matched_or_refused(merchant: Merchant, stage: str):
    said = await paid(merchant)
    answer = await merchant.post(SETTLEMENTS, {"paymentIds": [said["payment"]["id"]], "stage": stage})
    assert (answer.status_code, answer.json()["code"]) == (409, "INVALID_ORDER_STATE")
    assert (await merchant.post(SETTLEMENTS, {"stage": stage})).json()["lines"] == []


async def test_an_empty_list_of_payments_settles_none(merchant: Merchant):
    said = await paid(merchant)
    assert (await merchant.post(SETTLEMENTS, {"paymentIds": []})).json()["lines"] == []
    payment = await merchant.get(f"{ORDERS}/{said['id']}/payments/{said['payment']['id']}")
    assert payment.json()["status"] == "CAPTURED"


@pytest.mark.parametrize("amount", [0.5, 150_001])
@pytest.mark.parametrize("outcome", ["OPENED", "LOST"])
async def test_a_dispute_that_no_order_could_accept_is_not_reported(merchant: Merchant, outcome: str, amount: float):
    said = await paid(merchant)
    body = {"paymentId": said["payment"]["id"], "outcome": outcome, "amount": amount}
    answer = await merchant.post(DISPUTES, body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "amount")


async def test_a_dispute_that_was_lost_stays_lost(merchant: Merchant):
    said = await paid(merchant)
    answers = [
        await merchant.post(DISPUTES, {"paymentId": said["payment"]["id"], "outcome": outcome})
        for outcome in ("LOST", "WON")
    ]
    assert [answer.status_code for answer in answers] == [200, 409]
    assert answers[1].json()["code"] == "ORDER_NOT_REFUNDABLE"


async def test_another_merchants_payment_is_not_found(store: Storefront, merchant: Merchant):
    said = await paid(await store.register())
    for payment_id in (said["payment"]["id"], str(uuid4())):
        for path, body in (
            (DISPUTES, {"paymentId": payment_id, "outcome": "OPENED"}),
            (SETTLEMENTS, {"paymentIds": [payment_id]}),
        ):
            answer = await merchant.post(path, body)
            assert (answer.status_code, answer.json()["code"]) == (404, "PAYMENT_NOT_FOUND")


async def test_what_cannot_be_contested_is_refused(merchant: Merchant):
    said = await paid(merchant)
    await merchant.post(f"{ORDERS}/{said['id']}/refund", {"amount": 150_000})
    answer = await merchant.post(DISPUTES, {"paymentId": said["payment"]["id"], "outcome": "OPENED"})
    assert (answer.status_code, answer.json()["code"]) == (409, "ORDER_NOT_REFUNDABLE")
    for body, field in (({"outcome": "OPENED"}, "paymentId"), ({"paymentId": "x", "outcome": "OPENED"}, "paymentId")):
        refused = await merchant.post(DISPUTES, body)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, field)
