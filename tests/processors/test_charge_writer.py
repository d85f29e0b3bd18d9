"""The sandbox's charge records: one per key, with several writers at once and whatever breaks meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest
from psycopg import sql
from tests.processors.conftest import Ask, WatchedExecutor
from tests.processors.shop import question
from uuid_utils.compat import uuid7

from ledger.domain.orders.processor_outcomes import Approved, Declined
from ledger.processors.contract import AuthorizationRequest, ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.processors.sandbox.charge_rows import Answer, Mode
from ledger.processors.sandbox.processor import SandboxProcessor

pytestmark = pytest.mark.anyio


def rows(database_url: str, table: str = "sandbox_charge") -> list[tuple[object, ...]]:
    with psycopg.connect(database_url) as connection:
        return connection.execute(sql.SQL("select * from {}").format(sql.Identifier(table))).fetchall()


def do(database_url: str, statement: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement)


def end_connection(database_url: str) -> None:
    do(
        database_url,
        "select pg_terminate_backend(pid, 2000) from pg_stat_activity"
        " where application_name = 'ledger-sandbox-calls' and datname = current_database()",
    )


@pytest.mark.parametrize("number", ["4242424242424242", "4000000000000002", "4000000000000010", "4100000000000019"])
async def test_the_same_key_gets_the_same_answer(number, database_url, sandbox, elsewhere, ask: Ask):
    request = ask(number)
    answer = await sandbox.authorize(request)
    assert await sandbox.authorize(request) == answer
    assert await elsewhere.authorize(request) == answer
    assert await sandbox.look_up(question(request.merchant_id, request.idempotency_key)) == answer
    assert await elsewhere.look_up(question(request.merchant_id, request.idempotency_key)) == answer
    assert len(rows(database_url)) == 1


async def test_the_first_call_with_a_key_decides(database_url, sandbox, elsewhere, ask: Ask):
    first = ask()
    answer = await sandbox.authorize(first)
    assert isinstance(answer, Approved)
    declined = ask("4000000000000002", idempotency_key=first.idempotency_key)
    assert await sandbox.authorize(declined) == answer
    assert await elsewhere.authorize(declined) == answer


async def test_the_same_key_at_once_through_two_processes_is_one_charge(database_url, sandbox, elsewhere, ask: Ask):
    for _ in range(20):
        key = str(uuid7())
        calls = [ask(number, idempotency_key=key) for number in ("4242424242424242", "4000000000009995") * 10]
        answers = await asyncio.gather(
            *[(sandbox if n % 4 < 2 else elsewhere).authorize(call) for n, call in enumerate(calls)]
        )
        assert len({type(answer) for answer in answers}) == 1
        assert answers == [answers[0]] * len(calls)
    assert len(rows(database_url)) == 20


async def test_a_key_belongs_to_its_merchant(database_url, sandbox, ask: Ask):
    key = str(uuid7())
    ours = await sandbox.authorize(ask(idempotency_key=key))
    theirs = await sandbox.authorize(ask("4000000000000002", idempotency_key=key, merchant_id=uuid7()))
    assert isinstance(ours, Approved)
    assert isinstance(theirs, Declined)


async def test_two_processes_with_the_same_keys_in_opposite_order_both_get_through(sandbox, elsewhere, ask: Ask):
    for _ in range(5):
        requests = [ask() for _ in range(100)]
        one, other = await asyncio.gather(
            asyncio.gather(*[sandbox.authorize(request) for request in requests]),
            asyncio.gather(*[elsewhere.authorize(request) for request in reversed(requests)]),
        )
        assert one == list(reversed(other))


async def test_a_key_that_never_arrived_is_not_found(sandbox, ask: Ask):
    assert await sandbox.look_up(question(ask().merchant_id, "never")) is None


async def test_times_are_counted_right_when_calls_come_together(database_url, sandbox, elsewhere, ask: Ask):
    await sandbox.set_mode(ask().merchant_id, Mode.DOWN, times=30)
    answers = await asyncio.gather(
        *[(sandbox if n % 2 else elsewhere).authorize(ask()) for n in range(100)], return_exceptions=True
    )
    assert Counter(type(answer) for answer in answers) == {ProcessorUnavailable: 30, Approved: 70}
    assert len(rows(database_url)) == 70


async def test_no_card_number_and_no_cvc_is_kept(database_url, sandbox, ask: Ask):
    numbers = ["4242424242424242", "4000000000000002", "4000000000000010", "378282246310005"]
    for number in numbers:
        await sandbox.authorize(ask(number))
    await sandbox.set_mode(ask().merchant_id, Mode.SLOW, times=1)
    stored = repr([rows(database_url, table) for table in ("sandbox_charge", "sandbox_mode")])
    assert "'424242', '4242'" in stored, "the rows hold the call"
    assert not [number for number in numbers if number in stored or number[:8] in stored]
    assert "987" not in [value for row in rows(database_url) for value in row]
    assert "Ana" not in stored


async def test_a_connection_that_breaks_loses_and_doubles_no_call(database_url, sandbox, ask: Ask):
    declined = 0
    for n in range(8):
        requests = [ask("4000000000000002" if k % 2 else "4242424242424242") for k in range(600)]
        calls = [asyncio.ensure_future(sandbox.authorize(request)) for request in requests]
        await asyncio.sleep(0.002 * n)
        await asyncio.to_thread(end_connection, database_url)
        for request, answer in zip(requests, await asyncio.gather(*calls), strict=True):
            assert await found(sandbox, request) == answer
            declined += isinstance(answer, Declined)
    assert declined == 8 * 300
    assert len(rows(database_url)) == 8 * 600


LINGER = """
create function linger() returns trigger language plpgsql as
  $$ begin perform pg_advisory_xact_lock_shared(7); return null; end $$;
