"""The feed over HTTP: what GET shows, in the order of the log, under numbers that never change."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import httpx
import psycopg
import pytest
from tests.api.bodies import order, paid_order
from tests.api.isolation.objects import objects_of
from tests.api.orders.test_payer_messages import ENGLISH, POOR, SPANISH
from tests.api.storefront import ORDERS, Merchant, Storefront

from api.http.request import ApiRequest
from api.http.waiting_requests import WAITING_MAX
from ledger.background.reactions import feed, numbering
from ledger.background.reactions.quarantine import Quarantine
from ledger.domain.public_events.kinds import KIND_OF, ResourceType
from ledger.journal.append import SealBroken
from ledger.journal.reader import LogReader
from ledger.operations.context.inputs import Actor
from ledger.operations.erasure.erase_customer import delete_customer

pytestmark = pytest.mark.anyio

EVENTS = "/api/v1/events"
NUMBERS = "4242424242424242", "4000000000003220", '"cvc"', '"securityCode"'


async def page(merchant: Merchant, query: str = "limit=1000") -> dict[str, Any]:
    answer = await merchant.get(f"{EVENTS}?{query}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def kinds(body: dict[str, Any]) -> list[str]:
    return [event["type"] for event in body["data"]]


def wrong_fields(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 400, answer.text
    return [error["field"] for error in answer.json()["errors"]]


async def test_the_last_event_of_each_resource_has_what_get_answers(merchant: Merchant):
    await objects_of(merchant, "any")
    whole = await page(merchant)
    events = whole["data"]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert (whole["lastSequence"], whole["hasMore"]) == (len(events), False)
    latest = {(event["resource"]["type"], event["resource"]["id"]): event for event in events}
    assert {kind for kind, _ in latest} >= set(ResourceType) - {ResourceType.CREDIT_NOTE, ResourceType.WEBHOOK_ENDPOINT}
    versions = {event["resource"]["url"].partition("/payments/")[0]: event["streamVersion"] for event in events}
    for event in latest.values():
        url, data = event["resource"]["url"], event["data"]
        if event["streamVersion"] < versions[url.partition("/payments/")[0]]:
            continue  # something else of the order has happened since
        answer = await merchant.get(url)
        if answer.status_code == 404:  # a card that was not saved
            assert data.get("deleted"), event
            continue
        shown = answer.json()
        match event["resource"]["type"]:
            case "payment":
                assert data.items() >= shown.items()
                assert data["paymentOrderId"] in url
            case "customer":
                assert shown.items() >= data.items()
            case "invoice":
                assert data.items() <= shown.items(), event
            case "complement" | "credit_note":
                documents = shown["complements"] + shown["creditNotes"]
                assert any(each.items() <= data.items() for each in documents), event
            case _:
                assert data == shown, event


async def test_a_page_at_a_time_and_each_event_alone_have_the_same_bytes(merchant: Merchant, monkeypatch):
    """Whatever the slices are in which the log is numbered and rendered."""
    monkeypatch.setattr(numbering, "_EVENTS_AT_ONCE", 1)
    monkeypatch.setattr("projections.events.feed._RENDERED_AT_ONCE", 3)
    paid = (await merchant.create(paid_order())).json()
    assert (await merchant.post(f"{ORDERS}/{paid['id']}/refund", {"amount": 1000})).status_code == 200
    whole = (await merchant.get(EVENTS)).content
    body = await page(merchant)
    assert kinds(body) == [
        "customer.created", "payment_order.created", "payment.created", "payment.captured", "payment_order.completed",
        "payment_order.refund_processing", "payment.refunded", "payment_order.partially_refunded",
    ]  # fmt: skip
    after, pieces = 0, []
    while True:
        one = await page(merchant, f"afterSequence={after}&limit=1")
        after = one["lastSequence"]
        pieces += one["data"]
        if not one["hasMore"]:
            break
    assert pieces == body["data"]
    for event in body["data"]:
        alone = await merchant.get(f"{EVENTS}/{event['id']}")
        assert alone.content in whole
    with monkeypatch.context() as patch:
        patch.setattr("projections.events.feed._PAGE_BYTES", 2 * len(whole) // 8)
        short = await page(merchant)
        assert short["data"] == body["data"][: len(short["data"])]
        assert (short["lastSequence"], short["hasMore"]) == (len(short["data"]), True)
        assert 1 <= short["lastSequence"] < 8
    thin = await page(merchant, "payload=THIN")
    assert thin["data"] == [{name: event[name] for name in event if name != "data"} for event in body["data"]]
    assert not any(number.encode() in whole for number in NUMBERS)
    completed = next(event for event in body["data"] if event["type"] == "payment_order.partially_refunded")
    assert completed["previousStatus"] == "REFUND_PROCESSING"
    assert completed["data"]["amountRefunded"] == 1000


async def test_the_texts_of_a_body_are_in_the_language_that_the_customer_had_then(merchant: Merchant):
    new = {"externalId": "ana", "notificationPreferences": {"language": "en"}}
    ana = (await merchant.post("/api/customers", new)).json()["id"]
    for n, customer in enumerate(("ana", "bob", "ana")):
        declined = paid_order(externalId=f"{n}", customer={"externalId": customer}, paymentMethod=POOR)
        assert (await merchant.create(declined)).status_code == 422
        if n == 1:
            spanish = {"notificationPreferences": {"language": "es"}}
            assert (await merchant.put(f"/api/customers/{ana}", spanish)).status_code == 200
    events = (await page(merchant))["data"]
    for kind in ("payment.failed", "payment_order.failed"):
        shown = [event["data"] for event in events if event["type"] == kind]
        payments = [data if kind == "payment.failed" else data["payments"][0] for data in shown]
        assert [payment["payerMessage"] for payment in payments] == [ENGLISH, SPANISH, SPANISH], kind


async def test_filters_move_on_although_nothing_matches(store: Storefront, merchant: Merchant, monkeypatch):
    monkeypatch.setattr("projections.events.numbered._LOOKED_AT_MAX", 2)
    one = (await merchant.create(paid_order(externalId="one"))).json()
    await merchant.create(order(externalId="two", customer={"externalId": "bea"}))
    await merchant.create(order(externalId="three", customer={"externalId": "carla"}))
    every = await page(merchant)
    found, after, requests = [], 0, 0
    while True:
        some = await page(merchant, f"type=payment.captured,customer.*&afterSequence={after}")
        found, after, requests = found + some["data"], some["lastSequence"], requests + 1
        if not some["hasMore"]:
            break
    assert found == [each for each in every["data"] if each["type"] in ("payment.captured", "customer.created")]
    assert (after, requests) == (every["lastSequence"], -(-len(every["data"]) // 2))
    of_order = await page(merchant, "paymentOrderId=one&type=payment.*&type=payment_order.created")
    assert {event["resource"]["url"].split("/")[4] for event in of_order["data"]} == {one["id"]}
    assert kinds(of_order)[0] == "payment_order.created"
    for nothing in ("paymentOrderId=none", "subscriptionId=none", "afterSequence=9007199254740991"):
        empty = await page(merchant, nothing)
        assert (empty["data"], empty["hasMore"]) == ([], False)
        assert empty["lastSequence"] >= every["lastSequence"]
    stranger = await store.register()
    assert await page(stranger) == {"data": [], "lastSequence": 0, "hasMore": False}
    hidden = await stranger.get(f"{EVENTS}/{every['data'][0]['id']}")
    assert (hidden.status_code, hidden.json()["code"]) == (404, "EVENT_NOT_FOUND")


async def test_wrong_parameters_are_named(merchant: Merchant):
    wrong = "afterSequence=-1&type=payment.nothing&payload=SOME&limit=1001&wait=26&paymentOrderId=a&subscriptionId=b"
    fields = wrong_fields(await merchant.get(f"{EVENTS}?{wrong}"))
    assert set(fields) == {part.partition("=")[0] for part in wrong.split("&")}
    for query in ("type=*", "type=payment.*.x", "limit=0", "afterSequence=9007199254740992"):
        assert wrong_fields(await merchant.get(f"{EVENTS}?{query}")) == [query.partition("=")[0]]
    several = await merchant.get(f"{EVENTS}?type=payment.captured,payment.catpured&payload=thin")
    assert wrong_fields(several) == ["type"], "a value in small letters is accepted, as in other queries and in bodies"
    assert several.json()["message"].endswith(": number 2 is none; did you mean payment.captured?")
    for kind, end in (
        ("payment.canceled", "; did you mean payment.cancelled?"),
        ("payment_order.paid", "; did you mean payment_order.*?"),
        ("*", "; leave type out to get all kinds."),
        ("charge.succeeded", "such as payment.captured or payment_order.*."),
    ):
        assert (await merchant.get(f"{EVENTS}?type={kind}")).json()["message"].endswith(end), kind


async def test_a_waiting_request_is_answered_by_the_next_event(merchant: Merchant, monkeypatch):
    monkeypatch.setattr("api.events.list._LOOK_AGAIN_S", 0.01)
    sent = [asyncio.create_task(merchant.get(f"{EVENTS}?wait=15")) for _ in range(WAITING_MAX + 1)]
    further, waiting = await asyncio.wait(sent, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert [one.result().json() for one in further] == [{"data": [], "lastSequence": 0, "hasMore": False}]
    await merchant.create(order())
    answers = await asyncio.gather(*waiting)
    assert {tuple(kinds(answer.json())) for answer in answers} == {("customer.created", "payment_order.created")}
    monkeypatch.setattr(ApiRequest, "may_wait", lambda _: False)  # the process is to end
    ended = await asyncio.wait_for(merchant.get(f"{EVENTS}?wait=20&afterSequence=2"), 5)
    assert ended.json() == {"data": [], "lastSequence": 2, "hasMore": False}


async def test_a_long_past_is_numbered_over_several_requests(merchant: Merchant, monkeypatch):
    monkeypatch.setattr(numbering, "_EVENTS_AT_ONCE", 1)
    monkeypatch.setattr(feed, "_PATIENCE_S", 0.0)
    await merchant.create(order())
    behind = await merchant.get(EVENTS)
    assert (behind.status_code, behind.json()["code"]) == (503, "FEED_BEHIND")
    assert behind.headers["retry-after"]
    monkeypatch.setattr(feed, "_PATIENCE_S", 3.0)
    assert kinds(await page(merchant)) == ["customer.created", "payment_order.created"]


async def test_a_log_that_cannot_be_read_is_answered_as_far_as_it_was_numbered(merchant: Merchant, monkeypatch):
    await merchant.create(order())
    before = await page(merchant)
    read = LogReader.stored_without

    async def broken(*_: Any) -> Any:
        raise SealBroken("a byte has changed")

    monkeypatch.setattr(LogReader, "stored_without", broken)
    await merchant.create(order(externalId="two"))
    assert await page(merchant) == before
    stopped = await merchant.get(f"{EVENTS}?afterSequence={before['lastSequence']}")
    assert (stopped.status_code, stopped.json()["code"]) == (503, "DATA_KEY_UNAVAILABLE")
    assert stopped.json()["message"] == "This record cannot be opened. The feed ends before it. Try again later."
    assert (await merchant.get(f"{EVENTS}/{UUID(int=7)}")).status_code == 503
    monkeypatch.setattr(LogReader, "stored_without", read)
    monkeypatch.setattr(Quarantine, "now", lambda _: [])  # its second has passed
    assert kinds(await page(merchant)) == [*kinds(before), "payment_order.created"]


UNOPENED = """
update event set data = overlay(data placing 'B'::bytea from 12 for 1)
 where merchant_id = %s and stream_id = %s and position('{"sealed":'::bytea in data) = 1
