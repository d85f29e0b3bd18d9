"""Two batches in flight, and each fault that one of them or both can meet: every command gets its own true answer."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from campaigns.chaos.proxy import SYNC, Wire, proxied
from psycopg import sql
from structlog.testing import capture_logs
from tests.citus_server import ON_ONE_SERVER
from tests.journal.small_log import SEEN, assert_log_is_whole, command, fetch, open_log
from tests.metric_values import metric_value
from uuid_utils.compat import uuid7

from ledger.domain.streams import ClaimKind
from ledger.journal.append import Append, Claim, ClaimTaken, CommitUnknown, DataRefused, VersionConflict
from ledger.journal.commit import group_commit, locked_merchants
from ledger.journal.commit.writer import Writer
from ledger.postgres import connection as connections
from ledger.postgres.connection import Connection
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.pipeline import Rows

pytestmark = [pytest.mark.anyio, ON_ONE_SERVER]

PATIENCE_S = 60


class Patient(Writer):
    """A writer that waits long for a locked head, and counts its look-ups after a lost connection by their commands."""

    _lock_timeout = "60s"

    def __init__(self, url: str, batch_max: int) -> None:
        super().__init__(url, [SEEN], batch_max=batch_max)
        self.looked_up: list[int] = []

    async def _find_committed(self, connection: Connection, commands: Sequence[Append]) -> Mapping[int, int]:
        self.looked_up.append(len(commands))
        return await super()._find_committed(connection, commands)


@asynccontextmanager
async def started(url: str, batch_max: int = 1) -> AsyncIterator[Patient]:
    """Runs a writer whose batches have `batch_max` commands, and whose second batch waits for as many."""
    writer = Patient(url, batch_max)
    await writer.start()
    yield writer
    await writer.stop()


@contextmanager
def locked(url: str, merchant: UUID) -> Iterator[None]:
    """Holds a merchant's head, so that a batch of this merchant stays in flight."""
    with psycopg.connect(url) as holder:
        holder.execute("select from merchant_head where merchant_id = %s for update", (merchant,))
        yield


async def until_in_flight(writer: Writer, url: str, batches: int = 2) -> None:
    """Returns when the first of so many batches waits for a lock."""
    waits = "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
    async with asyncio.timeout(PATIENCE_S):
        while len(writer._in_flight) < batches or not fetch(url, waits, writer._backend[0]):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)


def submit(writer: Writer, *commands: Append) -> list[asyncio.Future[int]]:
    return [writer.submit(each) for each in commands]


def one(merchant: UUID, topic: bytes = b"test.v1") -> Append:
    return command(merchant, (uuid7(), 0, 1), topic=topic)


async def outcomes_of(pending: Sequence[asyncio.Future[int]]) -> list[Any]:
    """Returns the position of each command, or the type of its exception."""
    async with asyncio.timeout(PATIENCE_S):
        outcomes = await asyncio.gather(*pending, return_exceptions=True)
    return [each if isinstance(each, int) else type(each) for each in outcomes]


async def test_the_second_batch_sees_what_the_first_one_committed(log_url: str) -> None:
    merchant, stream, other = open_log(log_url), uuid7(), uuid7()
    async with started(log_url) as writer:
        with locked(log_url, merchant):
            pending = submit(writer, command(merchant, (stream, 0, 1)), command(merchant, (stream, 0, 1)))
            await until_in_flight(writer, log_url)
        assert await outcomes_of(pending) == [1, VersionConflict]
        with locked(log_url, merchant):
            claims = [[Claim(ClaimKind.ORDER_EXTERNAL_ID, "order", each)] for each in (stream, other)]
            pending = submit(
                writer,
                command(merchant, (stream, 1, 1), claims=claims[0]),
                command(merchant, (other, 0, 1), claims=claims[1]),
            )
            await until_in_flight(writer, log_url)
        assert await outcomes_of(pending) == [2, ClaimTaken]
    assert_log_is_whole(log_url)


async def test_enough_commands_of_one_turn_of_the_loop_are_sent_before_it_ends(log_url: str) -> None:
    """A closed loop of callers would otherwise take turns with the server for ever: all in one batch, then none."""
    merchant = open_log(log_url)
    async with started(log_url, batch_max=2) as writer:
        assert await outcomes_of(submit(writer, one(merchant))) == [1]
        pending = submit(writer, *(one(merchant) for _ in range(4)))
        assert (len(writer._in_flight), writer.depth) == (2, 0)
        assert await outcomes_of(pending) == [2, 3, 4, 5]


