"""Commits that wait for a synchronous standby which does not answer: none is answered, none is made visible."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from structlog.testing import capture_logs
from tests.citus_server import ON_ONE_SERVER
from tests.journal.small_log import SEEN, assert_log_is_whole, command, fetch, open_log
from tests.standbys import lose_standby, regain_standby, until_waiting, waiting_backends, without_standby
from uuid_utils.compat import uuid7

from ledger.journal.append import Append, CommitUnknown
from ledger.journal.commit import group_commit
from ledger.journal.commit.writer import Writer
from ledger.journal.journal import Journal
from ledger.journal.operator import Operator
from ledger.journal.operator_commands import record_command
from ledger.postgres.connection import (
    Connection,
    QueryTimeout,
    backend_of,
    connect,
    end_backend,
)
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.replication import wait_for_standbys
from projections.inline import Inline

pytestmark = [pytest.mark.anyio, ON_ONE_SERVER]

ANSWER_S = 0.5
EVENTS = "select count(*) from event"


class Unlucky(Writer):
    """A writer whose first commit is not answered, and whose standby is lost before it looks up that commit."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.has_lost = asyncio.Event()

    async def _execute(self, connection: Connection, commands: Sequence[Append]) -> Sequence[tuple[Any, ...]]:
        rows = await super()._execute(connection, commands)
        if self.has_lost.is_set():
            return rows
        raise psycopg.OperationalError("connection socket closed")

    async def _find_committed(self, connection: Connection, commands: Sequence[Append]) -> Mapping[int, int]:
        await lose_standby(self._url)
        self.has_lost.set()
        return await super()._find_committed(connection, commands)


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueryTimeout.__init__, "__defaults__", (ANSWER_S,))
    for name in ("ANSWER_MAX_S", "UNKNOWN_MAX_S", "START_MAX_S"):
        monkeypatch.setattr(group_commit, name, ANSWER_S)


async def until_alive(writer: Writer) -> None:
    async with asyncio.timeout(20):
        while not writer.alive:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("ended_by", ["nobody", "pg_terminate_backend", "pg_cancel_backend"])
async def test_a_commit_without_its_standby_is_not_answered_whoever_ends_its_wait(log_url: str, ended_by: str) -> None:
    merchant, writer = open_log(log_url), Writer(log_url, [SEEN])
    await writer.start()
    with capture_logs() as lines:
        async with without_standby(log_url):
            pending = writer.submit(command(merchant, (uuid7(), 0, 1)))
            backend = writer._backend[0]
            await until_waiting(log_url, backend)
            assert writer.oldest_commit_s > 0
            if ended_by != "nobody":
                fetch(log_url, f"select {ended_by}(%s)", backend)
            with pytest.raises(CommitUnknown):
                await asyncio.wait_for(pending, 20)
            assert not writer.alive
            with pytest.raises(DatabaseUnavailable):
                await writer.confirm(merchant)
            assert fetch(log_url, EVENTS) == [(ended_by != "nobody",)], "the ledger does not end a wait"
            async with asyncio.timeout(20):
                while all(line["event"] != "journal_unconfirmed" for line in lines):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
        await until_alive(writer)
        assert await writer.submit(command(merchant, (uuid7(), 0, 1))) == 2
    await writer.stop()
    assert_log_is_whole(log_url)
    logged = {line["event"] for line in lines}
    assert ("database_commit_unreplicated" in logged) == (ended_by != "nobody")


@pytest.mark.parametrize("level", ["off", "local"])
async def test_a_commit_waits_for_the_standby_also_at_a_server_whose_commits_do_not(log_url: str, level: str) -> None:
    merchant = open_log(log_url)
    writer = Writer(make_conninfo(log_url, options=f"-c synchronous_commit={level}"), [SEEN])
    await writer.start()
    async with without_standby(log_url):
        pending = writer.submit(command(merchant, (uuid7(), 0, 1)))
        with pytest.raises(CommitUnknown):
            await asyncio.wait_for(pending, 20)
    await writer.stop()


async def test_a_commit_that_was_found_counts_only_with_the_standby(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANSWER_MAX_S", "UNKNOWN_MAX_S"):
        monkeypatch.setattr(group_commit, name, 30.0)
    merchant, writer = open_log(log_url), Unlucky(log_url, [SEEN])
    await writer.start()
    pending = writer.submit(command(merchant, (uuid7(), 0, 1)))
    try:
        await writer.has_lost.wait()
        while writer._candidate[0] not in await waiting_backends(log_url):
            assert not pending.done()
        assert fetch(log_url, EVENTS) == [(1,)]
    finally:
        await regain_standby(log_url)
    assert await pending == 1
    await writer.stop()


async def test_a_new_process_writes_nothing_before_its_standby_has_what_it_finds(log_url: str) -> None:
    merchant, writer = open_log(log_url), Writer(log_url, [SEEN])
    async with without_standby(log_url):
        await writer.start()
        assert not writer.alive
        with pytest.raises(DatabaseUnavailable):
            writer.submit(command(merchant, (uuid7(), 0, 1)))
        waited = writer._candidate[0]
        while waited in await waiting_backends(log_url):  # noqa: ASYNC110 - each attempt ends the one before
            await asyncio.sleep(0.01)
    await until_alive(writer)
    assert await writer.submit(command(merchant, (uuid7(), 0, 1))) == 1
    await writer.stop()


async def test_a_command_that_is_recorded_does_not_wait_for_the_standby_without_end(log_url: str) -> None:
    async with without_standby(log_url):
        with pytest.raises(psycopg.OperationalError):
            await asyncio.wait_for(record_command(log_url, Operator(name="ana", command="jobs retry")), 20)


async def test_a_log_that_is_opened_does_not_wait_for_the_standby_without_end(log_url: str) -> None:
    journal = Journal(log_url, Inline())
    async with without_standby(log_url):
        with pytest.raises(psycopg.OperationalError):
            await asyncio.wait_for(journal.open_log(uuid7()), 20)


async def test_neither_a_cancelled_task_nor_a_lost_connection_ends_a_wait_for_the_standby(log_url: str) -> None:
    connection, other = [await connect(log_url, "ledger-test") for _ in range(2)]
    async with connection, other:
        backend = await backend_of(connection)
        async with without_standby(log_url):
            commit = asyncio.create_task(wait_for_standbys(connection))
            await until_waiting(log_url, backend[0])
            commit.cancel()  # as a stop does
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(end_backend(other, backend), ANSWER_S)
            assert backend[0] in await waiting_backends(log_url)
        with pytest.raises(asyncio.CancelledError):
            await commit
        assert not connection.is_unreplicated
