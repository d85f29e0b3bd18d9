"""Audits that merchants ask for, carried out by the real processes of a worker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec import structs
from structlog.testing import capture_logs
from tests.audit.auditing import settings_of
from tests.background.conftest import rows
from tests.operations.conftest import an_order, by_card, register

from ledger.audit.report import Report
from ledger.background.audits import process, store
from ledger.background.audits.requests import Audits
from ledger.background.audits.runner import TRIES_MAX, AuditRunner
from ledger.domain.rejections import AuditRunning
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.faults import DatabaseUnavailable
from ledger.service.child_process import ChildProcess
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

_PROGRAM = "ledger.audit.child_main"


@pytest.fixture
def settings(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A worker's settings, whose temporary files are in a folder of the test."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return structs.replace(settings_of(database_url), data_dir=tmp_path / "data")


@pytest.fixture(autouse=True)
def priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a process have nearly its share of a machine that runs other tests."""
    monkeypatch.setattr(process, "PRIORITY", 1)


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets each process of an audit stop itself (SIGSTOP) before it does anything."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, signal, sys\nif {_PROGRAM!r} in sys.orig_argv:\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    others = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{others}".rstrip(os.pathsep))


@pytest.fixture
async def runner(settings: Settings, database_url: str) -> AsyncIterator[AuditRunner]:
    """A worker's runner, which tries again at once."""
    async with AuditRunner(settings, database_url, pause_s=0.0) as runner:
        yield runner


@pytest.fixture
def temporary(settings: Settings, tmp_path: Path) -> Path:
    assert settings.data_dir.parent == tmp_path
    return tmp_path / "temporary"


async def request(url: str, merchant: Actor) -> UUID:
    audits = Audits(url)
    try:
        return (await audits.request(merchant.merchant_id)).audit_id
    finally:
        await audits.stop()


def state_of(url: str, merchant: Actor) -> tuple[Any, ...]:
    """The newest audit of a merchant: its status, its tries, whether it has ended, its violations, why it failed."""
    query = "select status, tries, ended_at is not null, violations, failure from audit where merchant_id = %s"
    return rows(url, f"{query} order by created_at desc, audit_id desc limit 1", merchant.merchant_id)[0]


def report_of(url: str, merchant: Actor) -> Report:
    query = "select report from audit where merchant_id = %s order by created_at desc limit 1"
    return msgspec.json.decode(rows(url, query, merchant.merchant_id)[0][0], type=Report)


def processes(parent: int) -> list[int]:
    """The audits that are children of a process."""
    return [
        int(place.name)
        for place in Path("/proc").iterdir()
        if place.name.isdigit() and state_in_system(int(place.name))[1:] == (parent, True)
    ]


