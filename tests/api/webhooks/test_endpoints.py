"""Webhook endpoints over HTTP: created, listed, their secrets rotated, deleted; at most sixteen, whatever is sent at once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from standardwebhooks import Webhook
from tests.api.bodies import paid_order
from tests.api.openapi.description import assert_described
from tests.api.storefront import Merchant, Storefront

from ledger.background.reactions import feed
from ledger.domain.streams import WEBHOOK_ENDPOINTS
from ledger.domain.webhooks.terms import ENDPOINTS_MAX
from ledger.operations.webhooks.endpoint import webhooks_of
from ledger.security.api_keys import Scope
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

PATH = "/api/v1/webhook-endpoints"
ONE = f"{PATH}/{{id}}"
URL = "https://93.184.216.34/hooks"
TOGETHER = {"idempotency-key": "endpoint-1"}


async def secrets_of(store: Storefront, merchant: Merchant, endpoint_id: str) -> list[str]:
    """The secrets that sign a message to the endpoint now."""
    ledger = store.ledger
    endpoint, _ = await ledger.journal.load(merchant.merchant_id, WEBHOOK_ENDPOINTS, UUID(endpoint_id))
    assert endpoint is not None
    opened = [
        await webhooks_of(ledger).secrets.open(merchant.merchant_id, secret_id)
        for secret_id in endpoint.secrets_at(datetime.now(UTC))
    ]
    return [secret for secret in opened if secret is not None]


def wrong_fields(answer: httpx.Response) -> list[tuple[str, str]]:
    assert answer.status_code == 400, answer.text
    return [(error["field"], error["code"]) for error in answer.json()["errors"]]


async def test_an_endpoint_is_created_listed_and_deleted(settings: Settings, store: Storefront, merchant: Merchant):
    created = await merchant.post(PATH, {"url": URL, "events": ["payment.*", "payment.captured", "payment.*"]})
    assert created.status_code == 201, created.text
    assert_described(created, "post", PATH)
    document = created.json()
    secret = document.pop("secret")
    assert Webhook(secret), "the reference implementation takes it"
    assert document.items() >= {
        "url": URL, "events": ["payment.*", "payment.captured"], "description": None, "ordering": "DEFAULT",
        "payload": "FULL", "status": "ENABLED", "disabledReason": None, "lastSuccessAt": None, "failuresInARow": 0,
    }.items()  # fmt: skip
    one = f"{PATH}/{document['id']}"
    terms = {"url": URL, "events": None, "description": "All", "ordering": "STRICT", "payload": "THIN"}
    other = (await merchant.post(PATH, terms)).json()
    assert other.items() >= terms.items()
    listed = await merchant.get(PATH)
    assert_described(listed, "get", PATH)
    assert [each["id"] for each in listed.json()["data"]] == [document["id"], other["id"]]
    assert listed.json()["pagination"]["total"] == 2
    shown = await merchant.get(one)
    assert_described(shown, "get", ONE)
    assert shown.json() == document
    assert secret not in listed.text + shown.text
    assert await secrets_of(store, merchant, document["id"]) == [secret]

    begun = "select count(*) from event_feed where merchant_id = %s"
    kept = "select count(*) from webhook_secret where merchant_id = %s"
    with psycopg.connect(settings.database_url or "") as connection:
        assert connection.execute(begun, (merchant.merchant_id,)).fetchone() == (1,), "its events are numbered"
        deleted = await merchant.delete(one)
        assert (deleted.status_code, deleted.json()) == (200, {"id": document["id"], "deleted": True})
        assert_described(deleted, "delete", ONE)
        assert connection.execute(kept, (merchant.merchant_id,)).fetchone() == (1,), "its secret is destroyed"
    for answer in (
        await merchant.get(one),
        await merchant.delete(one),
        await merchant.post(f"{one}/rotate-secret", {}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "WEBHOOK_ENDPOINT_NOT_FOUND")
    assert [each["id"] for each in (await merchant.get(PATH)).json()["data"]] == [other["id"]]


async def test_a_rotated_secret_signs_along_for_a_day_unless_it_is_to_end(store: Storefront, merchant: Merchant):
    created = (await merchant.post(PATH, {"url": URL})).json()
    rotate = f"{PATH}/{created['id']}/rotate-secret"
    rotated = await merchant.post(rotate, b"")
    assert_described(rotated, "post", f"{ONE}/rotate-secret")
    first, second = created["secret"], rotated.json()["secret"]
    assert await secrets_of(store, merchant, created["id"]) == [second, first]
    endpoint, _ = await store.ledger.journal.load(merchant.merchant_id, WEBHOOK_ENDPOINTS, UUID(created["id"]))
    assert endpoint is not None
    assert len(endpoint.secrets_at(datetime.now(UTC) + timedelta(hours=25))) == 1
    third = (await merchant.post(rotate, {"expireNow": True})).json()["secret"]
    assert await secrets_of(store, merchant, created["id"]) == [third]
    assert len({first, second, third}) == 3


async def test_a_repeated_request_makes_nothing_more_and_has_no_secret(store: Storefront, merchant: Merchant):
    body = {"url": URL}
    first, again = [await merchant.post(PATH, body, **TOGETHER) for _ in range(2)]
    assert_described(again, "post", PATH)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert again.json() == first.json() | {"secret": None}
    one = f"{PATH}/{first.json()['id']}"
    rotation = {"idempotency-key": "rotation-1"}
    rotated, repeated = [await merchant.post(f"{one}/rotate-secret", {}, **rotation) for _ in range(2)]
    assert repeated.json() == rotated.json() | {"secret": None}
    assert await secrets_of(store, merchant, first.json()["id"]) == [rotated.json()["secret"], first.json()["secret"]]
    gone = {"idempotency-key": "deletion-1"}
    deleted, repeated = [await merchant.delete(one, **gone) for _ in range(2)]
    assert (repeated.status_code, repeated.content) == (200, deleted.content)
    assert (await merchant.post(PATH, body, **TOGETHER)).json() == again.json(), "also once it is deleted"
    at_once = await asyncio.gather(*[merchant.post(PATH, body, **{"idempotency-key": "at-once"}) for _ in range(4)])
    assert len([answer for answer in at_once if answer.status_code == 201 and answer.json()["secret"]]) == 1
    assert (await merchant.get(PATH)).json()["pagination"]["total"] == 1


async def test_a_merchant_has_at_most_sixteen_also_if_they_are_created_at_once(settings: Settings, merchant: Merchant):
    for _ in range(ENDPOINTS_MAX - 2):
        last = (await merchant.post(PATH, {"url": URL})).json()
    answers = await asyncio.gather(*[merchant.post(PATH, {"url": URL}) for _ in range(6)])
    assert sorted(answer.status_code for answer in answers) == [201, 201, 422, 422, 422, 422]
    refused = next(answer for answer in answers if answer.status_code == 422)
    assert refused.json()["code"] == "WEBHOOK_ENDPOINT_LIMIT_REACHED"
    assert_described(refused, "post", PATH)
    assert (await merchant.get(PATH)).json()["pagination"]["total"] == ENDPOINTS_MAX
    with psycopg.connect(settings.database_url or "") as connection:
        kept = "select count(*) from webhook_secret where merchant_id = %s"
        assert connection.execute(kept, (merchant.merchant_id,)).fetchone() == (ENDPOINTS_MAX,), "no secret is left"
    await merchant.delete(f"{PATH}/{last['id']}")
    assert (await merchant.post(PATH, {"url": URL})).status_code == 201


async def test_what_is_given_changes_and_the_rest_stays(merchant: Merchant):
    created = (await merchant.post(PATH, {"url": URL, "events": ["payment.*"], "description": "One"})).json()
    created.pop("secret")
    one = f"{PATH}/{created['id']}"
    again = await merchant.put(one, (await merchant.get(one)).json())
    assert (again.status_code, again.json()) == (200, created), "what was read can be sent back, and changes nothing"
    assert_described(again, "put", ONE)
    assert again.headers["idempotent-replayed"] == "true"
    key = {"idempotency-key": "change-1"}
    body = {"url": f"{URL}/2", "events": None, "ordering": "STRICT"}
    changed, repeated = [await merchant.put(one, body, **key) for _ in range(2)]
    assert changed.json() == created | body | {"updatedAt": changed.json()["updatedAt"]}
    assert repeated.json() == changed.json() == (await merchant.get(one)).json()
    cleared = await merchant.put(one, {"description": None, "payload": "THIN", "ordering": "DEFAULT"})
    assert cleared.json().items() >= {"description": None, "payload": "THIN", "ordering": "DEFAULT"}.items()
    for wrong, fields in (
        (
            {"url": "https://127.0.0.1.:443/#x", "events": ["x"]},
            [("url", "INVALID_FORMAT"), ("events[0]", "INVALID_VALUE")],
        ),
        ({"url": ""}, [("url", "INVALID_LENGTH")]),
        ({"url": "https://192.168.0.1"}, [("url", "URL_NOT_ALLOWED")]),
        ({"status": "OFF", "resume": "LATER"}, [("status", "INVALID_VALUE"), ("resume", "INVALID_VALUE")]),
        ({"resume": "NOW"}, [("resume", "INVALID_VALUE")]),
        ({"status": "DISABLED", "resume": "NOW"}, [("resume", "INVALID_VALUE")]),
    ):
        answer = await merchant.put(one, wrong)
        assert wrong_fields(answer) == fields
        assert_described(answer, "put", ONE)
    assert (await merchant.get(one)).json() == cleared.json()


async def test_an_endpoint_that_is_enabled_gets_what_it_missed_or_skips_it(settings: Settings, merchant: Merchant):
    created = (await merchant.post(PATH, {"url": URL})).json()
    one = f"{PATH}/{created['id']}"

    async def disabled_during_an_order() -> None:
        off = (await merchant.put(one, {"status": "DISABLED"})).json()
        assert (off["status"], off["disabledReason"]) == ("DISABLED", "MERCHANT")
        assert (await merchant.create(paid_order(externalId=str(uuid4())))).status_code == 201

    async def last() -> int:
        return (await merchant.get("/api/v1/events?limit=1000")).json()["lastSequence"]

    def work(sequence: int) -> None:
        """Moves the worker's cursor."""
        with psycopg.connect(settings.database_url or "") as connection:
            connection.execute(
                "insert into webhook_cursor (merchant_id, endpoint_id, origin, sequence, failures_in_a_row, last_success_at)"
                " values (%s, %s, 2147483647, %s, 2, '2026-02-03T04:05:06.789Z') on conflict (merchant_id, endpoint_id) do update"
                " set sequence = excluded.sequence",
                (merchant.merchant_id, created["id"], sequence),
            )

    await disabled_during_an_order()
    first = await last()
    key = {"idempotency-key": "enable-1"}
    now, repeated = [await merchant.put(one, {"status": "ENABLED"}, **key) for _ in range(2)]
    assert_described(now, "put", ONE)
    assert now.json()["skipped"] == {"fromSequence": 1, "toSequence": first}
    assert (now.json()["lastSequence"], now.json()["disabledReason"]) == (first, None), "where the worker will begin"
    assert repeated.json() == now.json()
    assert "skipped" not in (await merchant.put(one, {"status": "ENABLED"})).json(), "it is enabled"

    await disabled_during_an_order()
    missed = (await merchant.put(one, {"status": "ENABLED", "resume": "MISSED"})).json()
    assert (missed["status"], missed["lastSequence"], "skipped" in missed) == ("ENABLED", first, False)
    work(first + 1)
    await disabled_during_an_order()
    again = (await merchant.put(one, {"status": "ENABLED", "resume": "NOW"})).json()
    assert again["skipped"] == {"fromSequence": first + 2, "toSequence": await last()}
    work(await last())
    await merchant.put(one, {"status": "DISABLED"})
    nothing = (await merchant.put(one, {"status": "ENABLED"})).json()
    assert ("skipped" in nothing, nothing["failuresInARow"]) == (False, 2)
    assert nothing["lastSuccessAt"] == "2026-02-03T04:05:06.789Z"


