"""A client's connection: which errors of the server count as a database that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC
from functools import partial
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from structlog.testing import capture_logs
from tests.standbys import waiting_backends, without_standby

from ledger.background.inbox.missed import ReadMarks
from ledger.postgres import connection as connections
from ledger.postgres import listener, pipeline
from ledger.postgres.connection import (
    Connection,
    QueryTimeout,
    SharedClient,
    TakesNoWrites,
    connect,
    held_up_commits,
    reconnect,
)
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.listener import Listener
from ledger.postgres.silent_servers import has_ended
from projections.lists import pool
from projections.lists.pool import ListPool
from projections.orders.reconciliation import ReconciliationLog

pytestmark = pytest.mark.anyio


async def test_a_database_that_became_read_only_is_unavailable_and_a_wrong_statement_is_not(database_url: str) -> None:
    async with SharedClient(database_url, "test-client") as client:
        with pytest.raises(psycopg.ProgrammingError):
            async with client.turn() as connection:
                await connection.execute("select no_column")
        async with client.turn() as connection:
            await connection.execute("set default_transaction_read_only = on")
        with pytest.raises(DatabaseUnavailable):
            async with client.turn() as connection:
                await connection.execute("create table written ()")
        async with client.turn() as connection:
            assert await (await connection.execute("select 1")).fetchone() == (1,)


async def test_no_request_fails_because_the_server_ended_an_idle_connection(database_url: str) -> None:
    async with SharedClient(database_url, "test-ended") as client, await connect(database_url, "test") as other:
        async with client.turn() as connection:
            pid = connection.info.backend_pid
        ended = await other.execute("select pg_terminate_backend(%s, 5000)", (pid,))
        assert await ended.fetchone() == (True,)
        async with connection.lock:
            assert not has_ended(connection), "the answer of a statement under way is no end"
        async with client.turn() as connection:
            assert await (await connection.execute("select 1")).fetchone() == (1,)


@pytest.mark.parametrize("kind", [ReadMarks, ReconciliationLog])
async def test_tasks_that_use_a_client_side_by_side_replace_a_connection_that_was_ended_once(
    database_url: str, kind: type[ReadMarks | ReconciliationLog]
) -> None:
    async with kind(database_url) as client, await connect(database_url, "test") as other:

        async def pids() -> list[int]:
            query = "select pid from pg_stat_activity where datname = current_database() and application_name = %s"
            return [pid for (pid,) in await (await other.execute(query, (client._name,))).fetchall()]

        def use() -> Awaitable[object]:
            if isinstance(client, ReadMarks):
                return client.read_until(UUID(int=1), "x")
            return client.caught_up((UUID(int=1), "x"))

        (ended,) = await pids()
        assert await (await other.execute("select pg_terminate_backend(%s, 5000)", (ended,))).fetchone() == (True,)
        await asyncio.gather(*[use() for _ in range(8)])
        assert len(await pids()) == 1


async def test_a_connection_opens_after_one_was_closed_while_a_task_waited_for_it(database_url: str) -> None:
    connection = await connect(database_url, "test-closed")
    number = connection.fileno()
    waiting = asyncio.create_task(connection.execute("select pg_sleep(30)"))
    await asyncio.sleep(0.1)
    await connection.close()
    async with await connect(database_url, "test-next") as following:
        assert following.fileno() == number, "the socket has the number that the waiting task knows"
    with pytest.raises(psycopg.OperationalError):
        await waiting


async def test_every_connection_string_of_libpq_works_and_keeps_its_own_options(database_url: str) -> None:
    string = make_conninfo(
        database_url, target_session_attrs="read-write", options="-c search_path=public,pg_catalog -c work_mem=5MB"
    )
    settings = (
        "select current_setting('search_path'), current_setting('work_mem'), current_setting('statement_timeout')"
    )
    async with await connect(string, "test") as connection:
        assert await (await connection.execute(settings)).fetchone() == ("public,pg_catalog", "5MB", "10s")
    lists = ListPool(string)
    await lists.start()
    try:
        assert await lists.rows(settings, {}) == [("public,pg_catalog", "32MB", "5s")]
        with pytest.raises(DatabaseUnavailable, match="ReadOnlySqlTransaction"):
            await lists.rows("create table written ()", {})
    finally:
        await lists.stop()


async def test_what_the_list_pool_writes_waits_for_no_standby_and_no_silent_server(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = ListPool(database_url)
    await lists.start()
    try:
        async with without_standby(database_url):
            await asyncio.wait_for(lists.write("create table written ()", {}), 20)
        assert await lists.rows("select from written", {}) == []
        monkeypatch.setattr(pool, "_ANSWER_MAX_S", 0.2)
        with pytest.raises(DatabaseUnavailable, match="OperationalError"):
            await lists.write("select pg_sleep(4)", {})
    finally:
        await lists.stop()


@pytest.mark.parametrize(("level", "of_session"), [("off", "on"), ("remote_write", "on"), ("remote_apply",) * 2])
async def test_a_session_commits_no_less_surely_than_the_standby_needs(
    database_url: str, level: str, of_session: str
) -> None:
    string = make_conninfo(database_url, options=f"-c synchronous_commit={level}")
    async with await connect(string, "test-options") as connection:
        assert await (await connection.execute("show synchronous_commit")).fetchone() == (of_session,)


async def test_times_are_read_in_utc_whatever_the_zone_of_the_server_is(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(f"alter database {owner.info.dbname} set timezone = 'America/Mexico_City'")
    async with await connect(database_url, "test") as connection:
        row = await (await connection.execute("select now()")).fetchone()
    assert row is not None
    assert row[0].tzinfo is UTC
    lists = ListPool(database_url)
    await lists.start()
    try:
        assert (await lists.rows("select now()", {}))[0][0].tzinfo is UTC
    finally:
        await lists.stop()


async def test_a_standby_is_no_database_to_write_to(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as standby:
        standby.setattr(connections, "SET", connections.SET.replace("pg_is_in_recovery()", "true"))
        with pytest.raises(TakesNoWrites, match="name the primary, or every server"):
            await connect(database_url, "test")
        with pytest.raises(DatabaseUnavailable):
            async with SharedClient(database_url, "test").turn():
                pass
        with capture_logs() as lines:
            waiting = asyncio.create_task(reconnect("test", partial(connect, database_url, "test")))
            while not lines:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
    await (await waiting).close()
    assert [(line["event"], line["of"]) for line in lines] == [("database_read_only", "test")]


@pytest.mark.parametrize("is_under_way", [False, True], ids=["in a pause", "in a try"])
async def test_one_connection_that_opens_has_the_others_look_at_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch, *, is_under_way: bool
) -> None:
    monkeypatch.setattr(connections, "_RETRY_FIRST_S", 600.0)
    monkeypatch.setattr(connections, "_RETRY_MAX_S", 600.0)
    asked: list[str] = []
    is_promoted = asyncio.Event()

    async def open_one(name: str) -> connections.Connection:
        asked.append(name)
        if asked.count(name) == 1:
            if is_under_way:
                await is_promoted.wait()
            raise psycopg.OperationalError("a test")
        return await connect(database_url, name)

    names = [f"test-{n}" for n in range(3)]
    waiting = [asyncio.create_task(reconnect(name, partial(open_one, name))) for name in names]
    while len(asked) < len(names):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    async with asyncio.timeout(20):
        await (await reconnect("test", partial(connect, database_url, "test"))).close()
        is_promoted.set()
        for each in waiting:
            await (await each).close()
    assert len(asked) == 2 * len(names)
    assert not connections._searches


async def test_connections_that_are_lost_together_look_for_the_database_at_different_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def pause(_: asyncio.Event, seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(3600)

    async def refused() -> Connection:
        raise psycopg.OperationalError("a test")

    monkeypatch.setattr(connections, "_pause_until_one_opens", pause)
    looking = [asyncio.create_task(reconnect(f"test-{n}", refused)) for n in range(10)]
    while len(pauses) < len(looking):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0)
    for each in looking:
        each.cancel()
    await asyncio.gather(*looking, return_exceptions=True)
    assert len(set(pauses)) == len(pauses)
    assert all(connections._RETRY_FIRST_S / 2 <= seconds <= connections._RETRY_FIRST_S for seconds in pauses)


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_a_client_that_gave_up_a_commit_leaves_no_second_one_waiting(
    database_url: str, is_pipelined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "select pg_logical_emit_message(true, 'test', '')"

    async def execute(connection: Connection) -> None:
        monkeypatch.setattr(pipeline, "QueryTimeout", partial(QueryTimeout, seconds=0.3))
        if is_pipelined:
            sent = pipeline.Pipeline(connection, lambda: None)
            await sent.send([(pipeline.Statement(b"commit", commit.encode()), [])], len)
            sent.close()
        else:
            with QueryTimeout(connection, 0.3):
                await connection.execute(commit)

    async with SharedClient(database_url, "test-commits") as client:
        async with without_standby(database_url):
            before = len(await waiting_backends(database_url))
            for _ in range(4):
                with pytest.raises(DatabaseUnavailable):
                    async with client.turn() as connection:
                        await execute(connection)
            assert len(await waiting_backends(database_url)) - before == 1
        while await waiting_backends(database_url):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        async with client.turn() as connection:
            await execute(connection)


async def test_commits_that_are_held_up_are_found_and_those_that_were_given_up_too(database_url: str) -> None:
    commit = "select pg_logical_emit_message(true, 'test', '')"
    async with (
        await connect(database_url, "test-look") as looking,
        await connect(database_url, "test-waits") as waits,
        await connect(database_url, "test-gives-up") as gives_up,
        asyncio.timeout(60),
    ):
        async with without_standby(database_url):
            waiting = asyncio.create_task(waits.execute(commit))
            with pytest.raises(psycopg.OperationalError), QueryTimeout(gives_up, 0.3):
                await gives_up.execute(commit)
            while await held_up_commits(looking) != ["test-gives-up", "test-waits"]:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        await waiting
        while await held_up_commits(looking):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)


async def test_a_database_that_may_only_be_read_is_not_connected_to(database_url: str) -> None:
    string = make_conninfo(database_url, options="-c default_transaction_read_only=on")
    with pytest.raises(TakesNoWrites, match="is read-only: name the primary"):
        await connect(string, "test")


async def test_a_listener_that_cannot_listen_tries_again_with_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def refused(listening: Listener) -> None:
        if len(pauses) == 9:
            raise asyncio.CancelledError
        listening._listening.set()
        raise psycopg.OperationalError("a test")

    async def noted(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(Listener, "_listen", refused)
    monkeypatch.setattr(listener.asyncio, "sleep", noted)
    with pytest.raises(asyncio.CancelledError):
        await Listener("", "test", "test", lambda _: None, lambda: None)._run()
    assert pauses[:3] == [0.1, 0.2, 0.4]  # also while each connection listens for a moment
    assert pauses[-1] == 5.0
