"""A server that is silent: all connections to it are cut at once, and those to one that answers are kept."""

from __future__ import annotations

import asyncio
import time

import psycopg
import pytest
from campaigns.chaos.proxy import Proxy, proxied
from psycopg.pq import TransactionStatus
from structlog.testing import capture_logs
from tests.citus_server import ON_ONE_SERVER
from tests.journal.small_log import SEEN, command, fetch, open_log
from tests.servers import address_of, naming
from tests.standbys import without_standby
from uuid_utils.compat import uuid7

from ledger.journal.append import CommitUnknown
from ledger.journal.commit.writer import Writer
from ledger.postgres import connection as connections
from ledger.postgres import silent_servers
from ledger.postgres.connection import QueryTimeout, SharedClient, connect
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.listener import Listener
from ledger.postgres.silent_servers import WatchedConnection, cut_if_silent
from projections.lists.pool import ListPool

pytestmark = [pytest.mark.anyio, ON_ONE_SERVER]

PATIENCE_S = 20
SILENT_S = 0.3


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (connections, silent_servers):
        monkeypatch.setattr(module, "SILENT_S", SILENT_S)
    monkeypatch.setattr(connections, "_LOOK_AGAIN_S", 0.05)


def of_server(proxy: Proxy) -> list[WatchedConnection]:
    """The connections of this process through a proxy that are open."""
    port = proxy.url.partition("port=")[2].partition(" ")[0].encode()
    return [each for each in silent_servers._open if each.server[2] == port and not each.closed]


async def test_one_statement_without_an_answer_has_all_connections_to_the_silent_server_cut(log_url: str) -> None:
    merchant, listened = open_log(log_url), asyncio.Semaphore(0)
    async with proxied(log_url) as proxy, asyncio.timeout(PATIENCE_S):
        url = naming(log_url, address_of(proxy.url), address_of(log_url))
        writer, lists = Writer(url, [SEEN]), ListPool(url)
        listener = Listener(url, "test-listener", "test", lambda _: None, listened.release)
        asking, idle = SharedClient(url, "test-asking"), SharedClient(url, "test-idle")
        await writer.start()
        await lists.start()
        await listener.start()
        await listened.acquire()
        for client in (asking, idle):
            async with client.turn() as connection:
                await connection.execute("select 1")
        assert len(of_server(proxy)) == 5
        proxy.flowing.clear()
        with capture_logs() as lines:
            with pytest.raises(DatabaseUnavailable):  # noqa: PT012 - the turn raises what the statement raised
                async with asking.turn() as connection:
                    with QueryTimeout(connection, PATIENCE_S):
                        await connection.execute("select 1")
            # Nobody waits for an answer any more: the other server of the string is the primary.
            await listened.acquire()
            async with idle.turn() as connection:
                assert await (await connection.execute("select 1")).fetchone() == (1,)
            while not writer.alive:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            assert await writer.submit(command(merchant, (uuid7(), 0, 1))) == 1
            assert await lists.rows("select 1", {}) == [(1,)]
        assert not of_server(proxy)
        silent = [line for line in lines if line["event"] == "database_silent"]
        assert [line["connections"] for line in silent] == [5]
        for each in (writer, lists, listener, asking, idle):
            await each.stop()