create constraint trigger linger after insert on sandbox_charge deferrable initially deferred
  for each row execute function linger()
"""


@contextmanager
def commits_blocked(database_url: str) -> Iterator[psycopg.Connection]:
    """Blocks the commit of every charge that is inserted inside this block."""
    do(database_url, LINGER)
    with psycopg.connect(database_url, autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(7)")
        yield holder


async def committing(holder: psycopg.Connection, but: int = 0) -> int:
    """Returns the backend that waits in its commit, once there is one other than `but`."""
    waits = "select pid from pg_locks where locktype = 'advisory' and not granted and pid <> %s"
    async with asyncio.timeout(60):
        while (row := holder.execute(waits, (but,)).fetchone()) is None:  # noqa: ASYNC110 - the server sends nothing
            await asyncio.sleep(0.01)
    return int(row[0])


async def test_a_call_whose_commit_is_running_when_the_connection_breaks_is_recorded_once(
    database_url, executor, sandbox, ask: Ask
):
    request = ask()
    with commits_blocked(database_url) as holder:
        call = asyncio.ensure_future(sandbox.authorize(request))
        first = await committing(holder)
        cut(executor)  # the server does not notice, and would commit
        await committing(holder, but=first)
    assert isinstance(await call, Approved)
    assert await sandbox.look_up(question(request.merchant_id, request.idempotency_key)) == call.result()
    assert len(rows(database_url)) == 1


async def test_a_call_that_may_be_recorded_is_not_answered_as_refused(database_url, executor, sandbox, ask: Ask):
    """The call is written again and meets a processor that is down: its first statement may commit after that."""
    with commits_blocked(database_url) as holder:
        call = asyncio.ensure_future(sandbox.authorize(ask()))
        await committing(holder)
        do(database_url, f"insert into sandbox_mode values ('{ask().merchant_id}', 'DOWN')")
        cut(executor)
        with pytest.raises(ProcessorTimedOut):
            await call


async def test_a_call_whose_answer_was_lost_after_the_commit_gets_the_recorded_answer(
    database_url, executor, sandbox, ask: Ask
):
    await sandbox.authorize(ask())
    call = asyncio.ensure_future(sandbox.authorize(ask()))
    for _ in range(5):
        await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - the loop must not read what the server answers meanwhile
    assert len(rows(database_url)) == 2, "the call is committed"
    if not cut(executor):
        pytest.skip("the answer was read sooner than it could be lost")
    assert isinstance(await call, Approved)
    assert len(rows(database_url)) == 2


async def test_a_connection_that_broke_while_idle_is_replaced_before_its_next_use(database_url, sandbox, ask: Ask):
    request = ask()
    answer = await sandbox.authorize(request)
    end_connection(database_url)
    assert await sandbox.look_up(question(request.merchant_id, request.idempotency_key)) == answer
    end_connection(database_url)
    assert isinstance(await sandbox.authorize(ask()), Approved)


def cut(executor: WatchedExecutor) -> bytes:
    """Breaks the client's end of the connection that writes.

    Returns what the server had sent until then, which is lost.
    """
    with socket.socket(fileno=os.dup(executor.lent.fileno())) as line:
        lost = b""
        with suppress(BlockingIOError):
            lost = line.recv(1 << 16, socket.MSG_DONTWAIT)
        line.shutdown(socket.SHUT_RDWR)
        return lost


async def found(sandbox: SandboxProcessor, request: AuthorizationRequest) -> Answer | None:
    for _ in range(2000):
        with suppress(ProcessorTimedOut, ProcessorUnavailable):
            return await sandbox.look_up(question(request.merchant_id, request.idempotency_key))
        await asyncio.sleep(0.01)
    raise AssertionError("the charge writer does not come back")


async def test_without_a_database_nothing_is_sent_and_stopping_does_not_wait(database_url, executor, sandbox, ask: Ask):
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = connection.info.dbname
    with psycopg.connect(database_url, dbname="postgres", autocommit=True) as connection:
        allow = sql.SQL("alter database {} allow_connections {}")
        connection.execute(allow.format(sql.Identifier(name), sql.Literal(False)))
        connection.execute(
            "select pg_terminate_backend(pid, 2000) from pg_stat_activity"
            " where datname = %s and pid <> pg_backend_pid()",
            [name],
        )
        for _ in range(3):
            with pytest.raises(ProcessorUnavailable):
                await sandbox.authorize(ask())
        with pytest.raises(ProcessorUnavailable):
            await sandbox.look_up(question(ask().merchant_id, "any"))
        await asyncio.wait_for(executor.stop(), 10)
        connection.execute(allow.format(sql.Identifier(name), sql.Literal(True)))


async def test_a_full_queue_refuses_at_once(database_url, ask: Ask):
    executor = CallExecutor(database_url)
    await executor.start()
    sandbox = SandboxProcessor(executor, waiting_max=3)
    answers = await asyncio.gather(*[sandbox.authorize(ask()) for _ in range(10)], return_exceptions=True)
    assert Counter(type(answer) for answer in answers) == {Approved: 3, ProcessorUnavailable: 7}
    await executor.stop()


async def test_stopping_records_the_pending_calls(database_url, ask: Ask):
    executor = CallExecutor(database_url)
    await executor.start()
    sandbox = SandboxProcessor(executor)
    calls = [asyncio.ensure_future(sandbox.authorize(ask())) for _ in range(500)]
    await asyncio.sleep(0)
    await executor.stop()
    assert all(isinstance(answer, Approved) for answer in await asyncio.gather(*calls))
    assert len(rows(database_url)) == 500


KILLED = """
import asyncio, sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID
from ledger.processors.contract import AuthorizationRequest, Card
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.call_executor import CallExecutor

