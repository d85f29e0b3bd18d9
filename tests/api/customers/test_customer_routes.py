"""Customers over HTTP: created, read, changed, erased; and the orders that name them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from tests.api.bodies import order
from tests.api.openapi.description import assert_described
from tests.api.storefront import ORDERS, Merchant, Storefront

pytestmark = pytest.mark.anyio

CUSTOMERS = "/api/customers"
ONE = f"{CUSTOMERS}/{{id}}"
DEFAULTS = {
    "email": True,
    "sms": True,
    "whatsapp": False,
    "paymentReminders": True,
    "receipts": True,
    "invoices": True,
    "language": "es",
}
FULL = {
    "externalId": "c/7",
    "firstName": "Xochitl",
    "lastName": "Quetzalli",
    "email": "xochitl@example.com",
    "phoneNumber": "+525512345678",
    "notificationPreferences": {"sms": False, "language": "en"},
    "metadata": {"tier": [1.50, None]},
}


async def created(merchant: Merchant, **body: Any) -> dict[str, Any]:
    answer = await merchant.post(CUSTOMERS, body)
    assert answer.status_code == 201, answer.text
    assert_described(answer, "post", CUSTOMERS)
    return dict(answer.json())


async def shown(merchant: Merchant, reference: str) -> dict[str, Any]:
    answer = await merchant.get(f"{CUSTOMERS}/{quote(reference, safe='')}")
    assert answer.status_code == 200, answer.text
    assert_described(answer, "get", ONE)
    return dict(answer.json())


async def test_a_customer_is_created_and_read_by_either_id(merchant: Merchant):
    new = await created(merchant, **FULL)
    assert {**FULL, **new} == new | {"metadata": {"tier": [1.5, None]}}
    assert new["notificationPreferences"] == DEFAULTS | {"sms": False, "language": "en"}
    assert (new["active"], new["sourceId"], new["createdAt"]) == (True, None, new["updatedAt"])
    found = await shown(merchant, "c/7")
    assert found == await shown(merchant, new["id"])
    assert found == new | {"relatedCustomers": [], "hasMoreRelatedCustomers": False}


async def test_a_customer_needs_an_external_id_or_an_email(merchant: Merchant):
    new = await created(merchant, email="a@example.com", externalId=None, firstName=None)
    assert new["externalId"] == new["id"]
    assert (new["firstName"], new["metadata"], new["notificationPreferences"]) == (None, None, DEFAULTS)
    refused = await merchant.post(CUSTOMERS, {"firstName": "Ana"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "externalId")


async def test_an_external_id_that_is_taken_is_a_conflict(merchant: Merchant):
    await created(merchant, externalId="ana")
    again = await merchant.post(CUSTOMERS, {"externalId": "ana", "email": "other@example.com"})
    assert (again.status_code, again.json()["code"], again.json()["field"]) == (
        409,
        "DUPLICATE_EXTERNAL_ID",
        "externalId",
    )
    assert_described(again, "post", CUSTOMERS)
    assert (await shown(merchant, "ana"))["email"] is None


async def test_a_change_leaves_what_it_leaves_out_and_clears_what_is_null(merchant: Merchant):
    new = await created(merchant, **FULL)
    path = f"{CUSTOMERS}/{new['id']}"
    changed = await merchant.put(path, {"email": "x@example.com", "notificationPreferences": {"whatsapp": True}})
    assert changed.status_code == 200
    assert_described(changed, "put", ONE)
    preferences = DEFAULTS | {"sms": False, "language": "en", "whatsapp": True}
    assert changed.json() == new | {
        "email": "x@example.com",
        "notificationPreferences": preferences,
        "updatedAt": changed.json()["updatedAt"],
    }
    cleared = await merchant.put(
        path, {"firstName": None, "phoneNumber": None, "metadata": None, "notificationPreferences": None}
    )
    assert (cleared.json()["firstName"], cleared.json()["phoneNumber"], cleared.json()["metadata"]) == (None,) * 3
    assert (cleared.json()["lastName"], cleared.json()["notificationPreferences"]) == ("Quetzalli", DEFAULTS)
    same = await merchant.put(path, {"externalId": "c/7", "lastName": "Quetzalli"})
    assert (same.status_code, same.headers["idempotent-replayed"]) == (200, "true")
    assert same.json() == cleared.json()
    moved = await merchant.put(path, {"externalId": "c/8"})
    assert (moved.status_code, moved.json()["errors"][0]["field"]) == (400, "externalId")


async def test_an_external_id_and_a_source_that_the_customer_refuses_are_named_beside_other_errors(merchant: Merchant):
    await created(merchant, externalId="c/7")
    path = f"{CUSTOMERS}/c%2F7"
    for changes, fields in (
        ({"externalId": "c/8", "email": "x"}, ["externalId", "email"]),
        ({"email": "x", "sourceId": "c/7", "externalId": "c/8"}, ["email", "sourceId", "externalId"]),
        ({"externalId": "c/8", "sourceId": "c/7"}, ["externalId", "sourceId"]),
        ({"externalId": "c/8", "sourceId": "unknown", "firstName": 1}, ["externalId", "firstName"]),
        ({"externalId": "c/7", "email": "x"}, ["email"]),
        ({"externalId": 8, "email": "x"}, ["externalId", "email"]),
    ):
        refused = await merchant.put(path, changes)
        assert (refused.status_code, [each["field"] for each in refused.json()["errors"]]) == (400, fields)
    unknown = await merchant.put(f"{CUSTOMERS}/c-9", {"externalId": "c/8", "email": "x"})
    assert [each["field"] for each in unknown.json()["errors"]] == ["email"]


async def test_orders_show_the_customer_as_it_is_now(merchant: Merchant):
    new = await created(merchant, **FULL)
    for number, customer in enumerate(({"id": new["id"]}, {"customerId": "c/7"}, None)):
        body = order(externalId=f"o-{number}", customer=customer, customerId=None if customer else "c/7")
        made = await merchant.create(body)
        assert (made.status_code, made.json()["customer"]["id"]) == (201, new["id"])
    await merchant.put(f"{CUSTOMERS}/{new['id']}", {"firstName": "Xóchitl"})
    listed = (await merchant.get(ORDERS)).json()["data"]
    assert [each["customer"]["firstName"] for each in listed] == ["Xóchitl"] * 3
    assert (await merchant.get(f"{ORDERS}/o-1")).json()["customer"]["firstName"] == "Xóchitl"
    await merchant.create(order(externalId="o-4", customer={"externalId": "c/7", "email": "new@example.com"}))
    assert (await shown(merchant, "c/7"))["email"] == "new@example.com"


async def test_an_erased_customer_is_gone_and_its_orders_stay(merchant: Merchant):
    new = await created(merchant, **FULL)
    await merchant.create(order(customer={"id": "c/7"}, metadata={"guest": "Xochitl"}))
    path = f"{CUSTOMERS}/{quote('c/7', safe='')}"
    deleted = await merchant.delete(path)
    assert (deleted.status_code, deleted.json()) == (200, {"id": new["id"], "deleted": True})
    assert_described(deleted, "delete", ONE)
    for answer in (
        await merchant.delete(path),
        await merchant.get(path),
        await merchant.put(path, {"firstName": "X"}),
        await merchant.get(f"{CUSTOMERS}/{new['id']}"),
        await merchant.post(CUSTOMERS, {"externalId": "child", "sourceId": "c/7"}),
        await merchant.create(order(externalId="o-2", customer={"externalId": "c/7"})),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "CUSTOMER_NOT_FOUND")
    again = await merchant.post(CUSTOMERS, {"externalId": "c/7"})
    assert (again.status_code, again.json()["code"]) == (409, "DUPLICATE_EXTERNAL_ID")
    left = (await merchant.get(f"{ORDERS}/order-1")).json()
    assert (left["amount"], left["metadata"], left["customer"]["active"]) == (150000, None, False)
    assert (left["customer"]["firstName"], left["customer"]["email"]) == (None, None)
    assert (await merchant.get(CUSTOMERS)).json()["pagination"]["total"] == 0


async def test_a_source_is_named_by_either_id_and_shown_by_the_services(merchant: Merchant):
    parent = await created(merchant, externalId="parent")
    child = await created(merchant, externalId="child", sourceId="parent")
    grandchild = await created(merchant, externalId="grandchild", sourceId=child["id"])
    cousin = await created(merchant, externalId="cousin")
    await merchant.put(f"{CUSTOMERS}/cousin", {"sourceId": "parent"})
    await created(merchant, externalId="stranger")
    assert (child["sourceId"], grandchild["sourceId"]) == (parent["id"], child["id"])
    family = {each["id"] for each in (parent, child, grandchild, cousin)}
    for member in ("parent", "child", "grandchild", "cousin"):
        found = await shown(merchant, member)
        assert {each["id"] for each in found["relatedCustomers"]} == family - {found["id"]}
        await merchant.create(order(externalId=f"of-{member}", customer={"id": member}))
    listed = await merchant.get(f"{ORDERS}?customerId=grandchild&includeRelatedCustomers=true")
    assert listed.json()["pagination"]["total"] == 4
    await merchant.delete(f"{CUSTOMERS}/child")
    found = await shown(merchant, "grandchild")
    assert {each["id"] for each in found["relatedCustomers"]} == {parent["id"], cousin["id"]}, "through the erased one"
    kept = await merchant.put(f"{CUSTOMERS}/grandchild", {"sourceId": child["id"], "firstName": "Ana"})
    assert (kept.status_code, kept.json()["sourceId"]) == (200, child["id"]), "what was read can be sent back"
    freed = await merchant.put(f"{CUSTOMERS}/grandchild", {"sourceId": None})
    assert freed.json()["sourceId"] is None
    assert (await shown(merchant, "grandchild"))["relatedCustomers"] == []


async def test_a_source_that_is_not_there_or_the_customer_itself_is_refused(merchant: Merchant):
    unknown = await merchant.post(CUSTOMERS, {"externalId": "child", "sourceId": "nobody"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "CUSTOMER_NOT_FOUND")
    assert "sourceId" in unknown.json()["message"]
    ana = await created(merchant, externalId="ana")
    for reference in ("ana", ana["id"]):
        itself = await merchant.put(f"{CUSTOMERS}/ana", {"sourceId": reference})
        assert (itself.status_code, itself.json()["errors"][0]["field"]) == (400, "sourceId")


async def test_a_large_family_is_shown_in_part_and_says_so(merchant: Merchant, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("projections.queries.RELATED_SHOWN_MAX", 2)
    await created(merchant, externalId="parent")
    for n in range(3):
        await created(merchant, externalId=f"child-{n}", sourceId="parent")
    found = await shown(merchant, "parent")
    assert (len(found["relatedCustomers"]), found["hasMoreRelatedCustomers"]) == (2, True)


async def test_every_wrong_field_is_named_at_once(merchant: Merchant):
    body = {
        "phoneNumber": 5,
        "email": "nobody",
        "externalId": "",
        "notificationPreferences": {"sms": "no", "language": "fr", "email": True},
        "metadata": [],
        "firstName": "4242424242424242",
        "lastName": "a\nb",
        "sourceId": "x" * 256,
    }
    for answer in (await merchant.post(CUSTOMERS, body), await merchant.put(f"{CUSTOMERS}/nobody", body)):
        assert answer.status_code == 400
        assert [(each["field"], each["code"]) for each in answer.json()["errors"]] == [
            ("phoneNumber", "INVALID_TYPE"),
            ("email", "INVALID_FORMAT"),
            ("externalId", "INVALID_LENGTH"),
            ("notificationPreferences.sms", "INVALID_TYPE"),
            ("notificationPreferences.language", "INVALID_VALUE"),
            ("metadata", "INVALID_TYPE"),
            ("firstName", "CARD_NUMBER_NOT_ALLOWED"),
            ("lastName", "INVALID_FORMAT"),
            ("sourceId", "INVALID_LENGTH"),
        ]
        assert answer.json()["code"] == "VALIDATION_ERROR"
        assert "4242" not in answer.text
        assert "en, es" in answer.json()["errors"][4]["message"]
    phone = await merchant.post(CUSTOMERS, {"externalId": "a", "phoneNumber": "call me"})
    assert phone.json()["message"] == "phoneNumber must be a phone number, such as +525512345678."
    card = await merchant.post(CUSTOMERS, {"externalId": "a", "metadata": {"n": "4242 4242 4242 4242"}})
    assert (card.status_code, card.json()["code"]) == (400, "CARD_NUMBER_NOT_ALLOWED")


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'"x"', b"{", b'{"email":"\xff"}', b'{"externalId":"\\ud800"}'])
async def test_a_body_that_is_no_object_is_refused(merchant: Merchant, body: bytes):
    for answer in (await merchant.post(CUSTOMERS, body), await merchant.put(f"{CUSTOMERS}/ana", body)):
        assert answer.status_code == 400, answer.text
        assert answer.json()["errors"]


async def test_each_operation_needs_its_scope(store: Storefront, merchant: Merchant):
    reading = await store.another_key(merchant, scopes=("customers:read",))
    writing = await store.another_key(merchant, scopes=("customers:write", "orders:read", "orders:write"))
    assert (await writing.post(CUSTOMERS, {"externalId": "ana"})).status_code == 201
    assert [(await reading.get(path)).status_code for path in (CUSTOMERS, f"{CUSTOMERS}/ana")] == [200, 200]
    for answer in (
        await reading.post(CUSTOMERS, {"externalId": "eva"}),
        await reading.put(f"{CUSTOMERS}/ana", {}),
        await reading.delete(f"{CUSTOMERS}/ana"),
        await writing.get(CUSTOMERS),
        await writing.get(f"{CUSTOMERS}/ana"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (401, "INSUFFICIENT_SCOPE")


async def test_a_repeated_key_gets_the_first_answer(merchant: Merchant):
    key = {"idempotency-key": "create-ana"}
    first = await merchant.post(CUSTOMERS, {"externalId": "ana", "email": "a@example.com"}, **key)
    changed = await merchant.put(f"{CUSTOMERS}/ana", {"email": "b@example.com"}, **{"idempotency-key": "change-ana"})
    again = await merchant.post(CUSTOMERS, {"email": "a@example.com", "externalId": "ana"}, **key)
    assert (first.status_code, again.status_code, again.headers["idempotent-replayed"]) == (201, 201, "true")
    assert again.content == first.content
    await merchant.put(f"{CUSTOMERS}/ana", {"email": "c@example.com"})
    repeated = await merchant.put(f"{CUSTOMERS}/ana", {"email": "b@example.com"}, **{"idempotency-key": "change-ana"})
    assert (repeated.content, repeated.headers["idempotent-replayed"]) == (changed.content, "true")
    reused = await merchant.post(CUSTOMERS, {"externalId": "eva"}, **key)
    assert (reused.status_code, reused.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    unchanged = [
        await merchant.put(f"{CUSTOMERS}/ana", {"email": "c@example.com"}, **{"idempotency-key": "nothing"})
        for _ in range(2)
    ]
    assert [answer.headers["idempotent-replayed"] for answer in unchanged] == ["true", "true"]
    erasing = {"idempotency-key": "erase-ana"}
    erased = [await merchant.delete(f"{CUSTOMERS}/ana", **erasing) for _ in range(2)]
    assert [answer.json()["deleted"] for answer in erased] == [True, True]
    assert erased[1].headers["idempotent-replayed"] == "true"
    for late in (
        await merchant.post(CUSTOMERS, {"email": "a@example.com", "externalId": "ana"}, **key),
        await merchant.put(f"{CUSTOMERS}/ana", {"email": "b@example.com"}, **{"idempotency-key": "change-ana"}),
    ):
        assert (late.status_code, late.json()["code"]) == (404, "CUSTOMER_NOT_FOUND"), "the first answer was erased"
