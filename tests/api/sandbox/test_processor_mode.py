"""The sandbox's processor, set to fail or to be slow for one merchant alone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.bodies import encoded, field_of, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront

from api.sandbox.processor_mode import _decode

pytestmark = pytest.mark.anyio

MODE = "/api/sandbox/processor"


async def test_a_processor_that_is_down_for_one_call_is_up_for_the_next(store: Storefront, merchant: Merchant):
    other = await store.register()
    said = await merchant.post(MODE, {"mode": "DOWN", "times": 1})
    assert (said.status_code, said.json()) == (200, {"mode": "DOWN", "times": 1})
    refused = await merchant.create(paid_order())
    assert (refused.status_code, refused.json()["code"]) == (503, "PROCESSOR_UNAVAILABLE")
    assert (await other.create(paid_order())).status_code == 201
    left = (await merchant.get(f"{ORDERS}/{refused.json()['id']}")).json()
    assert {name: refused.json()[name] for name in ("id", "externalId", "status")} == {
        "id": left["id"],
        "externalId": left["externalId"],
        "status": "FAILED",
    }, "the refusal names the order that the attempt has left"
    assert left["status"] == "FAILED"
    again = await merchant.create(paid_order())
    assert (again.status_code, again.json()["id"]) == (201, left["id"])


async def test_a_processor_stays_down_until_it_is_set_otherwise(merchant: Merchant):
    assert (await merchant.post(MODE, {"mode": "DOWN"})).json() == {"mode": "DOWN", "times": None}
    for _ in range(2):
        assert (await merchant.create(paid_order())).status_code == 503
    await merchant.post(MODE, {"mode": "OK"})
    assert (await merchant.create(paid_order())).status_code == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "mode"),
        ({"mode": "OFF"}, "mode"),
        ({"mode": None}, "mode"),
        ({"mode": "DOWN", "times": 0}, "times"),
        ({"mode": "DOWN", "times": -1}, "times"),
        ({"mode": "DOWN", "times": 1.5}, "times"),
        ({"mode": "DOWN", "times": True}, "times"),
        ({"mode": "DOWN", "times": 10**30}, "times"),
        (b"[]", "body"),
    ],
)
def test_an_invalid_mode_is_refused(body: Any, field: str):
    def read(sent: Any) -> None:
        _, errors = _decode.gather(sent if isinstance(sent, bytes) else encoded(sent))
        errors.refuse()

    assert field_of(body, read) == field