"""


@pytest.mark.parametrize("at", [2, 3, 5])
async def test_an_event_whose_record_does_not_open_ends_a_page_and_is_named_behind_it(
    store: Storefront, merchant: Merchant, at: int
):
    customers = [{"externalId": f"customer-{n}", "firstName": "Ana", "email": "ana@example.com"} for n in range(5)]
    ids = [(await merchant.post("/api/customers", customer)).json()["id"] for customer in customers]
    whole = await page(merchant)
    assert [event["data"]["id"] for event in whole["data"]] == ids
    assert store.settings.database_url is not None
    with psycopg.connect(store.settings.database_url, autocommit=True) as operator:
        assert operator.execute(UNOPENED, [merchant.merchant_id, ids[at - 1]]).rowcount > 0
    before = await page(merchant)
    assert before == {"data": whole["data"][: at - 1], "lastSequence": at - 1, "hasMore": True}
    stopped = await merchant.get(f"{EVENTS}?afterSequence={at - 1}")
    assert (stopped.status_code, stopped.json()["code"]) == (503, "DATA_KEY_UNAVAILABLE")
    assert stopped.headers["retry-after"]
    assert f"It is shown by event {at} of the feed: read on with afterSequence={at}" in stopped.json()["message"]
    behind = await page(merchant, f"afterSequence={at}")
    assert behind["data"] == whole["data"][at:]
    for limit in range(1, 6):  # wherever it is on the page
        some = await page(merchant, f"limit={limit}&afterSequence={at - 2}")
        assert [each["sequence"] for each in some["data"]] == [at - 1]


async def test_after_an_erasure_no_event_has_the_person(store: Storefront, merchant: Merchant):
    """Also if another process has erased the customer, and this one still has the key in its cache."""
    person = {"externalId": "ana", "firstName": "Anastasia", "email": "anastasia@example.com"}
    paid = (await merchant.create(paid_order(customer=person))).json()
    assert "anastasia" in (await merchant.get(EVENTS)).text.lower()

    async def orders_of(*_: Any) -> list[UUID]:
        return []

    await delete_customer(store.ledger, Actor(merchant_id=merchant.merchant_id), "ana", orders_of)
    answer = await merchant.get(f"{EVENTS}?limit=1000")
    assert answer.status_code == 200
    assert not any(text in answer.text for text in ("nastasia", "Puebla"))
    deleted = [event["data"] for event in answer.json()["data"] if event["type"] == "customer.deleted"]
    assert deleted == [{"id": paid["customer"]["id"], "deleted": True}]


async def test_every_kind_has_a_resource_that_is_rendered():
    from projections.events.bodies import _DATA

    assert {kind.resource_type for kind in KIND_OF.values()} <= _DATA.keys()
