"""What became of events: the deliveries of an endpoint, and events that are delivered again, with a worker's part."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.api.bodies import order
from tests.api.openapi.description import assert_described
from tests.api.storefront import Merchant, Storefront
from tests.background.deliveries import deliveries, receiving, until, verified, working

from ledger.background.deliveries import repeats, sender

pytestmark = pytest.mark.anyio

PATH = "/api/v1/webhook-endpoints"
EVENTS = "/api/v1/events"
DELIVERIES, REPLAY, REDELIVER = f"{PATH}/{{id}}/deliveries", f"{PATH}/{{id}}/replay", f"{EVENTS}/{{id}}/redeliver"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_LOOK_S", 0.05)


async def test_deliveries_are_listed_and_events_delivered_again_with_the_same_bytes(
    store: Storefront, merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = store.settings.database_url
    assert url is not None
    refused = {"payment_order.created"}
    async with (
        receiving(lambda event, _: 503 if event["type"] in refused else 200) as receiver,
        working(url, store.ledger) as worker,
    ):
        made = (await merchant.post(PATH, {"url": receiver.url + "/hook"})).json()
        one = f"{PATH}/{made['id']}"

        async def listed(query: str = "") -> Any:
            answer = await merchant.get(f"{one}/deliveries?{query}")
            assert_described(answer, "get", DELIVERIES)
            return answer.json()

        for n in range(3):
            await merchant.create(order(externalId=f"o-{n}"))
        await worker.number([merchant.merchant_id])
        await until(lambda: len(receiver.arrivals) == 4)
        await until(lambda: len(deliveries(url, UUID(made["id"]))) == 4)
        whole = await listed("limit=100")
        assert sorted(each["sequence"] for each in whole["data"]) == [1, 2, 3, 4]
        pending = [each for each in whole["data"] if each["status"] == "PENDING"]
        assert {each["type"] for each in pending} == refused
        assert all(each["attempts"][0]["responseStatus"] == 503 and each["nextAttemptAt"] for each in pending)
        assert "answered 503" in pending[0]["attempts"][0]["error"]
        assert [(await listed(f"status={each}"))["data"] for each in ("PENDING", "pending")] == [pending, pending]
        assert {each["type"] for each in (await listed("type=customer.*"))["data"]} == {"customer.created"}
        assert [each["eventId"] for each in (await listed("paymentOrderId=o-1"))["data"]] == [
            each["eventId"] for each in pending if each["sequence"] == 3
        ]
        assert (await listed("paymentOrderId=nobody"))["data"] == []
        first = await listed("limit=3")
        rest = await listed(f"limit=3&cursor={first['pagination']['nextCursor']}")
        assert first["data"] + rest["data"] == whole["data"]
        assert rest["pagination"] == {"limit": 3, "count": 1, "hasMore": False, "nextCursor": None}

        refused.clear()
        event_id = pending[0]["eventId"]
        answer = await merchant.post(f"{EVENTS}/{event_id}/redeliver", b"")
        assert_described(answer, "post", REDELIVER)
        assert answer.json() == {"eventId": event_id, "endpointIds": [made["id"]]}
        await until(lambda: len(receiver.arrivals) == 5)
        of_event = [each for each in receiver.arrivals if each.headers["webhook-id"] == event_id]
        assert [of_event[0].body] * 2 == [each.body for each in of_event]
        monkeypatch.setattr(repeats, "_REPLAY_MAX", 2)
        receiver.go_on.clear()
        answer = await merchant.post(f"{one}/replay", {"fromSequence": 2})
        assert_described(answer, "post", REPLAY)
        assert answer.json() == {"fromSequence": 2, "toSequence": 3, "events": 2}
        again = await merchant.post(f"{one}/replay", {"fromSequence": 1})
        assert (again.status_code, again.json()["code"]) == (409, "REPLAY_IN_PROGRESS")
        receiver.go_on.set()
        await until(lambda: len(receiver.arrivals) == 7)
        assert {arrival.event["sequence"] for arrival in receiver.arrivals[-2:]} == {2, 3}
        assert {arrival.body for arrival in receiver.arrivals[4:]} <= {
            arrival.body for arrival in receiver.arrivals[:4]
        }
        for arrival in receiver.arrivals:
            verified(arrival, made["secret"])
        await until(lambda: sum(each[1] == "SUCCEEDED" for each in deliveries(url, UUID(made["id"]))) == 4)
        failed = await merchant.post(f"{one}/replay", {"fromSequence": 1, "toSequence": 99, "failedOnly": True})
        assert failed.json() == {"fromSequence": 1, "toSequence": 4, "events": 0}


async def test_a_redelivery_that_fails_refuses_no_replay_and_is_in_none(store: Storefront, merchant: Merchant) -> None:
    url = store.settings.database_url
    assert url is not None
    refused = set[str]()
    async with (
        receiving(lambda event, _: 503 if event["type"] in refused else 200) as receiver,
        working(url, store.ledger) as worker,
    ):
        made = (await merchant.post(PATH, {"url": receiver.url + "/hook"})).json()
        await merchant.create(order())
        await worker.number([merchant.merchant_id])
        await until(lambda: deliveries(url, UUID(made["id"])) == [(1, "SUCCEEDED", 1), (2, "SUCCEEDED", 1)])
        created = next(each.event for each in receiver.arrivals if each.event["type"] == "payment_order.created")
        refused.add("payment_order.created")
        await merchant.post(f"{EVENTS}/{created['id']}/redeliver", b"")
        await until(lambda: (created["sequence"], "PENDING", 1) in deliveries(url, UUID(made["id"])))
        replayed = await merchant.post(f"{PATH}/{made['id']}/replay", {"fromSequence": 1})
        assert (replayed.status_code, replayed.json()["events"]) == (202, 1), replayed.text


async def test_what_cannot_be_delivered_again_is_refused(store: Storefront, merchant: Merchant) -> None:
    made = (await merchant.post(PATH, {"url": "http://127.0.0.1:9/"})).json()
    one = f"{PATH}/{made['id']}"
    await merchant.create(order())
    event_id = (await merchant.get(EVENTS)).json()["data"][0]["id"]
    other = await store.register()
    for path, body, field in (
        (f"{one}/replay", {}, "fromSequence"),
        (f"{one}/replay", {"fromSequence": 0}, "fromSequence"),
        (f"{one}/replay", {"fromSequence": 3, "toSequence": 2}, "fromSequence"),
        (f"{one}/replay", {"fromSequence": 1, "toSequence": "x"}, "toSequence"),
        (f"{EVENTS}/{event_id}/redeliver", {"endpointId": 7}, "endpointId"),
        (f"{EVENTS}/{event_id}/redeliver", {"endpointId": "not one"}, "endpointId"),
    ):
        answer = await merchant.post(path, body)
        assert (answer.status_code, [each["field"] for each in answer.json()["errors"]]) == (400, [field])
    for query in ("status=DONE", "type=payment", "limit=0", "limit=101", "cursor=1", "page=2"):
        assert (await merchant.get(f"{one}/deliveries?{query}")).status_code == 400, query
    for asks, path, body, code in (
        (other, f"{one}/replay", {"fromSequence": 1}, "WEBHOOK_ENDPOINT_NOT_FOUND"),
        (merchant, f"{PATH}/{uuid4()}/replay", {"fromSequence": 1}, "WEBHOOK_ENDPOINT_NOT_FOUND"),
        (other, f"{EVENTS}/{event_id}/redeliver", {}, "EVENT_NOT_FOUND"),
        (merchant, f"{EVENTS}/{uuid4()}/redeliver", {}, "EVENT_NOT_FOUND"),
        (merchant, f"{EVENTS}/{event_id}/redeliver", {"endpointId": str(uuid4())}, "WEBHOOK_ENDPOINT_NOT_FOUND"),
    ):
        answer = await asks.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (404, code)
    assert (await other.get(f"{one}/deliveries")).status_code == 404
    assert (await merchant.get(f"{one}/deliveries")).json()["data"] == []
    untouched = await merchant.post(f"{one}/replay", {"fromSequence": 1})
    assert untouched.json() == {"fromSequence": 1, "toSequence": 0, "events": 0}, "nothing was sent to it yet"
    await merchant.put(one, {"status": "DISABLED"})
    for path, body in (
        (f"{one}/replay", {"fromSequence": 1}),
        (f"{EVENTS}/{event_id}/redeliver", {"endpointId": made["id"]}),
    ):
        answer = await merchant.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (409, "WEBHOOK_ENDPOINT_DISABLED")
    assert (await merchant.post(f"{EVENTS}/{event_id}/redeliver", {})).json()["endpointIds"] == []


async def test_a_new_endpoint_is_sent_what_was_before_it_though_no_worker_has_it_yet(merchant: Merchant) -> None:
    await merchant.create(order())  # which has no number before the feed is read
    made = (await merchant.post(PATH, {"url": "http://127.0.0.1:9/"})).json()
    answer = await merchant.post(f"{PATH}/{made['id']}/replay", {"fromSequence": 1})
    assert answer.json() == {"fromSequence": 1, "toSequence": 2, "events": 2}
