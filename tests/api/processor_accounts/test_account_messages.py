"""Messages of Stripe about one account: who may send them, what is kept of them, and what follows from Stripe's answer."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import psycopg
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace
from tests.api.bodies import paid_order
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront, opened
from tests.processors.stripe.double import Double
from tests.processors.stripe.test_tokens import method

from api.http import rate_limits
from ledger.background.inbox.delivery import open_delivery
from ledger.background.inbox.dismissal import dismissed_messages
from ledger.background.inbox.missed import EVERY, MissedMessages, ReadMarks
from ledger.background.inbox.retention import delete_applied
from ledger.postgres.connection import connect
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

ACCOUNTS = "/api/v1/processor-accounts"
OLD, NEW, OTHERS = "whsec_old", "whsec_new", "whsec_others"
BODY = {"processor": "stripe", "secretKey": "sk_test_1", "webhookSecrets": [OLD, NEW]}


@pytest.fixture(scope="module")
async def double() -> Double:
    double = Double()
    double.account = {"id": "acct_1", "object": "account", "country": "MX", "charges_enabled": True}
    double.account["capabilities"] = {"card_payments": "active"}
    double.tokens["pm_1"] = method("pm_1")
    return double


@pytest.fixture(scope="module")
async def store(settings: Settings, double: Double) -> AsyncIterator[Storefront]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", double.serve)
    url = "https://pay.example"
    async with TestServer(app) as server:
        own = replace(settings, stripe_url=str(server.make_url("")).rstrip("/"), public_url=url)
        async with opened(own) as store:
            yield store


@pytest.fixture
async def url(merchant: Merchant) -> str:
    """The address of the messages of the merchant's account `mx`."""
    answer = await merchant.put(f"{ACCOUNTS}/mx", BODY)
    messages_url: str = answer.json()["messagesUrl"]
    assert messages_url == f"https://pay.example/api/processor-messages/{merchant.merchant_id}/mx"
    return messages_url.removeprefix("https://pay.example")


def event(kind: str = "payment_intent.succeeded", object_id: str = "pi_1", **changes: Any) -> bytes:
    about: dict[str, Any] = {"id": f"evt_{uuid4().hex}", "type": kind, "created": 1_790_000_000}
    ours = {"object": "payment_intent", "metadata": {"ledger_merchant": "x"}} if object_id.startswith("pi_") else {}
    about |= {"object": "event", "data": {"object": {"id": object_id} | ours}} | changes
    return msgspec.json.format(msgspec.json.encode(about), indent=2)


async def tell(
    merchant: Merchant, url: str, body: bytes, *keys: str, age_s: int = 0, signed: bytes | None = None
) -> httpx.Response:
    at = int(datetime.now(UTC).timestamp()) - age_s
    text = f"{at}.".encode() + (body if signed is None else signed)
    signatures = ",".join(f"v1={hmac.new(key.encode(), text, sha256).hexdigest()}" for key in keys)
    return await merchant.client.post(url, content=body, headers=JSON | {"stripe-signature": f"t={at},{signatures}"})


def rows(store: Storefront, merchant: Merchant) -> list[Any]:
    assert store.settings.database_url is not None
    with psycopg.connect(store.settings.database_url) as connection:
        kept = (
            "select message_id, account, body::json, handled_at is not null, waits_for, tries, claimed_until is null "
            "from processor_message where merchant_id = %s order by received_at"
        )
        return connection.execute(kept, (merchant.merchant_id,)).fetchall()


async def follow(store: Storefront, merchant: Merchant) -> list[Any]:
    """Tries all messages, also those that wait, and returns what the inbox has then."""
    assert store.settings.database_url is not None
    with psycopg.connect(store.settings.database_url, autocommit=True) as connection:
        due = "update processor_message set next_try_at = now() where handled_at is null and next_try_at < 'infinity'"
        async with open_delivery(store.settings.database_url, store.ledger) as delivery:
            for _ in range(2):  # what a processor answers is a message of its own
                connection.execute(due)
                await delivery._consumer.sweep()
    return rows(store, merchant)


