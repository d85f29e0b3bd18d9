"""Connections that are cut before, during or after a commit, or that fall silent: every answer stays true."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest
from campaigns.chaos.proxy import SYNC, Wire, never, proxied
from structlog.testing import capture_logs
from tests.citus_server import ON_ONE_SERVER
from tests.journal.small_log import SEEN, assert_log_is_whole, command, fetch, open_log
from tests.metric_values import metric_value
from uuid_utils.compat import uuid7

from ledger.journal.commit import locked_merchants
from ledger.journal.commit.locked_merchants import LOCK_WAIT_S, LOOK_S, LockedMerchants
from ledger.journal.commit.writer import Writer
from ledger.postgres import connection as connections
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.pipeline import Pipeline

pytestmark = [pytest.mark.anyio, ON_ONE_SERVER]

CUTS = 60


class Cutter:
    """Cuts the writer's connection once when it is armed: before the commit is sent, after it, or in the answer."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.where = ""

    def arm(self) -> None:
        self.where = self.random.choice(["before", "after", "after", "answer"])

    def __call__(self, wire: Wire, piece: bytes, from_client: bool) -> int | None:
        if wire.name != "ledger-writer" or not self.where:
            return None
        if from_client != (self.where != "answer") or (from_client and not wire.commits_now):
            return None
        if not from_client and not wire.commits:
            return None
        passing = {"before": len(piece) - len(SYNC), "after": len(piece)}.get(
            self.where, self.random.randrange(len(piece))
        )
        self.where = ""
        return passing


async def test_every_answer_is_true_wherever_the_connection_is_cut(log_url: str) -> None:
    merchant = open_log(log_url)
    random = Random(7)
    cutter = Cutter(random)
    outcomes: dict[UUID, str] = {}
    async with proxied(log_url) as proxy:
        lost_before = metric_value("ledger_database_reconnects_total", "writer")
        writer = Writer(proxy.url, [SEEN])
        await writer.start()
        proxy.decide = cutter

        async def client() -> None:
            while proxy.cuts < CUTS:
                stream = uuid7()
                try:
                    await writer.submit(command(merchant, (stream, 0, random.choice((1, 3)))))
                    outcomes[stream] = "written"
                except DatabaseUnavailable as fault:
                    outcomes[stream] = str(fault)
                    await asyncio.sleep(0.01)

        async def strike() -> None:
            while proxy.cuts < CUTS:
                if not cutter.where and writer.alive:
                    await asyncio.sleep(random.uniform(0, 0.02))
                    cutter.arm()
                await asyncio.sleep(0.002)

        async with asyncio.timeout(60):
            await asyncio.gather(strike(), *[client() for _ in range(8)])
        proxy.decide = never
        await writer.stop()
    stored = {stream for (stream,) in fetch(log_url, "select distinct stream_id from event")}
    written = {stream for stream, outcome in outcomes.items() if outcome == "written"}
    assert proxy.cuts == metric_value("ledger_database_reconnects_total", "writer") - lost_before == CUTS
    assert written - stored == set(), "acknowledged and lost"
    assert stored - written == set(), "rejected although it was written"
    unwritten = sum("before it wrote this" in outcome for outcome in outcomes.values())
    assert unwritten, "no cut came before a commit"
    assert_log_is_whole(log_url)


async def test_a_silent_server_is_given_up_and_connected_to_again(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections.QueryTimeout.__init__, "__defaults__", (0.5,))
    merchant = open_log(log_url)
    async with proxied(log_url) as proxy:
        writer = Writer(proxy.url, [SEEN])
        await writer.start()
        await writer.submit(command(merchant, (uuid7(), 0, 1)))
        proxy.flowing.clear()
        pending = writer.submit(command(merchant, (uuid7(), 0, 1)))
        async with asyncio.timeout(20):
            while writer.alive:  # noqa: ASYNC110 - the writer has no event for it
                await asyncio.sleep(0.01)
        with pytest.raises(DatabaseUnavailable):
            writer.submit(command(merchant, (uuid7(), 0, 1)))
        proxy.flowing.set()
        outcome: Any = (await asyncio.gather(pending, return_exceptions=True))[0]
        stored = fetch(log_url, "select count(*) from event")[0][0]
        assert stored == (2 if isinstance(outcome, int) else 1)
        await writer.submit(command(merchant, (uuid7(), 0, 1)))
        await writer.stop()
    assert_log_is_whole(log_url)


