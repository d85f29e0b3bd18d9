"""Debian's pgbouncer in front of a server of the tests, reached by a Unix socket of its own."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger.postgres.embedded.account import as_account, server_account
from ledger.postgres.embedded.ownership import own_directory

_PROGRAM = "/usr/sbin/pgbouncer"


@contextmanager
def pooled(url: str, home: Path, mode: str, roles: Sequence[str], settings: str = "") -> Iterator[str]:
    """Yields the connection string of a pooler in this mode, for the database and the owner of `url`, and for `roles`.
    `settings` are lines that come after those of every pooler.

    Skips the test where pgbouncer is not installed.
    """
    if not Path(_PROGRAM).exists():
        pytest.skip("pgbouncer is not installed: apt-get install pgbouncer")
    server, account = conninfo_to_dict(url), server_account()
    own_directory(home, account)
    users = home / "users"
    users.write_text("".join(f'"{role}" ""\n' for role in (server["user"], *roles)))
    configuration = home / "pgbouncer.ini"
    configuration.write_text(
        f"""[databases]
{server["dbname"]} = host={server["host"]} port={server["port"]}
[pgbouncer]
unix_socket_dir = {home}
listen_port = {server["port"]}
auth_type = trust
auth_file = {users}
pool_mode = {mode}
default_pool_size = 100
max_client_conn = 500
logfile = {home}/log
{settings}
"""
    )
    for file in (users, configuration):
        file.chmod(0o644)
    running = subprocess.Popen([_PROGRAM, "--quiet", configuration], **as_account(account))
    try:
        string = make_conninfo(url, host=str(home))
        _await(string)
        yield string
    finally:
        running.terminate()
        running.wait()
        shutil.rmtree(home)


def _await(string: str) -> None:
    until = time.monotonic() + 20
    while True:
        try:
            psycopg.connect(string).close()
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return
