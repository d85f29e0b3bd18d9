"""The process tree, seen from outside: it starts, restarts what ends, and stops as section 7 of the contract demands."""

import json
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from uuid import uuid4

import httpx
import psycopg
import pytest
from msgspec import structs
from tests.clusters import lay_cluster
from tests.service.trees import Running, eventually, is_alive

from ledger.postgres.connection_count import embedded_settings
from ledger.postgres.embedded.server import FAILURES_MAX
from ledger.postgres.migrate import LOCK
from ledger.postgres.prepare import NoPrimary
from ledger.postgres.registration import ClockApart, FilesNotShared
from ledger.service import supervisor
from ledger.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


@pytest.fixture
def data_dir(short_dir):
    return lay_cluster(short_dir / uuid4().hex[:8])


@pytest.fixture
def nothing(short_dir):
    """A data directory that does not exist yet."""
    return short_dir / uuid4().hex[:8]


@pytest.fixture(scope="module")
def shared(short_dir):
    """One service for the tests that leave it as they found it."""
    with Running(short_dir / "shared") as service:
        yield service.ready()


def test_a_start_waits_for_a_primary_and_reports_it_once(tmp_path, monkeypatch, capfd):
    answers = [NoPrimary("the database is a standby"), NoPrimary("the database is a standby"), None]

    def prepare(settings, _):
        if answer := answers.pop(0):
            raise answer
        return settings

    monkeypatch.setattr("ledger.postgres.prepare.prepare", prepare)
    monkeypatch.setattr("ledger.postgres.registration.require_clock", lambda _: None)
    monkeypatch.setattr(supervisor.StopSignals, "pause", lambda *_: None)
    patient = Settings(database_url="host=nowhere", data_dir=tmp_path)
    plan, signals = supervisor.ProcessPlan(name="test"), supervisor.StopSignals()
    assert supervisor._Supervisor(patient, plan, signals, tmp_path)._prepared("") is patient
    assert capfd.readouterr().err.count("is a standby; waiting for a primary, at most 60 s") == 1

    def require_clock(_):
        if len(answers) == 1:
            raise ClockApart(-6.0)

    answers += [None, None]
    monkeypatch.setattr("ledger.postgres.registration.require_clock", require_clock)
    assert supervisor._Supervisor(patient, plan, signals, tmp_path)._prepared("") is patient
    assert (
        "clock is 6.0 s behind the database's: synchronise both by NTP; waiting for the right time"
        in capfd.readouterr().err
    )
    answers.append(NoPrimary("the database is a standby"))
    impatient = structs.replace(patient, database_wait_s=0.0)
    with pytest.raises(NoPrimary, match=r"^the database is a standby$"):
        supervisor._Supervisor(impatient, plan, signals, tmp_path)._prepared("")


def test_a_start_is_the_same_whichever_of_its_connections_is_refused(database_url, tmp_path, monkeypatch):
    """As in a failover. Else the application runs as the owner until its end, or without the vault."""
    connect, opened, refused = psycopg.connect, 0, 0

    def connect_unless_refused(url, **options):
        nonlocal opened
        opened += 1
        return connect(url, **options, **({"host": "/nowhere"} if opened == refused else {}))

    def prepared():
        plan, signals = supervisor.ProcessPlan(name="test"), supervisor.StopSignals()
        service = supervisor._Supervisor(settings, plan, signals, tmp_path)
        service._prepare()
        return service._settings

    settings = Settings(database_url=database_url, data_dir=tmp_path, master_key="11" * 32)
    monkeypatch.setattr(psycopg, "connect", connect_unless_refused)
    monkeypatch.setattr(supervisor.StopSignals, "pause", lambda *_: None)
    undisturbed, number = prepared(), opened
    assert number > 10
    for refused in range(1, number + 1):
        opened = 0
        assert prepared() == undisturbed, refused
        assert opened > refused


