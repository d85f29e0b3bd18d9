"""The sandbox's helpers name every wrong field of a request at once, and then do nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.storefront import Merchant

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("helper", "body", "fields"),
    [
        ("clock", {"advanceBy": "soon", "advanceTo": 7}, {"advanceBy", "advanceTo"}),
        ("clock", {"advanceBy": "PT1H", "advanceTo": "2090-01-01"}, {"advanceTo"}),
        ("clock", {"advance_by": "PT1H"}, {"advance_by"}),
        ("deposits", {"clabe": 1, "reference": "1-2", "amount": "5", "messageId": ""},
         {"clabe", "reference", "amount", "messageId"}),
        ("deposits", {"clabe": "646180110400000008", "amount": 0}, {"clabe", "amount"}),
        ("disputes", {"outcome": "OPEN", "amount": -1}, {"outcome", "amount", "paymentId"}),
        ("settlements", {"stage": "ALL", "paymentIds": "x"}, {"stage", "paymentIds"}),
        ("processor", {"mode": "OFF", "times": 0}, {"mode", "times"}),
        ("stamping", {"mode": "OFF", "times": 0}, {"mode", "times"}),
    ],
)  # fmt: skip
async def test_every_wrong_field_is_named(merchant: Merchant, helper: str, body: dict[str, Any], fields: set[str]):
    answer = await merchant.post(f"/api/sandbox/{helper}", body)
    assert answer.status_code == 400
    assert fields <= {each["field"] for each in answer.json()["errors"]}
