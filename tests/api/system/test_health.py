"""Readiness: 200 only where an order can be created."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.api.storefront import Storefront

from api.system import readiness
from ledger.journal.commit.disk_probe import DiskProbe
from ledger.journal.encryption.data_keys import DataKeys
from ledger.journal.journal import Journal
from ledger.operations.context.clock import MerchantClocks
from ledger.operations.context.order_numbers import OrderNumbers
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.telemetry import all_processes

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("reacted")]


@pytest.mark.parametrize(
    ("part", "attribute", "value", "check"),
    [
        (CallExecutor, "alive", False, "processor"),
        (DataKeys, "alive", False, "writer"),
        (MerchantClocks, "alive", False, "database"),
        (Journal, "held_up_s", 2.1, "commits"),
    ],
)
async def test_a_process_without_a_part_that_orders_need_is_not_ready(
    store: Storefront, monkeypatch: pytest.MonkeyPatch, part: type, attribute: str, value: object, check: str
) -> None:
    monkeypatch.setattr(part, attribute, value)
    answer = await store.client.get("/health/ready")
    assert (answer.status_code, answer.json()["status"]) == (503, "not ready")
    assert [name for name, passed in answer.json()["checks"].items() if not passed] == [check]


async def test_a_process_whose_database_has_no_room_is_not_ready_and_reports_why(
    store: Storefront, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        no_room = property(lambda _: "DiskFull", lambda *_: None)  # the probe goes on meanwhile, and finds room
        full.setattr(DiskProbe, "refusal", no_room, raising=False)
        answer = await store.client.get("/health/ready")
    assert answer.status_code == 503
    assert [name for name, passed in answer.json()["checks"].items() if not passed] == ["disk"]
    assert answer.json()["reason"] == "the database has no room to write: make room on its disk"
    answer = await store.client.get("/health/ready")
    assert (answer.status_code, answer.json()["reason"]) == (200, "")


async def test_a_process_without_order_numbers_is_not_ready(store: Storefront, monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(_: OrderNumbers) -> None:
        raise DatabaseUnavailable("a test")

    with monkeypatch.context() as without:
        without.setattr(OrderNumbers, "provide", none)
        answer = await store.client.get("/health/ready")
    assert answer.status_code == 503
    assert [name for name, passed in answer.json()["checks"].items() if not passed] == ["orderNumbers"]
    assert (await store.client.get("/health/ready")).status_code == 200


async def test_a_process_whose_service_lacks_another_process_is_not_ready(
    store: Storefront, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(readiness, "all_ready", partial(all_processes.all_ready, str(tmp_path)))
    answer = await store.client.get("/health/ready")
    assert answer.status_code == 503
    assert [name for name, passed in answer.json()["checks"].items() if not passed] == ["processes"]
    assert all_processes.report(tmp_path, all_ready=True)
    assert (await store.client.get("/health/ready")).status_code == 200
    assert all_processes.report(tmp_path, all_ready=False)
    assert (await store.client.get("/health/ready")).status_code == 503