def test_a_start_whose_processes_lose_the_database_goes_on_until_they_find_it(data_dir, database_url):
    late = "worker=tests.service.stand_ins:work_with_the_third"
    with Running(data_dir, "setup=", late, LEDGER_DATABASE_URL=database_url) as service:
        service.ready()
        service.send(signal.SIGTERM)
        status, stderr = service.end()
    assert status == 0
    assert stderr.count("the worker process ended without its database before it was ready; starting another") == 1
    (data_dir / "attempts").unlink()
    with Running(data_dir, "setup=", late, LEDGER_DATABASE_URL=database_url, LEDGER_DATABASE_WAIT_S="0") as service:
        status, stderr = service.end()
    assert (status, stderr.splitlines()[-1]) == (
        1, "ledger: the worker process ended without its database before it was ready",
    )  # fmt: skip


def test_a_start_that_waits_for_another_machines_migration_can_be_stopped(data_dir, database_url):
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("delete from schema_migration where number = (select max(number) from schema_migration)")
        other.execute("select pg_advisory_lock(%s)", [LOCK])
        with Running(data_dir, "setup=", LEDGER_DATABASE_URL=database_url) as service:
            waits = "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
            eventually(lambda: other.execute(waits).fetchone() == (True,))
            service.send(signal.SIGTERM)
            status, stderr = service.end()
    assert status == 0
    assert "Traceback" not in stderr


def test_a_start_compares_its_files_again_once_its_processes_are_registered(tmp_path, monkeypatch):
    """Of two services that start at the same time, neither is registered when the other one looks before."""
    steps = []

    def require_shared_files(_, files):
        steps.append(files.partition("#")[0])
        raise FilesNotShared

    monkeypatch.setattr("ledger.postgres.registration.require_shared_files", require_shared_files)
    monkeypatch.setattr(supervisor._Supervisor, "_prepare", lambda _: steps.append("prepared"))
    monkeypatch.setattr(supervisor._Supervisor, "_await_children", lambda _: steps.append("registered"))
    settings = Settings(database_url="host=nowhere", data_dir=tmp_path)
    plan = supervisor.ProcessPlan(name="test", api=None, worker=None)
    with pytest.raises(FilesNotShared):
        supervisor._Supervisor(settings, plan, supervisor.StopSignals(), tmp_path).start()
    assert steps == ["prepared", "registered", f"file://{tmp_path}/files"]


@pytest.mark.long
def test_a_start_from_nothing_and_one_from_a_data_directory_end_ready(nothing):
    with Running(nothing) as first:
        assert first.ready().count() == 1
        first.send(signal.SIGTERM)
        assert first.end()[0] == 0
    with Running(nothing) as second:
        assert second.ready().count() == 2


@pytest.mark.long
def test_one_line_per_start_names_the_address(data_dir):
    with Running(data_dir) as service:
        service.ready()
        service.send(signal.SIGTERM)
        stderr, _ = service.process.communicate(timeout=30)
        assert stderr == ""
        assert service.url.startswith("http://127.0.0.1:")


def test_sigterm_ends_every_process_cleanly(data_dir):
    with Running(data_dir, LEDGER_WORKERS="2") as service:
        service.ready()
        pids = service.children()
        assert sorted(pids.values()).count("postgres") == 1
        assert len(pids) == 4
        service.send(signal.SIGTERM)
        status, stderr = service.end()
        assert (status, stderr) == (0, "")
        assert not any(is_alive(pid) for pid in pids)
        assert (data_dir / "worker.done").read_text() == "clean"
        assert "database system is shut down" in (data_dir / "postgres.log").read_text()


def test_a_request_in_flight_is_finished_after_sigterm_and_a_new_one_is_not_accepted(data_dir):
    with Running(data_dir) as service, ThreadPoolExecutor() as pool:
        service.ready()
        slow = pool.submit(service.get, "/slow")
        assert eventually((data_dir / "asked").exists)
        service.send(signal.SIGTERM)
        time.sleep(0.3)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(service.url.rsplit(":", 1)[1])))
        assert slow.result().status_code == 200
        assert service.end()[0] == 0


