"""The group commit on a distributed log, as on an ordinary one: whole commands, positions without gaps, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from campaigns.citus.cluster import CitusCluster
from eventsourcing.persistence import InfrastructureFactory, OperationalError, StoredEvent
from msgspec.structs import replace
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool
from tests.citus.shards import WAITING, move_for_good, shard_to_move, split_shard
from tests.citus_server import SHARDS
from tests.journal.small_log import DISTRIBUTE_SEEN, SEEN, SEEN_DDL, assert_log_is_whole, command, fetch, open_log
from tests.standbys import without_standby
from uuid_utils.compat import uuid4, uuid7

from ledger.domain.streams import ClaimKind
from ledger.journal.append import Claim, ClaimTaken, CommitUnknown, VersionConflict
from ledger.journal.commit.shard_writers import ShardWriters
from ledger.postgres.connection import connect
from ledger.postgres.embedded.cluster import PORT
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.shards import HOLD, Shards, hash_of, read_shards

pytestmark = [pytest.mark.anyio, pytest.mark.long]

MERCHANTS = 24
SHARDS_OF = "select count(distinct get_shard_id_for_distribution_column('event', m)) from unnest(%s::uuid[]) as m"
SHARDS_WITH_EVENTS = "select distinct get_shard_id_for_distribution_column('event', merchant_id) from event"


@pytest.fixture
def log_url(distributed_url: str) -> str:
    with psycopg.connect(distributed_url, autocommit=True) as connection:
        connection.execute(SEEN_DDL)
        connection.execute(DISTRIBUTE_SEEN)
    return distributed_url


@pytest.fixture
async def writers(log_url: str) -> AsyncIterator[ShardWriters]:
    writers = ShardWriters(log_url, [SEEN])
    await writers.start()
    yield writers
    await writers.stop()


def spread(url: str) -> list[UUID]:
    """Returns merchants with empty logs, some in every shard."""
    merchants = [open_log(url) for _ in range(MERCHANTS)]
    while fetch(url, SHARDS_OF, merchants) != [(SHARDS,)]:
        merchants.append(open_log(url))
    return merchants


def test_the_hash_of_a_merchant_is_that_of_postgres(distributed_url: str) -> None:
    ids = [uuid4() for _ in range(200)]
    found = fetch(distributed_url, "select worker_hash(m) from unnest(%s::uuid[]) as m", ids)
    assert [hash_of(merchant_id.bytes) for merchant_id in ids] == [hashed for (hashed,) in found]


async def test_logs_of_all_shards_are_whole(writers: ShardWriters, log_url: str) -> None:
    merchants = spread(log_url)
    streams = [(merchant, uuid7()) for merchant in merchants for _ in range(10)]
    await asyncio.gather(*[writers.submit(command(merchant, (stream, 0, 2))) for merchant, stream in streams])
    positions = await asyncio.gather(
        *[writers.submit(command(merchant, (stream, 2, 1))) for merchant, stream in streams]
    )
    assert sorted(positions) == sorted(list(range(21, 31)) * len(merchants))
    assert_log_is_whole(log_url)
    assert len({shard for (shard,) in fetch(log_url, SHARDS_WITH_EVENTS)}) == SHARDS


async def test_a_command_is_refused_whole(writers: ShardWriters, log_url: str) -> None:
    merchant, first, second = open_log(log_url), uuid7(), uuid7()
    claim = Claim(ClaimKind.ORDER_EXTERNAL_ID, "pedido-1", first)
    await writers.submit(command(merchant, (first, 0, 1), claims=[claim]))
    with pytest.raises(VersionConflict):
        await writers.submit(command(merchant, (second, 0, 1), (first, 0, 1)))
    with pytest.raises(ClaimTaken):
        await writers.submit(command(merchant, (second, 0, 1), claims=[Claim(claim.kind, claim.key, second)]))
    assert fetch(log_url, "select stream_id, version from event") == [(first, 1)]
    assert_log_is_whole(log_url)


async def test_no_commit_has_two_phases(writers: ShardWriters, log_url: str) -> None:
    before = two_phase_commits(log_url)
    for merchant in spread(log_url):
        await writers.submit(command(merchant, (uuid7(), 0, 1)))
    assert two_phase_commits(log_url) == before


def two_phase_commits(url: str) -> list[tuple[Any, ...]]:
    """Returns the records that Citus keeps of commits in two phases, by node."""
    query = "select nodeid, success, result from run_command_on_all_nodes('select count(*) from pg_dist_transaction')"
    return sorted(fetch(url, query))


async def test_a_shard_moves_while_its_merchants_write(writers: ShardWriters, log_url: str) -> None:
    merchants = spread(log_url)
    shard, source, target = shard_to_move(log_url, merchants[0])
    streams = {merchant: uuid7() for merchant in merchants}
    versions = dict.fromkeys(merchants, 0)
    is_moving = True

    async def write(merchant: UUID) -> None:
        while is_moving or versions[merchant] < 20:
            await writers.submit(command(merchant, (streams[merchant], versions[merchant], 1)))
            versions[merchant] += 1

    writing = [asyncio.create_task(write(merchant)) for merchant in merchants]
    async with await psycopg.AsyncConnection.connect(log_url, autocommit=True) as connection:
        await connection.execute("select citus_move_shard_placement(%s, %s, %s)", (shard, source, target))
        is_moving = False
        await asyncio.gather(*writing)
    assert shard_to_move(log_url, merchants[0])[1] == target
    stored = dict(fetch(log_url, "select merchant_id, max(version) from event group by 1"))
    assert stored == versions
    assert_log_is_whole(log_url)


async def test_a_shard_stays_where_it_is_until_a_commit_has_ended(writers: ShardWriters, log_url: str) -> None:
    merchant = open_log(log_url)
    shard = writers.shards.of(merchant.bytes)
    move = "select citus_move_shard_placement(%s, %s, %s, 'block_writes')"
    async with (
        await psycopg.AsyncConnection.connect(shard.url) as node,
        await psycopg.AsyncConnection.connect(log_url, autocommit=True) as coordinator,
    ):
        await node.execute(HOLD.format(shard=shard.id))
        moving = asyncio.create_task(coordinator.execute(move, shard_to_move(log_url, merchant)))
        while not await asyncio.to_thread(fetch, log_url, WAITING):
            assert not moving.done()
        await node.commit()
        await moving
        with pytest.raises(psycopg.errors.CannotConnectNow):
            await node.execute(HOLD.format(shard=shard.id))


async def test_a_shard_whose_former_tables_are_gone_is_written_where_it_is(writers: ShardWriters, log_url: str) -> None:
    merchant = open_log(log_url)
    await asyncio.to_thread(move_for_good, log_url, merchant)
    assert await writers.submit(command(merchant, (uuid7(), 0, 1))) == 1, "no statement was prepared for its shard"
    await asyncio.to_thread(move_for_good, log_url, merchant)
    assert await writers.submit(command(merchant, (uuid7(), 0, 1))) == 2
    assert_log_is_whole(log_url)


async def test_a_shard_that_is_split_is_written_on(writers: ShardWriters, log_url: str) -> None:
    merchants = spread(log_url)
    for n in (1, 2, 3):
        assert [await writers.submit(command(merchant, (uuid7(), 0, 1))) for merchant in merchants] == [n] * len(
            merchants
        )
        await asyncio.to_thread(split_shard, log_url, merchants[0])
    assert_log_is_whole(log_url)


async def test_a_node_that_is_down_stops_its_own_merchants_alone(
    cluster: CitusCluster, writers: ShardWriters, log_url: str
) -> None:
    merchants, worker = spread(log_url), cluster.nodes[1]
    down = {merchant for merchant in merchants if str(worker.cluster.sockets) in writers.shards.of(merchant.bytes).url}
    others = [merchant for merchant in merchants if merchant not in down]
    worker.stop(at_once=True)
    try:
        while writers.alive:
            with suppress(DatabaseUnavailable, CommitUnknown):
                await writers.submit(command(min(down), (uuid7(), 0, 1)))
        later = ShardWriters(log_url, [SEEN])
        await later.start()
        for each in (writers, later):
            assert each.commits_some
            assert not each.alive
            for merchant in others:
                await each.submit(command(merchant, (uuid7(), 0, 1)))
                await each.confirm(merchant)
                each.require_confirmed(merchant)
            for merchant in down:
                with pytest.raises(DatabaseUnavailable):
                    each.require_confirmed(merchant)
                with pytest.raises(DatabaseUnavailable):
                    await each.confirm(merchant)
    finally:
        while not worker.tick():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
    for each in (writers, later):
        while not each.alive:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        await written(each, merchants)
    await later.stop()
    assert_log_is_whole(log_url)


async def test_a_node_without_its_standby_holds_up_its_own_merchants_alone(
    cluster: CitusCluster, writers: ShardWriters, log_url: str
) -> None:
    host = str(cluster.nodes[1].cluster.sockets)
    waiting, other = open_log(log_url), open_log(log_url)
    while host not in writers.shards.of(waiting.bytes).url:
        waiting = open_log(log_url)
    while host in writers.shards.of(other.bytes).url:
        other = open_log(log_url)
    async with without_standby(cluster.url("postgres", 1)):
        pending = writers.submit(command(waiting, (uuid7(), 0, 1)))
        assert await writers.submit(command(other, (uuid7(), 0, 1))) == 1
        await writers.confirm(other)
        assert not pending.done()
        assert writers.oldest_commit_s > 0
        assert writers.held_up_s == 0
    assert await pending == 1


async def test_nothing_is_confirmed_of_a_shard_that_is_elsewhere_before_it_was_looked_for(
    writers: ShardWriters, log_url: str
) -> None:
    merchant = open_log(log_url)
    await writers.confirm(merchant)
    await asyncio.to_thread(move_for_good, log_url, merchant)
    with pytest.raises(DatabaseUnavailable):
        await writers.confirm(merchant)
    await writers.confirm(merchant)


async def test_a_batch_names_the_tables_of_its_shard_however_many_statements_are_prepared(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.journal.commit.shard_writers.STATEMENTS_MAX", 1)
    writers = ShardWriters(log_url, [replace(SEEN, is_rare=True)])
    await writers.start()
    for merchant in spread(log_url):
        for n, names_seen in enumerate((True, False, True)):
            appended = command(merchant, (uuid7(), 0, 1))
            assert await writers.submit(appended if names_seen else replace(appended, rows={})) == n + 1
    await writers.stop()
    assert {count for (count,) in fetch(log_url, "select count(*) from event group by merchant_id")} == {3}


async def test_a_node_that_another_server_has_become_is_followed_and_one_that_was_removed_is_left(
    cluster: CitusCluster, log_url: str
) -> None:
    merchants = spread(log_url)
    sockets = cluster.nodes[1].cluster.sockets
    old, new = (sockets.parent.parent / f"{uuid4().hex[:8]}" for _ in range(2))
    old.symlink_to(sockets)
    new.symlink_to(sockets)
    ((node,),) = fetch(log_url, "select nodeid from pg_dist_node where nodename = %s", str(sockets))
    name_server(log_url, node, old)
    writers = ShardWriters(log_url, [SEEN])
    await writers.start()

    name_server(log_url, node, new)
    await lose_server(log_url, old)
    await written(writers, merchants)
    assert {*writers.shards.servers.values()} == {
        make_conninfo(log_url, host=str(host)) for host in (new, other_host(log_url, node))
    }

    await asyncio.to_thread(fetch, log_url, "select citus_drain_node(%s, %s, 'block_writes')", str(new), PORT)
    await asyncio.to_thread(fetch, log_url, "select citus_remove_node(%s, %s)", str(new), PORT)
    await lose_server(log_url, new)
    await written(writers, merchants)
    assert len(writers.shards.servers) == 1
    assert writers.alive
    await writers.stop()
    assert_log_is_whole(log_url)


def name_server(url: str, node: int, sockets: Path) -> None:
    """Names the directory of its sockets by which a node is found from now on."""
    fetch(url, "select citus_update_node(%s, %s, %s)", node, str(sockets), PORT)
    fetch(url, "select start_metadata_sync_to_all_nodes()")  # as the daemon of Citus does some time later


async def lose_server(url: str, sockets: Path, name: str = "ledger-writer") -> None:
    """Ends the connections of this name to a server, which then answers there no more."""
    database = conninfo_to_dict(url)["dbname"]
    gone = make_conninfo(url, host=str(sockets))
    end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s and datname = %s"
    async with await psycopg.AsyncConnection.connect(gone, autocommit=True) as connection:
        await asyncio.to_thread(sockets.unlink)
        await connection.execute(end, (name, database))


async def written(writers: ShardWriters, merchants: Sequence[UUID]) -> None:
    """Writes an event of each merchant, as soon as its node can be reached."""
    for merchant in merchants:
        while True:
            with suppress(DatabaseUnavailable):
                await writers.submit(command(merchant, (uuid7(), 0, 1)))
                break
            await asyncio.sleep(0.01)


def other_host(url: str, node: int) -> str:
    ((host,),) = fetch(url, "select nodename from pg_dist_node where nodeid <> %s and shouldhaveshards", node)
    return str(host)


async def test_a_commit_is_found_after_its_connection_was_lost(writers: ShardWriters, log_url: str) -> None:
    merchants = spread(log_url)
    streams = {merchant: uuid7() for merchant in merchants}
    written = dict.fromkeys(merchants, 0)

    async def write(merchant: UUID) -> None:
        for _ in range(40):
            with suppress(DatabaseUnavailable):
                await writers.submit(command(merchant, (streams[merchant], written[merchant], 1)))
                written[merchant] += 1

    writing = [asyncio.create_task(write(merchant)) for merchant in merchants]
    end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ledger-writer'"
    for _ in range(5):
        await asyncio.sleep(0.05)
        await asyncio.to_thread(fetch, log_url, "select * from run_command_on_workers(%s)", end)
    await asyncio.gather(*writing)
    stored = dict(fetch(log_url, "select merchant_id, max(version) from event group by 1"))
    assert stored == {merchant: count for merchant, count in written.items() if count}
    assert_log_is_whole(log_url)


async def test_nothing_is_lost_when_a_node_is_killed(
    cluster: CitusCluster, writers: ShardWriters, log_url: str
) -> None:
    merchants = spread(log_url)
    streams = {merchant: uuid7() for merchant in merchants}
    written = dict.fromkeys(merchants, 0)
    is_back = False

    async def write(merchant: UUID) -> None:
        while not is_back or written[merchant] < 20:
            try:
                await writers.submit(command(merchant, (streams[merchant], written[merchant], 1)))
            except (DatabaseUnavailable, CommitUnknown):
                await asyncio.sleep(0.01)
                continue  # only this task writes to the stream: what was committed all the same is a conflict now
            except VersionConflict:
                pass
            written[merchant] += 1

    writing = [asyncio.create_task(write(merchant)) for merchant in merchants]
    worker = cluster.nodes[1]
    await asyncio.sleep(0.3)
    worker.stop(at_once=True)
    await asyncio.sleep(0.3)
    while not worker.tick():  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    is_back = True
    await asyncio.gather(*writing)
    assert dict(fetch(log_url, "select merchant_id, max(version) from event group by 1")) == written
    assert_log_is_whole(log_url)


async def test_a_locked_merchant_delays_no_other_of_its_shard(writers: ShardWriters, log_url: str) -> None:
    locked, other = same_shard(log_url)
    with psycopg.connect(log_url) as connection:
        connection.execute("select from merchant_head where merchant_id = %s for update", (locked,))
        waiting = writers.submit(command(locked, (uuid7(), 0, 1)))
        assert await writers.submit(command(other, (uuid7(), 0, 1))) == 1
        assert not waiting.done()
    assert await waiting == 1


def same_shard(url: str) -> tuple[UUID, UUID]:
    """Returns two merchants with empty logs in one shard."""
    by_shard: dict[int, UUID] = {}
    while True:
        merchant = open_log(url)
        ((shard,),) = fetch(url, "select get_shard_id_for_distribution_column('event', %s)", merchant)
        if shard in by_shard:
            return by_shard[shard], merchant
        by_shard[shard] = merchant


async def test_a_recorder_of_the_library_follows_a_shard_that_moves(log_url: str) -> None:
    merchant, stream = open_log(log_url), uuid4()
    env = {
        "PERSISTENCE_MODULE": "ledger.recorder",
        "LEDGER_DATABASE_URL": log_url,
        "LEDGER_MERCHANT_ID": str(merchant),
    }
    with closing(InfrastructureFactory.construct(env)) as factory:
        recorder = factory.application_recorder()
        for version in range(1, 4):
            event = StoredEvent(stream, version, "test", b"{}")
            assert await asyncio.to_thread(recorder.insert_events, [event]) == [version]
            await asyncio.to_thread(
                fetch,
                log_url,
                "select citus_move_shard_placement(%s, %s, %s, 'block_writes')",
                *shard_to_move(log_url, merchant),
            )
        assert len(recorder.select_events(stream)) == 3
    assert fetch(log_url, "select position from merchant_head where merchant_id = %s", merchant) == [(3,)]


async def test_a_recorder_of_the_library_follows_a_node_that_another_server_has_become(
    cluster: CitusCluster, log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(ConnectionPool[Any]):
        def __init__(self, url: str, **options: Any) -> None:
            super().__init__(url, timeout=1.0, **options)

    monkeypatch.setattr("ledger.recorder.datastore.ConnectionPool", Impatient)
    sockets, merchant = cluster.nodes[1].cluster.sockets, open_log(log_url)
    while str(sockets) not in (await shards_of(log_url)).of(merchant.bytes).url:
        merchant = open_log(log_url)
    new = sockets.parent.parent / uuid4().hex[:8]
    new.symlink_to(sockets)
    ((node,),) = fetch(log_url, "select nodeid from pg_dist_node where nodename = %s", str(sockets))
    old = sockets.parent.parent / uuid4().hex[:8]
    old.symlink_to(sockets)
    name_server(log_url, node, old)
    env = {
        "PERSISTENCE_MODULE": "ledger.recorder",
        "LEDGER_DATABASE_URL": log_url,
        "LEDGER_MERCHANT_ID": str(merchant),
    }
    with closing(InfrastructureFactory.construct(env)) as factory:
        recorder, stream = factory.application_recorder(), uuid4()
        assert await asyncio.to_thread(recorder.insert_events, [StoredEvent(stream, 1, "test", b"{}")]) == [1]
        name_server(log_url, node, new)
        await lose_server(log_url, old, "ledger-recorder")
        with pytest.raises(OperationalError):
            await asyncio.to_thread(recorder.insert_events, [StoredEvent(stream, 2, "test", b"{}")])
        assert await asyncio.to_thread(recorder.insert_events, [StoredEvent(stream, 2, "test", b"{}")]) == [2]


async def shards_of(url: str) -> Shards:
    async with await connect(url, "test") as connection:
        return Shards(await read_shards(connection, url))
