"""Signed checkpoints outside the database: they show that a log was changed, or that its database is an older one.

A file has what one round of a worker has signed, a line of JSON for each merchant, and is never written again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from ledger.postgres.faults import Fault
from ledger.tlog.store import SignedCheckpoint
from ledger.write_once_store import WriteOnceStore

_YEAR: Final = re.compile(r"\d{4}", re.ASCII)
_AT_ONCE: Final = 16
"""How many files are read at once."""

FOLDER: Final = "checkpoints"
"""The folder of the files under the data directory: the default."""


class CheckpointsUnavailable(Fault):
    """The store of checkpoints is unreachable, or refuses. Its text has what to do."""


class _Line(Struct, frozen=True, rename="camel"):
    merchant_id: UUID
    size: int
    checkpoint: str


class SavedCheckpoints(Struct, frozen=True):
    """Checkpoints outside the database, by merchant: the name of each one's file, its size and the checkpoint."""

    found: Mapping[UUID, Sequence[tuple[str, int, str]]]

    @property
    def by_merchant(self) -> dict[UUID, list[tuple[str, str]]]:
        """The checkpoints by merchant, each with the name of its file."""
        return {id_: [(file, note) for file, _, note in some] for id_, some in self.found.items()}

    @property
    def sizes(self) -> dict[UUID, int]:
        """The largest size of each merchant."""
        return {id_: max(size for _, size, _ in some) for id_, some in self.found.items()}


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

    async def saved(self, since: date) -> SavedCheckpoints:
        """Returns the checkpoints of the days from `since` on, and those of the newest day before. Lines that are
        damaged are left out. Raises CheckpointsUnavailable.
        """
        days = [day async for day in self._days()]
        first = f"{since:%Y/%m/%d}"
        before = max((day for day in days if day < first), default=None)
        found: dict[UUID, list[tuple[str, int, str]]] = {}
        for day in [*([] if before is None else [before]), *sorted(day for day in days if day >= first)]:
            _, files = await self._store.list(f"{day}/")
            for at in range(0, len(files), _AT_ONCE):
                some = sorted(files)[at : at + _AT_ONCE]
                for key, content in zip(some, await asyncio.gather(*map(self.read, some)), strict=True):
                    for line in (content or b"").splitlines():
                        with suppress(msgspec.MsgspecError):
                            each = msgspec.json.decode(line, type=_Line)
                            found.setdefault(each.merchant_id, []).append((key, each.size, each.checkpoint))
        return SavedCheckpoints(found)

    async def thin(self, before: date) -> int:
        """Removes the files of the days before one from a folder, and returns how many: all but the first of each day,
        which has the newest checkpoint of every merchant. An object store thins by its own rules, because nothing here
        may remove an object. Raises CheckpointsUnavailable.
        """
        removed = 0
        if self._store.is_folder:
            for day in sorted([day async for day in self._days()]):
                if day < f"{before:%Y/%m/%d}":
                    _, files = await self._store.list(f"{day}/")
                    surplus = sorted(files)[1:]
                    await self._store.remove(surplus)
                    removed += len(surplus)
        return removed

    async def _days(self) -> AsyncIterator[str]:
        """Yields the days that have files, as parts of keys. What else is there may be unreadable: `lost+found`."""
        found, _ = await self._store.list("")
        for year in filter(_YEAR.fullmatch, found):
            for month in (await self._store.list(f"{year}/"))[0]:
                for day in (await self._store.list(f"{month}/"))[0]:
                    yield day

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
