"""What happened, over HTTP: every event of a resource with its sentence, its actor and the state after it."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from msgspec import Raw
from tests.api.bodies import order, paid_order
from tests.api.isolation.objects import objects_of
from tests.api.log.test_log import seal
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import SUBSCRIPTIONS, made, shown
from tests.domain.builders import folded, paid
from tests.domain.invoices.stamper import SINGLE_FISCAL, next_command

from ledger.domain.fold import fold
from ledger.domain.invoices.decide.stamping import decide_next
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.streams import CUSTOMERS
from ledger.domain.streams import ORDERS as ORDER_STREAMS
from ledger.domain.streams import SUBSCRIPTIONS as SUBSCRIPTION_STREAMS
from ledger.journal.reader import LogReader
from ledger.operations.context.inputs import Actor
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.settings import Settings
from projections.histories.documents import (
    ActorDocument,
    HistoryEventDocument,
    HistoryPagination,
    HistoryStateDocument,
)
from projections.histories.pages import history_page
from projections.histories.sentences import SENTENCES, sentence

pytestmark = pytest.mark.anyio

OF_CUSTOMERS = "/api/customers"
STREAMS = (ORDER_STREAMS, CUSTOMERS, SUBSCRIPTION_STREAMS)


def test_every_topic_has_a_sentence_that_names_fields_which_exist_and_are_no_persons():
    topics = {topic: (kind, stream) for stream in STREAMS for topic, kind in stream.topics.items()}
    assert SENTENCES.keys() == topics.keys()
    found = {"payment", "method", "refund", "document", "invoice"}
    for topic, template in SENTENCES.items():
        kind, stream = topics[topic]
        fields = {field.name for field in msgspec.structs.fields(kind)} - set(stream.personal.get(kind, ()))
        assert set(re.findall(r"{(\w+)}", template)) <= fields | found, topic
        assert template == template.strip(" .")


async def test_an_orders_events_say_what_happened_and_who_caused_it(merchant: Merchant, store: Storefront):
    sold = (await merchant.create(paid_order())).json()
    one = f"{ORDERS}/{sold['id']}"
    named = await store.another_key(merchant, name="back office")
    refund = await named.post(f"{one}/refund", {"amount": 5000}, **{"x-request-id": "return-7"})
    assert refund.status_code == 200, refund.text
    page = await shown(merchant, f"{one}/events")
    events = page["data"]
    assert [event["version"] for event in events] == list(range(1, len(events) + 1))
    assert [event["position"] for event in events] == sorted({event["position"] for event in events})
    sentences = [event["sentence"] for event in events]
    assert sentences[0] == f"Order {sold['orderNumber']} created over 1,500.00 MXN"
    assert "Card payment of 1,500.00 MXN captured" in sentences
    assert sentences[-2:] == ["Refund of 50.00 MXN requested", "Card payment refunded by 50.00 MXN"]
    assert events[-1]["state"] == {
        "status": "PARTIALLY_REFUNDED",
        "amount": 150000,
        "amountPaid": 150000,
        "amountRefunded": 5000,
        "amountPending": 5000,
    }
    assert events[0]["actor"]["type"] == "API_KEY"
    assert events[-1]["actor"] == {"type": "API_KEY", "keyId": events[-1]["actor"]["keyId"], "name": "back office"}
    assert (events[-1]["requestId"], events[-1]["event"]["amount"]) == ("return-7", "5000")
    for event in events:
        then = await shown(merchant, f"{one}?version={event['version']}")
        for name, value in event["state"].items():
            assert then[name] == value, (event["topic"], name)
        assert then["position"] == event["position"]
    total = len(events)
    assert page["pagination"] == {
        "limit": 100, "total": total, "count": total, "hasMore": False, "lastVersion": total,
    }  # fmt: skip
    pieces: list[Any] = []
    after, more = 0, True
    while more:
        piece = await shown(merchant, f"{one}/events?limit=2&afterVersion={after}")
        pieces += piece["data"]
        after, more = piece["pagination"]["lastVersion"], piece["pagination"]["hasMore"]
    assert pieces == events
    beyond = await shown(merchant, f"{one}/events?afterVersion={total + 5}")
    assert (beyond["data"], beyond["pagination"]["hasMore"], beyond["pagination"]["lastVersion"]) == ([], False, total)


async def test_every_kind_of_object_has_a_history(merchant: Merchant):
    objects = await objects_of(merchant, "any")
    for path, kind in (
        (OF_CUSTOMERS, "customer"),
        (SUBSCRIPTIONS, "subscription"),
        (ORDERS, "order"),
        (ORDERS, "document's order"),
        (ORDERS, "session's order"),
    ):
        for name in objects[kind]:
            events = (await shown(merchant, f"{path}/{name}/events"))["data"]
            assert events, kind
            assert all(event["sentence"] and "None" not in event["sentence"] for event in events)
            html = await merchant.get(f"{path}/{name}/events", accept="text/html")
            assert html.headers["content-type"] == "text/html; charset=utf-8"
            assert all(event["sentence"] in html.text for event in events)
            assert "<script" not in html.text


async def test_a_page_for_people_marks_what_changed(merchant: Merchant):
    one = f"{ORDERS}/{(await merchant.create(order(description='<b>x</b>'))).json()['id']}"
    assert (await merchant.client.patch(one, json={"amount": 170000}, headers=merchant.key)).status_code == 200
    page = (await merchant.get(f"{one}/events", accept="text/html,application/xhtml+xml,*/*;q=0.8")).text
    assert "<strong>1,700.00</strong>" in page
    key_id = (await merchant.get(f"{one}/events")).json()["data"][0]["actor"]["keyId"]
    assert f">API key …{key_id[-6:]}</td>" in page, "a key without a name is known by its id"
    assert page.count("<strong>PENDING</strong>") == 1
    rest = (await merchant.get(f"{one}/events?afterVersion=1", accept="text/html")).text
    assert "<strong>PENDING</strong>" not in rest
    assert "1 of 2 events" in rest


async def test_an_erased_customer_has_its_events_without_the_person(store: Storefront, merchant: Merchant):
    customer = await made(
        merchant, OF_CUSTOMERS, {"externalId": "bea", "firstName": "Beatriz", "email": "b@example.com"}
    )
    before = await merchant.get(f"{OF_CUSTOMERS}/bea/events")
    assert "Beatriz" in before.text

    async def orders_of(*_: Any) -> list[UUID]:
        return []

    await delete_customer(store.ledger, Actor(merchant_id=merchant.merchant_id), "bea", orders_of)
    for name in ("bea", customer["id"]):
        after = await merchant.get(f"{OF_CUSTOMERS}/{name}/events")
        assert after.status_code == 200
        assert "Beatriz" not in after.text
        assert "b@example.com" not in after.text
        assert [event["state"]["status"] for event in after.json()["data"]] == ["ACTIVE", "ERASED"]


async def test_who_may_read_a_history_and_how(store: Storefront, merchant: Merchant):
    one = f"{ORDERS}/{(await merchant.create(paid_order())).json()['id']}/events"
    for query, field in (
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("afterVersion=-1", "afterVersion"),
        ("x=1", "x"),
    ):
        answer = await merchant.get(f"{one}?{query}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    reader = await store.another_key(merchant, scopes=("orders:read",))
    assert (await reader.get(one)).json()["code"] == "INSUFFICIENT_SCOPE"
    auditor = await store.another_key(merchant, scopes=("audit",))
    assert (await auditor.get(one)).status_code == 200
    stranger = await store.register()
    customer = f"{OF_CUSTOMERS}/ana/events"
    for path, code in (
        (one, "ORDER_NOT_FOUND"),
        (customer, "CUSTOMER_NOT_FOUND"),
        (one.replace(ORDERS, OF_CUSTOMERS), "CUSTOMER_NOT_FOUND"),
    ):
        hidden = await (merchant if path.startswith(OF_CUSTOMERS) and path != customer else stranger).get(path)
        assert (hidden.status_code, hidden.json()["code"]) == (404, code)


async def test_an_event_is_sealed_once_the_log_has_a_proof_of_it(merchant: Merchant, settings: Settings):
    one = f"{ORDERS}/{(await merchant.create(paid_order())).json()['id']}"
    before = (await shown(merchant, f"{one}/events"))["data"]
    assert not any(event["sealed"] for event in before)
    await seal(settings)
    await made(merchant, f"{one}/refund", {"amount": 5000})
    after = (await shown(merchant, f"{one}/events"))["data"]
    assert [event["sealed"] for event in after] == [event["version"] <= len(before) for event in after]
    assert len(after) > len(before)
    for event in after:
        proof = await merchant.get(f"/api/v1/log/entries/{event['position']}/proof")
        assert (proof.status_code == 200) is event["sealed"]


async def test_a_long_history_is_read_in_parts_and_answered_the_same(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
):
    one = f"{ORDERS}/{(await merchant.create(order(allowPartials=True))).json()['id']}"
    for n in range(8):
        changed = await merchant.client.patch(one, json={"amount": 170_000 + n}, headers=merchant.key)
        assert changed.status_code == 200, changed.text
    paths = (f"{one}/events", f"{one}/events?afterVersion=4&limit=3", f"{one}/explain?field=amount")
    asked = [(path, accept) for path in paths for accept in ("application/json", "text/html")]
    whole = [(await merchant.get(path, accept=accept)).content for path, accept in asked]
    read: list[int] = []
    history = LogReader.history

    async def counted(*args: Any, **options: Any) -> list[Any]:
        events = await history(*args, **options)
        read.append(len(events))
        return events

    monkeypatch.setattr(LogReader, "history", counted)
    monkeypatch.setattr("projections.histories.steps._READ_AT_ONCE", 2)
    assert [(await merchant.get(path, accept=accept)).content for path, accept in asked] == whole
    read.clear()
    page = await shown(merchant, f"{one}/events?afterVersion=5&limit=1")
    assert (page["data"][0]["version"], page["pagination"]["total"], read) == (6, 9, [2, 2, 1, 1])


@pytest.mark.parametrize(
    ("actor", "text"),
    [
        (ActorDocument(type="WORKER", name="due"), "Service, when it was due"),
        (ActorDocument(type="WORKER", name="other"), "Service: other"),
        (ActorDocument(type="OPERATOR", name="eva <e@x>"), "Operator: eva &lt;e@x&gt;"),
        (ActorDocument(type="API_KEY", key_id=UUID(int=0xABCDEF), name="Shop"), "API key: Shop"),
        (ActorDocument(type="PROCESSOR"), "Processor"),
        (ActorDocument(type="PAYER"), "Payer"),
    ],
)
def test_a_page_names_who_caused_an_event(actor: ActorDocument, text: str):
    at = "2026-01-31T12:00:00.000Z"
    event = HistoryEventDocument(
        version=1, position=1, recorded_at=at, topic="x.v1", sentence="x", actor=actor, request_id=None, causation=None,
        event=Raw(b"{}"), state=HistoryStateDocument(status="ACTIVE"), sealed=False,
    )  # fmt: skip
    pages = HistoryPagination(limit=1, total=1, count=1, has_more=False, last_version=1)
    page = history_page("A customer", [event], pages, None, None, ZoneInfo("America/Mexico_City"))
    assert f">{text}</td>" in page


def test_a_document_is_in_small_letters_within_a_sentence():
    order_paid = folded([*SINGLE_FISCAL, *paid(1, 10000)])
    events = decide_next(order_paid, next_command())
    after = fold(evolve, order_paid, events)
    topic_of = {kind: topic for topic, kind in ORDER_STREAMS.topics.items()}
    assert [sentence(topic_of[type(event)], event, after) for event in events] == [
        "Invoice to be stamped",
        "Stamp of the invoice requested from sandbox",
    ]
