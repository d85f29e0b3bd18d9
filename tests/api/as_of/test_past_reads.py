"""Reads of the past over HTTP: the answers of then, byte for byte, for orders, customers and subscriptions."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import httpx
import pytest
from tests.api.bodies import by_card, charge, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import PLANS, SUBSCRIPTIONS, made, planned, subscribed

from ledger.operations.context.inputs import Actor
from ledger.operations.erasure.erase_customer import delete_customer
from projections.formats import moment

pytestmark = pytest.mark.anyio

CUSTOMERS = "/api/customers"
CLOCK = "/api/sandbox/clock"


class Then:
    """What a merchant's reads answered at several times, to be asked for again later."""

    def __init__(self, merchant: Merchant) -> None:
        self._merchant = merchant
        self._kept: list[tuple[str, bytes, datetime]] = []

    async def keep(self, *paths: str) -> None:
        """Reads each path now. Nothing else is recorded in the same millisecond."""
        await asyncio.sleep(0.003)
        for path in paths:
            answer = await self._merchant.get(path)
            assert answer.status_code == 200, answer.text
            self._kept.append((path, answer.content, await now_of(self._merchant)))
        await asyncio.sleep(0.003)

    async def assert_equal(self) -> None:
        assert self._kept
        for path, content, at in self._kept:
            answer = await as_of(self._merchant, path, at)
            assert answer.status_code == 200, answer.text
            assert without_place(answer) == content, path


async def now_of(merchant: Merchant) -> datetime:
    answer = await merchant.get(CLOCK)
    assert answer.status_code == 200, answer.text
    return datetime.fromisoformat(answer.json()["now"])


async def as_of(merchant: Merchant, path: str, at: datetime | str) -> httpx.Response:
    text = at if isinstance(at, str) else moment(at.astimezone(UTC))
    return await merchant.client.get(path, params={"asOf": text}, headers=merchant.key)


async def at_version(merchant: Merchant, path: str, version: Any) -> httpx.Response:
    return await merchant.client.get(path, params={"version": version}, headers=merchant.key)


def without_place(answer: httpx.Response) -> bytes:
    """Returns the answer without its last members, which say of which time and version it is."""
    body = answer.json()
    last = {name: body[name] for name in ("asOf", "position", "version")}
    suffix = b"," + json.dumps(last, separators=(",", ":")).encode()[1:]
    assert answer.content.endswith(suffix)
    return answer.content.removesuffix(suffix) + b"}"


def refused(answer: httpx.Response) -> tuple[int, str, list[str]]:
    body = answer.json()
    return answer.status_code, body["code"], [error["field"] for error in body.get("errors", [])]


async def test_an_order_is_answered_as_it_was_with_its_customer_and_its_lists(merchant: Merchant):
    then = Then(merchant)
    made_order = (await merchant.create(order(allowPartials=True, dueDate="2100-01-01"))).json()
    one = f"{ORDERS}/{made_order['id']}"
    paths = one, f"{one}/payments", f"{one}/refunds"
    await then.keep(*paths)
    await merchant.put(f"{CUSTOMERS}/ana", {"firstName": "Anna", "notificationPreferences": {"language": "en"}})
    await then.keep(*paths)
    declined = by_card(
        cardDetails={"number": "4000000000000002", "expiryMonth": "12", "expiryYear": "34", "cvc": "123"}
    )
    assert (await merchant.post(f"{one}/payments", charge(amount=50_000, paymentMethod=declined))).status_code == 422
    await then.keep(*paths)
    await made(merchant, f"{one}/payments", charge(amount=50_000))
    await then.keep(*paths)
    await merchant.put(f"{CUSTOMERS}/ana", {"notificationPreferences": {"language": "es"}})
    await made(merchant, f"{one}/refund", {"amount": 1000})
    await then.keep(*paths)
    await then.assert_equal()
    named = await as_of(merchant, f"{ORDERS}/order-1", await now_of(merchant))
    assert without_place(named) == (await merchant.get(one)).content