async def forget_applied(store: Storefront, merchant: Merchant) -> None:
    """Lets a month pass for the merchant's messages, and deletes what the worker deletes then."""
    assert store.settings.database_url is not None
    with psycopg.connect(store.settings.database_url, autocommit=True) as connection:
        age = "update processor_message set handled_at = handled_at - interval '31 days' where merchant_id = %s"
        connection.execute(age, (merchant.merchant_id,))
    async with open_delivery(store.settings.database_url, store.ledger) as delivery:
        await delete_applied(delivery.inbox, asyncio.Event())


async def test_signed_messages_of_an_account_have_a_rate(merchant: Merchant, url: str, monkeypatch) -> None:
    monkeypatch.setattr(rate_limits, "MESSAGES_PER_MINUTE", 2)
    unsigned = [await tell(merchant, url, event(), OTHERS) for _ in range(4)]
    assert {each.status_code for each in unsigned} == {401}, "others do not use up the account's rate"
    taken = [await tell(merchant, url, event(), NEW) for _ in range(3)]
    assert [each.status_code for each in taken] == [200, 200, 429]
    assert (taken[2].json()["code"], int(taken[2].headers["retry-after"])) == ("RATE_LIMIT_EXCEEDED", 30)
    other = (await merchant.put(f"{ACCOUNTS}/other", BODY)).json()["messagesUrl"].removeprefix("https://pay.example")
    assert (await tell(merchant, other, event(), NEW)).status_code == 200


async def test_a_signed_message_is_kept_once_and_only_what_it_is_about(store: Storefront, merchant: Merchant, url: str):
    body, unknown = event(), event("invoice.paid", "in_1")
    for keys in ((OLD,), (NEW,), (OTHERS, NEW)):
        assert (await tell(merchant, url, body, *keys)).status_code == 200
    shown = (await tell(merchant, url, unknown, NEW)).json()
    assert shown == {"accepted": True, "processorMessageId": msgspec.json.decode(unknown)["id"]}
    foreign = {"object": {"id": "pi_2", "object": "payment_intent", "metadata": {"order": "77"}}}
    for about in ({}, foreign):
        assert (await tell(merchant, url, event(data=about), NEW)).status_code == 200
    first, second, *others = rows(store, merchant)
    assert [row[2]["objectId"] for row in others] == ["", ""], "Stripe is asked about nothing"
    assert (first[0], first[1], second[2]["kind"]) == (msgspec.json.decode(body)["id"], "mx", "invoice.paid")
    assert set(first[2]) == {
        *("type", "processor", "messageId", "merchantId", "occurredAt", "account", "kind", "objectId", "bodyHash")
    }
    assert (await merchant.delete(f"{ACCOUNTS}/mx")).json()["status"] == "DISCONNECTED"
    assert (await tell(merchant, url, event(), NEW)).status_code == 200
    for wrong in (b"{", b"[]", event(id=""), event(id="ch_1"), event(type="x y"), event(created=None)):
        assert (await tell(merchant, url, wrong, NEW)).status_code == 400
    assert (await tell(merchant, url, b" " * (32 << 10) + b"{}", NEW)).status_code == 413
    assert (await merchant.get(url)).status_code == 405
    assert len(rows(store, merchant)) == 5