@pytest.mark.long
def test_a_second_sigterm_ends_it_at_once(data_dir):
    with Running(data_dir) as service, ThreadPoolExecutor() as pool:
        service.ready()
        pids = service.children()
        stuck = pool.submit(service.get, "/stuck")
        assert eventually((data_dir / "asked").exists)
        service.send(signal.SIGTERM)
        time.sleep(0.5)
        assert service.process.poll() is None
        service.send(signal.SIGTERM)
        assert service.end()[0] == 1
        assert not any(is_alive(pid) for pid in pids)
        assert stuck.exception() is not None


@pytest.mark.long
def test_a_signal_that_arrives_twice_at_the_same_moment_is_one(data_dir):
    with Running(data_dir) as service, ThreadPoolExecutor() as pool:
        service.ready()
        slow = pool.submit(service.get, "/slow")
        assert eventually((data_dir / "asked").exists)
        service.send(signal.SIGTERM)
        time.sleep(0.01)
        service.send(signal.SIGTERM)
        assert slow.result().status_code == 200
        assert service.end()[0] == 0


@pytest.mark.long
def test_what_takes_too_long_is_cut_off(data_dir):
    with Running(data_dir) as service, ThreadPoolExecutor() as pool:
        service.ready()
        stuck = pool.submit(service.get, "/stuck")
        assert eventually((data_dir / "asked").exists)
        service.send(signal.SIGTERM)
        assert service.end()[0] == 0
        assert stuck.exception() is not None or stuck.result().status_code == 500


@pytest.mark.parametrize("how", [pytest.param("the parent alone", marks=pytest.mark.long), "the whole group"])
def test_kill_9_takes_children_and_postgres_down_and_a_new_start_recovers(data_dir, how):
    with Running(data_dir) as service:
        service.ready()
        counted = [service.count() for _ in range(5)]
        pids = service.children()
        if how == "the parent alone":
            service.send(signal.SIGKILL)
        else:
            service.kill_group()
        with Running(data_dir) as successor:  # at once: it has to wait for the old server to be gone
            assert successor.ready().count() == counted[-1] + 1
        eventually(lambda: not any(is_alive(pid) for pid in pids))


@pytest.mark.long
def test_kill_9_of_postgres_and_parent_together_loses_nothing(data_dir):
    with Running(data_dir) as service:
        service.ready()
        counted = [service.count() for _ in range(5)]
        os.kill(service.postmaster(), signal.SIGKILL)
        service.kill_group()
    with Running(data_dir) as successor:
        assert successor.ready().count() == counted[-1] + 1


def test_a_second_service_on_the_same_directory_names_the_first_ones_pid(shared):
    with Running(shared.data_dir) as second:
        status, stderr = second.end()
    assert status == 1
    assert stderr == f"ledger: ledger serve (pid {shared.process.pid}) already runs on {shared.data_dir}\n"
    assert shared.count()


@pytest.mark.long
def test_of_two_starts_that_race_on_an_empty_directory_one_serves(nothing):
    with Running(nothing) as one, Running(nothing) as other:
        loser = eventually(lambda: next((each for each in (one, other) if each.process.poll() is not None), None), 20)
        winner = other if loser is one else one
        status, stderr = loser.end()
        assert (status, f"(pid {winner.process.pid})" in stderr) == (1, True)
        assert winner.ready().count() == 1


def test_a_postmaster_that_dies_alone_comes_back_and_requests_meanwhile_are_answered_503(shared):
    before = shared.count()
    for _ in range(3):
        killed = shared.postmaster()
        shared.send(signal.SIGSTOP)  # the supervisor restarts it only after the test has seen that it is gone
        try:
            os.kill(killed, signal.SIGKILL)
            eventually(lambda: shared.count() is None)
        finally:
            shared.send(signal.SIGCONT)
        after = eventually(shared.count)
        assert after > before
        assert shared.postmaster() != killed
        before = after


