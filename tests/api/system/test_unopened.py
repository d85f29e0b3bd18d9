"""A record that does not open, or whose data key does not: the answer, its count, and what readiness reports."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import psycopg
import pytest
from tests.api.bodies import charge, order
from tests.api.storefront import ORDERS, opened
from tests.metric_values import metric_value

from ledger.settings import Settings
from ledger.telemetry import unopened

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("change", "holder", "reason"),
    [
        ("update data_key set sealing_key_id = 'feedfeedfeedfeed' where merchant_id = %s", "customer", "missing"),
        (
            "update data_key set wrapped = set_byte(wrapped, 20, 255 - get_byte(wrapped, 20)) where merchant_id = %s",
            "customer",
            "broken",
        ),
        (
            """update event set data = overlay(data placing 'B'::bytea from 12 for 1)
                where position('{"sealed":'::bytea in data) = 1 and merchant_id = %s""",
            "event",
            "broken",
        ),
    ],
)
async def test_a_record_that_cannot_be_opened_is_503_and_reported(
    settings: Settings, change: str, holder: str, reason: str
) -> None:
    assert settings.database_url is not None
    async with opened(settings) as store:
        merchant = await store.register()
        made = (await merchant.create(order())).json()
        assert (await store.client.get("/health/ready")).json().get("warning") is not None
    with psycopg.connect(settings.database_url, autocommit=True) as operator:
        assert operator.execute(change, [merchant.merchant_id]).rowcount > 0  # type: ignore[arg-type]
    before = metric_value("ledger_records_unopened_total", holder, reason) or 0
    async with opened(settings) as store:
        merchant = msgspec.structs.replace(merchant, client=store.client)
        answer = await merchant.post(f"{ORDERS}/{made['id']}/charge", charge())
        assert (answer.status_code, answer.json()["code"]) == (503, "DATA_KEY_UNAVAILABLE"), answer.text
        assert answer.headers["retry-after"] == "1"
        assert "a sealed record could not be opened" in (await store.client.get("/health/ready")).json()["warning"]
        other = await store.register()
        assert (await other.create(order())).status_code == 201
    assert (metric_value("ledger_records_unopened_total", holder, reason) or 0) > before


async def test_a_request_whose_answer_could_not_be_given_is_not_carried_out(settings: Settings) -> None:
    assert settings.database_url is not None
    async with opened(settings) as store:
        merchant = await store.register()
        made = (await merchant.create(order(billingAddress=None))).json()
    key = "update data_key set sealing_key_id = %s where merchant_id = %s returning sealing_key_id"
    with psycopg.connect(settings.database_url, autocommit=True) as operator:
        ((kept,),) = operator.execute(
            "select sealing_key_id from data_key where merchant_id = %s", [merchant.merchant_id]
        )
        operator.execute(key, ["feedfeedfeedfeed", merchant.merchant_id])
        async with opened(settings) as store:
            merchant = msgspec.structs.replace(merchant, client=store.client)
            answer = await merchant.post(f"{ORDERS}/{made['id']}/cancel", {})
            assert (answer.status_code, answer.json()["code"]) == (503, "DATA_KEY_UNAVAILABLE"), answer.text
            assert (await merchant.get(f"{ORDERS}/{made['id']}")).json()["status"] == "PENDING", "nothing is half done"
        operator.execute(key, [kept, merchant.merchant_id])
    async with opened(settings) as store:
        merchant = msgspec.structs.replace(merchant, client=store.client)
        cancelled = await merchant.post(f"{ORDERS}/{made['id']}/cancel", {})
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "CANCELLED"), cancelled.text


def test_every_process_reports_what_another_one_could_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = str(tmp_path)
    unopened.note_unopened("webhook endpoint", "missing", shared)
    monkeypatch.setattr(unopened, "_last", float("-inf"))  # as in the other processes
    assert unopened.is_recent(shared)
    assert not unopened.is_recent(None)
    [file] = tmp_path.iterdir()
    earlier = time.time() - unopened.RECENT_S - 1
    os.utime(file, (earlier, earlier))
    assert not unopened.is_recent(shared)
    file.unlink()
    assert not unopened.is_recent(shared)
