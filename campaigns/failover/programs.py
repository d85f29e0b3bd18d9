"""Debian's programs of a highly available Postgres: where they are, which are missing, and their processes.

Postgres and pgbouncer refuse to run as root, so that all of them run under the account of the embedded server.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from campaigns.chaos.running import Running
from ledger.postgres.embedded.account import Account, environment

POSTGRES: Final = Path("/usr/lib/postgresql/15/bin")
PATRONI: Final = Path("/usr/bin/patroni")
ETCD: Final = Path("/usr/bin/etcd")
HAPROXY: Final = Path("/usr/sbin/haproxy")
PGBOUNCER: Final = Path("/usr/sbin/pgbouncer")

_PACKAGES: Final = {
    "patroni": PATRONI,
    "etcd-server": ETCD,
    "haproxy": HAPROXY,
    "pgbouncer": PGBOUNCER,
    "postgresql-15": POSTGRES / "postgres",
}


def missing_packages() -> list[str]:
    """Returns the packages of Debian that are not installed here."""
    return [package for package, program in _PACKAGES.items() if not program.exists()]


def how_to_install(packages: Sequence[str]) -> str:
    """Returns the sentence that names what is missing and the command that installs it."""
    return f"{', '.join(packages)} is not installed: apt-get install {' '.join(packages)}"


def start(arguments: Sequence[str | Path], log: Path, account: Account | None, **variables: str) -> Running:
    """Starts a program without the variables of this process, which hold keys."""
    given: Mapping[str, str] = {**environment(), **variables}
    return Running([str(argument) for argument in arguments], given, log, account)


def free_ports(count: int) -> list[int]:
    """Returns so many different ports of the loopback address that nothing listens on."""
    with ExitStack() as stack:
        listening = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in listening:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in listening]


def is_running(pid: int, name: str) -> bool:
    """Returns whether this process runs a program of that name."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == name
    except OSError:
        return False


def send(pid: int, number: int) -> None:
    """Sends a signal to a process, if it is still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
