"""The import of products: what is created, updated and kept, what fails, and what is refused as a whole."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from tests.api.bodies import order as pending
from tests.api.products.catalogue import IMPORT, PRODUCTS, coffee, imported, listed, problems, product, send
from tests.api.storefront import Merchant, Storefront

from api.fields.product import PRODUCT_BYTES_MAX
from ledger.settings import Settings
from ledger.telemetry.metrics import BATCH_COMMANDS

pytestmark = pytest.mark.anyio


async def test_a_product_is_created_then_updated_and_keeps_what_is_left_out(merchant: Merchant):
    first = await imported(merchant, coffee(sku="CAF-1", roast="dark", metadata={"a": 1}))
    assert first == {
        "success": True, "imported": 1, "total": 1, "created": 1, "updated": 0, "failed": 0, "errors": [],
    }  # fmt: skip
    second = await imported(merchant, {"id": "cafe", "price": 399.5, "sku": None, "size": {"kg": 1}})
    assert (second["created"], second["updated"], second["imported"]) == (0, 1, 1)
    shown = await product(merchant, "cafe")
    assert shown.pop("createdAt") < shown.pop("updatedAt")
    assert shown == {
        "id": "cafe", "externalId": None, "name": "Café de altura", "description": None, "price": 399.5,
        "currency": None, "status": "active", "sku": None, "productKey": None, "unitKey": None, "unitName": None,
        "taxIncluded": None, "taxes": None, "category": None, "imageUrl": None, "stock": None, "metadata": {"a": 1},
        "attributes": {"roast": "dark", "size": {"kg": 1}},
    }  # fmt: skip


async def test_every_known_field_is_kept(merchant: Merchant):
    full = coffee(
        externalId="erp-7", description="Grano\nentero", status="Archived", currency="mxn", sku="CAF-1",
        productKey="50201706", unitKey="H87", unitName="Pieza", taxIncluded=False, category="Café",
        taxes=[{"type": "IVA", "rate": 0.16, "factor": "Tasa", "withholding": False}],
        imageUrl="https://example.com/1.jpg", stock=12.5, metadata={"lot": 7},
    )  # fmt: skip
    assert (await imported(merchant, full))["success"]
    shown = await product(merchant, "cafe")
    sent = full | {"status": "archived", "currency": "MXN"}
    assert {name: shown[name] for name in sent} == sent
    assert shown["attributes"] == {}


async def test_a_status_of_the_merchants_own_is_kept_as_sent(merchant: Merchant):
    await imported(merchant, coffee(status="Agotado"))
    assert (await product(merchant, "cafe"))["status"] == "Agotado"


async def test_a_product_without_an_id_gets_one_by_which_it_is_updated(merchant: Merchant):
    await imported(merchant, {"name": "Molino", "price": 1}, {"name": "Molino", "price": 1, "id": None})
    page = await listed(merchant)
    assert page["pagination"]["total"] == 2
    product_id = page["data"][0]["id"]
    assert (await imported(merchant, {"id": product_id, "price": 2}))["updated"] == 1
    assert (await product(merchant, product_id))["price"] == 2


async def test_wrong_products_fail_with_every_field_and_the_others_are_kept(merchant: Merchant):
    wrong = {
        "id": "b", "name": 7, "price": -1, "currency": "pesos", "imageUrl": "javascript:x", "stock": "3",
        "taxes": [{"type": "IVA"}, {"type": "ISR", "rate": -1}], "metadata": [], "attributes": 1,
    }  # fmt: skip
    report = await imported(merchant, wrong, coffee(), "no object", {"id": "new"})
    assert (report["success"], report["imported"], report["failed"], report["total"]) == (False, 1, 3, 4)
    assert [(error["index"], error["id"], error["field"], error["code"]) for error in report["errors"]] == [
        (0, "b", "name", "INVALID_TYPE"),
        (0, "b", "price", "OUT_OF_RANGE"),
        (0, "b", "currency", "INVALID_FORMAT"),
        (0, "b", "imageUrl", "INVALID_FORMAT"),
        (0, "b", "stock", "INVALID_TYPE"),
        (0, "b", "taxes[0].rate", "REQUIRED"),
        (0, "b", "taxes[1].rate", "OUT_OF_RANGE"),
        (0, "b", "metadata", "INVALID_TYPE"),
        (0, "b", "attributes", "INVALID_TYPE"),
        (2, None, None, "INVALID_TYPE"),
        (3, "new", "name", "REQUIRED"),
        (3, "new", "price", "REQUIRED"),
    ]
    assert [found["id"] for found in (await listed(merchant))["data"]] == ["cafe"]


async def test_a_product_that_has_a_field_twice_fails_and_the_others_are_kept(merchant: Merchant):
    body = b'{"products": [{"id": "b", "name": "b", "price": 1, "price": 2, "roast": {"a": 1, "a": 1}}, {"id": "c", "name": "c", "price": 1}]}'
    report = (await merchant.post(IMPORT, body)).json()
    assert (report["imported"], report["failed"]) == (1, 1)
    assert [(each["index"], each["field"], each["code"]) for each in report["errors"]] == [
        (0, "price", "DUPLICATE_FIELD"),
        (0, "roast.a", "DUPLICATE_FIELD"),
    ]


async def test_the_problems_of_a_new_and_of_an_existing_product_are_named_together(merchant: Merchant):
    await imported(merchant, coffee())
    assert await problems(merchant, {"id": "new", "price": "1"}) == [
        (0, "price", "INVALID_TYPE"),
        (0, "name", "REQUIRED"),
    ]
    assert await problems(merchant, {"id": "cafe", "price": "1"}) == [(0, "price", "INVALID_TYPE")]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("id", "", "INVALID_LENGTH"),
        ("id", "x" * 256, "INVALID_LENGTH"),
        ("id", "a\u0000b", "INVALID_FORMAT"),
        ("id", "4242424242424242", "CARD_NUMBER_NOT_ALLOWED"),
        ("name", "", "INVALID_LENGTH"),
        ("name", "a\nb", "INVALID_FORMAT"),
        ("name", "4242 4242 4242 4242", "CARD_NUMBER_NOT_ALLOWED"),
        ("description", "x" * 1001, "INVALID_LENGTH"),
        ("price", 1.23456, "OUT_OF_RANGE"),
        ("price", 10**12, "OUT_OF_RANGE"),
        ("status", 1, "INVALID_TYPE"),
        ("taxIncluded", "yes", "INVALID_TYPE"),
        ("taxes", [{"type": "VAT", "rate": 1}], "INVALID_VALUE"),
        ("taxes", [{"type": "IVA", "rate": 1}] * 21, "INVALID_LENGTH"),
        ("metadata", {"card": "4242424242424242"}, "CARD_NUMBER_NOT_ALLOWED"),
        ("metadata", {"a": "x" * 32_768}, "INVALID_LENGTH"),
        ("note", "card 4242-4242-4242-4242", "CARD_NUMBER_NOT_ALLOWED"),
        ("cvc", "123", "SECURITY_CODE_NOT_ALLOWED"),
        ("note", "a\u0000b", "INVALID_FORMAT"),
    ],
)
async def test_a_wrong_field_is_named_and_never_repeated(merchant: Merchant, field: str, value: Any, code: str):
    answer = await send(merchant, coffee(**{field: value}))
    (error,) = answer.json()["errors"]
    assert (error["field"], error["code"]) == (field if field != "taxes" or len(value) > 1 else "taxes[0].type", code)
    assert error["id"] == (None if field == "id" else "cafe")
    assert "4242" not in answer.text
    assert (await listed(merchant))["data"] == []


async def test_unknown_fields_have_limits_together(merchant: Merchant):
    deep: Any = 1
    for _ in range(11):
        deep = [deep]
    assert await problems(merchant, coffee(deep=deep)) == [(0, "attributes", "INVALID_LENGTH")]
    assert await problems(merchant, coffee(a="x" * 20_000, b="x" * 20_000)) == [(0, "attributes", "INVALID_LENGTH")]
    assert await problems(merchant, coffee(**{"4242424242424242": 1})) == [(0, "attributes", "CARD_NUMBER_NOT_ALLOWED")]


async def test_a_product_that_is_longer_than_another_request_may_be_is_not_read(merchant: Merchant):
    products = [coffee(id="long") | {"description": " " * PRODUCT_BYTES_MAX}, coffee(id="short")]
    answer = await send(merchant, *products)
    (error,) = answer.json()["errors"]
    assert (error["index"], error["id"], error["field"], error["code"]) == (0, None, None, "INVALID_LENGTH")
    assert answer.json()["imported"] == 1


async def test_attributes_beside_unknown_fields_that_are_too_long_are_named(merchant: Merchant):
    product = {**coffee(), "attributes": {"roast": "dark"}, "notes": "x" * 33_000}
    assert await problems(merchant, product) == [(0, "attributes", "INVALID_LENGTH")]


async def test_the_second_product_with_an_id_fails_even_where_the_first_does(merchant: Merchant):
    report = await imported(merchant, coffee(), coffee(price=1), coffee(id="b", price=-1), coffee(id="b"))
    assert [(error["index"], error["field"], error["code"]) for error in report["errors"]] == [
        (1, "id", "DUPLICATE_ID"),
        (2, "price", "OUT_OF_RANGE"),
        (3, "id", "DUPLICATE_ID"),
    ]
    assert (await product(merchant, "cafe"))["price"] == 38900


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"products": []}, "products", "INVALID_LENGTH"),
        ({"products": {}}, "products", "INVALID_TYPE"),
        ({"products": None}, "products", "INVALID_TYPE"),
        ({}, "products", "REQUIRED"),
        ([], "body", "INVALID_TYPE"),
        (b"", "body", "INVALID_JSON"),
        (b'{"products": [{"id": "a", "name": "a", "price": 1}], "products": [{"price": 2, "price": 2}]}', "products", "DUPLICATE_FIELD"),
        (b'{"products": [{"id": "a", "name": "a", "price": 1}, {]}', "body", "INVALID_JSON"),
        (b'{"products": [{"id": "a", "name": "a", "price": 1, "n": "\xff"}]}', "body", "INVALID_ENCODING"),
        (b'{"products": [{"id": "a", "name": "a", "price": 1, "n": ' + b"[" * 5000 + b"]" * 5000 + b"}]}", "body", "INVALID_JSON"),
        ({"products": [{"id": f"p-{n}", "name": "a", "price": 1} for n in range(1001)]}, "products", "INVALID_LENGTH"),
    ],
)  # fmt: skip
async def test_a_wrong_body_imports_nothing(merchant: Merchant, body: Any, field: str, code: str):
    answer = await merchant.post(IMPORT, body)
    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert (error["field"], error["code"]) == (field, code)
    assert (await listed(merchant))["pagination"]["total"] == 0


async def test_a_thousand_products_are_one_commit(merchant: Merchant, settings: Settings):
    products = [coffee(id=f"p-{n:04}", size=n) for n in range(1000)]
    before = _batches()
    assert (await imported(merchant, *products))["created"] == 1000
    assert (await imported(merchant, *products))["updated"] == 1000  # nothing changes: no commit
    assert _batches() - before == 1
    assert (await imported(merchant, *[each | {"price": 1} for each in products]))["updated"] == 1000
    assert _batches() - before == 2
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url) as connection:
        counted = (
            "select count(*), count(distinct command_id) from event where merchant_id = %s and topic like 'product%%'"
        )
        assert connection.execute(counted, (merchant.merchant_id,)).fetchone() == (2000, 2)


def _batches() -> float:
    (metric,) = BATCH_COMMANDS.collect()
    return next(sample.value for sample in metric.samples if sample.name.endswith("_count"))


async def test_a_body_beyond_the_limit_of_other_routes_is_accepted_and_one_beyond_its_own_is_not(merchant: Merchant):
    large = [coffee(id=f"p-{n}", text="x" * 30_000) for n in range(100)]
    assert (await imported(merchant, *large))["success"]
    refused = await send(merchant, *large, *[coffee(id=f"q-{n}", text="x" * 30_000) for n in range(100)])
    assert (refused.status_code, refused.json()["code"]) == (413, "BODY_TOO_LARGE")
    order = await merchant.post("/api/v2/payment-orders", {"metadata": {"a": "x" * 300_000}})
    assert order.status_code == 413


async def test_imports_of_the_same_products_at_once_end_legally(merchant: Merchant):
    ids = [f"p-{n}" for n in range(40)]
    answers = await asyncio.gather(
        *[send(merchant, *[coffee(id=each, name=f"v{n}", n=n) for each in (ids, ids[::-1])[n % 2]]) for n in range(8)]
    )
    reports = [answer.json() for answer in answers]
    assert {answer.status_code for answer in answers} == {200}
    assert sum(report["created"] for report in reports) == 40
    assert sum(report["updated"] for report in reports) == 280
    shown = [await product(merchant, each) for each in ids]
    assert len({each["name"] for each in shown}) == 1, "the last import is whole"
    assert all(each["name"] == f"v{each['attributes']['n']}" for each in shown)


@pytest.mark.parametrize(
    "products",
    [
        [{"name": "Molino", "price": 1}, {"name": "Filtros", "price": 2}],
        [coffee(), coffee(), {"id": "wrong"}],
        [{"id": "wrong"}, 7],
        [coffee(id="old")],
    ],
    ids=["without ids", "some fail", "all fail", "unchanged"],
)
async def test_the_same_import_under_a_key_gets_its_first_answer_and_is_made_once(merchant: Merchant, products: Any):
    await imported(merchant, coffee(id="old"))
    first = await send(merchant, *products, **{"idempotency-key": "import-1"})
    assert first.status_code == 200
    listed_first = await listed(merchant)
    await imported(merchant, {"id": "old", "price": 5}, {"id": "wrong", "name": "a", "price": 1})
    again = await send(merchant, *products, **{"idempotency-key": "import-1"})
    assert again.json() == first.json()
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    assert (await listed(merchant))["pagination"]["total"] == listed_first["pagination"]["total"] + 1
    assert (await product(merchant, "old"))["price"] == 5
    other = await send(merchant, coffee(id="other"), **{"idempotency-key": "import-1"})
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    order = await merchant.post("/api/v2/payment-orders", pending(), **{"idempotency-key": "import-1"})
    assert order.json()["code"] == "IDEMPOTENCY_KEY_REUSED"


async def test_the_same_import_under_a_key_at_once_is_made_once(merchant: Merchant):
    products = [{"name": f"Molino {n}", "price": 1} for n in range(20)]
    answers = await asyncio.gather(*[send(merchant, *products, **{"idempotency-key": "once"}) for _ in range(6)])
    codes = {answer.json().get("code", answer.status_code) for answer in answers}
    assert codes <= {200, "REQUEST_IN_PROGRESS"}
    assert 200 in codes
    assert (await listed(merchant))["pagination"]["total"] == 20


async def test_an_import_needs_the_key_alone_and_the_scope_of_products(store: Storefront):
    strict = await store.register(require_merchant_header=True)
    assert (await send(strict, coffee())).status_code == 200
    assert (await strict.get(PRODUCTS)).status_code == 200
    assert (await strict.get(f"{PRODUCTS}/cafe")).status_code == 200
    other = await store.register()
    foreign = await send(strict, coffee(), **{"x-merchant-id": str(other.merchant_id)})
    assert (foreign.status_code, foreign.json()["code"]) == (404, "MERCHANT_NOT_FOUND")
    for scope, status in (("products", 200), ("orders:write", 401)):
        limited = await store.another_key(strict, scopes=(scope,))
        answers = [await send(limited, coffee()), await limited.get(PRODUCTS), await limited.get(f"{PRODUCTS}/cafe")]
        assert [answer.status_code for answer in answers] == [status] * 3
    assert (await store.client.post(IMPORT, content=b"{")).status_code == 401


async def test_a_merchants_products_are_its_own(store: Storefront, merchant: Merchant):
    other = await store.register()
    await imported(merchant, coffee(), {"name": "Molino", "price": 5})
    generated = next(each["id"] for each in (await listed(merchant))["data"] if each["id"] != "cafe")
    absent, foreign = [await other.get(f"{PRODUCTS}/{each}") for each in ("nothing", "cafe")]
    assert absent.status_code == foreign.status_code == 404
    assert absent.json() | {"requestId": ""} == foreign.json() | {"requestId": ""}
    assert (await listed(other, "?search=caf"))["data"] == []
    report = await imported(other, coffee(name="Otro"), {"id": generated, "name": "Otro", "price": 1})
    assert report["created"] == 2, "an id of another merchant is a new id"
    assert (await product(merchant, "cafe"))["name"] == "Café de altura"
    assert (await product(merchant, generated))["name"] == "Molino"