async def test_a_statement_whose_task_is_cancelled_waits_for_no_silent_server(
    log_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """psycopg asks the server to end the statement, and waits for its answer, for five seconds each."""
    caplog.set_level("WARNING", logger="psycopg")  # the eventsourcing library raises it when it is imported
    for module in (connections, silent_servers):
        monkeypatch.setattr(module, "SILENT_S", PATIENCE_S)  # nothing else breaks the connection
    monkeypatch.setattr(silent_servers, "_CANCEL_MAX_S", PATIENCE_S)
    async with proxied(log_url) as proxy, asyncio.timeout(PATIENCE_S):
        lists = ListPool(naming(log_url, address_of(proxy.url)))
        await lists.start()
        [connection] = of_server(proxy)
        listing = asyncio.create_task(lists.rows("select pg_sleep(60)", {}))
        while connection.info.transaction_status != TransactionStatus.ACTIVE:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        listing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listing
        assert "query not terminated" not in caplog.text
        assert not connection.closed, "a server that answers ends the statement"
        listing = asyncio.create_task(lists.rows("select pg_sleep(60)", {}))
        while connection.info.transaction_status != TransactionStatus.ACTIVE:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        proxy.flowing.clear()
        monkeypatch.setattr(silent_servers, "_CANCEL_MAX_S", 0.1)
        listing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listing
        assert connection.closed
        assert "query cancellation failed: cancellation timeout expired" in caplog.text
        assert "query not terminated" not in caplog.text, "its answer was waited for"
        proxy.flowing.set()
        await lists.stop()


async def test_a_commit_that_waits_for_its_standby_makes_no_server_silent(log_url: str) -> None:
    merchant, writer = open_log(log_url), Writer(log_url, [SEEN])
    await writer.start()
    async with await connect(log_url, "test-idle") as idle, await connect(log_url, "test") as asked:
        async with without_standby(log_url):
            pending = writer.submit(command(merchant, (uuid7(), 0, 1)))
            with QueryTimeout(writer._connection, PATIENCE_S):  # type: ignore[arg-type]
                for _ in range(20):
                    await asked.execute("select pg_sleep(0.05)")
            assert not pending.done()
            assert writer.alive
            assert not idle.closed
        assert await pending == 1
    await writer.stop()


async def test_an_error_is_an_answer(log_url: str) -> None:
    async with await connect(log_url, "test") as waiting, await connect(log_url, "test") as refused:
        statement = asyncio.create_task(waiting.execute("select pg_sleep(60)"))
        await asyncio.sleep(2 * SILENT_S)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await refused.execute("select 1 / 0")
        assert not cut_if_silent(waiting)
        await asyncio.sleep(2 * SILENT_S)
        assert cut_if_silent(waiting)
        with pytest.raises(psycopg.OperationalError):
            await statement


async def test_an_answer_that_has_arrived_and_is_not_read_is_one(log_url: str) -> None:
    async with await connect(log_url, "test") as busy, await connect(log_url, "test") as idle:
        await asyncio.sleep(2 * SILENT_S)
        busy.pgconn.send_query(b"select 1")
        while not silent_servers._has_unread(busy):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)  # a process that is stopped reads nothing either
        assert not cut_if_silent(idle)
        busy.pgconn.get_result()
        busy.pgconn.get_result()
        assert cut_if_silent(idle)
        assert busy.closed
        assert idle.closed


async def test_a_connection_that_the_server_ended_long_ago_is_no_answer(log_url: str) -> None:
    async with await connect(log_url, "test") as ended, await connect(log_url, "test") as idle:
        async with await connect(log_url, "test") as other:
            answer = await other.execute("select pg_terminate_backend(%s, 5000)", (ended.info.backend_pid,))
            assert await answer.fetchone() == (True,)
        await asyncio.sleep(2 * SILENT_S)
        assert silent_servers._has_unread(ended)
        assert cut_if_silent(idle)
        assert idle.closed


async def test_a_listener_that_waits_for_nothing_hears_nothing(log_url: str) -> None:
    async with await connect(log_url, "test") as listening, await connect(log_url, "test") as asked:
        await listening.execute("listen nothing")
        since = time.monotonic()
        assert [notification async for notification in listening.notifies(timeout=2 * SILENT_S)] == []
        assert listening.is_silent_since(since)
        assert cut_if_silent(asked)
        assert listening.closed


async def test_a_commit_that_was_cut_is_unknown_until_its_server_answers(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.journal.commit.group_commit.UNKNOWN_MAX_S", 0.2)
    merchant = open_log(log_url)
    async with proxied(log_url) as proxy, asyncio.timeout(PATIENCE_S):
        writer = Writer(proxy.url, [SEEN])
        await writer.start()
        proxy.decide = lambda _wire, _piece, from_client: None if from_client else _stop(proxy)
        pending = writer.submit(command(merchant, (uuid7(), 0, 1)))
        with pytest.raises(CommitUnknown):
            await pending
        proxy.decide = lambda *_: None
        proxy.flowing.set()
        while not writer.alive:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        assert fetch(log_url, "select count(*) from event") == [(1,)], "it had committed"
        assert await writer.submit(command(merchant, (uuid7(), 0, 1))) == 2
        await writer.stop()


def _stop(proxy: Proxy) -> int:
    """Loses an answer, and forwards nothing more."""
    proxy.flowing.clear()
    return 0


async def test_a_transaction_that_was_cut_between_two_statements_does_not_end_as_if_it_had_committed(
    log_url: str,
) -> None:
    async with await connect(log_url, "test") as connection:
        with pytest.raises(psycopg.OperationalError):  # noqa: PT012 - the end of the block raises
            async with connection.transaction():
                await connection.execute("create table never_made ()")
                await asyncio.sleep(2 * SILENT_S)
                assert cut_if_silent(connection)
    assert fetch(log_url, "select to_regclass('never_made')") == [(None,)]


async def test_two_statements_that_notice_it_at_the_same_moment_report_it_once(log_url: str) -> None:
    async with await connect(log_url, "test") as one, await connect(log_url, "test") as other:
        statements = [asyncio.create_task(each.execute("select pg_sleep(60)")) for each in (one, other)]
        await asyncio.sleep(2 * SILENT_S)
        with capture_logs() as lines:
            assert cut_if_silent(one)
            assert cut_if_silent(other)
        assert [line["connections"] for line in lines] == [2]
        ended = await asyncio.gather(*statements, return_exceptions=True)
        assert [type(each) for each in ended] == [psycopg.OperationalError] * 2
