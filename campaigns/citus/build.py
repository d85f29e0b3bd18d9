"""Builds Citus against the embedded PostgreSQL, into a cache that its server's account can read.

Citus is under the AGPL-3 and no dependency of the ledger: an operator chooses it. The build therefore changes nothing
of the environment. It copies the embedded Postgres and installs the extension into the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ledger.postgres.embedded.account import server_account
from ledger.postgres.embedded.cluster import MAJOR, copy_with_libraries, installed_server, system_state
from ledger.settings import CannotRun

RELEASE: Final = "v14.0.1"
SOURCE: Final = "https://github.com/citusdata/citus"
SOURCE_VARIABLE: Final = "CITUS_SOURCE"
"""Names another repository to take the release from, such as a clone on this machine."""

_CACHE: Final = Path(__file__).parents[2] / ".citus"
_PROGRAMS: Final = ("git", "gcc", "make")
_WITHOUT: Final = ("--without-libcurl", "--without-lz4", "--without-zstd")  # the embedded server has none of them
# The embedded server was compiled by a newer compiler. Older ones refuse warnings that they do not know.
_UNKNOWN_WARNING: Final = "-Wmissing-variable-declarations"
_MAKEFILE: Final = "lib/postgresql/pgxs/src/Makefile.global"


class CannotBuild(CannotRun):
    """Citus cannot be built on this machine. The message has the reason in one line."""


def built() -> Path | None:
    """Returns the directory of the programs of a Postgres with Citus, None if it was not built here."""
    binaries = _installed() / "bin"
    return binaries if binaries.exists() else None


def build() -> Path:
    """Builds Citus if needed, and returns the directory of the programs. Raises CannotBuild."""
    if (binaries := built()) is not None:
        return binaries
    if missing := [program for program in _PROGRAMS if shutil.which(program) is None]:
        raise CannotBuild(f"Citus cannot be built here: {' and '.join(missing)} is not installed")
    with tempfile.TemporaryDirectory(prefix="ledger-citus-") as place:
        source, unfinished = Path(place) / "citus", _home().with_name(f"{_home().name}.{os.getpid()}")
        try:
            _copied(source)
            copy_with_libraries(installed_server(), unfinished)
            _install(source, unfinished / _installed().relative_to(_home()))
            unfinished.rename(_home())
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return _installed() / "bin"


def _copied(source: Path) -> None:
    repository = os.environ.get(SOURCE_VARIABLE, SOURCE)
    options = ["--quiet", "--depth=1", f"--branch={RELEASE}", "--config=advice.detachedHead=false"]
    _run(
        ["git", "clone", *options, repository, str(source)], Path("/"), f"set {SOURCE_VARIABLE} to a clone of {SOURCE}"
    )


def _install(source: Path, server: Path) -> None:
    makefile = server / _MAKEFILE
    makefile.write_text(makefile.read_text().replace(_UNKNOWN_WARNING, ""))
    jobs = f"--jobs={os.cpu_count() or 1}"
    configuration = server / "bin" / "pg_config"
    _run(["./configure", *_WITHOUT, f"PG_CONFIG={configuration}"], source, "the headers of Postgres may be missing")
    _run(["make", jobs, "install", "with_llvm=no"], source, "a header or a library may be missing")


def _run(command: Sequence[str], directory: Path, advice: str) -> None:
    run = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if run.returncode:
        last = " ".join((run.stderr or run.stdout).split())[-300:]
        raise CannotBuild(f"Citus cannot be built here: {command[0]} {command[1]} failed; {advice}: {last}")


def _home() -> Path:
    """Returns where the built server is: a place that its account can enter, which is another one under root."""
    name = f"postgresql-{MAJOR}-citus-{RELEASE}"
    if server_account() is not None:
        return system_state() / name
    _CACHE.mkdir(exist_ok=True)
    return _CACHE / name


def _installed() -> Path:
    original = installed_server()
    return _home() / original.parent.name / original.name
