"""The merchant setting `fractionalAmounts`: false refuses amounts with a fraction of a centavo, on every operation."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.bodies import charge, order, paid_order
from tests.api.sandbox.test_deposits import clabe, waiting
from tests.api.sandbox.test_reports import paid
from tests.api.storefront import ORDERS, Merchant, Storefront

pytestmark = pytest.mark.anyio

HINT = "must have no fraction; amounts are in centavos: did you mean 15075?"


@pytest.fixture
async def careful(store: Storefront) -> Merchant:
    return await store.register(fractional_amounts=False)


async def refused(merchant: Merchant, path: str, body: dict[str, Any], *fields: str) -> list[str]:
    answer = await merchant.post(path, body)
    errors = answer.json()["errors"]
    assert (answer.status_code, [error["field"] for error in errors]) == (400, list(fields or ("amount",))), answer.text
    return [error["message"] for error in errors]


async def test_every_operation_refuses_a_fraction_and_names_what_was_meant(careful: Merchant):
    assert await refused(careful, ORDERS, order(amount=150.75)) == [HINT]
    said = await paid(careful)
    mine = f"{ORDERS}/{said['id']}"
    allocations = [{"paymentId": said["payment"]["id"], "amount": 150.75}]
    body = {"amount": 150.75, "allocations": allocations}
    assert await refused(careful, f"{mine}/refund", body, "amount", "allocations[0].amount") == [HINT, HINT]
    dispute = {"paymentId": said["payment"]["id"], "outcome": "OPENED", "amount": 150.75}
    assert await refused(careful, "/api/sandbox/disputes", dispute) == [HINT]
    split = (await careful.create(order(externalId="split", allowPartials=True))).json()["id"]
    for action in ("charge", "payments"):
        assert await refused(careful, f"{ORDERS}/{split}/{action}", charge(amount=150.75)) == [HINT]
    held = (await careful.create(paid_order(externalId="held", captureMethod="MANUAL"))).json()["id"]
    assert await refused(careful, f"{ORDERS}/{held}/capture", {"amount": 150.75}) == [HINT]
    transfer = await waiting(careful, externalId="transfer")
    deposit = {"clabe": clabe(transfer), "amount": 150.75}
    assert await refused(careful, "/api/sandbox/deposits", deposit) == [HINT]
    finer = await refused(careful, ORDERS, order(externalId="finer", amount=1.2345))
    assert finer == ["must have no fraction; amounts are in centavos"]
    assert (await careful.get(mine)).json()["amountRefunded"] == 0


async def test_whole_amounts_pass_and_fractions_do_by_default(careful: Merchant, merchant: Merchant):
    assert (await careful.create(order(amount=15075))).status_code == 201
    assert (await careful.create(order(externalId="zero", amount=15075.00))).status_code == 201
    assert (await merchant.create(order(amount=150.75))).json()["amount"] == 150.75
