"""Sealing: the tree is that of the log whatever happens meanwhile, and no checkpoint contradicts another."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.metric_values import metric_value
from tests.operations.conftest import an_order, by_card
from tests.tlog.logs import KEYS, append, assert_sealed, checkpoints, entries, execute, leaves, seal, sealer_of
from tests.tlog.test_merkle import tree_hash

from ledger.background import log_sealing
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.create import create_order
from ledger.postgres.faults import DatabaseUnavailable
from ledger.tlog import store
from ledger.tlog.checkpoint_files import CheckpointFiles
from ledger.tlog.checkpoints import open_checkpoint
from ledger.tlog.keys import LogKeys
from ledger.tlog.notes import Unverified
from ledger.tlog.reading import TreeReader
from projections.erasures import Erasures

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("topic", "at"),
    [
        ("order-created.v1", "2026-03-01T10:00:00.123456-06:00"),
        ('module:Class["ñ", "\U0001f4b0"] \\ / \t\n\r\b\f\x01\x1f\x7f\u2028', "1969-12-31T23:59:59.999999Z"),
        ("", "2999-12-31T23:59:59.999999Z"),
    ],
)
async def test_the_database_hashes_the_same_entries(database_url: str, topic: str, at: str) -> None:
    merchant = uuid4()
    append(database_url, merchant, 3, topic, at)
    await seal(database_url)
    assert checkpoints(database_url, merchant)[0].root == tree_hash(leaves(database_url, merchant))


async def test_events_of_operations_are_sealed_and_an_erasure_changes_no_entry(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    await create_order(ledger, merchant, an_order("1", by_card()))
    await seal(database_url)
    assert_sealed(database_url, merchant.merchant_id)
    before = entries(database_url, merchant.merchant_id)
    ((customer,),) = execute(database_url, "select customer_id from customer")
    async with Erasures(database_url) as erasures:
        await delete_customer(ledger, merchant, str(customer), erasures.orders_of)
    assert execute(database_url, "select count(*) from data_key where destroyed_at is not null") == [(1,)]
    after = entries(database_url, merchant.merchant_id)
    assert len(after) > len(before)
    assert after[: len(before)] == before
    assert not any(text in b"".join(after) for text in (b"Ana", b"ana@example.com", b"4242424242424242"))
    await seal(database_url)
    assert_sealed(database_url, merchant.merchant_id)
    assert len(checkpoints(database_url, merchant.merchant_id)) == 2


async def test_logs_of_any_length_grow_in_slices(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_sealing, "_SLICE", 256)
    monkeypatch.setattr(log_sealing, "_EVENTS_AT_ONCE", 300)
    monkeypatch.setattr(log_sealing, "_TREES_AT_ONCE", 2)
    merchants = [uuid4() for _ in range(5)]
    for round_ in ((1, 255, 256, 257, 700), (254, 1, 256, 255, 1), (1, 1, 0, 600, 68)):
        for merchant, count in zip(merchants, round_, strict=True):
            append(database_url, merchant, count)
        await seal(database_url)
        for merchant in merchants:
            assert_sealed(database_url, merchant)
    for merchant in merchants:
        tree = b"".join(leaves(database_url, merchant))
        tiles = execute(
            database_url, "select level, number, hashes from log_tile where merchant_id = %s order by 2", merchant
        )
        assert tiles == [(0, n, tree[n * 8192 : (n + 1) * 8192]) for n in range(len(tree) // 8192)]


async def test_a_long_past_is_sealed_from_its_first_event_with_tiles_above(database_url: str) -> None:
    merchant = uuid4()
    append(database_url, merchant, 65_536 + 300)
    await seal(database_url)
    newest = checkpoints(database_url, merchant)[-1]
    assert (newest.size, newest.root) == (65_836, tree_hash(leaves(database_url, merchant)))
    ((hashes, root),) = execute(database_url, "select hashes, root from log_tile where level = 1")
    below = execute(database_url, "select root from log_tile where level = 0 order by number limit 256")
    assert hashes == b"".join(each for (each,) in below)
    assert root == tree_hash(leaves(database_url, merchant)[:65_536])


async def test_a_round_without_new_events_signs_nothing(database_url: str) -> None:
    merchant = uuid4()
    append(database_url, merchant, 10)
    async with sealer_of(database_url) as sealer:
        assert [each.size for each in await sealer.seal(asyncio.Event())] == [10]
        assert await sealer.seal(asyncio.Event()) == []
    assert len(checkpoints(database_url, merchant)) == 1


async def test_a_round_leaves_what_is_written_meanwhile_to_the_next_one(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the worker seals without a rest while a merchant writes, and signs as many checkpoints."""
    monkeypatch.setattr(log_sealing, "_SLICE", 100)
    merchant, stop = uuid4(), asyncio.Event()
    append(database_url, merchant, 150)

    async def write(*_: object) -> None:
        append(database_url, merchant, 1)

    monkeypatch.setattr(log_sealing, "pause", write)
    async with sealer_of(database_url) as sealer:
        async with asyncio.timeout(10):
            await sealer.seal(stop)
            await sealer.seal(stop)
    assert [each.size for each in checkpoints(database_url, merchant)] == [100, 151, 152]