async def test_whoever_has_no_secret_of_the_account_learns_nothing(store: Storefront, merchant: Merchant, url: str):
    other = await store.register()
    assert (await other.put(f"{ACCOUNTS}/mx", BODY | {"webhookSecrets": [OTHERS]})).status_code == 201
    assert (await merchant.put(f"{ACCOUNTS}/bare", BODY | {"webhookSecrets": []})).status_code == 201
    body, base = event(), url.rpartition("/")[0]
    answers = [
        await tell(merchant, url, body, OTHERS),
        await tell(merchant, url, body),
        await tell(merchant, url, body, NEW, age_s=400),
        await tell(merchant, url, body, NEW, age_s=-400),
        await tell(merchant, url, body + b" ", NEW, signed=body),
        await tell(merchant, url, b"{", OTHERS),
        await tell(merchant, f"{base}/bare", body, NEW),
        await tell(merchant, f"{base}/unknown", body, NEW),
        await tell(merchant, f"{base}/sandbox", body, NEW),
        await tell(merchant, f"{base}/M%C3%9C", body, NEW),
        await tell(merchant, url.replace(str(merchant.merchant_id), str(uuid4())), body, NEW),
        await tell(merchant, url.replace(str(merchant.merchant_id), "merchant"), body, NEW),
        await tell(merchant, url.replace(str(merchant.merchant_id), str(other.merchant_id)), body, NEW),
        await merchant.client.post(url, content=body, headers=JSON | merchant.key),
    ]
    said = {(each.status_code, each.json()["code"], each.json()["message"]) for each in answers}
    assert len(said) == 1
    assert next(iter(said))[:2] == (401, "INVALID_SIGNATURE")
    assert rows(store, merchant) == rows(store, other) == []
    sandbox = (await merchant.get(f"{ACCOUNTS}/sandbox")).json()
    assert sandbox["messagesUrl"] is None


async def test_what_never_arrived_is_fetched_once(
    store: Storefront, merchant: Merchant, url: str, double: Double
) -> None:
    told = event("refund.created", "re_1")
    assert (await tell(merchant, url, told, NEW)).status_code == 200
    double.events.append({**msgspec.json.decode(told), "created": double.now})
    missed = double.happen("refund.created", {"id": "re_2"})
    database_url = str(store.settings.database_url)
    async with open_delivery(database_url, store.ledger) as delivery, ReadMarks(database_url) as marks:
        fetching = MissedMessages(store.ledger, delivery.inbox, marks)
        assert (await fetching.fetch()).missing >= 1
        assert {row[0] for row in rows(store, merchant)} == {missed, msgspec.json.decode(told)["id"]}
        asked = len(double.requests)
        assert ((await fetching.fetch(every=EVERY)).missing, len(double.requests)) == (0, asked)
        assert ((await fetching.fetch()).missing, len(double.requests) > asked) == (0, True)
        double.key = "sk_test_2"
        refused = await fetching.fetch()
        assert refused.missing == 0
        assert (merchant.merchant_id, "mx") in refused.unread
        double.key = "sk_test_1"


async def test_only_what_stripe_answers_is_recorded(store: Storefront, merchant: Merchant, url: str, double: Double):
    card = {"type": "card", "cardTokens": [{"account": "mx", "token": "pm_1"}]}
    paid = await merchant.create(paid_order(externalId="o", paymentMethod=card, captureMethod="MANUAL"))
    intent = double.intents[paid.json()["payments"][0]["processorReference"]]

    async def told(*messages: bytes) -> tuple[str, list[Any]]:
        for message in messages:
            assert (await tell(merchant, url, message, NEW)).status_code == 200
        kept = await follow(store, merchant)
        return (await merchant.get(f"{ORDERS}/o")).json()["status"], kept

    forged = event(object_id=intent["id"])  # Stripe has signed no such message, and nothing was captured
    status, kept = await told(forged, event("payment_intent.canceled", intent["id"]), event("x.y", "z"))
    assert (status, [row[3:5] for row in kept]) == ("AUTHORIZED", [(True, None)] * 3)
    status, kept = await told(event("refund.created", "re_404"))
    assert kept[-1][3:5] == (True, "the processor knows nothing of what the message is about")
    async with await connect(str(store.settings.database_url), "test") as connection:
        gone = [each for each in await dismissed_messages(store.ledger, connection) if each.message == kept[-1][0]]
    assert [(each.dismissed_by, each.reason) for each in gone] == [("ledger", kept[-1][4])]
    double.key = "sk_test_2"  # Stripe turns the account's key away
    status, kept = await told(late := event(object_id=intent["id"]))
    assert (status, kept[-1][3], kept[-1][5]) == ("AUTHORIZED", False, 2)
    double.key = "sk_test_1"
    intent |= {"status": "succeeded", "amount_received": intent["amount"], "amount_capturable": 0}
    status, kept = await told(late, forged, event(object_id=intent["id"]))
    assert (status, {row[3] for row in kept}) == ("COMPLETED", {True})
    refund = {"id": "re_9", "object": "refund", "amount": 40_000, "status": "succeeded", "metadata": {}}
    double.refunds["re_9"] = refund | {"payment_intent": intent["id"], "created": double.now}
    for _ in range(2):
        status, kept = await told(event("refund.created", "re_9"))
        assert (status, {row[3] for row in kept}) == ("PARTIALLY_REFUNDED", {True})
    [shown] = (await merchant.get(f"{ORDERS}/o/refunds")).json()["data"]
    assert (shown["amount"], shown["status"]) == (40_000, "SUCCEEDED")

    before = (await merchant.get(f"{ORDERS}/o")).json()
    await forget_applied(store, merchant)
    assert [row[4] for row in rows(store, merchant)] == [gone[0].reason], "what was dismissed stays"
    status, kept = await told(forged, event("refund.created", "re_9"))
    assert len(kept) > 2
    assert (await merchant.get(f"{ORDERS}/o")).json() == before, "a message that comes again later changes nothing"