async def test_a_locked_merchant_is_refused_and_the_others_go_on(log_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[int] = []
    find = LockedMerchants.find

    async def counting_find(self: LockedMerchants, pipeline: Pipeline, merchants: Iterable[bytes]) -> None:
        searches.append(1)
        await find(self, pipeline, merchants)

    monkeypatch.setattr(LockedMerchants, "find", counting_find)
    locked, other = open_log(log_url), open_log(log_url)
    writer = Writer(log_url, [SEEN])
    await writer.start()
    with psycopg.connect(log_url) as holder:
        holder.execute("select 1 from merchant_head where merchant_id = %s for update", (locked,))
        results = await asyncio.gather(
            *[writer.submit(command(merchant, (uuid7(), 0, 1))) for merchant in (locked, other, other)],
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [DatabaseUnavailable, int, int]
        for _ in range(30):
            with pytest.raises(DatabaseUnavailable):  # at once, without pending
                writer.submit(command(locked, (uuid7(), 0, 1)))
            await writer.submit(command(other, (uuid7(), 0, 1)))
            await asyncio.sleep(LOOK_S)
        assert len(searches) == 1, "another merchant's command waited for the lock"
    async with asyncio.timeout(20):
        while True:
            try:
                await writer.submit(command(locked, (uuid7(), 0, 1)))
                break
            except DatabaseUnavailable:
                await asyncio.sleep(0.05)
    await writer.stop()
    assert_log_is_whole(log_url)


async def test_commands_wait_for_a_briefly_locked_head(log_url: str) -> None:
    locked = open_log(log_url)
    writer = Writer(log_url, [SEEN])
    await writer.start()
    with psycopg.connect(log_url) as holder:
        holder.execute("select 1 from merchant_head where merchant_id = %s for update", (locked,))
        pending = [writer.submit(command(locked, (uuid7(), 0, 1))) for _ in range(3)]
        await asyncio.sleep(2 * LOCK_WAIT_S)
        assert writer.depth == 3
        assert not any(future.done() for future in pending)
    assert await asyncio.gather(*pending) == [1, 2, 3], "they are written in their order"
    await writer.stop()


async def test_a_locked_table_fails_the_batch_and_no_merchant_counts_as_locked(log_url: str) -> None:
    merchant = open_log(log_url)
    writer = Writer(log_url, [SEEN])
    await writer.start()
    asked = msgspec.structs.replace(command(merchant, (uuid7(), 0, 1)), context=b'{"request":"req-7"}')
    with psycopg.connect(log_url) as holder, capture_logs() as lines:
        holder.execute("lock table event in access exclusive mode")
        with pytest.raises(DatabaseUnavailable):
            await writer.submit(asked)
    assert [line.get("requests") for line in lines] == [["req-7"]], "the log names the request of the batch"
    await writer.submit(command(merchant, (uuid7(), 0, 1)))
    await writer.stop()


async def test_a_locked_merchant_waits_no_longer_than_others_that_wait_for_a_locked_table(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(Writer):
        _lock_timeout = "200ms"

    monkeypatch.setattr(locked_merchants, "PATIENCE_S", 1.0)
    first, held, later = (open_log(log_url) for _ in range(3))
    writer = Impatient(log_url, [SEEN])
    await writer.start()
    with psycopg.connect(log_url) as holder:
        holder.execute("lock table event in access exclusive mode")
        holder.execute("select from merchant_head where merchant_id = %s for update", (held,))
        waiting = [writer.submit(command(first, (uuid7(), 0, 1)))]
        await asyncio.sleep(0.25)  # the first batch has failed once, and is committed again until it is too late
        waiting.append(writer.submit(command(held, (uuid7(), 0, 1))))
        await asyncio.sleep(0.65)
        waiting.append(writer.submit(command(later, (uuid7(), 0, 1))))
        in_turn = []
        for future in asyncio.as_completed(waiting):
            with pytest.raises(DatabaseUnavailable) as refused:
                await future
            in_turn.append(str(refused.value))
    assert sorted(in_turn) == sorted(["LockNotAvailable", "LockNotAvailable", locked_merchants.LOCKED])
    assert in_turn[-1] == "LockNotAvailable", "the command of the locked merchant waited for the rest of its batch"
    await writer.stop()


async def test_two_writers_of_one_merchant_do_not_count_it_as_locked(log_url: str) -> None:
    merchant = open_log(log_url)
    writers = [Writer(log_url, [SEEN]) for _ in range(2)]
    for writer in writers:
        await writer.start()
    await asyncio.gather(*[w.submit(command(merchant, (uuid7(), 0, 1))) for _ in range(300) for w in writers])
    for writer in writers:
        assert not writer._locked.since
        await writer.stop()


@pytest.mark.parametrize("fault", [psycopg.errors.InternalError_("ended by a time-out"), psycopg.OperationalError()])
async def test_a_look_up_that_fails_is_tried_again_until_it_has_an_answer(log_url: str, fault: psycopg.Error) -> None:
    class Unlucky(Writer):
        failures = 0

        async def _find_committed(self, connection: Any, commands: Any) -> Any:
            self.failures += 1
            if self.failures < 3:
                raise fault
            return await super()._find_committed(connection, commands)

    merchant = open_log(log_url)
    async with proxied(log_url) as proxy:
        writer = Unlucky(proxy.url, [SEEN])
        await writer.start()
        proxy.decide = lambda wire, _, from_client: 0 if from_client and wire.name == "ledger-writer" else None
        pending = writer.submit(command(merchant, (uuid7(), 0, 1)))
        await asyncio.wait([pending], timeout=0.3)
        proxy.decide = never
        with pytest.raises(DatabaseUnavailable):
            await asyncio.wait_for(pending, 30)
        assert writer.failures == 3
        assert await writer.submit(command(merchant, (uuid7(), 0, 1))) == 1
        await writer.stop()
    assert_log_is_whole(log_url)


async def test_a_writer_whose_task_has_failed_takes_no_command(log_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a fault of the program")

    writer = Writer(log_url, [SEEN])
    await writer.start()
    monkeypatch.setattr(writer, "_send_due", fail)
    writer._wake.set()
    while writer.alive:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    with pytest.raises(DatabaseUnavailable):
        writer.submit(command(open_log(log_url), (uuid7(), 0, 1)))
    with pytest.raises(LookupError):
        await writer.stop()


async def test_a_locked_merchant_is_refused_in_time_while_the_table_of_heads_is_locked(
    log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked_merchants, "PATIENCE_S", 0.8)
    locked = open_log(log_url)
    writer = Writer(log_url, [SEEN])
    await writer.start()
    with psycopg.connect(log_url) as holder, psycopg.connect(log_url) as migration:
        holder.execute("select from merchant_head where merchant_id = %s for update", (locked,))
        pending = writer.submit(command(locked, (uuid7(), 0, 1)))
        while not writer._locked.deferred:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        changing = asyncio.create_task(asyncio.to_thread(migration.execute, "lock table merchant_head"))
        done, _ = await asyncio.wait([pending], timeout=20)
        assert done, "nothing looks at the heads, and the command waits as long as the table is locked"
        with pytest.raises(DatabaseUnavailable):
            await pending
        holder.rollback()
        await changing
    await writer.stop()
