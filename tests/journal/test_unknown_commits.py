"""A batch of which nobody knows whether it was written: asked for where that can be done, and owned up to where it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs
from tests.chaos.proxy import proxied
from tests.journal.small_log import SEEN, assert_log_is_whole, command, fetch, open_log
from tests.metric_values import metric_value
from uuid_utils.compat import uuid7

from ledger.journal.append import Append, CommitUnknown
from ledger.journal.commit.lost_connection import is_rolled_back
from ledger.journal.commit.writer import Writer
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = pytest.mark.anyio

SOCKET_CLOSED = psycopg.OperationalError("connection socket closed")
"""What psycopg says by itself, while the connection still counts as a good one."""


class Unlucky(Writer):
    """Hears `fault` once instead of what the database said, after the batch was committed or before it was sent."""

    fault: Exception | None = None
    after_commit = True

    async def _execute(self, batch: Sequence[Append]) -> list[tuple[Any, ...]]:
        fault, self.fault = self.fault, None
        if fault is None:
            return await super()._execute(batch)
        if self.after_commit:
            await super()._execute(batch)
        raise fault


@pytest.mark.parametrize("fault", [SOCKET_CLOSED, psycopg.errors.AdminShutdown(), psycopg.InterfaceError("lost")])
@pytest.mark.parametrize("after_commit", [True, False], ids=["committed", "never sent"])
async def test_a_fault_that_is_not_the_servers_refusal_is_looked_into(
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


async def test_what_the_server_refuses_is_settled_and_what_it_dies_of_is_not(log_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(log_url, autocommit=True) as connection:
        await connection.execute("set statement_timeout = '200ms'")
        with pytest.raises(psycopg.OperationalError) as refused:
            await connection.execute("select pg_sleep(1)")
        await connection.execute("set statement_timeout = 0")
        with pytest.raises(psycopg.OperationalError) as died:
            await connection.execute("select pg_terminate_backend(pg_backend_pid())")
    assert is_rolled_back(refused.value)
    assert not is_rolled_back(died.value)


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "away"])
async def test_the_end_is_not_waited_for_longer_than_it_may_take(log_url: str, *, silent: bool) -> None:
    merchant = open_log(log_url)
    async with proxied(log_url) as proxy:
        writer = Writer(proxy.url, [SEEN])
        await writer.start()
        proxy.flowing.clear()
        waiting = writer.submit(command(merchant, (uuid7(), 0, 1)))
        await asyncio.sleep(0.05)
        if not silent:
            await proxy.end()
            proxy.flowing.clear()  # whoever dials is let in and hears nothing
        with capture_logs() as lines:
            await asyncio.wait_for(writer.stop(patience_s=0.2), 8)
        with pytest.raises(CommitUnknown):
            await waiting
    ended = [line for line in lines if line["event"] == "journal_ended"]
    assert [(line["unknown"], line["waiting"]) for line in ended] == [(1, 0)]
