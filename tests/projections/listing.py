"""Reads the list of orders, and what tests compare of it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tests.domain.builders import NOON
from tests.projections.shop import Shop

from projections.lists.pages import OrderQuery
from projections.queries import Queries


async def page(reader: Queries, shop: Shop, now: datetime = NOON, **query: Any) -> dict[str, Any]:
    """Returns one page of the shop's orders, decoded. `now` decides which orders are overdue."""
    return json.loads(await reader.orders(shop.merchant_id, OrderQuery(**query), now))  # type: ignore[no-any-return]


def ids(listed: dict[str, Any]) -> list[str]:
    return [order["id"] for order in listed["data"]]


async def total(reader: Queries, shop: Shop, search: str, **query: Any) -> int:
    """Returns the total of a search."""
    found: int = (await page(reader, shop, search=search, **query))["pagination"]["total"]
    return found
