"""The health of a merchant's accounts: an account that does not answer is asked after those that do."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.bodies import paid_order
from tests.api.storefront import Merchant

pytestmark = pytest.mark.anyio

PATH = "/api/v1/processor-accounts"


async def pay(merchant: Merchant, n: int) -> tuple[int, Any]:
    answer = await merchant.create(paid_order(externalId=f"order-{n}"))
    return answer.status_code, answer.json()


async def states(merchant: Merchant) -> dict[str, dict[str, str]]:
    data = (await merchant.get(PATH)).json()["data"]
    return {each["name"]: {method["method"]: method["state"] for method in each["health"]} for each in data}


async def test_an_account_that_does_not_answer_is_asked_last(merchant: Merchant):
    down = {"mode": "DOWN"}
    assert (await merchant.post("/api/sandbox/processor", down)).status_code == 200
    for n in range(5):
        status, _ = await pay(merchant, n)
        assert status == 503
    assert (await states(merchant))["sandbox"]["CARD"] == "OPEN"
    status, _ = await pay(merchant, 5)
    assert status == 503, "without another account it is tried all the same"
    assert (await merchant.put(f"{PATH}/second", {"processor": "sandbox"})).status_code == 201
    shown = await states(merchant)
    assert (shown["sandbox"]["CARD"], shown["sandbox"]["SPEI"], shown["second"]["CARD"]) == ("OPEN", "CLOSED", "CLOSED")
    status, paid = await pay(merchant, 6)
    assert (status, paid["payment"]["processorAccount"]) == (201, "second")
    await merchant.post("/api/sandbox/processor", {"mode": "OK"})
    await merchant.delete(f"{PATH}/second")
    status, paid = await pay(merchant, 7)
    assert (status, paid["payment"]["processorAccount"]) == (201, "sandbox")
    assert (await states(merchant))["sandbox"]["CARD"] == "CLOSED", "any answer closes it"
