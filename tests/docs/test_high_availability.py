"""The printed configurations of the highly available set-up: HAProxy and pgbouncer start with them."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from pathlib import Path

import pytest
from campaigns.failover.programs import HAPROXY, PGBOUNCER, free_ports

from ledger.postgres.embedded.account import as_account, server_account
from ledger.postgres.embedded.ownership import own_directory

PAGE = Path(__file__).parents[2] / "docs/how-to/run-highly-available.md"
PATIENCE_S = 20


def printed(kind: str, beginning: str) -> str:
    """The block of the page of this kind that begins so, with addresses of this machine for those of the page."""
    blocks: list[str] = re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (block,) = [block for block in blocks if block.startswith(beginning)]
    return re.sub(r"\b10\.0\.0\.\d+|\bdb\d(?=:)", "127.0.0.1", block)


@pytest.mark.skipif(not HAPROXY.exists(), reason="haproxy is not installed")
def test_haproxy_accepts_the_printed_configuration(tmp_path: Path) -> None:
    configuration = tmp_path / "haproxy.cfg"
    configuration.write_text(printed("text", "defaults"))
    checked = subprocess.run([HAPROXY, "-c", "-f", configuration], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "[WARNING]" not in checked.stderr


@pytest.mark.skipif(not PGBOUNCER.exists(), reason="pgbouncer is not installed")
def test_pgbouncer_listens_with_the_printed_configuration(short_dir: Path) -> None:
    account, (port,) = server_account(), free_ports(1)
    own_directory(short_dir, account)
    users, configuration = short_dir / "users", short_dir / "pgbouncer.ini"
    users.write_text('"ledger" "secret"\n"pgbouncer" "secret"\n')
    text = printed("ini", "[databases]").replace("/etc/pgbouncer/userlist.txt", str(users))
    configuration.write_text(f"{text.replace('= 6432', f'= {port}')}unix_socket_dir =\nlogfile = {short_dir}/log\n")
    for file in (users, configuration):
        file.chmod(0o644)
    running = subprocess.Popen([PGBOUNCER, "--quiet", configuration], **as_account(account))
    try:
        assert is_reached(running, port), (short_dir / "log").read_text()
    finally:
        running.terminate()
        running.wait()


def is_reached(running: subprocess.Popen[bytes], port: int) -> bool:
    """Whether the process listens on this port of the loopback address before it ends."""
    until = time.monotonic() + PATIENCE_S
    while running.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False