@pytest.mark.long
async def test_a_third_batch_waits_and_few_commands_gather(log_url: str) -> None:
    merchant = open_log(log_url)
    async with started(log_url, batch_max=2) as writer:
        with locked(log_url, merchant):
            pending = submit(writer, *[one(merchant) for _ in range(3)])
            async with asyncio.timeout(PATIENCE_S):
                while not writer._in_flight:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
            assert (len(writer._in_flight), writer.depth) == (1, 1), "one command is too few for a second batch"
            pending += submit(writer, *[one(merchant) for _ in range(4)])
            await until_in_flight(writer, log_url)
            assert writer.depth == 3
        assert await outcomes_of(pending) == [1, 2, 3, 4, 5, 6, 7]
    assert_log_is_whole(log_url)


# ---------------------------------------------------------------- a lost connection


async def test_a_connection_lost_before_both_commits_is_resolved_by_one_look_up(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server resets the connection: it has not read the second batch. The client finds that and the error at once."""
    monkeypatch.setattr(connections.QueryTimeout.__init__, "__defaults__", (2.0 * PATIENCE_S,))  # nothing else notices
    merchant = open_log(log_url)
    lost_before = metric_value("ledger_database_reconnects_total", "writer")
    async with started(log_url, batch_max=2) as writer:
        with locked(log_url, merchant):
            pending = submit(writer, *[one(merchant) for _ in range(2)])
            await until_in_flight(writer, log_url, 1)
            pending += submit(writer, *[one(merchant) for _ in range(2)])
            fetch(log_url, "select pg_terminate_backend(%s, 60000)", writer._backend[0])  # the event loop waits, too
            assert await outcomes_of(pending) == [DatabaseUnavailable] * 4
        assert writer.looked_up == [4]
        assert metric_value("ledger_database_reconnects_total", "writer") - lost_before == 1
        assert fetch(log_url, "select from event") == []
        assert await writer.submit(one(merchant)) == 1
    assert_log_is_whole(log_url)


async def test_a_connection_cut_between_the_commits_is_resolved_by_one_look_up(log_url: str) -> None:
    """The first batch is committed and its answer is lost; the server still has the second one, and would commit it."""
    free, held = open_log(log_url), open_log(log_url)
    async with proxied(log_url) as proxy, started(proxy.url) as writer:
        proxy.decide = lambda wire, _, from_client: 0 if wire.commits and not from_client else None
        with locked(log_url, held):
            pending = submit(writer, one(free), one(held))
            assert await outcomes_of(pending) == [1, DatabaseUnavailable]
        assert (proxy.cuts, writer.looked_up) == (1, [2])
        assert fetch(log_url, "select merchant_id from event") == [(free,)]
    assert_log_is_whole(log_url)


async def test_a_second_batch_that_is_cut_before_its_sync_is_not_written(log_url: str) -> None:
    merchant = open_log(log_url)
    sent = 0

    def cut(_: Wire, piece: bytes, from_client: bool) -> int | None:
        nonlocal sent
        sent += from_client * piece.count(b"ledger_append\0")
        if sent != 2 or not piece.endswith(SYNC) or proxy.cuts:
            return None
        return len(piece) - len(SYNC)

    async with proxied(log_url) as proxy, started(proxy.url) as writer:
        assert await writer.submit(one(merchant)) == 1  # prepares the statements
        proxy.decide = cut
        assert await outcomes_of(submit(writer, one(merchant), one(merchant))) == [2, DatabaseUnavailable]
        assert await writer.submit(one(merchant)) == 3
    assert_log_is_whole(log_url)


@pytest.mark.long
async def test_a_silent_server_leaves_both_batches_to_the_log(log_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.QueryTimeout.__init__, "__defaults__", (0.3,))
    merchant = open_log(log_url)
    lost_before = metric_value("ledger_database_reconnects_total", "writer")
    async with proxied(log_url) as proxy, started(proxy.url) as writer:
        assert await writer.submit(one(merchant)) == 1
        proxy.flowing.clear()
        pending = submit(writer, one(merchant), one(merchant))
        async with asyncio.timeout(PATIENCE_S):
            while writer.alive:  # noqa: ASYNC110 - the writer has no event for it
                await asyncio.sleep(0.01)
        proxy.flowing.set()
        written = [outcome for outcome in await outcomes_of(pending) if outcome != DatabaseUnavailable]
        assert [(position,) for position in [1, *written]] == fetch(log_url, "select position from event order by 1")
        assert await writer.submit(one(merchant)) == len(written) + 2
    assert metric_value("ledger_database_reconnects_total", "writer") - lost_before == 1
    assert_log_is_whole(log_url)


async def test_a_second_batch_without_an_answer_is_given_up(log_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections.QueryTimeout.__init__, "__defaults__", (0.3,))
    monkeypatch.setattr(group_commit, "COMMIT_MAX_S", 2.0 * PATIENCE_S)  # the server does not end it sooner
    free, held = open_log(log_url), open_log(log_url)
    async with started(log_url) as writer:
        with locked(log_url, held):
            assert await outcomes_of(submit(writer, one(free), one(held))) == [1, DatabaseUnavailable]
        assert writer.looked_up == [1]
    assert_log_is_whole(log_url)


# ---------------------------------------------------------------- a batch that is rolled back


@pytest.mark.parametrize(("bad", "expected"), [(1, [3, DataRefused, 1, 2, 4]), (3, [1, 2, 3, DataRefused, 4])])
async def test_a_refused_value_fails_alone_and_the_other_batch_keeps_its_answer(
    log_url: str, bad: int, expected: list[Any]
) -> None:
    merchant = open_log(log_url)
    async with started(log_url, batch_max=2) as writer:
        with locked(log_url, merchant):
            pending = submit(writer, *[one(merchant, b"nul\0.v1" if n == bad else b"test.v1") for n in range(5)])
            await until_in_flight(writer, log_url)
        assert await outcomes_of(pending) == expected, "the fifth command waits until the batch is settled"
    assert_log_is_whole(log_url)


@pytest.mark.long
async def test_a_value_that_cannot_be_encoded_fails_alone_behind_a_batch_in_flight(log_url: str) -> None:
    merchant, stream = open_log(log_url), uuid7()
    bad = command(merchant, (stream, 0, 1), claims=[Claim(ClaimKind.ORDER_EXTERNAL_ID, "\ud800", stream)])
    async with started(log_url, batch_max=2) as writer:
        pending = submit(writer, one(merchant), one(merchant), bad, one(merchant), one(merchant))
        assert await outcomes_of(pending) == [1, 2, DataRefused, 3, 4]
    assert_log_is_whole(log_url)


@contextmanager
def failing(url: str, attempt: int, sqlstate: str, when: str) -> Iterator[None]:
    """Has the server fail one attempt to write a batch, with this error, in its statement or at its commit."""
    trigger = "constraint trigger failing after insert on seen deferrable initially deferred for each row"
    if when == "statement":
        trigger = "trigger failing after insert on seen for each statement"
    fails = sql.SQL(
        "create sequence attempts; create function failing() returns trigger language plpgsql as $$ begin"
        " if nextval('attempts') = {attempt} then raise exception using errcode = {sqlstate}; end if;"
        " return null; end $$; create {trigger} execute function failing()"
    ).format(attempt=attempt, sqlstate=sqlstate, trigger=sql.SQL(trigger))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(fails)
        yield
        connection.execute("drop function failing cascade; drop sequence attempts")


DEADLOCK, NOT_SERIALIZABLE, TIMED_OUT, DISK_FULL = "40P01", "40001", "57014", "53100"


@pytest.mark.parametrize("when", [pytest.param("statement", marks=pytest.mark.long), "commit"])
@pytest.mark.parametrize(
    ("sqlstate", "attempt", "expected"),
    [
        (DEADLOCK, 1, [2, 1]),
        pytest.param(DEADLOCK, 2, [1, 2], marks=pytest.mark.long),
        pytest.param(NOT_SERIALIZABLE, 1, [2, 1], marks=pytest.mark.long),
        (TIMED_OUT, 1, [DatabaseUnavailable, 1]),
        pytest.param(TIMED_OUT, 2, [1, DatabaseUnavailable], marks=pytest.mark.long),
        pytest.param(DISK_FULL, 1, [DatabaseUnavailable, 1], marks=pytest.mark.long),
    ],
)
async def test_an_error_of_one_batch_is_not_the_other_ones(
    log_url: str, sqlstate: str, attempt: int, expected: list[Any], when: str
) -> None:
    merchant = open_log(log_url)
    with failing(log_url, attempt, sqlstate, when):
        async with started(log_url) as writer:
            with locked(log_url, merchant):
                pending = submit(writer, one(merchant), one(merchant))
                await until_in_flight(writer, log_url)
            assert await outcomes_of(pending) == expected
            assert writer.looked_up == [], "the server's error is certain"
    assert_log_is_whole(log_url)


async def test_a_batch_behind_one_that_could_not_prepare_its_statement_is_sent_again(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(Patient):
        _lock_timeout = "300ms"
        faults: Sequence[type[Exception]] = ()

        async def _settle(self) -> None:
            self.faults = self.faults or [type(each.fault) for each in self._faulted]
            await super()._settle()

    monkeypatch.setattr(locked_merchants, "PATIENCE_S", PATIENCE_S)
    merchant, writer = open_log(log_url), Impatient(log_url, 1)
    await writer.start()
    with psycopg.connect(log_url) as holder:
        holder.execute("lock table event in access exclusive mode")
        pending = submit(writer, one(merchant), one(merchant))
        async with asyncio.timeout(PATIENCE_S):
            while not writer.faults:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
    assert writer.faults == [psycopg.errors.LockNotAvailable, psycopg.errors.InvalidSqlStatementName]
    assert sorted(await outcomes_of(pending)) == [1, 2]
    await writer.stop()
    assert_log_is_whole(log_url)


async def test_a_locked_merchant_in_the_first_batch_does_not_stop_the_second_one(log_url: str) -> None:
    held, free = open_log(log_url), open_log(log_url)
    writer = Writer(log_url, [SEEN], batch_max=1)
    await writer.start()
    with locked(log_url, held):
        pending = submit(writer, one(held), one(free))
        assert await outcomes_of(pending[1:]) == [1]
    assert await outcomes_of(pending) == [1, 1]
    await writer.stop()
    assert_log_is_whole(log_url)


async def test_a_committed_batch_whose_answer_cannot_be_read_is_answered_by_the_log(log_url: str) -> None:
    class Unreadable(Patient):
        faults = 1

        def _results(self, commands: Sequence[Append], rows: Rows) -> Any:
            if self.faults:
                self.faults -= 1
                raise KeyError("rows")
            return super()._results(commands, rows)

    merchant, writer = open_log(log_url), Unreadable(log_url, 1)
    await writer.start()
    assert await outcomes_of(submit(writer, one(merchant), one(merchant))) == [1, 2]
    await writer.stop()
    assert_log_is_whole(log_url)


# ---------------------------------------------------------------- the end, and a process that stops


async def test_stopping_waits_for_both_batches_and_writes_what_is_queued(log_url: str) -> None:
    merchant = open_log(log_url)
    async with started(log_url, batch_max=2) as writer:
        with locked(log_url, merchant):
            pending = submit(writer, *[one(merchant) for _ in range(7)])
            await until_in_flight(writer, log_url)
            stopping = asyncio.create_task(writer.stop(PATIENCE_S))
            await asyncio.sleep(0)
            with pytest.raises(DatabaseUnavailable):
                writer.submit(one(merchant))
        await stopping
        assert [future.result() for future in pending] == [1, 2, 3, 4, 5, 6, 7]
    assert_log_is_whole(log_url)


@pytest.mark.long
async def test_the_unanswered_commands_of_both_batches_are_unknown_at_the_end(log_url: str) -> None:
    merchant = open_log(log_url)
    async with proxied(log_url) as proxy:
        writer = Patient(proxy.url, 2)
        await writer.start()
        proxy.flowing.clear()
        pending = submit(writer, *[one(merchant) for _ in range(4)])
        async with asyncio.timeout(PATIENCE_S):
            while len(writer._in_flight) < 2:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        with capture_logs() as lines:
            await asyncio.wait_for(writer.stop(patience_s=0.05), PATIENCE_S)
        assert await outcomes_of(pending) == [CommitUnknown] * 4
    assert [line["unknown"] for line in lines if line["event"] == "journal_ended"] == [4]


async def test_both_batches_are_sent_before_the_writer_waits_for_anything(log_url: str) -> None:
    merchant = open_log(log_url)
    async with started(log_url) as writer:
        await writer.submit(one(merchant))
        pending = submit(writer, one(merchant), one(merchant))
        writer._send_due()
        until = time.monotonic() + PATIENCE_S
        while fetch(log_url, "select count(*) from event") != [(3,)]:
            assert time.monotonic() < until
            time.sleep(0.01)  # noqa: ASYNC251 - the loop has no turn: nothing more is sent meanwhile
        assert await outcomes_of(pending) == [2, 3]


@pytest.mark.long
async def test_a_batch_that_exceeds_the_sockets_buffer_is_sent_as_the_server_reads(log_url: str) -> None:
    merchant = open_log(log_url)
    async with proxied(log_url) as proxy, started(proxy.url) as writer:
        await writer.submit(one(merchant))
        proxy.flowing.clear()
        assert writer._connection is not None
        with socket.socket(fileno=os.dup(writer._connection.fileno())) as end:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
        large = command(merchant, (uuid7(), 0, 1), data=bytes(2_000_000))
        pending = submit(writer, large, one(merchant))
        async with asyncio.timeout(PATIENCE_S):
            while not writer._pipeline._is_writing:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        proxy.flowing.set()
        assert await outcomes_of(pending) == [2, 3]
    assert_log_is_whole(log_url)