@pytest.mark.long
def test_a_postgres_that_cannot_start_is_tried_again_until_it_can(data_dir):
    with Running(data_dir) as service:
        before = service.ready().count()
        control = data_dir / "pg" / "global" / "pg_control"
        removed = control.rename(data_dir / "removed")
        os.kill(service.postmaster(), signal.SIGKILL)
        log = data_dir / "postgres.log"
        eventually(lambda: log.read_text().count("could not find the database system") > FAILURES_MAX)
        assert service.count() is None
        removed.rename(control)
        assert eventually(service.count) == before + 1
        # The API may be faster than the supervisor's next look, so the lines are read before the service ends.
        ended, fails, back = (service.process.stderr.readline().rstrip("\n") for _ in range(3))
        service.send(signal.SIGTERM)
        status, rest = service.end()
    assert (status, rest) == (0, "")
    assert ended == "ledger: Postgres has ended; starting it again"
    assert fails.startswith("ledger: Postgres does not start: ")
    assert fails.endswith("; trying again until it starts")
    assert back == "ledger: Postgres is back"


def test_an_api_process_that_dies_is_replaced_and_the_port_stays_open(shared):
    first = shared.get("/").text
    with pytest.raises(Exception, match="disconnected"):
        shared.get("/die")
    assert shared.get("/").text != first


@pytest.mark.parametrize("role", [pytest.param("api", marks=pytest.mark.long), "worker"])
def test_a_child_that_is_stopped_is_ended_and_replaced(data_dir, role):
    with Running(data_dir, LEDGER_PING_TIMEOUT_S="2") as service:
        pids = service.ready().roles()
        os.kill(pids[role], signal.SIGSTOP)
        eventually(lambda: pids[role] not in service.roles().values() and service.roles().keys() == pids.keys())
        assert service.count() == 1
        kept = pids.keys() - {role}
        assert [service.roles()[one] for one in kept] == [pids[one] for one in kept], "one that answers is kept"
        service.send(signal.SIGTERM)
        status, stderr = service.end()
    assert status == 0
    about_it = [line for line in stderr.splitlines() if line.startswith(f"ledger: the {role} process")]
    assert [line.split(";")[0] for line in about_it][:2] == [
        f"ledger: the {role} process (pid {pids[role]}) has not answered for 1 s",
        f"ledger: the {role} process (pid {pids[role]}) was ended by SIGKILL",
    ]


@pytest.mark.long
def test_a_service_without_its_worker_goes_on_starting_one_reports_it_once_and_is_not_ready(data_dir):
    with Running(data_dir, "worker=tests.service.stand_ins:work_once") as service:
        worker = service.ready().roles()["worker"]
        assert service.get("/all-ready").text == "True"
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: (data_dir / "attempts").read_text().count("x") > 2)
        assert service.get("/all-ready").text == "False"
        service.send(signal.SIGTERM)
        status, stderr = service.end()
    assert status == 0
    assert [line.partition(" in ")[0] for line in stderr.splitlines()] == [
        f"ledger: the worker process (pid {worker}) was ended by SIGKILL; starting another",
        "ledger: not every process is ready: /health/ready is 503",
        "ledger: the worker process exited with 9 before it was ready; starting another",
    ]


@pytest.mark.long
def test_a_service_whose_processes_are_all_killed_every_second_stays_and_comes_back(data_dir):
    with Running(data_dir, LEDGER_WORKERS="2") as service:
        counted = service.ready().count()
        for _ in range(6):
            for pid in service.children():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(1)
        assert service.process.poll() is None
        eventually(lambda: answered(service, "/all-ready") == "True", 60)
        assert eventually(service.count) > counted
        service.send(signal.SIGTERM)
        status, stderr = service.end()
    assert status == 0
    # Postgres may be reported after the processes that were ready before the supervisor asked it again.
    assert "ledger: every process is ready again" in stderr.splitlines()[-2:]


def answered(service, path):
    """What the service answers, or None while no process does."""
    with suppress(httpx.TransportError):
        return service.get(path).text
    return None


