"""A customer whose data key does not open: the answer, its count, and what readiness reports."""

from __future__ import annotations

import msgspec
import psycopg
import pytest
from tests.api.bodies import charge, order
from tests.api.storefront import ORDERS, opened
from tests.metric_values import metric_value

from ledger.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("sealing_key_id = 'feedfeedfeedfeed'", "missing"),
        ("wrapped = set_byte(wrapped, 20, 255 - get_byte(wrapped, 20))", "broken"),
    ],
)
async def test_a_record_that_cannot_be_opened_is_503_and_reported(settings: Settings, change: str, reason: str) -> None:
    assert settings.database_url is not None
    async with opened(settings) as store:
        merchant = await store.register()
        made = (await merchant.create(order())).json()
        assert (await store.client.get("/health/ready")).json().get("warning") is not None
    with psycopg.connect(settings.database_url, autocommit=True) as operator:
        operator.execute(f"update data_key set {change} where merchant_id = %s", [merchant.merchant_id])  # type: ignore[arg-type]
    before = metric_value("ledger_records_unopened_total", "customer", reason) or 0
    async with opened(settings) as store:
        merchant = msgspec.structs.replace(merchant, client=store.client)
        answer = await merchant.post(f"{ORDERS}/{made['id']}/charge", charge())
        assert (answer.status_code, answer.json()["code"]) == (503, "DATA_KEY_UNAVAILABLE"), answer.text
        assert answer.headers["retry-after"] == "1"
        assert "a sealed record could not be opened" in (await store.client.get("/health/ready")).json()["warning"]
        other = await store.register()
        assert (await other.create(order())).status_code == 201
    assert (metric_value("ledger_records_unopened_total", "customer", reason) or 0) > before