async def test_each_version_of_an_order_is_the_answer_of_then(merchant: Merchant):
    sold = await merchant.create(paid_order())
    one = f"{ORDERS}/{sold.json()['id']}"
    first = (await merchant.get(one)).content
    version = (await as_of(merchant, one, await now_of(merchant))).json()["version"]
    await made(merchant, f"{one}/refund", {"amount": 1000})
    await merchant.put(f"{CUSTOMERS}/ana", {"firstName": "Anna"})
    again = await at_version(merchant, one, version)
    assert without_place(again) == first
    begun = (await at_version(merchant, one, 1)).json()
    assert (begun["version"], begun["customer"]["firstName"], begun["amountPaid"]) == (1, "Ana", 0)
    positions = [(await at_version(merchant, one, n)).json()["position"] for n in range(1, version + 1)]
    assert positions == sorted(set(positions))
    with_payments = (await at_version(merchant, f"{one}/payments", version)).json()
    assert (len(with_payments["data"]), with_payments["version"]) == (1, version)
    assert (await at_version(merchant, f"{one}/refunds", version)).json()["data"] == []


async def test_a_due_date_has_passed_by_the_time_that_is_asked_for(merchant: Merchant):
    due = datetime.now(UTC) + timedelta(days=2)
    one = f"{ORDERS}/{(await merchant.create(order(dueDate=due.isoformat()))).json()['id']}"
    before = await now_of(merchant)
    moved = await merchant.post(CLOCK, {"advanceBy": "P3D"})
    assert moved.status_code == 200, moved.text
    assert (await merchant.get(one)).json()["isOverdue"] is True
    assert (await as_of(merchant, one, before)).json()["isOverdue"] is False
    assert (await as_of(merchant, one, due + timedelta(hours=1))).json()["isOverdue"] is True
    assert (await at_version(merchant, one, 1)).json()["isOverdue"] is False


async def test_a_customer_is_answered_with_those_that_were_related_to_it(merchant: Merchant):
    then = Then(merchant)
    for name, source in (("root", None), ("one", "root"), ("two", "root"), ("three", "one")):
        await made(merchant, CUSTOMERS, {"externalId": name, "firstName": name, "sourceId": source})
    every = [f"{CUSTOMERS}/{name}" for name in ("root", "one", "two", "three")]
    await then.keep(*every)
    await merchant.put(f"{CUSTOMERS}/one", {"sourceId": None, "firstName": "Uno"})
    await then.keep(*every)
    await merchant.put(f"{CUSTOMERS}/three", {"sourceId": "two", "metadata": {"a": 1}})
    await made(merchant, CUSTOMERS, {"externalId": "four", "sourceId": "three"})
    await then.keep(*every, f"{CUSTOMERS}/four")
    await merchant.put(f"{CUSTOMERS}/one", {"sourceId": "four"})
    await then.keep(*every)
    await then.assert_equal()
    first = (await at_version(merchant, f"{CUSTOMERS}/one", 1)).json()
    assert (first["firstName"], first["version"]) == ("one", 1)
    assert {each["externalId"] for each in first["relatedCustomers"]} == {"root"}


async def test_a_subscription_is_answered_with_its_plan_of_then(merchant: Merchant):
    then = Then(merchant)
    plan = await planned(merchant)
    started = await subscribed(merchant, planId=plan["id"], metadata={"source": "web"})
    one = f"{SUBSCRIPTIONS}/{started['id']}"
    await then.keep(one)
    assert (await merchant.put(f"{PLANS}/{plan['id']}", {"name": "Otro"})).status_code == 200
    await then.keep(one)
    await made(merchant, f"{one}/cancel", {"atPeriodEnd": True})
    await then.keep(one)
    await then.assert_equal()
    assert refused(await at_version(merchant, one, 1))[:2] == (404, "SUBSCRIPTION_NOT_FOUND"), "it had not started"


async def test_an_erased_customer_is_erased_in_every_past(store: Storefront, merchant: Merchant):
    sold = (await merchant.create(paid_order())).json()
    before = await now_of(merchant)

    async def orders_of(*_: Any) -> list[UUID]:
        return []

    await delete_customer(store.ledger, Actor(merchant_id=merchant.merchant_id), "ana", orders_of)
    one = f"{ORDERS}/{sold['id']}"
    for answer in (await as_of(merchant, one, before), await at_version(merchant, one, 1)):
        assert answer.status_code == 200
        assert "Ana" not in answer.text
        assert "ana@example.com" not in answer.text
        assert answer.json()["customer"]["firstName"] is None
    gone = await as_of(merchant, f"{CUSTOMERS}/ana", before)
    assert refused(gone)[:2] == (404, "CUSTOMER_NOT_FOUND")