@pytest.mark.long
def test_each_line_about_the_service_is_json_with_its_level(data_dir):
    """What an operator reads of a night: a process and Postgres are killed, replaced, and the service is stopped."""
    with Running(data_dir, LEDGER_LOG_FORMAT="json", LEDGER_LOG_LEVEL="info") as service:
        before = service.ready().count()
        worker = service.roles()["worker"]
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: service.roles().get("worker", worker) != worker, 60)
        eventually(lambda: service.get("/all-ready").text == "True", 60)
        postmaster = service.postmaster()
        os.kill(postmaster, signal.SIGKILL)
        assert eventually(service.count, 60) == before + 1
        lines = read_until(service, "postgres_back")
        service.send(signal.SIGTERM)
        status, rest = service.end(60)
    lines += [json.loads(line) for line in rest.splitlines()]
    assert status == 0
    seen = [(line["event"], line["level"]) for line in lines]
    in_order = iter(seen)
    for expected in (
        ("processes_ready", "info"),
        ("process_restart", "warning"),
        ("processes_ready", "warning"),
        ("postgres_ended", "error"),
        ("postgres_back", "warning"),
        ("stop_requested", "info"),
        ("service_stopped", "info"),
    ):
        assert expected in in_order, seen
    assert ("processes_not_ready", "warning") in seen
    assert all(line["message"] and datetime.fromisoformat(line["timestamp"]).tzinfo for line in lines)
    restart = next(line for line in lines if line["event"] == "process_restart")
    assert restart["role"] == "worker"
    assert f"(pid {worker}) was ended by SIGKILL" in restart["message"]
    assert next(line for line in lines if line["event"] == "stop_requested")["signal"] == "SIGTERM"


def read_until(service, event):
    """The JSON lines on standard error, up to the one with this event."""
    lines = []
    while not lines or lines[-1]["event"] != event:
        lines.append(json.loads(service.process.stderr.readline()))
    return lines


@pytest.mark.long
def test_an_application_that_cannot_be_made_ends_the_start_with_the_reason(data_dir):
    with Running(data_dir, "api=tests.service.stand_ins:create_no_app") as service:
        status, stderr = service.end()
        assert status == 1
        assert stderr.splitlines()[-1] == "ledger: the api process exited with 3 before it was ready"
        assert service.process.stdout.closed


@pytest.mark.long
def test_the_embedded_server_accepts_what_all_processes_open(data_dir):
    with (
        Running(data_dir, LEDGER_WORKERS="4") as service,
        psycopg.connect(service.ready().get("/role").text) as connection,
    ):
        limit = connection.execute("show max_connections").fetchone()
    expected = embedded_settings(Settings(workers=4))["max_connections"]
    assert limit == (expected,)
    assert int(expected) > 100


def test_a_database_that_accepts_too_few_connections_ends_the_start_with_the_reason(data_dir, database_url):
    with Running(data_dir, "setup=", LEDGER_DATABASE_URL=database_url, LEDGER_WORKERS="64") as service:
        status, stderr = service.end()
    assert status == 1
    assert stderr.splitlines()[-1].startswith("ledger: 64 API processes (LEDGER_WORKERS) and a worker may open ")
    assert "Traceback" not in stderr


def test_a_taken_port_is_named_by_its_setting(shared, data_dir):
    port = int(shared.url.rsplit(":", 1)[1])
    with Running(data_dir, port=port) as service:
        status, stderr = service.end()
    assert (status, stderr) == (1, f"ledger: LEDGER_PORT {port} is taken on 127.0.0.1\n")


@pytest.mark.long
def test_the_halves_apart_share_one_database_and_the_one_that_stays_takes_it_over(data_dir):
    with Running(data_dir, "--share", "worker=") as api:
        api.ready()
        with Running(data_dir, "--share", "api=", "setup=") as worker:
            worker.ready()
            assert "postgres" not in worker.children().values()
            assert api.count() == 1
            api.send(signal.SIGTERM)
            assert api.end()[0] == 0
            eventually(lambda: "postgres" in worker.children().values())
            with Running(data_dir, "--share", "worker=", "setup=") as again:
                assert eventually(again.ready().count) == 2
                assert "postgres" not in again.children().values()
