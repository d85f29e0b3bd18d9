"""Transactions of one merchant on the node of Citus that has it, while its shard moves and under both isolations."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import psycopg
import pytest
from campaigns.citus.cluster import CitusCluster
from psycopg import IsolationLevel
from psycopg.sql import SQL, Identifier
from tests.citus.shards import WAITING, shard_to_move, split_shard
from tests.journal.small_log import fetch, open_log
from tests.postgres.test_skip_scan import assert_turns

from ledger.postgres.connection import Connection, connect
from ledger.postgres.merchant_transactions import MerchantTransactions
from ledger.postgres.migrate import migrate

pytestmark = [pytest.mark.anyio, pytest.mark.long]

MOVE = "select citus_move_shard_placement(%s, %s, %s, 'block_writes')"
BEGIN = "insert into event_feed (merchant_id, sequence, past) values (%s, 1, 0)"
NUMBER = "update event_feed set sequence = sequence + 1 where merchant_id = %s returning sequence, pg_backend_pid()"
COUNT_ON = "update event_feed set sequence = sequence + 1 where merchant_id = %s returning sequence"
ALL = "select merchant_id, sequence from event_feed where sequence > %s"
SEQUENCE = "select sequence from event_feed where merchant_id = %s"


@pytest.fixture
async def connection(distributed_url: str) -> AsyncIterator[Connection]:
    async with await connect(distributed_url, "test") as connection:
        yield connection


@pytest.fixture
async def transactions(distributed_url: str) -> AsyncIterator[MerchantTransactions]:
    transactions = MerchantTransactions(distributed_url, "test-node")
    yield transactions
    await transactions.stop()


async def test_a_statement_runs_on_the_merchants_node_and_follows_its_shard(
    transactions: MerchantTransactions, connection: Connection, distributed_url: str
) -> None:
    merchant = open_log(distributed_url)
    await transactions.execute(connection, merchant, BEGIN, [merchant])
    place = shard_to_move(distributed_url, merchant)
    assert process_name(distributed_url, await number(transactions, connection, merchant)) == "test-node"
    await connection.execute("set statement_timeout = 0")
    await connection.execute(MOVE, place)
    assert shard_to_move(distributed_url, merchant)[1] == place[2]
    await number(transactions, connection, merchant)
    assert fetch(distributed_url, SEQUENCE, merchant) == [(3,)], "nothing was written to the shard's former copy"


async def test_a_block_that_fails_leaves_nothing(
    transactions: MerchantTransactions, connection: Connection, distributed_url: str
) -> None:
    merchant = open_log(distributed_url)

    async def begin_twice() -> None:
        async with transactions.begin(connection, merchant) as node:
            await node.execute(BEGIN, [merchant])
            await node.execute(BEGIN, [merchant])

    with pytest.raises(psycopg.errors.UniqueViolation):
        await begin_twice()
    assert fetch(distributed_url, SEQUENCE, merchant) == []


@pytest.mark.parametrize("isolation", [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ])
async def test_a_transaction_that_waited_for_a_move_writes_nothing_to_the_former_node(
    transactions: MerchantTransactions, connection: Connection, distributed_url: str, isolation: IsolationLevel
) -> None:
    merchant = open_log(distributed_url)
    await connection.execute(BEGIN, [merchant])
    await connection.set_isolation_level(isolation)
    async with transactions.begin(connection, merchant):  # it knows the shards
        pass
    moved = False

    async def write() -> None:
        async with transactions.begin(connection, merchant) as node:
            assert moved, "it began while the shard moved"
            await node.execute(NUMBER, [merchant])

    async with await psycopg.AsyncConnection.connect(distributed_url) as mover:
        await mover.execute(MOVE, shard_to_move(distributed_url, merchant))
        writing = asyncio.create_task(write())
        while not await asyncio.to_thread(fetch, distributed_url, WAITING):
            assert not writing.done()
        await mover.commit()
        moved = True
        await writing
    assert fetch(distributed_url, SEQUENCE, merchant) == [(2,)]


async def test_a_snapshot_is_read_where_the_shard_is(
    transactions: MerchantTransactions, connection: Connection, distributed_url: str
) -> None:
    merchant = open_log(distributed_url)
    await connection.execute(BEGIN, [merchant])
    await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
    await connection.set_read_only(True)
    for place in range(1, 4):
        async with transactions.begin(connection, merchant) as node:
            assert await (await node.execute(SEQUENCE, [merchant])).fetchall() == [(place,)]
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                await node.execute(NUMBER, [merchant])
        await asyncio.to_thread(fetch, distributed_url, MOVE, *shard_to_move(distributed_url, merchant))
        await asyncio.to_thread(fetch, distributed_url, COUNT_ON, merchant)


async def test_a_shard_that_was_split_is_found_again(
    transactions: MerchantTransactions, connection: Connection, distributed_url: str
) -> None:
    merchant = open_log(distributed_url)
    await connection.execute(BEGIN, [merchant])
    await number(transactions, connection, merchant)
    await asyncio.to_thread(split_shard, distributed_url, merchant)
    await number(transactions, connection, merchant)
    assert fetch(distributed_url, SEQUENCE, merchant) == [(3,)]


async def test_merchants_of_all_nodes_take_turns(distributed_url: str) -> None:
    await assert_turns(distributed_url)


async def test_a_read_of_all_merchants_follows_a_shard_that_moves(
    transactions: MerchantTransactions, connection: Connection, distributed_url: str
) -> None:
    merchants = [open_log(distributed_url) for _ in range(20)]
    for merchant in merchants:
        await connection.execute(BEGIN, [merchant])
    mover, *_ = merchants
    shard, *_ = shard_to_move(distributed_url, mover)
    assert await numbers(transactions, connection) == (dict.fromkeys(merchants, 1), set())
    async with await psycopg.AsyncConnection.connect(distributed_url) as moving:
        await moving.execute(MOVE, shard_to_move(distributed_url, mover))
        found, away = await numbers(transactions, connection)
        assert away == {each for each in merchants if shard_to_move(distributed_url, each)[0] == shard}
        assert found == dict.fromkeys(set(merchants) - away, 1)
        await moving.commit()
    await connection.execute(COUNT_ON, [mover])
    await numbers(transactions, connection)
    assert await numbers(transactions, connection) == (dict.fromkeys(merchants, 1) | {mover: 2}, set())


async def numbers(transactions: MerchantTransactions, connection: Connection) -> tuple[dict[UUID, int], set[UUID]]:
    """Returns the numbers of all merchants that can be read now, and the other merchants."""
    found = await transactions.read_all(connection, ALL, (0,))
    rows = [row for group in found.groups for row in group]
    everyone = await (await connection.execute("select merchant_id from merchant_head")).fetchall()
    of = dict(rows)
    assert len(of) == len(rows), "no merchant is read twice"
    return of, {each for (each,) in everyone if found.is_away(each)}


async def test_a_server_that_is_stopped_is_waited_for_no_longer_than_for_any_answer(
    transactions: MerchantTransactions, connection: Connection, distributed_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.postgres.merchant_transactions.ANSWER_MAX_S", 1.0)
    transactions = MerchantTransactions(distributed_url, "test-stopped")
    merchant = open_log(distributed_url)
    await connection.execute(BEGIN, [merchant])
    row = await (await transactions.execute(connection, merchant, NUMBER, [merchant])).fetchone()
    assert row is not None
    os.kill(row[1], signal.SIGSTOP)
    try:
        with pytest.raises(psycopg.OperationalError):
            await number(transactions, connection, merchant)
        await number(transactions, connection, merchant)
    finally:
        os.kill(row[1], signal.SIGCONT)
        await transactions.stop()


async def test_a_database_that_is_not_divided_is_on_one_server(cluster: CitusCluster) -> None:
    """The server has Citus for other databases: its settings are there in every one of them."""
    name = f"beside_{uuid4().hex}"
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as server:
        server.execute(SQL("create database {}").format(Identifier(name)))
    url = cluster.url(name)
    migrate(url)
    merchant = open_log(url)
    async with await connect(url, "test") as connection, MerchantTransactions(url, "test-node") as transactions:
        await connection.execute(BEGIN, [merchant])
        await number(transactions, connection, merchant)
        async with transactions.begin(connection, merchant) as node:
            assert node is connection
    assert fetch(url, SEQUENCE, merchant) == [(2,)]
    cluster.drop_database(name)


async def number(transactions: MerchantTransactions, connection: Connection, merchant: UUID) -> int:
    """Takes the next number, and returns the process of the server that did it."""
    row = await (await transactions.execute(connection, merchant, NUMBER, [merchant])).fetchone()
    assert row is not None
    return int(row[1])


def process_name(url: str, pid: int) -> str:
    """Returns the name of the connection that a process of a worker serves."""
    names = fetch(
        url,
        "select result from run_command_on_workers(format($$select application_name from pg_stat_activity where pid = %%s$$, "
        "%s::text)) where result <> ''",
        pid,
    )
    return str(names[0][0])