async def pay(sandbox, merchant_id, n):
    while True:
        key = f"{n}"
        await sandbox.authorize(AuthorizationRequest(
            merchant_id=merchant_id, idempotency_key=key, amount=Decimal(100), currency="MXN",
            card=Card(number="4242424242424242", exp_month=1, exp_year=2031), capture=True,
            deadline_at=datetime.now(UTC) + timedelta(seconds=9)))
        print(key, flush=True)
        n += 64

async def main():
    executor = CallExecutor(sys.argv[1])
    await executor.start()
    sandbox = SandboxProcessor(executor)
    await asyncio.gather(*[pay(sandbox, UUID(sys.argv[2]), n) for n in range(64)])

asyncio.run(main())
"""


async def test_what_a_killed_process_had_answered_is_recorded(database_url, sandbox, ask: Ask):
    merchant_id = ask().merchant_id
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, database_url, str(merchant_id), stdout=asyncio.subprocess.PIPE
    )
    answered = [(await process.stdout.readline()).decode().strip() for _ in range(3000)]
    process.send_signal(signal.SIGKILL)
    answered += (await process.stdout.read()).decode().split()[:-1]
    await process.wait()
    found = [await sandbox.look_up(question(merchant_id, key)) for key in answered]
    assert all(isinstance(answer, Approved) for answer in found)
