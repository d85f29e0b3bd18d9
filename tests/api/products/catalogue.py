"""Products as a merchant's program sends them, and the requests about them."""

from __future__ import annotations

from typing import Any

import httpx
from tests.api.storefront import Merchant

PRODUCTS = "/lps/products"
IMPORT = f"{PRODUCTS}/bulk-import"


def coffee(**changes: Any) -> dict[str, Any]:
    return {"id": "cafe", "name": "Café de altura", "price": 38900, **changes}


async def send(merchant: Merchant, *products: Any, **headers: str) -> httpx.Response:
    return await merchant.post(IMPORT, {"products": list(products)}, **headers)


async def imported(merchant: Merchant, *products: Any) -> dict[str, Any]:
    """Returns what an import that is answered 200 reports."""
    answer = await send(merchant, *products)
    assert answer.status_code == 200, answer.text
    report: dict[str, Any] = answer.json()
    return report


async def problems(merchant: Merchant, *products: Any) -> list[tuple[int, str | None, str]]:
    """Returns the place, the field and the code of each problem of an import."""
    errors = (await imported(merchant, *products))["errors"]
    return [(error["index"], error["field"], error["code"]) for error in errors]


async def product(merchant: Merchant, product_id: str) -> dict[str, Any]:
    answer = await merchant.get(f"{PRODUCTS}/{product_id}")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


async def listed(merchant: Merchant, query: str = "") -> dict[str, Any]:
    answer = await merchant.get(f"{PRODUCTS}{query}")
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page
