"""Writers whose process stops in the middle of a commit: the merchant's log is free again while they are still stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.citus_server import ON_ONE_SERVER
from tests.journal.small_log import SEEN, assert_log_is_whole, command, fetch, open_log
from uuid_utils.compat import uuid7

from ledger.journal.append import Append
from ledger.journal.commit import append_statement, group_commit, locked_merchants
from ledger.journal.commit.writer import Writer
from ledger.postgres.connection import Connection, QueryTimeout
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = [pytest.mark.anyio, ON_ONE_SERVER]

NEVER_S = 1000.0


class Stopping(Writer):
    """A writer that stops in its first batch, with the head locked and the commit unsent, until `awake` is set."""

    def __init__(self, url: str, name: str = "ledger-writer") -> None:
        super().__init__(url, [SEEN], name=name)
        self.stopped, self.awake = asyncio.Event(), asyncio.Event()

    async def _execute(self, connection: Connection, commands: Sequence[Append]) -> Sequence[tuple[Any, ...]]:
        if not self.stopped.is_set():
            pgconn = connection.pgconn
            pgconn.enter_pipeline_mode()
            heads = append_statement.lock_parameters(commands)
            pgconn.send_query_params(append_statement.LOCK_HEADS.encode(), heads, param_formats=[1])
            pgconn.send_flush_request()
            pgconn.flush()
            free = "select from merchant_head where merchant_id = %s for update skip locked"
            while fetch(self._url, free, UUID(bytes=commands[0].merchant_id)):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            self.stopped.set()
            await self.awake.wait()
        return await super()._execute(connection, commands)


async def _commit_until_it_succeeds(writer: Writer, merchant: UUID) -> int:
    async with asyncio.timeout(30):
        while True:
            try:
                return await writer.submit(command(merchant, (uuid7(), 0, 1)))
            except DatabaseUnavailable:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("the server", "ledger-writer"),
        *[("another writer", name) for name in ("ledger-writer", "ledger-large-commits")],
    ],
)
async def test_a_writer_that_stops_in_its_commit_holds_the_others_up_for_a_while_only(
    log_url: str, monkeypatch: pytest.MonkeyPatch, by: str, name: str
) -> None:
    if by == "the server" and fetch(log_url, "show server_version_num") < [("170000",)]:
        pytest.skip("transaction_timeout came with Postgres 17")
    merchant = open_log(log_url)
    monkeypatch.setattr(QueryTimeout.__init__, "__defaults__", (NEVER_S,))  # a stopped process would not run it
    monkeypatch.setattr(group_commit, "COMMIT_MAX_S", 0.5 if by == "the server" else NEVER_S)
    monkeypatch.setattr(locked_merchants, "COMMIT_MAX_S", NEVER_S if by == "the server" else 0.5)
    stopping, other = Stopping(log_url, name), Writer(log_url, [SEEN])
    for writer in (stopping, other):
        await writer.start()
    unanswered = stopping.submit(command(merchant, (uuid7(), 0, 1)))
    await stopping.stopped.wait()
    assert await _commit_until_it_succeeds(other, merchant) == 1
    assert not unanswered.done(), "the other one went on while this one was stopped"
    stopping.awake.set()
    with pytest.raises(
        DatabaseUnavailable
    ):  # known to be unwritten, although the end of a connection may follow a commit
        await unanswered
    assert await stopping.submit(command(merchant, (uuid7(), 0, 1))) == 2
    for writer in (stopping, other):
        await writer.stop()
    assert_log_is_whole(log_url)


async def test_a_commit_that_waits_for_the_server_is_not_taken_for_a_stopped_one(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked_merchants, "COMMIT_MAX_S", 0.0)
    locked = open_log(log_url)
    writers = [Writer(log_url, [SEEN]) for _ in range(2)]
    for writer in writers:
        await writer.start()
    backends = [writer._backend for writer in writers]
    with psycopg.connect(log_url) as holder:
        holder.execute("select 1 from merchant_head where merchant_id = %s for update", (locked,))
        pending = [writer.submit(command(locked, (uuid7(), 0, 1))) for writer in writers]
        await asyncio.sleep(3 * locked_merchants.LOCK_WAIT_S)
    assert sorted(await asyncio.gather(*pending)) == [1, 2]
    assert [writer._backend for writer in writers] == backends
    for writer in writers:
        await writer.stop()


async def test_a_commit_is_sent_before_its_writer_waits_for_anything(log_url: str) -> None:
    merchant, writer = open_log(log_url), Writer(log_url, [SEEN])
    await writer.start()
    await writer.submit(command(merchant, (uuid7(), 0, 1)))  # prepares the statements
    assert writer._connection is not None
    answer = writer._execute(writer._connection, [command(merchant, (uuid7(), 0, 1))])
    until = time.monotonic() + 60
    while fetch(log_url, "select count(*) from event") != [(2,)]:
        assert time.monotonic() < until
        time.sleep(0.01)  # noqa: ASYNC251 - the loop has no turn: nothing more is sent meanwhile
    await answer
    assert await writer.submit(command(merchant, (uuid7(), 0, 1))) == 3
    await writer.stop()
