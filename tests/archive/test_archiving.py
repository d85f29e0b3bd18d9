"""Nothing leaves the table that was not compared, and nothing is answered but what was written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from eventsourcing.persistence import OperationalError
from tests.api.bodies import paid_order
from tests.api.log.test_log import seal, url_of
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.archive.shops import archived, computed, count, files_of, fill_tile, orders_of, sold, soon
from tests.edited_rows import edit_rows
from tests.tlog.logs import execute

from ledger import doctor
from ledger.audit.auditor import audit
from ledger.backup import event_archiving
from ledger.backup.event_archiving import archive_events, default_time
from ledger.doctor import Finding
from ledger.journal.event_archive import ArchiveUnavailable, EventArchive, reference_in
from ledger.postgres.connection import connect
from ledger.recorder.datastore import Store
from ledger.recorder.recorders import JournalApplicationRecorder
from ledger.settings import CannotRun
from ledger.tlog.store import ENTRY
from ledger.write_once_store import WriteOnceStore

pytestmark = pytest.mark.anyio


class Killed(Exception):
    """Stands for the end of the process."""


STEPS = {
    "before the file": (WriteOnceStore, "create", False),
    "after the file": (WriteOnceStore, "create", True),
    "after it is durable": (WriteOnceStore, "flush", True),
    "before it is read": (event_archiving._Log, "_require_readable", False),
    "after it is read": (event_archiving._Log, "_require_readable", True),
}


async def test_a_run_that_is_killed_anywhere_leaves_every_content(store: Storefront, monkeypatch: pytest.MonkeyPatch):
    merchant = await sold(store)
    whole = await computed(store.settings, merchant.merchant_id)
    for step, (place, name, is_after) in STEPS.items():
        work = getattr(place, name)

        async def ended(*arguments: Any, work: Any = work, is_after: bool = is_after) -> Any:
            if is_after:
                await work(*arguments)
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(place, name, ended)
            with pytest.raises(Killed):
                await archived(store, merchant)
        assert count(store, merchant) == 0, step
    kill = "select pg_terminate_backend(pg_backend_pid()), %s, %s, %s, %s, %s"
    for statement in ("_DETACH", "_RECORD"):
        with monkeypatch.context() as patched:
            patched.setattr(event_archiving, statement, kill)
            with pytest.raises(Exception, match=r"terminating|closed"):
                await archived(store, merchant)
        assert count(store, merchant) == 0, statement
    moved = await archived(store, merchant)
    assert moved.events == count(store, merchant) > 6
    assert len(files_of(store, merchant)) == 1, "what was left of the killed runs has the same name"
    assert (await archived(store, merchant)).events == 0
    assert await computed(store.settings, merchant.merchant_id) == whole


async def test_a_run_that_is_killed_behind_its_transaction_goes_on_behind_it(
    store: Storefront, monkeypatch: pytest.MonkeyPatch
):
    merchant = await sold(store)
    with monkeypatch.context() as patched:
        patched.setattr(event_archiving, "_ADVANCE", "select pg_terminate_backend(pg_backend_pid()), %s, %s")
        with pytest.raises(Exception, match=r"terminating|closed"):
            await archived(store, merchant)
    references = count(store, merchant)
    assert references > 6
    assert (await archived(store, merchant)).events == 0
    assert count(store, merchant) == references


EDITS = {
    "content": "update event set data = convert_to(replace(convert_from(data, 'UTF8'), '150000', '15'), 'UTF8')"
    " where merchant_id = %s and topic = 'order-created.v1'",
    "context": "update event set context = '{}' where merchant_id = %s and topic = 'payment-captured.v1'",
    "time": "update event set recorded_at = recorded_at + interval '1 us' where merchant_id = %s and topic = 'order-created.v1'",
    "tile": "update log_tile set hashes = sha256('a') || substring(hashes from 33) where merchant_id = %s",
}


@pytest.mark.parametrize("edit", EDITS)
async def test_what_was_changed_after_it_was_sealed_is_not_archived(edit: str, store: Storefront):
    merchant = await sold(store, orders=1)
    await edit_rows(url_of(store.settings), merchant.merchant_id, EDITS[edit], merchant.merchant_id)
    with pytest.raises(CannotRun, match="is not what was signed"):
        await archived(store, merchant)
    assert count(store, merchant) == 0
    assert files_of(store, merchant) == []


async def test_an_event_and_its_tile_that_were_changed_together_are_not_archived(store: Storefront):
    """The tile agrees with the event then; the checkpoint does not agree with the tile."""
    merchant = await sold(store)
    url, merchant_id = url_of(store.settings), merchant.merchant_id
    await edit_rows(url, merchant_id, EDITS["content"], merchant_id)
    await edit_rows(
        url,
        merchant_id,
        f"update log_tile t set hashes = (select string_agg(sha256('\\x00'::bytea || {ENTRY}), ''::bytea order by position)"
        " from event e where e.merchant_id = t.merchant_id and position <= 256) where merchant_id = %s",
        merchant_id,
    )
    with pytest.raises(CannotRun, match="is not what was signed"):
        await archived(store, merchant)
    assert count(store, merchant) == 0


async def test_a_store_that_does_not_keep_what_it_takes_moves_nothing(
    store: Storefront, monkeypatch: pytest.MonkeyPatch
):
    merchant = await sold(store)
    create = WriteOnceStore.create

    async def damaging(self: WriteOnceStore, key: str, content: bytes) -> bool:
        return await create(self, key, content.replace(b"150000", b"150001"))

    with monkeypatch.context() as patched:
        patched.setattr(WriteOnceStore, "create", damaging)
        with pytest.raises(CannotRun, match="is not read as it was written"):
            await archived(store, merchant)
    assert count(store, merchant) == 0


async def test_an_event_that_changes_meanwhile_is_kept(store: Storefront, monkeypatch: pytest.MonkeyPatch):
    merchant = await sold(store)
    check = event_archiving._Log._require_readable

    async def changed(*arguments: Any) -> None:
        await check(*arguments)
        await edit_rows(url_of(store.settings), merchant.merchant_id, EDITS["content"], merchant.merchant_id)

    monkeypatch.setattr(event_archiving._Log, "_require_readable", changed)
    with pytest.raises(CannotRun, match="was changed meanwhile"):
        await archived(store, merchant)
    assert count(store, merchant) == 0


async def test_what_is_not_old_or_not_in_a_full_tile_stays(store: Storefront):
    merchant = await store.register()
    for number in range(2):
        await merchant.create(paid_order(externalId=f"few-{number}"))
    await seal(store.settings)
    assert (await archived(store, merchant)).events == 0, "its tile is not full"
    await fill_tile(store, merchant)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    assert (await archived(store, merchant, yesterday)).events == 0, "its events are of today"
    late = (await merchant.get(f"{ORDERS}/few-0")).json()
    assert (await merchant.post(f"{ORDERS}/{late['id']}/refund", {"amount": 100})).status_code == 200
    moved = await archived(store, merchant)
    assert moved.events > 0
    query = (
        "select version from event where merchant_id = %s and stream_id = %s and substring(data from 1 for 1) = '\\x00'"
    )
    assert execute(url_of(store.settings), query, merchant.merchant_id, late["id"]) == []
    await fill_tile(store, merchant)
    await archived(store, merchant)
    assert execute(url_of(store.settings), query, merchant.merchant_id, late["id"]) != []


async def doctor_of(store: Storefront) -> Finding:
    """Returns what `ledger doctor --files` finds about archived events."""
    async with await connect(url_of(store.settings), "doctor") as connection:
        return await doctor._archived(connection, store.settings)


async def lost(merchant: Merchant, store: Storefront) -> None:
    """Asserts that an archived order is a fault, and every other answer is as it was."""
    order_id, _ = orders_of(store, merchant)[0]
    for path in ("/events", "/explain?field=status", "?version=1"):
        answer = await merchant.get(f"{ORDERS}/{order_id}{path}")
        assert (answer.status_code, answer.json()["code"]) == (503, "FILE_MISSING"), path
    assert (await merchant.get(f"{ORDERS}?limit=5")).status_code == 200
    assert (await merchant.get("/api/v1/log/tile/entries/000")).status_code == 200


async def test_a_file_that_is_missing_or_was_changed_is_a_fault_and_never_another_answer(store: Storefront):
    merchant = await sold(store)
    await archived(store, merchant)
    (file,) = files_of(store, merchant)
    content = file.read_bytes()
    damages = {
        "another amount": content.replace(b"150000", b"150001"),
        "cut off": content[:10],
        "base64": content.replace(b'"stored":{', b'"stored":"'),
        "empty": b"",
    }
    for damage, changed in damages.items():
        assert changed != content, damage
        file.write_bytes(changed)
        await lost(merchant, store)
        found = await doctor_of(store)
        assert (found.check, found.state) == ("archived", "fail"), damage
        assert f"{file.name} is another file than was written" in found.text
    file.unlink()
    await lost(merchant, store)
    assert f"{file.name} is missing" in (await doctor_of(store)).text
    assert (await merchant.create(paid_order(externalId="new"))).status_code == 201
    url, (order_id, version) = url_of(store.settings), orders_of(store, merchant)[0]
    report = audit(store.settings, url, merchant.merchant_id)
    assert {each.invariant for each in report.violations} <= {"EVENT", "ROW"}, "its tree is as it was"
    assert any("bring the file back" in each.message for each in report.violations if each.invariant == "EVENT")
    archive = EventArchive(f"file://{store.settings.data_dir}/files")
    recorder = JournalApplicationRecorder(Store(url, merchant.merchant_id, {}, archive))
    with pytest.raises(OperationalError, match="bring the file back"):
        recorder.select_events(order_id)
    file.write_bytes(content)
    assert (await merchant.get(f"{ORDERS}/{order_id}?version={version}")).status_code == 200
    assert audit(store.settings, url, merchant.merchant_id).is_clean


async def test_a_reference_to_other_content_is_noticed_by_the_audit(store: Storefront):
    """Who can change the table can have a reference say what a changed file has; the tree does not say so."""
    merchant = await sold(store)
    await archived(store, merchant)
    url = url_of(store.settings)
    query = "select position, data from event where merchant_id = %s and topic = 'order-created.v1' order by position"
    (position, first), (_, second) = execute(url, query, merchant.merchant_id)[:2]
    assert reference_in(first) is not None
    execute(
        url,
        "update event set data = %s where merchant_id = %s and position = %s",
        second,
        merchant.merchant_id,
        position,
    )
    report = audit(store.settings, url, merchant.merchant_id)
    assert any(each.invariant == "TREE" and each.position == position for each in report.violations)


async def test_one_run_at_a_time(store: Storefront):
    async with await connect(url_of(store.settings), "other") as other:
        await other.execute("select pg_advisory_lock(%s)", (event_archiving._LOCK,))
        with pytest.raises(CannotRun, match="another `ledger archive` runs"):
            await archive_events(store.settings, url_of(store.settings), soon())


async def test_a_service_of_another_release_is_named(store: Storefront):
    url = url_of(store.settings)
    row = "insert into service_process (process_id, host, role, release, files, clock_ahead_s, started_at, seen_at)"
    execute(url, f"{row} values (gen_random_uuid(), 'old-host', 'api', '0.0.1', '', 0, now(), now())")
    try:
        with pytest.raises(CannotRun, match=r"the api on old-host is of release 0\.0\.1"):
            await archive_events(store.settings, url, soon())
    finally:
        execute(url, "delete from service_process where host = 'old-host'")


def test_the_default_time_is_the_first_of_a_month():
    assert default_time(datetime(2026, 11, 27, 5, tzinfo=UTC)) == datetime(2025, 10, 1, tzinfo=UTC)
    assert default_time(datetime(2026, 1, 31, tzinfo=UTC)) == datetime(2024, 12, 1, tzinfo=UTC)
    assert default_time(datetime(2027, 2, 28, tzinfo=UTC)) == datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_process_without_a_store_says_so(store: Storefront):
    merchant = await sold(store)
    await archived(store, merchant)
    query = "select data from event where merchant_id = %s and substring(data from 1 for 1) = '\\x00' limit 1"
    data = execute(url_of(store.settings), query, merchant.merchant_id)
    with pytest.raises(ArchiveUnavailable, match="LEDGER_FILES_URL"):
        EventArchive(None).read([(merchant.merchant_id.bytes, data[0][0])])
