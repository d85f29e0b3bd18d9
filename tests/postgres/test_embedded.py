"""The embedded Postgres: its files, which process starts and stops it, and what it survives."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from tests.clusters import lay_cluster
from tests.service.trees import environment, eventually, is_alive

from ledger.postgres.embedded import cluster
from ledger.postgres.embedded import server as embedded
from ledger.postgres.embedded.account import run_as, server_account
from ledger.postgres.embedded.data_dir import ServerLease, database, make_data_dir
from ledger.settings import CannotRun
from ledger.telemetry import slow_waits

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another account")

KILLED = """
import os, sys, time
from pathlib import Path
from ledger.postgres.embedded.data_dir import database
with database(None, Path(sys.argv[1])) as url:
    print(url, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def data_dir(short_dir):
    return lay_cluster(short_dir / uuid4().hex[:8])


@pytest.fixture
def nothing(short_dir):
    """A data directory that does not exist yet."""
    return short_dir / uuid4().hex[:8]


@pytest.fixture
def server(data_dir):
    """A running server that is stopped after the test."""
    running = embedded.start(cluster.open_cluster(make_data_dir(data_dir)))
    yield running
    running.stop()


def accepts_connections(url):
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def setting(url, name):
    with psycopg.connect(url) as connection:
        return connection.execute("select setting from pg_settings where name = %s", [name]).fetchone()[0]


def test_a_given_database_is_used_and_nothing_is_created(nothing):
    with database("host=elsewhere", nothing) as url:
        assert url == "host=elsewhere"
    assert not nothing.exists()


def test_a_command_starts_its_own_server_and_stops_it_at_the_end(data_dir):
    with database(None, data_dir) as url:
        assert setting(url, "listen_addresses") == ""
        pid = int((data_dir / "pg" / "postmaster.pid").read_text().split()[0])
    assert not is_alive(pid)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url, connect_timeout=2)


def test_a_command_uses_the_server_that_runs_and_leaves_it_running(data_dir, server):
    with database(None, data_dir) as url:
        assert url == server.url
    assert setting(server.url, "fsync") == "on"


@pytest.mark.long
def test_many_commands_at_once_on_an_empty_directory_all_succeed(nothing):
    """Each in its own process, because a lock of the kernel belongs to a process."""
    program = (
        "import sys, time, psycopg\nfrom pathlib import Path\nfrom ledger.postgres.embedded.data_dir import database\n"
        "with database(None, Path(sys.argv[1])) as url:\n"
        "    for _ in range(20):\n"
        "        psycopg.connect(url).close(); time.sleep(0.02)\n"
    )
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(run_python, program, nothing) for _ in range(4)]
        assert [run.result().stderr for run in runs] == ["", "", "", ""]
    assert not (nothing / "pg" / "postmaster.pid").exists()


def run_python(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment())


def test_the_server_of_a_killed_command_ends_with_it(data_dir):
    command = subprocess.Popen([sys.executable, "-c", KILLED, data_dir], stdout=subprocess.PIPE, env=environment())
    assert b"host=" in command.stdout.readline()
    pid = int((data_dir / "pg" / "postmaster.pid").read_text().split()[0])
    assert is_alive(pid)
    command.kill()
    command.communicate()
    eventually(lambda: not is_alive(pid))
    assert "received fast shutdown request" in (data_dir / "postgres.log").read_text()


def test_without_a_parent_death_signal_a_guard_requests_the_fast_shutdown(server):
    pid = server.pid
    guard = embedded.guard(pid)
    time.sleep(0.1)
    assert server.tick()
    guard.stdin.close()  # as the end of this process does
    eventually(lambda: not is_alive(pid) or server.pid is None)
    assert guard.wait(5) == 0


def test_no_file_of_the_cluster_turns_durability_off(data_dir, server):
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"alter system set {name} = off")
    server.stop()
    with database(None, data_dir) as url:
        assert [setting(url, name) for name in ("fsync", "full_page_writes", "synchronous_commit")] == ["on"] * 3