@pytest.mark.parametrize("are_killed", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_workers_at_once_make_one_history(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, are_killed: bool
) -> None:
    """While the logs grow, and their connections are ended at any time. Each checkpoint, in the database and outside of
    it, has a beginning of the final log, and each size has one.
    """
    monkeypatch.setattr(log_sealing, "_SLICE", 100)
    monkeypatch.setattr(log_sealing, "_TREES_AT_ONCE", 3)
    merchants = [uuid4() for _ in range(7)]
    stop = asyncio.Event()

    async def work() -> None:
        async with sealer_of(database_url, folder=tmp_path, every_s=0.001) as sealer:
            await sealer.run(stop)

    workers = [asyncio.create_task(work()) for _ in range(3)]
    for n in range(20):
        for merchant in merchants:
            await asyncio.to_thread(append, database_url, merchant, 1 + (n * 37) % 90)
            if are_killed:
                await asyncio.to_thread(execute, database_url, _END_ONE)
    unsealed = (
        "select 1 from merchant_head h left join log_tree t using (merchant_id) where h.position > coalesce(t.size, 0)"
    )
    while execute(database_url, unsealed):  # noqa: ASYNC110 - of the database
        await asyncio.sleep(0.02)
    stop.set()
    await asyncio.gather(*workers)
    for merchant in merchants:
        assert_sealed(database_url, merchant)
        assert len(checkpoints(database_url, merchant)) > 1
    outside = await CheckpointFiles(f"file://{tmp_path}").saved(date.min)
    for merchant in merchants:
        tree = leaves(database_url, merchant)
        for _, size, note in outside.found[merchant]:
            assert open_checkpoint(note.encode(), KEYS.verifiers(merchant)[:1]).root == tree_hash(tree[:size])


_END_ONE = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
 where application_name = 'ledger-log-sealing' order by random() limit 1
"""
STEPS = ("begin_trees", "take_trees", "read_leaves", "read_stored", "write_growth", "write_checkpoints")


@pytest.mark.parametrize("step", STEPS)
async def test_a_worker_that_is_killed_at_a_step_leaves_no_trace_of_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str
) -> None:
    """Before the commit. Its connection is ended by the server, as by the end of its process.

    Nor does the round go on on another connection, which may be to a server whose log is older: the next one compares.
    """
    merchant = uuid4()
    append(database_url, merchant, 300)
    await seal(database_url)
    append(database_url, merchant, 300)
    with monkeypatch.context() as patch:
        patch.setattr(log_sealing, step, _killed_after(database_url, getattr(store, step)))
        async with sealer_of(database_url, folder=tmp_path) as sealer:
            with pytest.raises((DatabaseUnavailable, psycopg.OperationalError)):
                await sealer.round(asyncio.Event(), datetime.now(UTC))
    assert execute(database_url, "select size from log_tree") == [(300,)]
    assert execute(database_url, "select number from log_tile") == [(0,)]
    await seal(database_url)
    assert_sealed(database_url, merchant)
    assert [each.size for each in checkpoints(database_url, merchant)] == [300, 600]


@pytest.mark.parametrize("step", ["take_signed_otherwise", "read_stored", "write_checkpoints"])
async def test_a_worker_that_is_killed_while_it_signs_again_leaves_the_checkpoint_of_before(
    database_url: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    merchants = [uuid4() for _ in range(3)]
    for merchant in merchants:
        append(database_url, merchant, 300)
    old, new = (LogKeys("pay.example.com/v1/log", keys) for keys in ([b"1" * 32], [b"2" * 32, b"1" * 32]))
    await seal(database_url, old)
    with monkeypatch.context() as patch:
        patch.setattr(log_sealing, step, _killed_after(database_url, getattr(store, step)))
        with pytest.raises((DatabaseUnavailable, psycopg.OperationalError)):
            await seal(database_url, new)
    before = {merchant: checkpoints(database_url, merchant, old) for merchant in merchants}
    await asyncio.gather(*[seal(database_url, new) for _ in range(3)])
    assert {merchant: checkpoints(database_url, merchant, new) for merchant in merchants} == before


def _killed_after(database_url: str, step: Any) -> Any:
    """Returns a step of a worker after which its connection is ended by the server, as by the end of its process."""

    async def killed(connection: Any, *arguments: Any, **options: Any) -> Any:
        done = await step(connection, *arguments, **options)
        await asyncio.to_thread(
            execute, database_url, "select pg_terminate_backend(%s::int, 5000)", connection.info.backend_pid
        )
        return done

    return killed


EDITS = {
    "data": "update event set data = 'x' where position = 290",
    "context": "update event set context = 'x' where position = 257",
    "topic": "update event set topic = 'x' where position = 300",
    "time": "update event set recorded_at = recorded_at + interval '1 us' where position = 290",
    "command": "update event set command_id = gen_random_uuid() where position = 290",
    "stream": "update event set stream_id = gen_random_uuid() where position = 290",
    "version": "update event set version = 9999 where position = 290",
    "deletion": "delete from event where position = 290",
    "swap": "update event set position = 100000 where position = 290; update event set position = 290 where position = 291;"
    " update event set position = 291 where position = 100000",
}


@pytest.mark.parametrize("edit", EDITS)
async def test_a_change_of_a_sealed_event_ends_the_checkpoints_of_its_log(
    database_url: str, edit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    merchant, other = uuid4(), uuid4()
    append(database_url, merchant, 300)
    await seal(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute(EDITS[edit])  # type: ignore[arg-type]
    append(database_url, merchant, 300)
    append(database_url, other, 5)
    async with sealer_of(database_url) as sealer:
        assert [each.merchant_id for each in await sealer.seal(asyncio.Event())] == [other]
        sealer.sample()
    assert metric_value("ledger_log_changed_merchants", "api-0") == 1
    assert [each.size for each in checkpoints(database_url, merchant)] == [300]
    assert execute(database_url, "select size from log_tree where merchant_id = %s", merchant) == [(300,)]
    log = capsys.readouterr()
    assert '"log_changed"' in log.out + log.err or "log_changed" in log.out + log.err


@pytest.mark.parametrize("at", ["infinity", "-infinity", "294276-12-31", "4713-01-01 BC"])
async def test_an_event_without_a_time_ends_the_checkpoints_of_its_log_alone(database_url: str, at: str) -> None:
    wrong, other = uuid4(), uuid4()
    for merchant in (wrong, other):
        append(database_url, merchant, 3)
    execute(database_url, "update event set recorded_at = %s where merchant_id = %s and position = 2", at, wrong)
    await seal(database_url)
    assert [len(checkpoints(database_url, merchant)) for merchant in (wrong, other)] == [0, 1]
    trees = TreeReader(database_url)
    assert len(await trees.entries(wrong, 0, 3)) == 2
    await trees.stop()


async def test_a_missing_new_event_and_a_broken_edge_end_the_checkpoints(database_url: str) -> None:
    missing, broken, other = uuid4(), uuid4(), uuid4()
    for merchant in (missing, broken, other):
        append(database_url, merchant, 100)
    await seal(database_url)
    for merchant in (missing, broken, other):
        append(database_url, merchant, 20)
    execute(database_url, "delete from event where merchant_id = %s and position = 110", missing)
    execute(database_url, "update log_tree set edge = ''::bytea where merchant_id = %s", broken)
    await seal(database_url)
    assert [len(checkpoints(database_url, merchant)) for merchant in (missing, broken, other)] == [1, 1, 2]


async def test_a_replaced_key_signs_with_the_one_before(database_url: str) -> None:
    merchant, quiet = uuid4(), uuid4()
    old, new, newest = (bytes([n]) * 32 for n in (1, 2, 3))
    keys = [LogKeys("pay.example.com/v1/log", given) for given in ([old], [new, old], [newest, new, old])]
    for merchant_id in (merchant, quiet):
        append(database_url, merchant_id, 5)
    await seal(database_url, keys[0])
    append(database_url, merchant, 5)
    for signing in keys[1:]:
        await seal(database_url, signing)
    for merchant_id, size in ((merchant, 10), (quiet, 5)):
        query = "select note from log_checkpoint where merchant_id = %s and size = %s"
        ((note,),) = execute(database_url, query, merchant_id, size)
        for verifier in keys[2].verifiers(merchant_id)[:2]:
            assert open_checkpoint(note.encode(), [verifier]).root == tree_hash(leaves(database_url, merchant_id))
        with pytest.raises(Unverified):
            open_checkpoint(note.encode(), keys[0].verifiers(merchant_id))
    assert [str(each) for each in keys[2].verifiers(quiet)][1:] == [str(each) for each in keys[1].verifiers(quiet)]


async def test_a_worker_looks_for_checkpoints_of_other_keys_when_it_connects_and_once_a_day(
    database_url: str, tmp_path: Path
) -> None:
    merchant, changed = uuid4(), uuid4()
    for merchant_id in (merchant, changed):
        append(database_url, merchant_id, 5)
    keys = [LogKeys("pay.example.com/v1/log", [bytes([n]) * 32]) for n in (1, 2)]

    def signed_by() -> list[str]:
        signers = execute(database_url, "select signed_by from log_checkpoint where merchant_id = %s", merchant)
        return [each for (each,) in signers]

    async with sealer_of(database_url, keys[1], folder=tmp_path) as sealer:
        await sealer.round(asyncio.Event(), datetime(2026, 3, 1, tzinfo=UTC))
        await sealer.seal(asyncio.Event())
        forget = "update log_checkpoint set signed_by = 'x', note = 'x' where merchant_id = %s"
        execute(database_url, forget, merchant)
        await sealer.seal(asyncio.Event())
        assert signed_by() == ["x"]
        await sealer.round(asyncio.Event(), datetime(2026, 3, 2, tzinfo=UTC))
        execute(database_url, forget, changed)
        execute(database_url, "update log_tree set edge = '' where merchant_id = %s", changed)
        for _ in range(2):  # what cannot be signed again is named by every round
            await sealer.seal(asyncio.Event())
            assert signed_by() == [keys[1].signed_by]
            sealer.sample()
            assert metric_value("ledger_log_changed_merchants", "api-0") == 1
    await seal(database_url, keys[0])
    assert signed_by() == [keys[0].signed_by]


@pytest.mark.parametrize("keys", [[2, 1], [2]], ids=["the key before is known", "the key before is gone"])
async def test_a_replaced_key_signs_no_edge_that_was_changed(database_url: str, keys: list[int]) -> None:
    cut, flipped, removed, whole = (uuid4() for _ in range(4))
    for merchant in (cut, flipped, removed, whole):
        append(database_url, merchant, 300)
    old, new = LogKeys("pay.example.com/v1/log", [bytes([1]) * 32]), [bytes([n]) * 32 for n in keys]
    await seal(database_url, old)
    flip = "set_byte(edge, 5, get_byte(edge, 5) # 1)"
    for merchant, edge in ((cut, "substr(edge, 2)"), (flipped, flip), (removed, "''::bytea")):
        execute(database_url, f"update log_tree set edge = {edge} where merchant_id = %s", merchant)
    before = {merchant: checkpoints(database_url, merchant, old) for merchant in (cut, flipped, removed)}
    replaced = LogKeys("pay.example.com/v1/log", new)
    async with sealer_of(database_url, replaced) as sealer:
        assert await sealer.seal(asyncio.Event()) == []
        sealer.sample()
    assert metric_value("ledger_log_changed_merchants", "api-0") == 3
    assert {merchant: checkpoints(database_url, merchant, old) for merchant in before} == before
    assert checkpoints(database_url, whole, replaced)[0].root == tree_hash(leaves(database_url, whole))


@pytest.mark.parametrize("byte", [5, 40])
async def test_an_edge_that_was_changed_does_not_grow(database_url: str, byte: int) -> None:
    """Whether the changed hash is of the last tile, which is not full, or of the tiles before it."""
    merchant = uuid4()
    append(database_url, merchant, 256 + 4)
    await seal(database_url)
    flip = f"set_byte(edge, {byte}, get_byte(edge, {byte}) # 1)"
    execute(database_url, f"update log_tree set edge = {flip} where merchant_id = %s", merchant)
    append(database_url, merchant, 1)
    await seal(database_url)
    assert [each.size for each in checkpoints(database_url, merchant)] == [260]
    execute(database_url, f"update log_tree set edge = {flip} where merchant_id = %s", merchant)
    await seal(database_url)
    assert_sealed(database_url, merchant)


LOST = {
    "tree removed": "delete from log_tree where merchant_id = %s",
    "tree emptied": "update log_tree set size = 0, edge = '' where merchant_id = %s",
    "all trees removed": "delete from log_tree where merchant_id is distinct from %s or true",
}


@pytest.mark.parametrize("size", [600, 256])
@pytest.mark.parametrize("edit", LOST)
async def test_a_tree_that_is_gone_is_made_again_from_its_newest_checkpoint(
    database_url: str, tmp_path: Path, edit: str, size: int
) -> None:
    """By a worker that has signed it, and by one that begins."""
    merchant, other = uuid4(), uuid4()
    for merchant_id in (merchant, other):
        append(database_url, merchant_id, size)
    tree = "select size, edge from log_tree where merchant_id = %s"
    now = datetime(2026, 3, 1, tzinfo=UTC)
    async with sealer_of(database_url, folder=tmp_path) as sealer:
        await sealer.round(asyncio.Event(), now)
        before = execute(database_url, tree, merchant)
        execute(database_url, LOST[edit], merchant)
        async with sealer_of(database_url, folder=tmp_path) as beginning:
            await beginning.restore()
            assert execute(database_url, tree, merchant) == before
        execute(database_url, LOST[edit], merchant)
        append(database_url, merchant, 5)
        for _ in range(2):  # the first one has found it
            await sealer.round(asyncio.Event(), now)
        sealer.sample()
    assert metric_value("ledger_log_changed_merchants", "api-0") == 0
    signed = execute(database_url, "select size from log_checkpoint where merchant_id = %s order by size", merchant)
    assert signed == [(size,), (size + 5,)]
    assert_sealed(database_url, merchant)


UNSURE = {
    "event changed": "update event set data = 'x' where merchant_id = %s and position = 590",
    "tile changed": "update log_tile set root = sha256(root) where merchant_id = %s and number = 0",
    "tile removed": "delete from log_tile where merchant_id = %s and number = 1",
    "checkpoint changed": "update log_checkpoint set note = replace(note, '600', '599') where merchant_id = %s",
    "checkpoint of another size": "update log_checkpoint set size = 599 where merchant_id = %s",
    "head before it": "update merchant_head set position = 599 where merchant_id = %s",
}


@pytest.mark.parametrize("edit", UNSURE)
async def test_a_tree_that_its_newest_checkpoint_contradicts_is_not_made_again(database_url: str, edit: str) -> None:
    merchant = uuid4()
    append(database_url, merchant, 600)
    await seal(database_url)
    execute(database_url, "delete from log_tree")
    execute(database_url, UNSURE[edit], merchant)
    async with sealer_of(database_url) as sealer:
        await sealer.restore()
        assert execute(database_url, "select size from log_tree") == []
        await sealer.seal(asyncio.Event())
    assert len(execute(database_url, "select size from log_checkpoint")) == 1


REMAINS = {
    "tree removed": "delete from log_tree where merchant_id = %s",
    "tree emptied": "update log_tree set size = 0, edge = '' where merchant_id = %s",
    "tile added": "insert into log_tile values (%s, 0, 2, '\\x00', '\\x00')",
    "tile above added": "insert into log_tile values (%s, 1, 0, '\\x00', '\\x00')",
    "checkpoint added": "insert into log_checkpoint (merchant_id, size, note, signed_by) values (%s, 900, 'x', 'x')",
}


@pytest.mark.parametrize("edit", REMAINS)
async def test_a_tree_that_was_longer_grows_no_more_and_keeps_no_other_from_growing(
    database_url: str, edit: str
) -> None:
    merchant, other = uuid4(), uuid4()
    append(database_url, merchant, 600)
    append(database_url, other, 3)
    await seal(database_url)
    execute(database_url, REMAINS[edit], merchant)
    for size in (4, 5):
        append(database_url, merchant, 150)
        append(database_url, other, 1)
        await seal(database_url)
        assert_sealed(database_url, other)
        assert checkpoints(database_url, other)[-1].size == size
    signed = execute(database_url, "select size from log_checkpoint where merchant_id = %s order by size", merchant)
    assert signed == ([(600,), (900,)] if edit == "checkpoint added" else [(600,)])


async def test_a_key_of_one_merchant_verifies_no_log_of_another(database_url: str) -> None:
    merchant, other = uuid4(), uuid4()
    append(database_url, merchant, 1)
    await seal(database_url)
    ((note,),) = execute(database_url, "select note from log_checkpoint where merchant_id = %s", merchant)
    with pytest.raises(Unverified):
        open_checkpoint(note.encode(), KEYS.verifiers(other))


async def test_sealing_that_is_switched_off_never_begins(database_url: str) -> None:
    append(database_url, UUID(int=1), 1)
    async with sealer_of(database_url, every_s=0.0) as sealer:
        await sealer.run(asyncio.Event())
    assert execute(database_url, "select 1 from log_tree") == []
