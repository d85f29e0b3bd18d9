"""The record of a backup about itself: one file, written last. A directory without it holds no complete backup."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ledger.settings import CannotRun

CLUSTER: Final = "pg"
FILES: Final = "files"
"""The documents of the data directory, if they are kept in its folder."""
CHECKPOINTS: Final = "checkpoints"
"""The signed checkpoints of the logs, if they are kept in a folder."""
_NAME: Final = "backup.json"


class BackupRecord(Struct, frozen=True, rename="camel"):
    """A backup: its server and database, and the master key that it needs."""

    postgres: str
    """The major version of the server."""
    database: str
    owner: str
    """The role that owns the ledger's schema."""
    options: str | None
    """The session's options in the connection string, for example its search path."""
    master_key_fingerprint: str
    complete_until: datetime
    """A moment before the backup's end, by the server's clock: what was acknowledged before it is in the backup."""
    bytes: int
    format: int = 1


def write_record(directory: Path, record: BackupRecord) -> None:
    """Writes the record. It appears complete, and for its owner alone, as the files beside it are."""
    unfinished = directory / f"{_NAME}.new"
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(directory / _NAME)


def is_complete(directory: Path) -> bool:
    """Returns whether a directory has a backup that was written to its end."""
    return (directory / _NAME).exists()


def read_record(directory: Path) -> BackupRecord:
    """Returns the record of a backup. Raises CannotRun if there is no complete backup, or one of another format."""
    try:
        record = msgspec.json.decode((directory / _NAME).read_bytes(), type=BackupRecord)
    except FileNotFoundError:
        raise CannotRun(f"{directory} holds no complete backup: it has no {_NAME}") from None
    except OSError as refusal:
        raise CannotRun(f"{directory / _NAME} cannot be read: {refusal.strerror}") from refusal
    except msgspec.DecodeError as wrong:
        raise CannotRun(f"{directory / _NAME} is no record of a backup: {wrong}") from None
    if record.format != 1:
        raise CannotRun(f"{directory} has a backup of format {record.format}, which this release cannot read")
    return record