def test_neither_values_nor_statements_reach_its_log(data_dir, server):
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("create table card (number text primary key)")
        for _ in range(2):
            with suppress(psycopg.errors.UniqueViolation):
                connection.execute("insert into card values (%s)", ["4242424242424242"])
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("select '4242424242424242', nothing")
    log = (data_dir / "postgres.log").read_text()
    assert "duplicate key" in log
    assert "4242" not in log


def test_a_path_too_long_for_a_socket_gets_a_short_one(short_dir):
    data_dir = short_dir / "-".join(["long"] * 20) / uuid4().hex[:8]
    if os.geteuid() == 0:
        make_data_dir(data_dir.parent)
    with database(None, data_dir) as url:
        assert setting(url, "fsync") == "on"
        assert str(data_dir) not in url
    shutil.rmtree(Path(url.split("'")[1]))


def test_an_initdb_that_was_killed_leaves_no_half_cluster(nothing):
    make_data_dir(nothing)
    half = nothing / "pg.init.1"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    with database(None, nothing) as url:
        assert setting(url, "data_checksums") == "on"
    assert not half.exists()


def test_the_cluster_of_another_major_version_is_refused_with_both_versions(nothing):
    make_data_dir(nothing)
    (nothing / "pg").mkdir()
    (nothing / "pg" / "PG_VERSION").write_text("15\n")
    with pytest.raises(cluster.ClusterUnusable, match=r"made by PostgreSQL 15; this release brings 18"):
        cluster.open_cluster(nothing)


def test_a_data_directory_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotRun, match=r"LEDGER_DATA_DIR .*/file/x cannot be made: Not a directory"):
        make_data_dir(tmp_path / "file" / "x")


def test_a_stale_pid_file_with_the_pid_of_another_program_does_not_prevent_the_start(data_dir):
    with database(None, data_dir):
        pass
    mine = f"{os.getpid()}\n{data_dir}/pg\n0\n5432\n{data_dir}/run\n\n  0 0\nready\n"
    (data_dir / "pg" / "postmaster.pid").write_text(mine)
    with database(None, data_dir) as url:
        assert setting(url, "fsync") == "on"


def test_a_former_server_that_its_parent_has_not_asked_about_has_ended(data_dir, server):
    """As in a container whose first process asks about none of its children: the former server stays a zombie."""
    former = server.pid
    os.kill(former, signal.SIGKILL)
    eventually(lambda: Path(f"/proc/{former}/stat").read_text().rpartition(") ")[2].startswith("Z"))
    assert (data_dir / "pg" / "postmaster.pid").read_text().split()[0] == str(former)
    with database(None, data_dir) as url:
        assert setting(url, "fsync") == "on"
        assert (data_dir / "pg" / "postmaster.pid").read_text().split()[0] != str(former)


def test_a_slow_wait_for_another_server_is_reported_with_its_pid(data_dir, server, monkeypatch, capfd):
    monkeypatch.setattr(slow_waits, "REPORT_AFTER_S", 0.2)
    client = psycopg.connect(server.url, autocommit=True)
    os.kill(server.pid, signal.SIGTERM)  # a smart shutdown: it waits for its last client
    eventually(lambda: not accepts_connections(server.url))
    leave = threading.Timer(1.5, client.close)
    leave.start()
    pid = server.pid
    with database(None, data_dir):
        pass
    assert f"ledger: waiting for another Postgres (pid {pid}) on {data_dir}/pg to end\n" in capfd.readouterr().err


def test_a_server_that_shuts_down_slowly_is_waited_for_without_a_failure(data_dir, server):
    client = psycopg.connect(server.url, autocommit=True)
    client.execute("create table kept ()")
    os.kill(server.pid, signal.SIGTERM)  # a smart shutdown: it waits for its last client
    eventually(lambda: not accepts_connections(server.url))
    leave = threading.Timer(4.5, client.close)
    leave.start()
    with database(None, data_dir) as url, psycopg.connect(url) as connection:
        assert not leave.is_alive()
        assert connection.execute("select to_regclass('kept') is not null").fetchone() == (True,)


