"""Batches whose commit is unknown: the log resolves them where it can be read, else they are reported as unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from campaigns.chaos.proxy import proxied
from structlog.testing import capture_logs
from tests.citus_server import ON_ONE_SERVER
from tests.journal.small_log import SEEN, assert_log_is_whole, command, fetch, open_log
from tests.metric_values import metric_value
from uuid_utils.compat import uuid7

from ledger.journal.append import Append, CommitUnknown
from ledger.journal.commit.group_commit import is_rolled_back
from ledger.journal.commit.writer import Writer
from ledger.postgres.connection import Connection
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.silent_servers import abort_connection

pytestmark = [pytest.mark.anyio, ON_ONE_SERVER]

SOCKET_CLOSED = psycopg.OperationalError("connection socket closed")
"""psycopg raises this by itself while the connection still counts as good."""


class Unlucky(Writer):
    """A writer that meets `fault` once, after its batch was committed or before the batch was sent."""

    fault: Exception | None = None
    after_commit = True

    async def _execute(self, connection: Connection, commands: Sequence[Append]) -> Sequence[tuple[Any, ...]]:
        fault, self.fault = self.fault, None
        if fault is None:
            return await super()._execute(connection, commands)
        if self.after_commit:
            await super()._execute(connection, commands)
        raise fault


class Patient(Writer):
    """A writer that waits long for a locked head."""

    _lock_timeout = "9s"


_BACKEND = "select from pg_stat_activity where pid = %s"


@pytest.mark.parametrize("fault", [SOCKET_CLOSED, psycopg.errors.AdminShutdown(), psycopg.InterfaceError("lost")])
@pytest.mark.parametrize("after_commit", [True, False], ids=["committed", "never sent"])
async def test_a_fault_other_than_a_servers_error_is_resolved_by_the_log(
    log_url: str, fault: Exception, *, after_commit: bool
) -> None:
    merchant, writer = open_log(log_url), Unlucky(log_url, [SEEN])
    await writer.start()
    writer.fault, writer.after_commit = fault, after_commit
    lost_before = metric_value("ledger_database_reconnects_total", "writer")
    outcomes = await asyncio.gather(
        *[writer.submit(command(merchant, (uuid7(), 0, 1))) for _ in range(3)], return_exceptions=True
    )
    stored = fetch(log_url, "select count(*) from event")[0][0]
    assert metric_value("ledger_database_reconnects_total", "writer") - lost_before == 1
    if after_commit:
        assert (outcomes, stored) == ([1, 2, 3], 3)
    else:
        assert ([type(each) for each in outcomes], stored) == ([DatabaseUnavailable] * 3, 0)
    await writer.submit(command(merchant, (uuid7(), 0, 1)))
    await writer.stop()
    assert_log_is_whole(log_url)


async def test_an_event_of_another_command_at_the_same_version_is_not_taken_for_the_own_one(
    log_url: str, writer: Writer
) -> None:
    merchant, stream = open_log(log_url), uuid7()

    class Overtaken(Writer):
        async def _execute(self, *_: object) -> Sequence[tuple[Any, ...]]:
            await writer.submit(command(merchant, (stream, 0, 1)))
            raise SOCKET_CLOSED

    overtaken = Overtaken(log_url, [SEEN])
    await overtaken.start()
    with pytest.raises(DatabaseUnavailable):
        await overtaken.submit(command(merchant, (stream, 0, 1)))
    await overtaken.stop()


async def test_a_backend_that_still_waits_is_ended_before_its_command_is_answered(log_url: str) -> None:
    merchant, writer = open_log(log_url), Patient(log_url, [SEEN])
    await writer.start()
    pid = writer._backend[0]
    with psycopg.connect(log_url) as holder:
        holder.execute("select from merchant_head where merchant_id = %s for update", (merchant,))
        outcome = writer.submit(command(merchant, (uuid7(), 0, 1)))
        while not fetch(log_url, f"{_BACKEND} and wait_event_type = 'Lock'", pid):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        assert writer._connection is not None
        abort_connection(writer._connection)
        with pytest.raises(DatabaseUnavailable):
            await outcome
    while fetch(log_url, _BACKEND, pid):  # noqa: ASYNC110 - with the lock it would commit now
        await asyncio.sleep(0.01)
    assert fetch(log_url, "select from event") == []
    await writer.stop()


async def test_a_servers_error_is_rolled_back_and_a_terminated_backend_is_unknown(log_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(log_url, autocommit=True) as connection:
        await connection.execute("set statement_timeout = '200ms'")
        with pytest.raises(psycopg.OperationalError) as refused:
            await connection.execute("select pg_sleep(1)")
        await connection.execute("set statement_timeout = 0")
        with pytest.raises(psycopg.OperationalError) as terminated:
            await connection.execute("select pg_terminate_backend(pg_backend_pid())")
    assert is_rolled_back(refused.value)
    assert not is_rolled_back(terminated.value)


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "away"])
async def test_stopping_does_not_wait_longer_than_its_patience(log_url: str, *, silent: bool) -> None:
    merchant = open_log(log_url)
    async with proxied(log_url) as proxy:
        writer = Writer(proxy.url, [SEEN])
        await writer.start()
        proxy.flowing.clear()
        pending = writer.submit(command(merchant, (uuid7(), 0, 1)))
        await asyncio.sleep(0.05)
        if not silent:
            await proxy.end()
            proxy.flowing.clear()  # a new connection is accepted and gets no answer
        with capture_logs() as lines:
            await asyncio.wait_for(writer.stop(patience_s=0.2), 8)
        with pytest.raises(CommitUnknown):
            await pending
    ended = [line for line in lines if line["event"] == "journal_ended"]
    assert [(line["unknown"], line["waiting"]) for line in ended] == [(1, 0)]
