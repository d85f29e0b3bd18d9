"""The lines of an order that name a product: what they take from it, and what stays theirs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.api.bodies import order
from tests.api.products.catalogue import coffee, imported
from tests.api.storefront import Merchant, Storefront

from projections.queries import Queries

pytestmark = pytest.mark.anyio

IVA = {"type": "IVA", "rate": 0.16, "factor": "Tasa", "withholding": False}
IEPS = {"type": "IEPS", "rate": 0.08, "factor": "Tasa", "withholding": False}
FISCAL = {"productKey": "50201706", "unitKey": "H87", "unitName": "Pieza", "taxIncluded": False, "taxes": [IVA]}


async def lines_of(merchant: Merchant, *lines: dict[str, Any], external_id: str = "o-1") -> list[dict[str, Any]]:
    amount = sum(line["quantity"] * line["unitPrice"] for line in lines)
    answer = await merchant.create(order(externalId=external_id, amount=amount, lineItems=list(lines)))
    assert answer.status_code == 201, answer.text
    found: list[dict[str, Any]] = answer.json()["lineItems"]
    return found


async def test_a_line_takes_name_keys_and_taxes_from_its_product(merchant: Merchant):
    await imported(merchant, coffee(**FISCAL, sku="CAF-1"))
    (line,) = await lines_of(merchant, {"productId": "cafe", "quantity": 2, "unitPrice": 100})
    assert line["name"] == line["description"] == "Café de altura"
    assert {name: line[name] for name in FISCAL} == FISCAL
    assert line["unitPrice"] == 100, "the price is the line's"


async def test_what_a_line_gives_stays_its_own(merchant: Merchant):
    await imported(merchant, coffee(**FISCAL))
    own = {
        "productId": "cafe", "quantity": 1, "unitPrice": 100, "name": "Otro", "description": "Suyo", "productKey": "1",
        "unitKey": "2", "unitName": "3", "taxIncluded": True, "taxes": [IEPS],
    }  # fmt: skip
    (line,) = await lines_of(merchant, own)
    assert {name: line[name] for name in own} == own


async def test_the_keys_and_taxes_of_a_product_are_checked_where_the_order_is_invoiced(merchant: Merchant):
    await imported(merchant, coffee(productKey="1", unitKey="2", taxes=[IVA, IEPS | {"rate": 8}]))
    receiver = {"customerFiscalData": {"taxId": "XAXX010101000"}}
    body = order(amount=100, lineItems=[{"productId": "cafe", "quantity": 1, "unitPrice": 100}])
    refused = await merchant.create(body | receiver)
    assert refused.status_code == 400
    assert [each["field"] for each in refused.json()["errors"]] == [
        f"lineItems[0].{field}" for field in ("productKey", "unitKey", "taxes[1].rate")
    ]
    assert (await merchant.create(body)).status_code == 201


async def test_a_line_with_taxes_of_its_own_does_not_take_whether_the_price_contains_the_products(merchant: Merchant):
    await imported(merchant, coffee(**FISCAL))
    taxed, untaxed, partly = await lines_of(
        merchant,
        {"productId": "cafe", "quantity": 1, "unitPrice": 100, "taxes": [IEPS]},
        {"productId": "cafe", "quantity": 1, "unitPrice": 100, "taxes": []},
        {"productId": "cafe", "quantity": 1, "unitPrice": 100, "taxIncluded": True, "description": "Grano"},
    )
    assert (taxed["taxes"], taxed["taxIncluded"]) == ([IEPS], True)
    assert (untaxed.get("taxes", []), untaxed["taxIncluded"]) == ([], True)
    assert (partly["taxes"], partly["taxIncluded"]) == ([IVA], True)
    assert (partly["name"], partly["description"]) == ("Café de altura", "Grano")


async def test_the_order_keeps_the_product_as_it_was(merchant: Merchant):
    await imported(merchant, coffee(**FISCAL))
    body = order(externalId="o-1", amount=100, lineItems=[{"productId": "cafe", "quantity": 1, "unitPrice": 100}])
    created = (await merchant.create(body)).json()
    await imported(merchant, {"id": "cafe", "name": "Nuevo", "taxes": None, "status": "archived"})
    again = await merchant.create(body)
    assert again.status_code == 200
    assert again.json()["lineItems"] == created["lineItems"]
    (line,) = await lines_of(merchant, {"productId": "cafe", "quantity": 1, "unitPrice": 1}, external_id="o-2")
    assert (line["name"], line.get("taxes", [])) == ("Nuevo", [])


async def test_an_unknown_or_foreign_product_is_accepted_and_gives_nothing(store: Storefront, merchant: Merchant):
    other = await store.register()
    await imported(other, coffee(**FISCAL))
    for product_id in ("cafe", "unknown", "\u0000"):
        line = {"productId": product_id, "quantity": 1, "unitPrice": 100}
        nameless = await merchant.create(order(externalId="o-1", amount=100, lineItems=[line]))
        assert nameless.status_code == 400
        assert "lineItems[0].description" in [each["field"] for each in nameless.json()["errors"]]
    (kept,) = await lines_of(merchant, line | {"productId": "cafe", "name": "Mío"})
    assert kept == {
        "productId": "cafe",
        "name": "Mío",
        "description": "Mío",
        "quantity": 1,
        "unitPrice": 100,
        "taxIncluded": True,
    }


async def test_only_an_order_with_products_reads_them(merchant: Merchant, monkeypatch: pytest.MonkeyPatch):
    await imported(merchant, coffee())
    asked, read = list[str](), Queries.product

    async def recorded(queries: Queries, merchant_id: UUID, product_id: str) -> bytes | None:
        asked.append(product_id)
        return await read(queries, merchant_id, product_id)

    monkeypatch.setattr(Queries, "product", recorded)
    plain = {"name": "Mío", "quantity": 1, "unitPrice": 100}
    await lines_of(merchant, plain)
    assert asked == []
    await lines_of(merchant, *[plain | {"productId": "cafe"}] * 3, plain | {"productId": "b"}, external_id="o-2")
    assert sorted(asked) == ["b", "cafe"]
