"""Plans as a merchant's program sends them, and the requests about them."""

from __future__ import annotations

from typing import Any

from tests.api.storefront import Merchant

PLANS = "/api/v1/plans"


def monthly(**changes: Any) -> dict[str, Any]:
    return {"name": "Café del mes", "amount": "38900", "currency": "MXN", "interval": "MONTH", **changes}


async def planned(merchant: Merchant, **changes: Any) -> dict[str, Any]:
    """Returns a new plan."""
    answer = await merchant.post(PLANS, monthly(**changes))
    assert answer.status_code == 201, answer.text
    plan: dict[str, Any] = answer.json()
    return plan


async def shown(merchant: Merchant, path: str) -> dict[str, Any]:
    """Returns what a read answers."""
    answer = await merchant.get(path)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body