async def test_a_long_past_is_numbered_before_it_is_skipped(merchant: Merchant, monkeypatch: pytest.MonkeyPatch):
    one = f"{PATH}/{(await merchant.post(PATH, {'url': URL})).json()['id']}"
    await merchant.put(one, {"status": "DISABLED"})
    monkeypatch.setattr(feed, "_PATIENCE_S", -1.0)
    behind = await merchant.put(one, {"status": "ENABLED"})
    assert (behind.status_code, behind.json()["code"]) == (503, "FEED_BEHIND")
    assert_described(behind, "put", ONE)
    assert (await merchant.put(one, {"status": "ENABLED", "resume": "MISSED"})).status_code == 200


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, [("url", "REQUIRED")]),
        ({"url": 1, "events": "payment.*"}, [("url", "INVALID_TYPE"), ("events", "INVALID_TYPE")]),
        ({"url": "/hooks", "events": []}, [("url", "INVALID_FORMAT"), ("events", "INVALID_LENGTH")]),
        ({"url": "ftp://a.example", "events": ["*", "payment.captured", "payment.x", 1]},
         [("url", "INVALID_FORMAT"), ("events[3]", "INVALID_TYPE")]),
        ({"url": "https://u:p@a.example", "events": ["*", "payment.captured", "payment.x"]},
         [("url", "INVALID_FORMAT"), ("events[0]", "INVALID_VALUE"), ("events[2]", "INVALID_VALUE")]),
        ({"url": "https://a.example/#b", "ordering": "NONE", "payload": 1},
         [("url", "INVALID_FORMAT"), ("ordering", "INVALID_VALUE"), ("payload", "INVALID_TYPE")]),
        ({"url": f"https://a.example/{'x' * 2048}", "description": "x" * 1001},
         [("url", "INVALID_LENGTH"), ("description", "INVALID_LENGTH")]),
        ({"url": "https://10.0.0.1/"}, [("url", "URL_NOT_ALLOWED")]),
        ({"url": "https://[::ffff:169.254.169.254]/"}, [("url", "URL_NOT_ALLOWED")]),
        ([], [("body", "INVALID_TYPE")]),
    ],
)  # fmt: skip
async def test_every_wrong_field_is_named(merchant: Merchant, body: Any, fields: list[tuple[str, str]]):
    answer = await merchant.post(PATH, body)
    assert wrong_fields(answer) == fields
    assert_described(answer, "post", PATH)


