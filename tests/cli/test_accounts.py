"""An installation of an account that is not root: what it makes is its own, and another account gets one line."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest
from tests.service.trees import environment

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs as two other accounts")

OWNER, OTHER = "games", "news"
"""Accounts of every Debian that run nothing."""
COMMAND = "from ledger.cli.main import main; main()"


def under(name: str, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program as an account, in its own group alone."""
    entry = pwd.getpwnam(name)
    account = [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    return subprocess.run(
        ["setpriv", *account, *command],
        env=environment(PYTHONDONTWRITEBYTECODE="1", **variables),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


@cache
def interpreter() -> tuple[str, str]:
    """Returns a Python of this version that any account may start, and where it finds the packages. Skips without one."""
    packages = os.pathsep.join(place for place in sys.path if place.endswith("site-packages"))
    try:
        for name in (OWNER, OTHER):
            pwd.getpwnam(name)
    except KeyError:
        pytest.skip("this system lacks the accounts")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for program in (sys.executable, f"/usr/bin/python{version}"):
        path = environment()["PYTHONPATH"] + os.pathsep + packages
        if under(OWNER, program, "-P", "-c", "import ledger.cli.main", PYTHONPATH=path).returncode == 0:
            return program, path
    pytest.skip("other accounts may not read this Python, or this source")


def run(name: str, data_dir: Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the console as an account."""
    program, path = interpreter()
    return under(
        name, program, "-P", "-c", COMMAND, *arguments, LEDGER_DATA_DIR=str(data_dir), PYTHONPATH=path, **variables
    )


@pytest.fixture
def home(short_dir: Path) -> Iterator[Path]:
    """A directory of the owner that other accounts may read."""
    path = short_dir / uuid4().hex[:8]
    path.mkdir()
    path.chmod(0o755)
    entry = pwd.getpwnam(OWNER)
    os.chown(path, entry.pw_uid, entry.pw_gid)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def lax(*tops: Path) -> dict[str, str]:
    """Returns what other accounts may read or write, and what belongs to another account than the owner."""
    uid, found = pwd.getpwnam(OWNER).pw_uid, {}
    for top in tops:
        for path in (top, *top.rglob("*")):
            about = path.lstat()
            is_reached = all(parent.stat().st_mode & 0o077 for parent in path.parents if parent.is_relative_to(top))
            if about.st_uid != uid or (is_reached and stat.S_IMODE(about.st_mode) & 0o077):
                found[str(path)] = f"{stat.filemode(about.st_mode)} of {about.st_uid}"
    return found


@pytest.mark.long
def test_an_account_has_an_installation_a_backup_and_a_restored_one_for_itself(home: Path):
    interpreter()
    data_dir = home / "data"
    made = run(OWNER, data_dir, "merchants", "create", "Panadería")
    assert made.returncode == 0, made.stderr
    for command in (["doctor"], ["backup", home / "backup"], ["archive", "--yes"], ["audit"]):
        done = run(OWNER, data_dir, *command)
        assert (done.returncode, "\nfail " in done.stdout) == (0, False), done.stdout + done.stderr
    key = {"LEDGER_MASTER_KEY_FILE": str(data_dir / "master.key")}
    restored = run(OWNER, home / "restored", "restore", home / "backup", **key)
    assert restored.returncode == 0, restored.stderr
    assert lax(data_dir, home / "backup", home / "restored") == {}
    for secret in (data_dir / "master.key", home / "backup" / "backup.json"):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "--port", "0"],
        ["backup", "/tmp/ledger-backup-of-another"],
        ["merchants", "create", "Tienda"],
    ],
    ids=lambda command: command[0],
)
def test_the_data_directory_of_another_account_is_refused_in_one_line(home: Path, command: list[str]):
    interpreter()
    data_dir = home / "data"
    data_dir.mkdir(mode=0o700)
    for path in (data_dir, data_dir / "pg", data_dir / "run"):
        path.mkdir(mode=0o700, exist_ok=True)
        os.chown(path, pwd.getpwnam(OWNER).pw_uid, pwd.getpwnam(OWNER).pw_gid)
    (data_dir / "serve.lock").touch(mode=0o600)
    os.chown(data_dir / "serve.lock", pwd.getpwnam(OWNER).pw_uid, -1)
    for name, verb in ((OTHER, "belongs to"), ("root", "is used by")):
        refused = run(name, data_dir, *command) if name != "root" else as_root(data_dir, *command)
        line = f"ledger: LEDGER_DATA_DIR {data_dir} {verb} the account {OWNER}: run this as that account\n"
        assert (refused.returncode != 0, refused.stderr) == (True, line)


def as_root(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", COMMAND, *arguments],
        env=environment(LEDGER_DATA_DIR=str(data_dir)),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_doctor_names_the_account_of_a_directory_that_it_may_not_write(home: Path):
    interpreter()
    data_dir = home / "data"
    data_dir.mkdir(mode=0o755)
    found = run(OWNER, data_dir, "doctor")
    assert found.returncode == 1
    assert f"{data_dir} belongs to root and cannot be written by this account" in found.stdout
    os.chown(data_dir, pwd.getpwnam(OWNER).pw_uid, -1)
    elsewhere = run(OWNER, data_dir, "doctor", LEDGER_CHECKPOINTS_URL="/usr/checkpoints")
    assert elsewhere.returncode == 1
    assert "/usr belongs to root and cannot be written: let this account write there" in elsewhere.stdout