def test_a_server_that_does_not_start_is_reported_with_its_reason_in_one_line(data_dir):
    with database(None, data_dir):
        pass
    (data_dir / "pg" / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(embedded.PostgresFailed) as failure, database(None, data_dir):
        pass
    assert "no_such_setting" in str(failure.value) or "contains errors" in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_service_keeps_the_directory_until_it_stops(data_dir):
    keeper = ServerLease(data_dir, "ledger serve")
    keeper.wait()
    assert setting(keeper.url, "fsync") == "on"
    other = run_python(
        "import sys\nfrom pathlib import Path\nfrom ledger.postgres.embedded.data_dir import ServerLease\n"
        "ServerLease(Path(sys.argv[1]), 'ledger serve').refuse_to_share()",
        data_dir,
    )
    assert f"DataDirInUse: ledger serve (pid {os.getpid()}) already runs on {data_dir}" in other.stderr
    keeper.stop(8)
    with database(None, data_dir) as url:
        assert setting(url, "fsync") == "on"


@as_root
def test_root_runs_the_server_as_another_account(data_dir, server):
    assert Path(f"/proc/{server.pid}").stat().st_uid != 0
    assert (data_dir / "pg").stat().st_uid == Path(f"/proc/{server.pid}").stat().st_uid


@pytest.fixture
def closed_umask():
    """Files that this process creates are its own, as hardened systems have it."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.long
@as_root
@pytest.mark.usefixtures("closed_umask")
def test_a_data_directory_that_the_account_cannot_enter_has_its_cluster_in_the_state_folder(tmp_path):
    tmp_path.chmod(0o700)
    homes = []
    for place in (tmp_path / "one", tmp_path / "two"):
        with database(None, place) as url, psycopg.connect(url) as connection:
            connection.execute("create table kept ()")
        with database(None, place) as url, psycopg.connect(url) as connection:
            assert connection.execute("select to_regclass('kept') is not null").fetchone() == (True,)
        opened = cluster.open_cluster(place)
        assert opened.is_elsewhere
        assert opened.home.parent == cluster.system_state()
        homes.append(opened.home)
    assert homes[0] != homes[1]
    for home in homes:
        shutil.rmtree(home)


@as_root
@pytest.mark.usefixtures("closed_umask")
def test_binaries_that_the_account_cannot_reach_are_copied_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_SYSTEM_STATES", (Path("/var/tmp") / f"ledger-{uuid4().hex[:8]}",))
    monkeypatch.setattr(cluster, "_runs", lambda *_: False)
    try:
        first = cluster._reachable_binaries(server_account())
        assert first == cluster._reachable_binaries(server_account())
        assert first.is_relative_to(cluster.system_state())
        for program in ("postgres", "initdb"):  # the second one needs the wheel's own libraries
            version = run_as(server_account(), first / program, "--version").stdout
            assert version.startswith(f"{program} (PostgreSQL) {cluster.MAJOR}")
    finally:
        shutil.rmtree(cluster.system_state())


@as_root
def test_a_state_folder_that_another_user_could_write_is_not_trusted(tmp_path, monkeypatch):
    open_to_all = tmp_path / "state"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setattr(cluster, "_SYSTEM_STATES", (open_to_all,))
    with pytest.raises(cluster.ClusterUnusable, match="can hold the files of Postgres"):
        cluster.system_state()


def test_a_directory_of_another_account_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    """A lock that root made there would keep the service's own account out."""
    (tmp_path / "serve.lock").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with (
        pytest.raises(CannotRun, match=r"is used by the account \S+: run this as that account"),
        database(None, tmp_path),
    ):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["serve.lock"]