async def test_an_unknown_kind_is_answered_with_the_one_that_is_meant(merchant: Merchant):
    sent = ["payment.captured", "payment.canceled", "subscription.ended", "*", "charge.succeeded"]
    answer = await merchant.post(PATH, {"url": URL, "events": sent})
    example = "must be a kind of events, such as payment.captured or payment_order.*"
    assert {each["field"]: each["message"] for each in answer.json()["errors"]} == {
        "events[1]": f"{example}; did you mean payment.cancelled?",
        "events[2]": f"{example}; did you mean subscription.*?",
        "events[3]": f"{example}; send null for events to get all kinds",
        "events[4]": example,
    }


async def test_an_endpoint_needs_the_scope_and_is_of_its_merchant(store: Storefront, merchant: Merchant):
    others = await store.another_key(merchant, scopes=[scope for scope in Scope if scope is not Scope.WEBHOOKS])
    one = f"{PATH}/{(await merchant.post(PATH, {'url': URL})).json()['id']}"
    stranger = await store.register()
    for holder, status, code in (
        (others, 401, "INSUFFICIENT_SCOPE"),
        (stranger, 404, "WEBHOOK_ENDPOINT_NOT_FOUND"),
    ):
        for answer in (
            await holder.get(one),
            await holder.delete(one),
            await holder.post(f"{one}/rotate-secret", {}),
            await holder.put(one, {"status": "DISABLED"}),
            await holder.post(f"{one}/test", {}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await merchant.get(one)).json()["status"] == "ENABLED"
    assert wrong_fields(await merchant.post(f"{one}/rotate-secret", {"expireNow": "x"})) == [
        ("expireNow", "INVALID_TYPE")
    ]