def state_in_system(pid: int) -> tuple[str, int, bool]:
    """The state of a process ("T": stopped, "Z": ended), its parent, and whether it is an audit."""
    place = Path("/proc", str(pid))
    try:
        state, parent, *_ = (place / "stat").read_text().rpartition(")")[2].split()
        return state, int(parent), _PROGRAM.encode() in (place / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return "Z", 0, False


async def begun(parent: int) -> int:
    """Waits for an audit of this process, which has stopped itself. Those that follow do not."""
    while not (found := [pid for pid in processes(parent) if state_in_system(pid)[0] == "T"]):  # noqa: ASYNC110 - of the system
        await asyncio.sleep(0.02)
    (folder_of_sitecustomize() / "sitecustomize.py").unlink()
    return found[0]


def folder_of_sitecustomize() -> Path:
    return Path(os.environ["PYTHONPATH"].partition(os.pathsep)[0])


async def gone(pid: int) -> None:
    """Waits until a process that is no child of this one has ended."""
    while state_in_system(pid)[0] != "Z":  # noqa: ASYNC110 - of the system
        await asyncio.sleep(0.01)


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@asynccontextmanager
async def carried_out(runner: AuditRunner, stop: asyncio.Event) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(runner.round(stop))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_merchant_is_audited_and_found_clean(
    ledger: Ledger, merchant: Actor, database_url: str, runner: AuditRunner, temporary: Path
) -> None:
    other = await register(ledger)
    await create_order(ledger, other, an_order("another", by_card()))
    await create_order(ledger, merchant, an_order("paid", by_card(persist=True)))
    await request(database_url, merchant)
    assert state_of(database_url, merchant) == ("QUEUED", 0, False, None, None)
    with capture_logs() as logs:
        await runner.round(asyncio.Event())
    assert state_of(database_url, merchant) == ("CLEAN", 1, True, 0, None)
    report = report_of(database_url, merchant)
    ((head, events, events_total),) = rows(
        database_url,
        "select position, events, events_total from merchant_head join audit using (merchant_id) where merchant_id = %s",
        merchant.merchant_id,
    )
    assert (report.merchants, report.orders, report.events, events, events_total) == (1, 1, head, head, head)
    assert [line["event"] for line in logs] == ["audit_clean"]
    assert left_in(temporary) == []


async def test_what_a_superuser_changed_is_a_violation(
    ledger: Ledger, merchant: Actor, database_url: str, runner: AuditRunner
) -> None:
    await create_order(ledger, merchant, an_order("paid", by_card()))
    changed = rows(
        database_url, "update tally set n = n + 1 where merchant_id = %s and n <> 0 returning n", merchant.merchant_id
    )
    await request(database_url, merchant)
    with capture_logs() as logs:
        await runner.round(asyncio.Event())
    assert state_of(database_url, merchant) == ("VIOLATIONS", 1, True, len(changed), None)
    found = report_of(database_url, merchant)
    assert {(each.merchant_id, each.table) for each in found.violations} == {(merchant.merchant_id, "tally")}
    assert [(line["event"], line["violations"]) for line in logs] == [("audit_violations", len(changed))]


@pytest.mark.usefixtures("stopped")
async def test_a_merchant_has_one_audit_at_a_time(
    ledger: Ledger, merchant: Actor, database_url: str, runner: AuditRunner
) -> None:
    other = await register(ledger)
    asked = await asyncio.gather(*[request(database_url, merchant) for _ in range(5)], return_exceptions=True)
    assert sorted(isinstance(each, AuditRunning) for each in asked) == [False, True, True, True, True]
    await request(database_url, other)
    async with carried_out(runner, asyncio.Event()) as task:
        pid = await begun(os.getpid())
        while os.getpriority(os.PRIO_PROCESS, pid) != process.PRIORITY:  # noqa: ASYNC110 - of the system
            await asyncio.sleep(0.01)
        assert state_of(database_url, merchant)[0] == "RUNNING"
        with pytest.raises(AuditRunning):
            await request(database_url, merchant)
        os.kill(pid, signal.SIGCONT)
        await task
    assert state_of(database_url, merchant)[0] == state_of(database_url, other)[0] == "CLEAN"
    await request(database_url, merchant)


@pytest.mark.usefixtures("stopped")
async def test_an_audit_ends_with_the_worker_that_is_stopped_and_begins_again(
    merchant: Actor, database_url: str, runner: AuditRunner, temporary: Path
) -> None:
    await request(database_url, merchant)
    stop = asyncio.Event()
    async with carried_out(runner, stop) as task:
        pid = await begun(os.getpid())
        os.kill(pid, signal.SIGTERM)  # as it reaches every process of a group
        stop.set()
        await task
    assert processes(os.getpid()) == []
    assert left_in(temporary) == []
    assert state_of(database_url, merchant) == ("QUEUED", 0, False, None, None)
    await runner.round(asyncio.Event())
    assert state_of(database_url, merchant)[:2] == ("CLEAN", 1)


@pytest.mark.usefixtures("stopped")
async def test_an_audit_ends_with_the_connection_that_has_the_lock(
    merchant: Actor, database_url: str, runner: AuditRunner
) -> None:
    """Another worker may have taken the audit meanwhile."""
    await request(database_url, merchant)
    end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ledger-audits'"
    async with carried_out(runner, asyncio.Event()) as task:
        await begun(os.getpid())
        rows(database_url, f"{end} and datname = current_database()")
        with pytest.raises(DatabaseUnavailable):
            await task
    assert processes(os.getpid()) == []
    await runner.round(asyncio.Event())
    assert state_of(database_url, merchant)[:2] == ("CLEAN", 2)


@pytest.fixture
def worker(settings: Settings, stopped: None) -> Iterator[ChildProcess]:
    child = ChildProcess("worker", "ledger.background.worker:run").configure(settings)
    yield child
    child.end()


async def test_an_audit_ends_with_the_worker_that_is_killed_and_the_next_one_carries_it_out(
    ledger: Ledger,
    merchant: Actor,
    database_url: str,
    settings: Settings,
    worker: ChildProcess,
    runner: AuditRunner,
    temporary: Path,
) -> None:
    await create_order(ledger, merchant, an_order("paid", by_card()))
    await request(database_url, merchant)
    pid = await begun(worker.pid)
    while state_of(database_url, merchant)[0] != "RUNNING":  # noqa: ASYNC110 - of the database
        await asyncio.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    os.kill(pid, signal.SIGCONT)
    await gone(pid)
    assert left_in(temporary) == []
    assert state_of(database_url, merchant) == ("RUNNING", 1, False, None, None)
    await runner.round(asyncio.Event())
    assert state_of(database_url, merchant) == ("CLEAN", 2, True, 0, None)


async def test_an_audit_whose_process_always_dies_fails_and_delays_no_other(
    ledger: Ledger, merchant: Actor, database_url: str, runner: AuditRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await register(ledger)
    await request(database_url, merchant)
    await request(database_url, other)
    command = process.COMMAND

    def started(settings: Settings, merchant_id: UUID) -> AbstractAsyncContextManager[process.AuditProcess]:
        dies = merchant_id == merchant.merchant_id
        monkeypatch.setattr(process, "COMMAND", ("sh", "-c", "kill -KILL $$") if dies else command)
        return process.auditing(settings, merchant_id)

    monkeypatch.setattr("ledger.background.audits.runner.auditing", started)
    with capture_logs() as logs:
        await runner.round(asyncio.Event())
    *state, failure = state_of(database_url, merchant)
    assert state == ["FAILED", TRIES_MAX, True, None]
    assert failure.startswith("5 times, its process was ended, as by a lack of memory. Tell the operator")
    assert state_of(database_url, other) == ("CLEAN", 1, True, 0, None)
    failed = [line for line in logs if line["event"] == "audit_failed"]
    assert [(line["tries"], line["is_last"]) for line in failed] == [(n, n == TRIES_MAX) for n in range(1, 6)]
    assert {line["detail"] for line in failed} == {"the process ended by SIGKILL"}
    ended = [line["merchant_id"] for line in logs]
    assert ended.index(str(other.merchant_id)) == 1, "the one that failed comes again behind those that wait"


async def test_an_audit_with_which_every_worker_ends_fails(
    merchant: Actor, database_url: str, runner: AuditRunner
) -> None:
    await request(database_url, merchant)
    rows(database_url, f"update audit set status = 'RUNNING', tries = {TRIES_MAX} returning 1")
    await runner.round(asyncio.Event())
    assert state_of(database_url, merchant)[0] == "FAILED"
    assert processes(os.getpid()) == []


async def test_checkpoints_that_cannot_be_read_are_tried_again_later(
    merchant: Actor, database_url: str, settings: Settings, tmp_path: Path
) -> None:
    place = tmp_path / "file"
    place.write_text("no folder")
    lost = structs.replace(settings, checkpoints_url=f"{place}/checkpoints")
    await request(database_url, merchant)
    async with AuditRunner(lost, database_url) as runner:
        with capture_logs() as logs:
            await runner.round(asyncio.Event())
    assert [(line["event"], line["reason"], line["is_last"]) for line in logs] == [
        ("audit_failed", "the checkpoints outside the database could not be read", False)
    ]
    assert state_of(database_url, merchant) == ("QUEUED", 1, False, None, None)
    assert rows(database_url, "select due_at > now() from audit") == [(True,)]


@pytest.mark.usefixtures("stopped")
async def test_two_workers_carry_out_one_audit_at_a_time(
    ledger: Ledger, merchant: Actor, database_url: str, settings: Settings, runner: AuditRunner
) -> None:
    other = await register(ledger)
    await request(database_url, merchant)
    await request(database_url, other)
    async with AuditRunner(settings, database_url) as second, carried_out(runner, asyncio.Event()) as task:
        pid = await begun(os.getpid())
        await second.round(asyncio.Event())  # which finds the lock taken
        assert processes(os.getpid()) == [pid]
        os.kill(pid, signal.SIGCONT)
        while not task.done():
            await second.round(asyncio.Event())
            assert len(processes(os.getpid())) <= 1
            await asyncio.sleep(0.1)
    for each in (merchant, other):
        assert state_of(database_url, each) == ("CLEAN", 1, True, 0, None)


async def test_the_newest_audits_are_kept(
    merchant: Actor, database_url: str, runner: AuditRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "KEPT", 2)
    for _ in range(3):
        await request(database_url, merchant)
        rows(database_url, f"update audit set tries = {TRIES_MAX} where ended_at is null returning 1")
        await runner.round(asyncio.Event())
    ids = [audit_id for (audit_id,) in rows(database_url, "select audit_id from audit order by created_at")]
    newest = await request(database_url, merchant)
    await runner.round(asyncio.Event())
    kept = rows(database_url, "select audit_id, status from audit order by created_at")
    assert kept == [(ids[1], "FAILED"), (newest, "CLEAN")]
