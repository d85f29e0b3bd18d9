"""Readiness: 200 only where an order can be created."""

from __future__ import annotations

import pytest
from tests.api.storefront import Storefront

from ledger.journal.encryption.data_keys import DataKeys
from ledger.operations.clock import MerchantClocks
from ledger.operations.order_numbers import OrderNumbers
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.sandbox.charge_writer import ChargeWriter

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("reacted")]


@pytest.mark.parametrize(
    ("part", "check"), [(ChargeWriter, "processor"), (DataKeys, "writer"), (MerchantClocks, "database")]
)
async def test_a_process_without_a_part_that_orders_need_is_not_ready(
    store: Storefront, monkeypatch: pytest.MonkeyPatch, part: type, check: str
) -> None:
    monkeypatch.setattr(part, "alive", False)
    answer = await store.client.get("/health/ready")
    assert (answer.status_code, answer.json()["status"]) == (503, "not ready")
    assert [name for name, passed in answer.json()["checks"].items() if not passed] == [check]


async def test_a_process_without_order_numbers_is_not_ready(store: Storefront, monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(_: OrderNumbers) -> None:
        raise DatabaseUnavailable("a test")

    with monkeypatch.context() as without:
        without.setattr(OrderNumbers, "provide", none)
        answer = await store.client.get("/health/ready")
    assert answer.status_code == 503
    assert [name for name, passed in answer.json()["checks"].items() if not passed] == ["orderNumbers"]
    assert (await store.client.get("/health/ready")).status_code == 200