async def test_a_second_name_of_the_same_account_leaves_nothing_waiting(
    store: Storefront, merchant: Merchant, url: str, double: Double
) -> None:
    twin = (await merchant.put(f"{ACCOUNTS}/twin", BODY)).json()["messagesUrl"].removeprefix("https://pay.example")
    card = {"type": "card", "cardTokens": [{"account": "mx", "token": "pm_1"}]}
    paid = await merchant.create(paid_order(externalId="o", paymentMethod=card))
    reference = paid.json()["payments"][0]["processorReference"]
    dispute = {"id": "dp_8", "object": "dispute", "status": "needs_response", "amount": 9_000, "reason": "fraudulent"}
    double.disputes["dp_8"] = dispute | {"payment_intent": reference, "created": double.now}
    for address in (twin, url):
        assert (await tell(merchant, address, event("charge.dispute.created", "dp_8"), NEW)).status_code == 200
        assert [row[3:5] for row in await follow(store, merchant) if row[3:5] != (True, None)] == []
    assert (await merchant.get(f"{ORDERS}/o")).json()["payments"][0]["status"] == "DISPUTED"


async def test_a_name_whose_key_is_revoked_is_told_by_another_one_of_the_same_account(
    store: Storefront, merchant: Merchant, url: str, double: Double
) -> None:
    card = {"type": "card", "cardTokens": [{"account": "mx", "token": "pm_1"}]}
    paid = await merchant.create(paid_order(externalId="paid", paymentMethod=card))
    held = await merchant.create(paid_order(externalId="held", paymentMethod=card, captureMethod="MANUAL"))
    first, second = (each.json()["payments"][0]["processorReference"] for each in (paid, held))
    double.key = "sk_test_2"
    twin = await merchant.put(f"{ACCOUNTS}/twin", BODY | {"secretKey": double.key})
    address = twin.json()["messagesUrl"].removeprefix("https://pay.example")
    dispute = {"id": "dp_9", "object": "dispute", "status": "needs_response", "amount": 9_000, "reason": "fraudulent"}
    double.disputes["dp_9"] = dispute | {"payment_intent": first, "created": double.now}
    intent = double.intents[second]
    intent |= {"status": "succeeded", "amount_received": intent["amount"], "amount_capturable": 0}
    for message in (event("charge.dispute.created", "dp_9"), event(object_id=second)):
        for at in (url, address):
            assert (await tell(merchant, at, message, NEW)).status_code == 200
    kept = await follow(store, merchant)
    double.key = "sk_test_1"
    shown = [(await merchant.get(f"{ORDERS}/{name}")).json()["payments"][0]["status"] for name in ("paid", "held")]
    assert shown == ["DISPUTED", "CAPTURED"]
    assert {row[1] for row in kept if row[3:5] != (True, None)} == {"mx"}, "its own wait for a key of its own"
