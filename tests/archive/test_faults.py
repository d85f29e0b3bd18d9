"""A store that fails, or is another one than the services', costs the archived events and nothing else."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from structlog.testing import capture_logs
from tests.api.bodies import paid_order
from tests.api.log.test_log import url_of
from tests.api.storefront import ORDERS, Storefront
from tests.archive.shops import archived, computed, count, files_of, fill_tile, orders_of, sold
from tests.tlog.logs import execute

from ledger import doctor
from ledger.backup import event_archiving
from ledger.journal import event_archive
from ledger.operations.erasure import erase_customer
from ledger.postgres.connection import connect
from ledger.settings import CannotRun
from ledger.write_once_store import WriteOnceStore

pytestmark = pytest.mark.anyio

SERVICE = """
insert into service_process (process_id, host, role, release, files, clock_ahead_s, started_at, seen_at)
values (gen_random_uuid(), 'app2', 'api', %s, %s, 0, now(), now())
"""
GONE = "delete from service_process where host = 'app2'"


async def test_an_event_that_comes_while_a_stream_is_archived_is_left_for_a_later_run(
    store: Storefront, monkeypatch: pytest.MonkeyPatch
):
    """No checkpoint has it yet: it is neither moved, nor taken for a change of the log."""
    merchant = await sold(store)
    order_id, _ = orders_of(store, merchant)[-1]
    monkeypatch.setattr(event_archiving, "_STREAMS_AT_ONCE", 1)
    monkeypatch.setattr(event_archiving, "_FILE_BYTES", 1)
    move, is_refunded = event_archiving._Log._move, False

    async def slow(*arguments: Any) -> Any:
        nonlocal is_refunded
        if not is_refunded:
            is_refunded = True
            assert (await merchant.post(f"{ORDERS}/{order_id}/refund", {"amount": 100})).status_code == 200
        return await move(*arguments)

    monkeypatch.setattr(event_archiving._Log, "_move", slow)
    moved = await archived(store, merchant)
    assert moved.events == count(store, merchant) > 6
    newest = "select octet_length(data) > 72 from event where merchant_id = %s and stream_id = %s order by version"
    *_, (is_content,) = execute(url_of(store.settings), newest, merchant.merchant_id, order_id)
    assert is_content
    assert (await computed(store.settings, merchant.merchant_id))["clean"]


async def test_nothing_goes_where_a_service_does_not_read(store: Storefront, monkeypatch: pytest.MonkeyPatch):
    merchant = await sold(store)
    url, release = url_of(store.settings), event_archiving.version("payment-ledger")
    execute(url, SERVICE, release, "s3://bucket/tax")
    try:
        with pytest.raises(CannotRun, match=r"the api on app2 reads files from s3://bucket/tax, and .* file:///"):
            await archived(store, merchant)
        assert count(store, merchant) == 0
        execute(url, "update service_process set files = '' where host = 'app2'")  # it may read from this folder
        monkeypatch.setattr(event_archiving, "files_place", lambda _: "s3://bucket/tax")
        with pytest.raises(CannotRun, match="reads files from its data directory"):
            await archived(store, merchant)
    finally:
        execute(url, GONE)


async def test_a_service_of_an_earlier_release_that_starts_meanwhile_ends_the_run(
    store: Storefront, monkeypatch: pytest.MonkeyPatch
):
    merchant = await sold(store)
    url = url_of(store.settings)
    monkeypatch.setattr(event_archiving, "_STREAMS_AT_ONCE", 1)
    monkeypatch.setattr(event_archiving, "_FILE_BYTES", 1)
    move = event_archiving._Log._move

    async def meanwhile(*arguments: Any) -> Any:
        execute(url, SERVICE, "0.0.1", "")
        return await move(*arguments)

    monkeypatch.setattr(event_archiving._Log, "_move", meanwhile)
    try:
        with pytest.raises(CannotRun, match=r"the api on app2 is of release 0\.0\.1"):
            await archived(store, merchant)
        assert len(files_of(store, merchant)) == 1
    finally:
        execute(url, GONE)


async def test_a_file_that_a_crash_has_cut_off_is_written_again(store: Storefront, monkeypatch: pytest.MonkeyPatch):
    merchant = await sold(store)
    create = WriteOnceStore.create

    async def cut_off(self: WriteOnceStore, key: str, content: bytes) -> bool:
        return await create(self, key, content[:100])

    with monkeypatch.context() as patched:
        patched.setattr(WriteOnceStore, "create", cut_off)
        with pytest.raises(CannotRun, match="is not read as it was written"):
            await archived(store, merchant)
    moved = await archived(store, merchant)
    assert moved.events == count(store, merchant) > 6
    assert (await computed(store.settings, merchant.merchant_id))["clean"]


async def test_nothing_is_moved_into_a_file_that_the_disk_does_not_keep(
    store: Storefront, monkeypatch: pytest.MonkeyPatch
):
    merchant = await sold(store)
    sync = os.fsync

    def broken(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(5, "Input/output error")
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        with pytest.raises(event_archive.ArchiveUnavailable, match="can be written"):
            await archived(store, merchant)
    assert count(store, merchant) == 0
    (file,) = files_of(store, merchant)
    lost = file.stat().st_ino
    await archived(store, merchant)
    assert count(store, merchant) > 0
    assert file.stat().st_ino != lost, "a second flush reports no fault of the first one"


async def test_a_silent_store_delays_only_what_is_archived(store: Storefront, monkeypatch: pytest.MonkeyPatch):
    merchant = await sold(store)
    await archived(store, merchant)
    other = await sold(store, orders=1)
    (old, _), (new, _) = orders_of(store, merchant)[0], orders_of(store, other)[0]
    asked, answers, read, times = asyncio.Event(), threading.Event(), WriteOnceStore.read_parts, 0
    loop = asyncio.get_running_loop()

    def silent(*arguments: Any) -> Any:
        nonlocal times
        times += 1
        loop.call_soon_threadsafe(asked.set)
        answers.wait(60)
        return read(*arguments)

    monkeypatch.setattr(WriteOnceStore, "read_parts", silent)
    monkeypatch.setattr(event_archive.EventArchive, "answer_max_s", 60.0)
    try:
        late = asyncio.create_task(merchant.post(f"{ORDERS}/{old}/refund", {"amount": 100}))
        async with asyncio.timeout(30):
            await asked.wait()
            monkeypatch.setattr(event_archive.EventArchive, "answer_max_s", 0.05)
            assert (await other.post(f"{ORDERS}/{new}/refund", {"amount": 100})).status_code == 200
            assert not late.done(), "it is still read"
            with capture_logs() as logs:
                for _ in range(3):
                    answer = await merchant.get(f"{ORDERS}/{old}/events")
                    assert (answer.status_code, answer.json()["code"]) == (503, "FILE_MISSING")
        assert times == 2, "a silent store is not asked again for a while"
        assert all("does not answer" in line["reason"] for line in logs if line["event"] == "archive_unavailable")
    finally:
        answers.set()
    assert (await late).status_code == 200


async def test_a_lost_file_keeps_no_other_order_from_an_erasure(store: Storefront, monkeypatch: pytest.MonkeyPatch):
    merchant = await store.register()
    customer = {"externalId": "eva", "firstName": "Evangelina", "email": "eva@example.com"}
    address = {"address": "Insurgentes 1", "city": "Puebla", "country": "MX"}
    body = {"customer": customer, "billingAddress": address}
    assert (await merchant.create(paid_order(externalId="old", **body))).status_code == 201
    await fill_tile(store, merchant)
    await archived(store, merchant)
    assert (await merchant.create(paid_order(externalId="new", **body))).status_code == 201
    (file,) = files_of(store, merchant)
    content = file.read_bytes()
    file.unlink()
    monkeypatch.setattr(erase_customer, "_AT_ONCE", 1)
    assert "Insurgentes" in (await merchant.get(f"{ORDERS}/new")).text
    assert (await merchant.delete("/api/customers/eva")).status_code in (200, 204)
    assert "Insurgentes" not in (await merchant.get(f"{ORDERS}/new")).text
    file.write_bytes(content)


async def test_the_doctor_finds_a_store_to_which_nothing_was_archived(store: Storefront, tmp_path: Path):
    merchant = await sold(store)
    url = url_of(store.settings)
    await archived(store, merchant)
    async with await connect(url, "doctor") as connection:
        found = await doctor._newest_archived(connection, store.settings)
        assert found is not None
        assert found.state == "ok"
        other = await doctor._newest_archived(connection, structs.replace(store.settings, data_dir=tmp_path))
        assert other is not None
        assert (other.state, str(tmp_path) in other.text) == ("fail", True)
        assert "is missing, in file:///" in other.text
        await connection.execute("create temporary table archived_file (like archived_file)")
        assert await doctor._newest_archived(connection, store.settings) is None


async def test_the_doctor_may_read_files_for_longer_than_a_session_may_be_idle(
    store: Storefront, monkeypatch: pytest.MonkeyPatch
):
    merchant = await sold(store)
    await archived(store, merchant)
    read = WriteOnceStore.read

    async def slow(self: WriteOnceStore, key: str) -> bytes | None:
        await asyncio.sleep(0.2)
        return await read(self, key)

    monkeypatch.setattr(WriteOnceStore, "read", slow)
    async with await connect(url_of(store.settings), "doctor") as connection:
        await connection.execute("set idle_in_transaction_session_timeout = '50ms'")
        assert (await doctor._archived(connection, store.settings)).state == "ok"
