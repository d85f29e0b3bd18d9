"""Who can read what the embedded Postgres holds: its environment, its account, its files and its clients."""

import os
import pwd
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from tests.clusters import lay_cluster
from tests.service.trees import eventually

from ledger.postgres.embedded import account as accounts
from ledger.postgres.embedded import authentication, cluster, ownership
from ledger.postgres.embedded import server as embedded
from ledger.postgres.embedded.account import Account, ClusterUnusable, as_account, run_as, server_account
from ledger.postgres.embedded.data_dir import database, make_data_dir

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs as another user")
on_linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="without /proc no process shows this")

SECRETS = {
    "LEDGER_MASTER_KEY": "secret-master",
    "LEDGER_SEALING_KEYS": "secret-sealing",
    "LEDGER_PROCESSOR_KEYS": "secret-processor",
    "LEDGER_METRICS_TOKEN": "secret-token",
    "LEDGER_DATABASE_URL": "password=secret-database",
    "A_VARIABLE_OF_ANOTHER_PROGRAM": "secret-other",
}


@pytest.fixture(scope="module")
def server(short_dir):
    """A server that was started by a process with secrets, and with an environment meant for another server."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**SECRETS, "PGPORT": "1"}.items():
            patch.setenv(name, value)
        running = embedded.start(cluster.open_cluster(lay_cluster(short_dir / uuid4().hex[:8])))
        yield running
        running.stop()


@pytest.fixture
def opened(short_dir):
    """A cluster that does not run."""
    return cluster.open_cluster(lay_cluster(short_dir / uuid4().hex[:8]))


def nobody():
    entry = pwd.getpwnam("nobody")
    return Account(name="nobody", uid=entry.pw_uid, gid=entry.pw_gid)


def owners(*directories):
    return {path.lstat().st_uid for top in directories for path in (top, *top.rglob("*"))}


def give(account, *directories):
    """Gives directories to another account, as an earlier release has left them."""
    for top in directories:
        subprocess.run(["chown", "-R", f"{account.uid}:{account.gid}", top], check=True)


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@on_linux
def test_no_secret_is_in_the_environment_of_any_process_of_the_server(server):
    with psycopg.connect(server.url) as connection:
        backend = connection.execute("select pg_backend_pid()").fetchone()[0]
        processes = [server.pid, *children(server.pid)]
        assert backend in processes
        environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in processes]
    assert b"PATH=" in environments[0]
    for found in environments:
        assert b"secret" not in found
        assert b"LEDGER_" not in found


def test_the_environment_keeps_the_locale_and_the_time_zone(monkeypatch):
    for name in ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, "kept")
    kept = accounts.environment()
    assert [kept[name] for name in ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")] == ["kept"] * 4
    assert not {"HOME", "PGPORT", *SECRETS} & kept.keys()


def test_the_rules_are_peer_authentication_alone(server):
    with psycopg.connect(server.url) as connection:
        rules = connection.execute("select distinct type, auth_method, options from pg_hba_file_rules").fetchall()
        users = {name for (name,) in connection.execute("select sys_name from pg_ident_file_mappings")}
    assert rules == [("local", "peer", ["map=ledger"])]
    account = server.cluster.account
    assert users == {"root", pwd.getpwuid(os.geteuid()).pw_name, *([account.name] if account else [])}


@as_root
def test_root_and_the_account_may_connect_as_any_role(server):
    with psycopg.connect(server.url, autocommit=True) as connection:
        role = f"role_{uuid4().hex}"
        connection.execute(f"create role {role} login password 'not asked for'")
    psql = server.cluster.binaries / "psql"
    for user in (None, server.cluster.account):
        answer = run_as(user, psql, f"{server.url} user={role}", "-Atc", "select current_user")
        assert (answer.stdout.strip(), answer.stderr) == (role, "")


@as_root
@pytest.mark.parametrize("role", ["ledger", "nobody", "ledger_app_1"])
def test_another_user_of_the_machine_cannot_connect(server, role):
    def attempt():
        return run_as(nobody(), psql, f"{server.url} user={role}", "-c", "select 1")

    psql = server.cluster.binaries / "psql"
    closed = attempt()
    assert "Permission denied" in closed.stderr
    assert closed.returncode == 2
    sockets = server.cluster.sockets
    (sockets / cluster.SOCKET_NAME).chmod(0o777)
    sockets.chmod(0o711)
    try:
        refused = attempt()
    finally:
        sockets.chmod(0o700)
        (sockets / cluster.SOCKET_NAME).chmod(0o700)
    assert f'Peer authentication failed for user "{role}"' in refused.stderr
    assert refused.returncode == 2


@on_linux
def test_the_server_listens_on_no_network_address(server):
    links = [str(link.readlink()) for link in Path(f"/proc/{server.pid}/fd").iterdir()]
    sockets = {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:[")}
    tables = [(Path("/proc/net") / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    assert sockets
    assert not sockets & {line.split()[9] for lines in tables for line in lines}


@as_root
def test_the_account_is_not_shared(server):
    account = server.cluster.account
    assert account.name in {"payment-ledger", None}
    assert Path(f"/proc/{server.pid}").stat().st_uid == account.uid != nobody().uid
    assert server.cluster.sockets.stat().st_mode & 0o777 == 0o700


def test_rules_of_an_earlier_release_are_replaced(opened, capfd):
    rules = opened.directory / "pg_hba.conf"
    trusting = opened.home / "trusting.conf"
    for path in (rules, trusting):
        path.write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n")
        path.chmod(0o644)
    with (opened.directory / "postgresql.auto.conf").open("a") as file:
        file.write(f"hba_file = '{trusting}'\nlisten_addresses = '127.0.0.1'\n")
    with database(None, opened.home) as url, psycopg.connect(url) as connection:
        assert connection.execute("show hba_file").fetchone() == (str(rules),)
        assert connection.execute("select distinct auth_method from pg_hba_file_rules").fetchall() == [("peer",)]
    assert "trust" not in rules.read_text()
    assert rules.stat().st_mode & 0o777 == 0o600
    assert capfd.readouterr().err == ""


def test_rules_are_written_beside_a_link_and_not_through_it(tmp_path):
    target, folder = tmp_path / "target", tmp_path / "pg"
    target.write_text("local all all trust\n")
    folder.mkdir()
    for name in ("pg_hba.conf", "pg_hba.conf.new"):
        (folder / name).symlink_to(target)
    authentication.write_authentication(folder, None)
    assert target.read_text() == "local all all trust\n"
    assert not (folder / "pg_hba.conf").is_symlink()


def test_a_user_without_a_name_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(authentication, "name_of", lambda _: None)
    with pytest.raises(ClusterUnusable, match=rf"user {os.geteuid()} has no name, by which Postgres recognises it"):
        authentication.write_authentication(tmp_path, None)


@as_root
def test_files_of_the_earlier_account_are_taken_over_once(opened, capfd):
    (opened.sockets / f"{cluster.SOCKET_NAME}.lock").write_text("1\n")  # a server that was killed has left it
    (opened.sockets / f"{cluster.SOCKET_NAME}.lock").chmod(0o600)
    give(nobody(), opened.directory, opened.sockets)
    give(opened.account, opened.directory / "base")  # an earlier start was killed while it took them over
    for expected in (f"ledger: Postgres runs as {opened.account} now; its files belonged to nobody\n", ""):
        with database(None, opened.home) as url, psycopg.connect(url) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        assert owners(opened.directory, opened.sockets) == {opened.account.uid}
        assert capfd.readouterr().err == expected


@as_root
@on_linux
def test_the_files_of_a_server_that_still_runs_are_left_to_it(opened):
    authentication.write_authentication(opened.directory, nobody())
    (opened.directory / "pg_hba.conf").write_text("local all all trust\n")
    give(nobody(), opened.directory, opened.sockets)
    options = ["-D", opened.directory, "-k", opened.sockets, "-c", "listen_addresses="]
    earlier = subprocess.Popen([opened.binaries / "postgres", *options], **as_account(nobody()), stderr=-3)
    try:
        eventually(lambda: embedded.is_running(opened))
        with database(None, opened.home) as url, psycopg.connect(url) as connection:  # a command uses that server
            assert connection.execute("select 1").fetchone() == (1,)
        server = embedded.EmbeddedServer(opened)
        pid_file = opened.directory / "postmaster.pid"
        for hidden in (pid_file, pid_file.with_name("hidden")):  # without the file, its processes are found
            assert not server.tick()
            assert server.pid is None
            assert owners(opened.sockets) | {opened.directory.stat().st_uid} == {nobody().uid}
            hidden.rename({pid_file: hidden.with_name("hidden")}.get(hidden, pid_file))
    finally:
        earlier.send_signal(signal.SIGINT)
        earlier.wait()
    try:
        eventually(server.tick)
        assert owners(opened.directory, opened.sockets) == {opened.account.uid}
    finally:
        server.stop()


@as_root
def test_only_files_of_the_earlier_account_change_their_owner(short_dir):
    tree, outside = short_dir / uuid4().hex, short_dir / uuid4().hex
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "file").touch()
    (outside).touch()
    (tree / "below" / "link").symlink_to(outside)
    give(nobody(), tree, outside)
    (tree / "of-root").touch()
    ownership.change_owner(tree, nobody().uid, Account(name=None, uid=60_999, gid=60_999))
    assert {path.name: path.lstat().st_uid for path in tree.rglob("*")} == {
        "below": 60_999,
        "file": 60_999,
        "link": nobody().uid,
        "of-root": 0,
    }
    assert (tree.stat().st_uid, outside.stat().st_uid) == (60_999, nobody().uid)


@as_root
@pytest.mark.parametrize(
    ("owner", "parent", "mode", "taken"),
    [
        (65_001, 0, 0o755, 65_001),  # the account had another number: a restore, another container
        (65_001, 0, 0o777, None),
        (65_001, 65_001, 0o755, None),  # a user's own cluster
        ("nobody", 65_001, 0o755, "nobody"),
        ("account", 0, 0o755, None),
    ],
)
def test_a_cluster_of_another_user_is_not_taken_over(short_dir, owner, parent, mode, taken):
    account = server_account()
    numbers = {"nobody": nobody().uid, "account": account.uid}
    home = short_dir / uuid4().hex
    (home / "pg").mkdir(parents=True)
    os.chown(home / "pg", numbers.get(owner, owner), -1)
    os.chown(home, parent, -1)
    home.chmod(mode)
    assert ownership.former_owner(home / "pg", account) == numbers.get(taken, taken)


@as_root
@pytest.mark.skipif(shutil.which("useradd", path=accounts._PROGRAMS) is None, reason="this system has no useradd")
def test_starts_at_once_create_one_account():
    name = f"ledger-test-{uuid4().hex[:8]}"
    try:
        with ThreadPoolExecutor(4) as pool:
            made = {start.result() for start in [pool.submit(server_account, name) for _ in range(4)]}
        entry = pwd.getpwnam(name)
        assert made == {Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)}
        assert entry.pw_uid < 1000
        assert entry.pw_shell.endswith(("nologin", "false"))
    finally:
        subprocess.run(["userdel", name], check=True, capture_output=True)


@as_root
def test_busybox_creates_the_account_where_useradd_fails(tmp_path, monkeypatch):
    calls = tmp_path / "calls"
    for name, status in (("useradd", 1), ("busybox", 0)):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >> {calls}\nexit {status}\n')
        (tmp_path / name).chmod(0o755)
    for name in ("addgroup", "adduser"):
        (tmp_path / name).symlink_to("busybox")
    monkeypatch.setattr(accounts, "_PROGRAMS", str(tmp_path))
    accounts._create("ledger-test")
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["useradd", "addgroup", "adduser"]
    assert calls.read_text().endswith("adduser -S -D -H -h /nonexistent -s /bin/false -G ledger-test ledger-test\n")


@as_root
def test_without_such_a_program_the_account_is_a_free_number_until_there_is_one(short_dir, monkeypatch, capfd):
    data_dir = make_data_dir(short_dir / uuid4().hex[:8])
    with monkeypatch.context() as bare:
        bare.setattr(accounts, "_PROGRAMS", "/nonexistent")
        bare.setattr(cluster, "server_account", lambda: server_account("ledger-test-missing"))
        with database(None, data_dir):
            number = (data_dir / "pg").stat().st_uid
            assert number in accounts._NUMBERS
            assert accounts.name_of(number) is None
            assert owners(data_dir / "pg", data_dir / "run") == {number}
    with database(None, data_dir):
        assert owners(data_dir / "pg", data_dir / "run") == {server_account().uid}
    assert capfd.readouterr().err == (
        f"ledger: Postgres runs as {server_account()} now; its files belonged to {number}\n"
    )


@as_root
def test_an_account_that_shares_its_number_is_refused(monkeypatch):
    monkeypatch.setattr(accounts, "name_of", lambda _: "backup")
    with pytest.raises(ClusterUnusable, match=r"the account `daemon` has the user id 1 of `backup`"):
        server_account("daemon")