async def test_what_is_asked_for_is_checked(store: Storefront, merchant: Merchant):
    started = datetime.now(UTC) - timedelta(seconds=1)
    sold = (await merchant.create(paid_order())).json()
    paid_by = sold["payment"]["paymentMethodId"]
    one = f"{ORDERS}/{sold['id']}"
    subscription = await subscribed(merchant, paymentMethodId=await _saved(merchant) or paid_by)
    asked = {
        one: "ORDER_NOT_FOUND",
        f"{one}/payments": "ORDER_NOT_FOUND",
        f"{one}/refunds": "ORDER_NOT_FOUND",
        f"{CUSTOMERS}/ana": "CUSTOMER_NOT_FOUND",
        f"{SUBSCRIPTIONS}/{subscription['id']}": "SUBSCRIPTION_NOT_FOUND",
    }
    stranger = await store.register()
    now = await now_of(merchant)
    for path, missing in asked.items():
        for text in ("", "yesterday", "2026-01-31", "1", "2026-13-01T00:00:00Z"):
            assert refused(await as_of(merchant, path, text)) == (400, "VALIDATION_ERROR", ["asOf"])
        assert refused(await as_of(merchant, path, now + timedelta(hours=1))) == (400, "VALIDATION_ERROR", ["asOf"])
        for number in ("", "0", "-1", "1.5", "x", "99999999999"):
            assert refused(await at_version(merchant, path, number)) == (400, "VALIDATION_ERROR", ["version"])
        both = await merchant.get(f"{path}?version=1&asOf=2020-01-01T00:00:00Z")
        assert refused(both)[:2] == (400, "CONFLICTING_FIELDS")
        assert refused(await merchant.get(f"{path}?asof=2020-01-01T00:00:00Z"))[:2] == (400, "UNKNOWN_PARAMETER")
        for early in (started, "0001-01-01T00:00:00Z", "1999-01-01T00:00:00Z"):
            absent = await as_of(merchant, path, early)
            assert refused(absent)[:2] == (404, missing)
            assert re.fullmatch(r"The merchant had no .* at that time\.", absent.json()["message"])
        beyond = await at_version(merchant, path, 2_147_483_647)
        assert refused(beyond)[:2] == (404, "VERSION_NOT_FOUND")
        newest = re.fullmatch(
            r"The resource has no version 2147483647: its newest is (\d+)\.", beyond.json()["message"]
        )
        assert newest is not None
        assert (await at_version(merchant, path, newest[1])).status_code == 200
        assert refused(await at_version(merchant, path, int(newest[1]) + 1))[:2] == (404, "VERSION_NOT_FOUND")
        for query in ({"asOf": moment(now.astimezone(UTC))}, {"version": "1"}):
            hidden = await stranger.client.get(path, params=query, headers=stranger.key)
            assert refused(hidden)[:2] == (404, missing)
    local = now.astimezone(ZoneInfo("America/Mexico_City")).replace(tzinfo=None).isoformat()
    times = (local, moment(now.astimezone(UTC)), now.astimezone(UTC).isoformat(), now.isoformat().replace("+", " "))
    answers = [(await as_of(merchant, one, text)).json() for text in times]
    assert [answer["asOf"] for answer in answers] == [moment(now.astimezone(UTC))] * len(times)


async def _saved(merchant: Merchant) -> str:
    body = paid_order(externalId="saves", paymentMethod=by_card(persist=True))
    method_id: str = (await merchant.create(body)).json()["payment"]["paymentMethodId"]
    return method_id


async def test_a_change_is_in_the_answer_as_of_the_time_that_it_states(merchant: Merchant):
    """Answers show times to the millisecond: `updatedAt` is a time at which the change had been made."""
    sold = (await merchant.create(paid_order())).json()
    one = f"{ORDERS}/{sold['id']}"
    await asyncio.sleep(0.003)
    refunded = await made(merchant, f"{one}/refund", {"amount": 1000})
    shown = await as_of(merchant, one, refunded["updatedAt"])
    assert shown.json()["amountRefunded"] == 1000
    before = datetime.fromisoformat(refunded["updatedAt"]) - timedelta(milliseconds=100)
    assert refunded["updatedAt"] > sold["updatedAt"]
    assert (await as_of(merchant, one, before)).json().get("amountRefunded", 0) == 0
