"""Signed checkpoints outside the database: they show that a log was changed, or that its database is an older one.

A file has what one round of a worker has signed, a line of JSON for each merchant, and is never written again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from ledger.postgres.faults import Fault
from ledger.tlog.store import SignedCheckpoint
from ledger.write_once_store import WriteOnceStore

FOLDER: Final = "checkpoints"
"""The folder of the files under the data directory: the default."""


class CheckpointsUnavailable(Fault):
    """The store of checkpoints is unreachable, or refuses. Its text has what to do."""


class _Line(Struct, frozen=True, rename="camel"):
    merchant_id: UUID
    size: int
    checkpoint: str


class CheckpointFiles:
    """The checkpoints of all workers, in the folder or the object store of this address."""

    def __init__(self, url: str) -> None:
        self._store = WriteOnceStore(
            url, fault=CheckpointsUnavailable, files="checkpoints", variable="LEDGER_CHECKPOINTS_URL"
        )

    async def write(self, checkpoints: Iterable[SignedCheckpoint], at: datetime) -> str:
        """Writes checkpoints as a file, and returns its key: the day, the time in UTC and a random part.

        Raises CheckpointsUnavailable.
        """
        key = f"{at:%Y/%m/%d/%H%M%S.%f}-{uuid4().hex[:8]}.jsonl"
        lines = [_Line(each.merchant_id, each.size, each.note) for each in checkpoints]
        await self._store.create(key, msgspec.json.Encoder().encode_lines(lines))
        await self._store.flush([key])
        return key

    async def read(self, key: str) -> bytes | None:
        """Returns a file, None if there is none. Raises CheckpointsUnavailable."""
        return await self._store.read(key)


def checkpoints_address(setting: str, data_dir: Path) -> str:
    """Returns the address of the store: of the setting, which may be a folder, else of the folder in the data
    directory.
    """
    if setting.startswith("s3://"):
        return setting
    return f"file://{Path(setting).absolute() if setting else (data_dir / FOLDER).absolute()}"
