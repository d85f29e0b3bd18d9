"""The worked examples of the contract's section 4.4 over HTTP, exact to the minor unit."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from tests.api.bodies import charge, order
from tests.api.storefront import ORDERS, Merchant, Storefront

pytestmark = pytest.mark.anyio

SUMS = ("surchargeAmount", "amount", "amountPaid", "amountRefunded", "amountPending", "status")


async def asked(merchant: Merchant, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await merchant.post(path, body)
    assert answer.status_code < 300, answer.text
    said: dict[str, Any] = answer.json()
    return said


def sums(said: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(said[name] for name in SUMS)


async def split(store: Storefront, amount: float, rate: str) -> tuple[Merchant, str]:
    merchant = await store.register(surcharge_rate=Decimal(rate))
    said = await asked(merchant, ORDERS, order(amount=amount, allowPartials=True))
    return merchant, f"{ORDERS}/{said['id']}"


async def test_card_and_transfer_with_three_percent_and_what_goes_back(store: Storefront) -> None:
    merchant, path = await split(store, 10_000, "3")
    said = await asked(merchant, f"{path}/payments", charge(amount=4000))
    card = said["payment"]["id"]
    assert (said["payment"]["amount"], said["payment"]["surchargeAmount"]) == ("4120", "120")
    assert sums(said) == (120, 10_120, 4_120, 0, 6_000, "PARTIALLY_PAID")
    said = await asked(merchant, f"{path}/payments", {"paymentMethod": {"type": "spei"}})
    assert sums(said) == (120, 10_120, 4_120, 0, 6_000, "PARTIALLY_PAID")
    clabe = said["payment"]["speiDetails"]["clabe"]
    said = (await asked(merchant, "/api/sandbox/deposits", {"clabe": clabe, "amount": 6000}))["paymentOrder"]
    assert sums(said) == (120, 10_120, 10_120, 0, 0, "COMPLETED")
    said = await asked(merchant, f"{path}/refund", {"amount": 1000, "reason": "Taza rota", "paymentId": card})
    assert parts(said["refund"]) == (971, 29)
    assert sums(said) == (91, 10_091, 10_120, 1_000, 971, "PARTIALLY_PAID")
    said = await asked(merchant, f"{path}/refund", {"amount": 3120, "reason": "Todo", "paymentId": card})
    assert parts(said["refund"]) == (3029, 91)
    assert sums(said) == (0, 10_000, 10_120, 4_120, 4_000, "PARTIALLY_PAID")


@pytest.mark.parametrize(
    ("amount", "rate", "gross", "refunds"),
    [
        (333, "3.5", "345", [(100, 97, 3), (100, 96, 4), (145, 140, 5)]),
        (150.75, "3.5", "156.03", [(78.01, 75.37, 2.64), (78.02, 75.38, 2.64)]),
    ],
)
async def test_any_series_of_refunds_ends_at_exactly_the_parts(
    store: Storefront, amount: float, rate: str, gross: str, refunds: list[tuple[float, float, float]]
) -> None:
    merchant, path = await split(store, amount, rate)
    said = await asked(merchant, f"{path}/payments", charge())
    assert (said["payment"]["amount"], said["status"], said["amountPending"]) == (gross, "COMPLETED", 0)
    for whole, subtotal, surcharge in refunds:
        said = await asked(merchant, f"{path}/refund", {"amount": whole, "reason": "Parte"})
        assert parts(said["refund"]) == (subtotal, surcharge)
    assert (said["surchargeAmount"], said["amount"], said["amountPending"]) == (0, amount, amount)
    assert said["payments"][0]["status"] == "REFUNDED"


async def test_to_pay_the_rest_a_merchant_sends_what_is_pending(store: Storefront) -> None:
    merchant, path = await split(store, 10_000, "3.5")
    pending = 10_000
    for amount in (3_333, 1, 4_999):
        said = await asked(merchant, f"{path}/payments", charge(amount=amount))
        pending -= amount
        assert said["amountPending"] == pending
    said = await asked(merchant, f"{path}/payments", charge(amount=said["amountPending"]))
    assert (said["amountPending"], said["status"]) == (0, "COMPLETED")
    assert said["amount"] == said["amountPaid"] == 10_000 + said["surchargeAmount"]


def parts(refund: dict[str, Any]) -> tuple[Any, Any]:
    return refund["subtotalAmount"], refund["surchargeAmount"]
