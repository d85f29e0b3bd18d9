"""The writer commits each command whole or not at all, once, in order, and rejects only the command at fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from msgspec.structs import replace
from tests.journal.small_log import SEEN, assert_log_is_whole, command, end_sessions, fetch, open_log, open_writer
from tests.metric_values import metric_value
from uuid_utils.compat import uuid7

from ledger.domain.streams import ClaimKind
from ledger.journal.append import Claim, ClaimTaken, Conflict, DataRefused, VersionConflict
from ledger.journal.commit.writer import Writer
from ledger.postgres import connection as connections
from ledger.postgres.faults import DatabaseUnavailable, QueueFull

pytestmark = pytest.mark.anyio


@pytest.fixture
async def other(log_url: str) -> AsyncIterator[Writer]:
    """A second writer, as in a second process."""
    other = open_writer(log_url)
    await other.start()
    yield other
    await other.stop()


async def test_positions_follow_the_order_of_submission(writer: Writer, log_url: str) -> None:
    merchant = open_log(log_url)
    positions = await asyncio.gather(*[writer.submit(command(merchant, (uuid7(), 0, 2))) for _ in range(100)])
    assert positions == list(range(2, 201, 2))
    assert_log_is_whole(log_url)


async def test_a_batch_without_rows_of_a_rare_table_leaves_the_table_out(log_url: str) -> None:
    writer = open_writer(log_url, replace(SEEN, is_rare=True))
    await writer.start()
    merchant, stream = open_log(log_url), uuid7()
    with psycopg.connect(log_url, autocommit=True) as connection:
        connection.execute("alter table seen rename to hidden")
        without_rows = replace(command(merchant, (stream, 0, 1)), rows={})
        assert await writer.submit(without_rows) == 1
        connection.execute("alter table hidden rename to seen")
    mixed = [replace(command(merchant, (uuid7(), 0, 1)), rows={}), command(merchant, (stream, 1, 1))]
    assert sorted(await asyncio.gather(*map(writer.submit, mixed))) == [2, 3]
    assert fetch(log_url, "select stream_id, version from seen") == [(stream, 2)]
    await writer.stop()


async def test_a_batch_writes_to_all_tables_once_the_connection_has_prepared_enough_statements(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.journal.commit.writer.STATEMENTS_MAX", 1)
    writer = open_writer(log_url, replace(SEEN, is_rare=True))
    await writer.start()
    merchant, stream = open_log(log_url), uuid7()
    assert await writer.submit(replace(command(merchant, (uuid7(), 0, 1)), rows={})) == 1
    assert await writer.submit(command(merchant, (stream, 0, 1))) == 2
    assert await writer.submit(replace(command(merchant, (uuid7(), 0, 1)), rows={})) == 3
    assert fetch(log_url, "select stream_id, version from seen") == [(stream, 1)]
    with psycopg.connect(log_url, autocommit=True) as connection:
        connection.execute("alter table seen rename to hidden")
    assert await writer.submit(replace(command(merchant, (uuid7(), 0, 1)), rows={})) == 4
    await writer.stop()


async def test_many_commands_share_a_batch(writer: Writer, log_url: str) -> None:
    merchant = open_log(log_url)
    commands, batches = "ledger_journal_batch_commands_sum", "ledger_journal_batch_commands_count"
    before = metric_value(commands), metric_value(batches)
    await asyncio.gather(*[writer.submit(command(merchant, (uuid7(), 0, 1))) for _ in range(500)])
    assert metric_value(commands) - before[0] == 500
    assert 0 < metric_value(batches) - before[1] < 50


async def test_commands_that_a_batch_has_overtaken_wait_for_no_further_batch(writer: Writer, log_url: str) -> None:
    merchant, stream, batches = open_log(log_url), uuid7(), "ledger_journal_batch_commands_count"
    claims = [Claim(ClaimKind.CUSTOMER_EXTERNAL_ID, "one", uuid7()) for _ in range(100)]
    for commands, conflict in (
        ([command(merchant, (uuid7(), 0, 1), claims=[claim]) for claim in claims], ClaimTaken),
        ([command(merchant, (stream, 0, 1)) for _ in claims], VersionConflict),
    ):
        before = metric_value(batches)
        results = await asyncio.gather(*map(writer.submit, commands), return_exceptions=True)
        assert sorted(type(each).__name__ for each in results) == [conflict.__name__] * 99 + ["int"]
        assert metric_value(batches) - before <= 4, "a batch has room for one of them: a hundred batches were sent"
    assert_log_is_whole(log_url)
    assert fetch(log_url, "select count(*) from event") == [(2,)]


async def test_of_two_writers_at_one_version_one_wins(writer: Writer, other: Writer, log_url: str) -> None:
    merchant = open_log(log_url)
    for _ in range(50):
        stream = uuid7()
        results = await asyncio.gather(
            writer.submit(command(merchant, (stream, 0, 1))),
            other.submit(command(merchant, (stream, 0, 1))),
            return_exceptions=True,
        )
        assert sorted(type(result) for result in results if isinstance(result, Exception)) == [VersionConflict]
    assert_log_is_whole(log_url)


async def test_two_writers_under_load_leave_no_gap(writer: Writer, other: Writer, log_url: str) -> None:
    merchants = [open_log(log_url) for _ in range(3)]
    sent = [w.submit(command(merchants[n % 3], (uuid7(), 0, 1 + n % 3))) for n in range(600) for w in (writer, other)]
    await asyncio.gather(*sent)
    assert_log_is_whole(log_url)
    assert fetch(log_url, "select count(*) from event") == [(2 * sum(1 + n % 3 for n in range(600)),)]


async def test_a_command_over_two_streams_is_written_whole_or_not_at_all(writer: Writer, log_url: str) -> None:
    merchant, taken, fresh = open_log(log_url), uuid7(), uuid7()
    await writer.submit(command(merchant, (taken, 0, 1)))
    with pytest.raises(VersionConflict) as conflict:
        await writer.submit(command(merchant, (fresh, 0, 2), (taken, 0, 1)))
    assert conflict.value.stream_id == taken
    assert fetch(log_url, "select count(*) from event where stream_id = %s", fresh) == [(0,)]
    assert_log_is_whole(log_url)


async def test_a_command_at_a_future_version_loses(writer: Writer, log_url: str) -> None:
    merchant, stream = open_log(log_url), uuid7()
    await writer.submit(command(merchant, (stream, 0, 1)))
    with pytest.raises(VersionConflict):
        await writer.submit(command(merchant, (stream, 2, 1)))
    assert_log_is_whole(log_url)


async def test_a_stream_without_events_is_only_checked(writer: Writer, log_url: str) -> None:
    merchant, checked = open_log(log_url), uuid7()
    await writer.submit(command(merchant, (checked, 0, 1)))
    await writer.submit(command(merchant, (uuid7(), 0, 1), (checked, 1, 0)))
    with pytest.raises(VersionConflict):
        await writer.submit(command(merchant, (uuid7(), 0, 1), (checked, 2, 0)))
    assert_log_is_whole(log_url)


async def test_two_commands_that_check_each_others_stream_do_not_both_win(writer: Writer, log_url: str) -> None:
    merchant, left, right = open_log(log_url), uuid7(), uuid7()
    await writer.submit(command(merchant, (left, 0, 1), (right, 0, 1)))
    results = await asyncio.gather(
        writer.submit(command(merchant, (left, 1, 1), (right, 1, 0))),
        writer.submit(command(merchant, (right, 1, 1), (left, 1, 0))),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [int, VersionConflict]


async def test_a_claim_is_taken_once(writer: Writer, other: Writer, log_url: str) -> None:
    merchant = open_log(log_url)

    def claiming(key: str) -> tuple[Claim, object]:
        stream = uuid7()
        claim = Claim(ClaimKind.ORDER_EXTERNAL_ID, key, stream)
        return claim, command(merchant, (stream, 0, 1), claims=[claim])

    for n in range(30):
        results = await asyncio.gather(
            *[w.submit(claiming(f"order-{n}")[1]) for w in (writer, writer, other, other)],  # type: ignore[arg-type]
            return_exceptions=True,
        )
        assert sum(isinstance(result, ClaimTaken) for result in results) == 3
    assert fetch(log_url, "select count(*), count(distinct stream_id) from claim") == [(30, 30)]
    assert_log_is_whole(log_url)


async def test_the_same_key_of_another_kind_or_merchant_is_free(writer: Writer, log_url: str) -> None:
    for merchant in (open_log(log_url), open_log(log_url)):
        for kind in (ClaimKind.ORDER_EXTERNAL_ID, ClaimKind.CUSTOMER_EXTERNAL_ID):
            stream = uuid7()
            await writer.submit(command(merchant, (stream, 0, 1), claims=[Claim(kind, "one", stream)]))
    assert fetch(log_url, "select count(*) from claim") == [(4,)]


async def test_only_the_command_that_the_database_refuses_fails(writer: Writer, log_url: str) -> None:
    merchant = open_log(log_url)
    good = [command(merchant, (uuid7(), 0, 1)) for _ in range(63)]
    bad = command(merchant, (uuid7(), 0, 1), topic=b"nul\x00.v1")
    results = await asyncio.gather(*[writer.submit(c) for c in [*good[:40], bad, *good[40:]]], return_exceptions=True)
    assert [type(result) for result in results] == [int] * 40 + [DataRefused] + [int] * 23
    assert_log_is_whole(log_url)


async def test_a_database_that_became_read_only_is_unavailable_and_no_command_is_to_blame(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant, bisected = open_log(log_url), metric_value("ledger_journal_bisected_total")
    monkeypatch.setitem(connections._SETTINGS, "default_transaction_read_only", "on")
    writer = open_writer(log_url)
    await writer.start()
    commands = [command(merchant, (uuid7(), 0, 1)) for _ in range(8)]
    results = await asyncio.gather(*[writer.submit(c) for c in commands], return_exceptions=True)
    assert [type(result) for result in results] == [DatabaseUnavailable] * 8
    assert metric_value("ledger_journal_bisected_total") == bisected
    await writer.stop()


async def test_a_value_that_cannot_be_encoded_fails_alone(writer: Writer, log_url: str) -> None:
    merchant, stream = open_log(log_url), uuid7()
    bad = command(merchant, (stream, 0, 1), claims=[Claim(ClaimKind.ORDER_EXTERNAL_ID, "\ud800", stream)])
    results = await asyncio.gather(
        writer.submit(command(merchant, (uuid7(), 0, 1))), writer.submit(bad), return_exceptions=True
    )
    assert [type(result) for result in results] == [int, DataRefused]


async def test_a_merchant_without_a_log_is_refused(writer: Writer, log_url: str) -> None:
    with pytest.raises(Conflict):
        await writer.submit(command(uuid7(), (uuid7(), 0, 1)))
    assert fetch(log_url, "select count(*) from seen") == [(0,)]


async def test_cancelling_the_caller_does_not_cancel_the_command(writer: Writer, log_url: str) -> None:
    merchant, stream = open_log(log_url), uuid7()
    future = writer.submit(command(merchant, (stream, 0, 1)))
    future.cancel()
    await writer.submit(command(merchant, (uuid7(), 0, 1)))
    assert fetch(log_url, "select count(*) from event where stream_id = %s", stream) == [(1,)]


async def test_a_full_queue_refuses_at_once(log_url: str) -> None:
    writer = open_writer(log_url, queue_max=10)
    await writer.start()
    merchant = open_log(log_url)
    accepted = [writer.submit(command(merchant, (uuid7(), 0, 1))) for _ in range(10)]
    with pytest.raises(QueueFull):
        writer.submit(command(merchant, (uuid7(), 0, 1)))
    assert await asyncio.gather(*accepted) == list(range(1, 11))
    await writer.stop()


async def test_stopping_writes_the_pending_commands(log_url: str) -> None:
    writer = open_writer(log_url)
    await writer.start()
    merchant = open_log(log_url)
    accepted = [writer.submit(command(merchant, (uuid7(), 0, 1))) for _ in range(300)]
    await writer.stop()
    assert [future.result() for future in accepted] == list(range(1, 301))
    with pytest.raises(DatabaseUnavailable):
        writer.submit(command(merchant, (uuid7(), 0, 1)))


async def test_a_lost_connection_loses_and_doubles_nothing(writer: Writer, log_url: str) -> None:
    merchant = open_log(log_url)
    acknowledged: list[bytes] = []
    refused: list[bytes] = []
    until = asyncio.get_running_loop().time() + 3

    async def client() -> None:
        while asyncio.get_running_loop().time() < until:
            stream = uuid7()
            try:
                await writer.submit(command(merchant, (stream, 0, 2)))
                acknowledged.append(stream.bytes)
            except DatabaseUnavailable:
                refused.append(stream.bytes)
                await asyncio.sleep(0.005)

    async def cutter() -> int:
        cuts = 0
        async with await psycopg.AsyncConnection.connect(log_url, autocommit=True) as connection:
            while asyncio.get_running_loop().time() < until - 0.3:
                await asyncio.sleep(0.1)
                ended = await (await connection.execute(end_sessions("ledger-writer"))).fetchone()
                assert ended is not None, "an aggregate has one row"
                cuts += ended[0]
        return cuts

    *_, cuts = await asyncio.gather(*[client() for _ in range(32)], cutter())
    assert cuts > 10, "the connection was really cut"
    stored = {row[0].bytes for row in fetch(log_url, "select stream_id from event")}
    assert set(acknowledged) <= stored
    assert stored.isdisjoint(refused)
    assert_log_is_whole(log_url)
    assert writer.alive
