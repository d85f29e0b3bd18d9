"""Saved payment methods over HTTP: saved by a payment, listed, read, updated, deleted, and paid with."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from tests.api.bodies import by_card, card, charge, encoded, order, paid_order
from tests.api.openapi.test_document import assert_described
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront

from ledger.settings import Settings

pytestmark = pytest.mark.anyio

METHODS, LIST = "/api/payment-methods", "/api/customers/{customerId}/payment-methods"
ONE, OF_CUSTOMER = f"{METHODS}/{{id}}", f"{LIST}/{{paymentMethodId}}"
OTHER, AMEX, CARNET = "5555555555554444", "378282246310005", "6363180000000008"


def named(external_id: str, **changes: Any) -> dict[str, Any]:
    return paid_order(externalId=external_id, **changes)


def by_saved(method_id: Any, **more: Any) -> dict[str, Any]:
    return {"type": "payment_method_id", "paymentMethodId": str(method_id), **more}


async def save(merchant: Merchant, external_id: str, number: str = "4242424242424242", **changes: Any) -> Any:
    method = by_card(cardDetails=card(number=number), persist=True)
    answer = await merchant.create(named(external_id, paymentMethod=method, **changes))
    assert answer.status_code == 201, answer.text
    return answer.json()["paymentMethod"]["id"]


async def put(merchant: Merchant, method_id: Any, body: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else encoded(body)
    return await merchant.client.put(f"{METHODS}/{method_id}", content=content, headers=merchant.key | JSON)


async def delete(merchant: Merchant, method_id: Any, customer: str = "ana", query: str = "") -> httpx.Response:
    path = f"/api/customers/{customer}/payment-methods/{method_id}{query}"
    return await merchant.client.delete(path, headers=merchant.key)


async def listed(merchant: Merchant, query: str = "", customer: str = "ana") -> httpx.Response:
    return await merchant.get(f"/api/customers/{customer}/payment-methods{query}")


async def test_a_saved_card_is_shown_without_its_number(merchant: Merchant) -> None:
    method_id = await save(merchant, "1")
    answer = await merchant.get(f"{METHODS}/{method_id}")
    assert answer.status_code == 200
    assert_described(answer, "get", ONE)
    shown = answer.json()
    assert shown["cardDetails"] == {
        "bin": "424242", "last4": "4242", "type": "credit", "brand": "VISA", "country": "MX",
        "issuerBank": "BBVA MEXICO", "expMonth": 12, "expYear": 2034, "expiryMonth": "12", "expiryYear": "2034",
        "cardholderName": None,
    }  # fmt: skip
    assert (shown["id"], shown["type"], shown["isDefault"], shown["nickname"]) == (method_id, "CARD", True, None)
    assert (shown["billingCity"], shown["billingCountry"], shown["billingEmail"]) == ("Puebla", "MX", None)
    assert "4242424242424242" not in answer.text


@pytest.mark.parametrize(
    "method",
    [
        by_card(persist=True),
        by_card(cardDetails=card(persist=True)),
        by_card(options={"persist": True}),
    ],
)
async def test_persist_is_accepted_in_its_three_places(merchant: Merchant, method: dict[str, Any]) -> None:
    answer = await merchant.create(named("1", paymentMethod=method))
    assert [each["id"] for each in (await listed(merchant)).json()["data"]] == [answer.json()["paymentMethod"]["id"]]


async def test_a_saved_card_pays_a_new_order_a_charge_and_a_part(merchant: Merchant) -> None:
    method_id = await save(merchant, "1")
    paid = await merchant.create(paid_order(externalId="2", paymentMethod=by_saved(method_id, cvc="123")))
    assert (paid.status_code, paid.json()["status"]) == (201, "COMPLETED")
    assert paid.json()["paymentMethod"]["id"] == method_id == paid.json()["payment"]["paymentMethodId"]
    assert paid.json()["paymentMethod"]["cardDetails"]["expYear"] == 2034
    await merchant.create(order(externalId="3", allowPartials=True))
    part = await merchant.post(f"{ORDERS}/3/payments", {"paymentMethod": by_saved(method_id), "amount": 50000})
    rest = await merchant.post(f"{ORDERS}/3/charge", {"paymentMethod": by_saved(method_id)})
    assert (part.status_code, rest.status_code, rest.json()["status"]) == (201, 200, "COMPLETED")
    assert rest.json()["payment"]["billingCity"] == "Puebla", "the saved card's address, where the request has none"


async def test_the_list_has_the_default_first_then_the_newest(merchant: Merchant) -> None:
    ids = [await save(merchant, f"{n}", number) for n, number in enumerate([
        "4242424242424242", OTHER, "378282246310005", "6363180000000008",
    ])]  # fmt: skip
    expected = [ids[0], ids[3], ids[2], ids[1]]
    answer = await listed(merchant)
    assert_described(answer, "get", LIST)
    assert [each["id"] for each in answer.json()["data"]] == expected
    assert answer.json()["data"][1]["cardDetails"]["brand"] == "CARNET"
    two = (await listed(merchant, "?limit=2&offset=1")).json()
    assert [each["id"] for each in two["data"]] == expected[1:3]
    assert two["pagination"] == {
        "page": 1, "limit": 2, "offset": 1, "total": 4, "count": 2, "totalPages": 2, "hasMore": True,
        "nextCursor": two["pagination"]["nextCursor"],
    }  # fmt: skip
    assert [each["id"] for each in (await listed(merchant, "?limit=3&page=2")).json()["data"]] == expected[3:]
    empty = (await listed(merchant, "?offset=9")).json()
    assert (empty["data"], empty["pagination"]["total"]) == ([], 4)
    await merchant.create(order(externalId="x", customer={"externalId": "beto"}))
    assert (await listed(merchant, customer="beto")).json()["data"] == []
    customer_id = (await merchant.get(f"{ORDERS}/x")).json()["customer"]["id"]
    assert (await listed(merchant, customer=customer_id)).status_code == 200


@pytest.mark.parametrize("limit", [1, 3])
async def test_cursors_lead_through_all_methods_also_where_one_is_saved_in_between(
    merchant: Merchant, limit: int
) -> None:
    ids = [await save(merchant, f"{n}", number) for n, number in enumerate(["4242424242424242", OTHER, AMEX, CARNET])]
    found, query = [], f"?limit={limit}"
    while True:
        page = (await listed(merchant, query)).json()
        found += [each["id"] for each in page["data"]]
        assert page["pagination"]["hasMore"] == (page["pagination"]["nextCursor"] is not None)
        if not page["pagination"]["hasMore"]:
            break
        query = f"?limit={limit}&cursor={page['pagination']['nextCursor']}"
        await save(merchant, f"more-{len(found)}", "4111111111111111")
    assert [each for each in found if each in ids] == [ids[0], ids[3], ids[2], ids[1]]


async def test_a_cursor_belongs_to_its_customer(merchant: Merchant) -> None:
    for n in range(2):
        await save(merchant, f"{n}", "4242424242424242")
    await merchant.create(order(externalId="x", customer={"externalId": "beto"}))
    cursor = (await listed(merchant, "?limit=1")).json()["pagination"]["nextCursor"]
    refused = await listed(merchant, f"?limit=1&cursor={cursor}", customer="beto")
    assert (refused.status_code, [each["field"] for each in refused.json()["errors"]]) == (400, ["cursor"])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?cursor=x", "cursor"), ("?cursor=" + "A" * 40, "cursor"), ("?cursor=" + "_" * 40, "cursor"),
        ("?limit=0", "limit"), ("?limit=101", "limit"), ("?offset=-1", "offset"), ("?page=0", "page"),
        ("?page=1&offset=0", "page"), ("?limit=1&limit=2", "limit"),
    ],
)  # fmt: skip
async def test_a_wrong_page_is_400(merchant: Merchant, query: str, field: str) -> None:
    await save(merchant, "1")
    answer = await listed(merchant, query)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


async def test_billing_details_are_updated_and_cleared(merchant: Merchant) -> None:
    method_id = await save(merchant, "1")
    answer = await put(
        merchant,
        method_id,
        {"billingFirstName": "Ana", "billingEmail": "ana@example.com", "billingCountry": "us", "billingCity": None,
         "nickname": "Nómina", "unknown": 1, "createdAt": "ignored"},
    )  # fmt: skip
    assert answer.status_code == 200
    assert_described(answer, "put", ONE)
    changed = answer.json()
    assert (changed["billingFirstName"], changed["billingCountry"], changed["billingCity"]) == ("Ana", "US", None)
    assert changed["nickname"] == "Nómina"
    warnings = [(each["field"], each["code"]) for each in changed.pop("warnings")]
    assert warnings == [("unknown", "UNKNOWN_FIELD"), ("createdAt", "READ_ONLY")], "createdAt is not what was read"
    assert (await merchant.get(f"{METHODS}/{method_id}")).json() == changed
    second = await save(merchant, "2", OTHER)
    made = await put(merchant, second, {"billingCity": "Oaxaca", "isDefault": True})
    assert made.json()["isDefault"] is True
    assert (await merchant.get(f"{METHODS}/{method_id}")).json()["isDefault"] is False
    refused = await put(merchant, second, {"billingCity": "Oaxaca", "isDefault": False})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "isDefault")


async def test_a_wrong_update_changes_nothing(merchant: Merchant) -> None:
    method_id = await save(merchant, "1")
    before = (await merchant.get(f"{METHODS}/{method_id}")).json()
    for body, code in (
        ({"nickname": "x"}, "VALIDATION_ERROR"),
        ({"billingCity": "Puebla", "cardDetails": {"number": OTHER, "expMonth": 1}}, "CARD_DETAILS_IMMUTABLE"),
    ):
        answer = await put(merchant, method_id, body)
        assert (answer.status_code, answer.json()["code"]) == (400, code)
        assert_described(answer, "put", ONE)
        assert OTHER not in answer.text
    assert (await merchant.get(f"{METHODS}/{method_id}")).json() == before


async def test_a_deleted_method_is_gone(merchant: Merchant) -> None:
    first, second = await save(merchant, "1"), await save(merchant, "2", OTHER)
    answer = await delete(merchant, first, query="?force=true")
    assert (answer.status_code, answer.json()) == (200, {"id": first, "deleted": True})
    assert_described(answer, "delete", OF_CUSTOMER)
    again = await delete(merchant, first)
    assert (again.status_code, again.json()["code"]) == (404, "PAYMENT_METHOD_NOT_FOUND")
    assert_described(again, "delete", OF_CUSTOMER)
    (left,) = (await listed(merchant)).json()["data"]
    assert (left["id"], left["isDefault"]) == (second, True)
    for gone in (await merchant.get(f"{METHODS}/{first}"), await put(merchant, first, {"billingCity": "x"})):
        assert (gone.status_code, gone.json()["code"]) == (404, "PAYMENT_METHOD_NOT_FOUND")
    refused = await merchant.create(named("3", paymentMethod=by_saved(first)))
    assert (refused.status_code, refused.json()["code"]) == (404, "PAYMENT_METHOD_NOT_FOUND")
    assert (await merchant.get(f"{ORDERS}/3")).status_code == 404
    assert (await merchant.get(f"{ORDERS}/1")).json()["paymentMethod"]["cardDetails"]["last4"] == "4242"
    wrong = await delete(merchant, second, query="?force=maybe")
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "force")


async def test_another_merchants_method_is_answered_like_an_absent_one(store: Storefront, merchant: Merchant) -> None:
    method_id = await save(merchant, "1")
    stranger = await store.register()
    await stranger.create(order(externalId="waiting"))

    def blurred(answer: httpx.Response) -> tuple[int, Any]:
        return answer.status_code, {**answer.json(), "requestId": ""}

    async def tries(theirs: str) -> list[tuple[int, Any]]:
        return [
            blurred(answer)
            for answer in (
                await stranger.get(f"{METHODS}/{theirs}"),
                await put(stranger, theirs, {"billingCity": "x"}),
                await delete(stranger, theirs),
                await stranger.create(named("n", paymentMethod=by_saved(theirs))),
                await stranger.post(f"{ORDERS}/waiting/charge", {"paymentMethod": by_saved(theirs)}),
                await stranger.post(f"{ORDERS}/waiting/charge", charge(paymentMethod=by_saved(theirs))),
            )
        ]

    answers = await tries(method_id)
    assert answers == await tries(str(uuid4()))
    assert {status for status, _ in answers} == {404}
    customer_id = (await merchant.get(f"{ORDERS}/1")).json()["customer"]["id"]
    answers = [blurred(await listed(stranger, customer=customer)) for customer in (customer_id, str(uuid4()), "absent")]
    assert {status for status, _ in answers} == {404}
    assert len({repr(answer) for answer in answers}) == 1
    answers = [blurred(await delete(stranger, method_id, customer)) for customer in (customer_id, str(uuid4()))]
    assert answers[0] == answers[1]
    other = await merchant.create(named("b", customer={"externalId": "beto"}))
    assert other.status_code == 201
    assert (await delete(merchant, method_id, "beto")).json()["code"] == "PAYMENT_METHOD_NOT_FOUND"
    assert (await merchant.get(f"{METHODS}/{method_id}")).status_code == 200


@pytest.mark.parametrize("method_id", ["no-uuid", "%00", "%ff", "x" * 300])
async def test_an_id_that_cannot_be_one_is_404(merchant: Merchant, method_id: str) -> None:
    await save(merchant, "1")
    for answer in (
        await merchant.get(f"{METHODS}/{method_id}"),
        await put(merchant, method_id, {"billingCity": "x"}),
        await delete(merchant, method_id),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "PAYMENT_METHOD_NOT_FOUND")
    assert (await listed(merchant, customer="%ff")).json()["code"] == "CUSTOMER_NOT_FOUND"


async def test_an_expired_saved_card_is_422_with_advice(store: Storefront, merchant: Merchant) -> None:
    method_id = await save(merchant, "1")
    await merchant.post("/api/sandbox/clock", {"advanceTo": "2035-01-02T00:00:00-06:00"})
    answer = await merchant.create(named("2", paymentMethod=by_saved(method_id)))
    assert answer.status_code == 422
    assert_described(answer, "post", ORDERS)
    body = answer.json()
    assert (body["code"], body["advice"], body["declineCode"], body["retryable"]) == (
        "PAYMENT_METHOD_EXPIRED", "FIX_DATA", "CARD_EXPIRED", False,
    )  # fmt: skip
    assert (await merchant.get(f"{ORDERS}/2")).status_code == 404, "nothing was created"
    renewed = by_card(cardDetails=card(expiryYear="2039"), persist=True)
    assert (await merchant.create(named("3", paymentMethod=renewed))).json()["paymentMethod"]["id"] == method_id
    assert (await merchant.create(named("2", paymentMethod=by_saved(method_id)))).status_code == 201


async def test_the_routes_need_the_scopes_of_customers(store: Storefront, merchant: Merchant) -> None:
    method_id = await save(merchant, "1")
    reader = await store.another_key(merchant, scopes=["customers:read"])
    writer = await store.another_key(merchant, scopes=["customers:write"])
    orders = await store.another_key(merchant, scopes=["orders:read", "orders:write"])
    assert (await reader.get(f"{METHODS}/{method_id}")).status_code == 200
    assert (await listed(reader)).status_code == 200
    assert (await put(writer, method_id, {"billingCity": "x"})).status_code == 200
    assert (await orders.create(named("2", paymentMethod=by_saved(method_id)))).status_code == 201
    for refused in (
        await put(reader, method_id, {"billingCity": "x"}),
        await delete(reader, method_id),
        await writer.get(f"{METHODS}/{method_id}"),
        await listed(orders),
        await orders.get(f"{METHODS}/{method_id}"),
    ):
        assert (refused.status_code, refused.json()["code"]) == (401, "INSUFFICIENT_SCOPE")
    assert UUID(method_id)


async def test_a_deleted_customers_methods_go_too(merchant: Merchant, settings: Settings) -> None:
    method_id = await save(merchant, "1")
    await put(merchant, method_id, {"billingCity": "Xalapa", "nickname": "la de diario"})
    customer_id = (await merchant.get(f"{ORDERS}/1")).json()["customer"]["id"]
    answer = await merchant.delete(f"/api/customers/{customer_id}")
    assert answer.status_code == 200, answer.text
    assert (await merchant.get(f"{METHODS}/{method_id}")).status_code == 404
    assert (await listed(merchant, customer=customer_id)).status_code == 404
    with psycopg.connect(settings.database_url or "") as connection:
        rows = connection.execute("select doc from payment_method where customer_id = %s", [customer_id]).fetchall()
        cards = connection.execute("select 1 from vault_card where payment_method_id = %s", [method_id]).fetchall()
    assert (rows, cards) == ([(None,)], [])


async def test_a_change_under_an_idempotency_key_is_made_once(merchant: Merchant) -> None:
    method_id = await save(merchant, "1")
    path, key = f"{METHODS}/{method_id}", {"idempotency-key": "k-1"}
    first = await merchant.put(path, {"billingCity": "Oaxaca"}, **key)
    await merchant.put(path, {"billingCity": "Puebla"})
    again = await merchant.put(path, {"billingCity": "Oaxaca"}, **key)
    assert (first.status_code, again.status_code, again.content) == (200, 200, first.content)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert (await merchant.get(path)).json()["billingCity"] == "Puebla"
    other = await merchant.put(path, {"billingCity": "Tepic"}, **key)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    same = await merchant.put(path, {"billingCity": "Puebla"})
    assert (same.status_code, same.headers["idempotent-replayed"]) == (200, "true")
    assert (await delete(merchant, method_id)).status_code == 200
    gone = await merchant.put(path, {"billingCity": "Oaxaca"}, **key)
    assert (gone.status_code, gone.json()["code"]) == (404, "PAYMENT_METHOD_NOT_FOUND")


async def test_a_deletion_under_an_idempotency_key_is_made_once(merchant: Merchant) -> None:
    method_id = await save(merchant, "1")
    path, key = f"/api/customers/ana/payment-methods/{method_id}", {"idempotency-key": "k-1"}
    first, again = await merchant.delete(path, **key), await merchant.delete(path, **key)
    assert (first.status_code, again.status_code, again.content) == (200, 200, first.content)
    assert [answer.headers.get("idempotent-replayed") for answer in (first, again)] == [None, "true"]
    forced = await merchant.delete(f"{path}?force=true", **key)
    assert (forced.status_code, forced.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    for query in ("", "?force=true"):
        refused = [await merchant.delete(path + query, **{"idempotency-key": f"k{query}"}) for _ in range(2)]
        assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [
            (404, "PAYMENT_METHOD_NOT_FOUND")
        ] * 2


async def test_a_customer_has_no_more_methods_than_the_limit(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.domain.payment_methods.decide.METHODS_MAX", 2)
    first = await save(merchant, "1")
    await save(merchant, "2", OTHER)
    further = by_card(cardDetails=card(number=AMEX, cvc="1234"))
    refused = await merchant.create(named("3", paymentMethod=further | {"persist": True}))
    assert (refused.status_code, refused.json()["code"]) == (409, "PAYMENT_METHOD_LIMIT_REACHED")
    assert "without persist" in refused.json()["message"]
    assert (await merchant.get(f"{ORDERS}/3")).status_code == 404
    assert (await merchant.create(named("3", paymentMethod=further))).status_code == 201
    assert await save(merchant, "4") == first
    await delete(merchant, first)
    await save(merchant, "5", AMEX)
