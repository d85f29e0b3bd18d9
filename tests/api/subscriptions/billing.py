"""Plans and subscriptions as a merchant's program sends them, and the requests about them."""

from __future__ import annotations

from typing import Any

from tests.api.bodies import by_card, card, paid_order
from tests.api.storefront import Merchant

PLANS = "/api/v1/plans"
SUBSCRIPTIONS = "/api/v1/subscriptions"
INVOICES = "/api/v1/subscription-invoices"

DECLINED_WHEN_SAVED = "4000000000000341"


def monthly(**changes: Any) -> dict[str, Any]:
    return {"name": "Café del mes", "amount": "38900", "currency": "MXN", "interval": "MONTH", **changes}


async def planned(merchant: Merchant, **changes: Any) -> dict[str, Any]:
    """Returns a new plan."""
    return await made(merchant, PLANS, monthly(**changes))


async def saved(merchant: Merchant, customer: str, number: str = "4242424242424242") -> str:
    """Returns the id of a card that a new order of this customer has saved."""
    method = by_card(cardDetails=card(number=number), persist=True)
    body = paid_order(externalId=f"{customer}-{number[-4:]}", customer={"externalId": customer}, paymentMethod=method)
    paid = await made(merchant, "/api/v2/payment-orders", body)
    method_id: str = paid["payment"]["paymentMethodId"]
    return method_id


async def subscribed(merchant: Merchant, customer: str = "ana", **changes: Any) -> dict[str, Any]:
    """Returns a new subscription: of a customer with a new card to a new plan, unless others are given."""
    body: dict[str, Any] = {"customerId": customer, **changes}
    if "paymentMethodId" not in body:
        body["paymentMethodId"] = await saved(merchant, customer)
    if "planId" not in body:
        body["planId"] = (await planned(merchant))["id"]
    return await made(merchant, SUBSCRIPTIONS, body)


async def made(merchant: Merchant, path: str, body: Any) -> dict[str, Any]:
    """Returns what a POST answers that creates or changes something."""
    answer = await merchant.post(path, body)
    assert answer.status_code in (200, 201), answer.text
    content: dict[str, Any] = answer.json()
    return content


async def shown(merchant: Merchant, path: str) -> dict[str, Any]:
    """Returns what a read answers."""
    answer = await merchant.get(path)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body
