"""The former release: the newest tag, or where no release has a tag yet, the commit before the newest migration.

It is taken from the repository's own history, and runs with the packages of this release.
"""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

from campaigns.chaos.running import ROOT

_MIGRATIONS: Final = "src/ledger/postgres/migrations"


class NoFormerRelease(Exception):
    """There is no former release here. The message has the reason in one line."""


def former_commit() -> str:
    """Returns the commit of the former release. Raises NoFormerRelease."""
    if _git("tag", "--merged", "HEAD~"):
        return _git("rev-list", "-1", _git("describe", "--tags", "--abbrev=0", "HEAD~"))
    added = _git("log", "-1", "--format=%H", "--diff-filter=A", "--", f"{_MIGRATIONS}/*.sql")
    if not added:
        raise NoFormerRelease("the history of the repository has no former release: fetch it whole")
    return _git("rev-parse", f"{added}~")


def lay_out(commit: str, place: Path) -> None:
    """Writes the code of a commit into `place`. Raises NoFormerRelease."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        raise NoFormerRelease(f"the history of the repository has no commit {commit}: fetch it whole")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(place, filter="data")


def migrations_since(place: Path) -> list[str]:
    """Returns the migrations of this release that the one in `place` does not have."""
    former = {path.name for path in (place / _MIGRATIONS).glob("*.sql")}
    return sorted(path.name for path in (ROOT / _MIGRATIONS).glob("*.sql") if path.name not in former)


def _git(*arguments: str) -> str:
    """Returns what git prints. Raises NoFormerRelease without git or a repository, and if the history is cut off."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NoFormerRelease("git is not installed, so that no former release is found") from None
    if done.returncode:
        raise NoFormerRelease(f"no former release is found: {done.stderr.strip().splitlines()[0]}")
    return done.stdout.strip()
