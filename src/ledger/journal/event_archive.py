"""Events whose content is in a file, out of the table: what the table has of them instead, and reads of the files.

The row of an archived event stays in the log, with everything but its content: the keys that make versions unique and
positions gap-free hold as before, and so does every query that reads no content. The content's place is taken by a
reference: which file has it, where, and its SHA-256, from which the event's entry of the tree follows without the file.

Never return anything else than the bytes of that hash. A file that is missing or was changed is a fault of the events
in it, and of nothing else.
"""

from __future__ import annotations

import asyncio
import binascii
import hashlib
import struct
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from uuid import UUID

import structlog
from msgspec import Struct

from ledger.postgres.faults import Fault
from ledger.telemetry.metrics import FILES_MISSING
from ledger.write_once_store import WriteOnceStore

_log = structlog.get_logger()

# No JSON begins with a zero byte: a program that does not know references fails at one, and reads nothing wrong.
_MARK: Final = b"\0archived event\1"
_FORM: Final = struct.Struct(f">{len(_MARK)}s16sII32s")

CONTENT_HASH: Final = rf"""(case
  when octet_length(data) = {_FORM.size} and substring(data from 1 for {len(_MARK)}) = '\x{_MARK.hex()}'::bytea
  then substring(data from {_FORM.size - 31}) else sha256(data) end)"""
"""The SHA-256 of an event's content in SQL, archived or not, from the column `data`."""

REFERENCE_BYTES: Final = _FORM.size
"""The size of a reference: a content that is not larger stays in the table."""

_MANY_MAX_S: Final = 60.0
"""How long to wait for the contents of a report, unless its request ends before."""
_SILENT_S: Final = 5.0
"""How long the store is not asked after it had no answer in time."""
_THREADS: Final = 8
_SILENT: Final = "the store of archived events does not answer: check that it runs, and its address"

_ENCODED: Final = b'"'
"""How a content begins in a line of JSON that is no object on one line: base64 as a text."""


class ArchiveUnavailable(Fault):
    """The content of an archived event cannot be read: its file is missing or was changed, or the store fails."""


class Reference(Struct, frozen=True):
    """Where the content of an event is: the file's id (16 bytes), an offset and a length in it, and its SHA-256."""

    file_id: bytes
    offset: int
    length: int
    sha256: bytes

    def encode(self) -> bytes:
        """Returns what the column `data` has of an archived event."""
        return _FORM.pack(_MARK, self.file_id, self.offset, self.length, self.sha256)


def reference_in(data: bytes) -> Reference | None:
    """Returns the reference in the place of an event's content, None if this is the content itself."""
    if not data.startswith(_MARK) or len(data) != _FORM.size:
        return None
    return Reference(*_FORM.unpack(data)[1:])


def content_hash(data: bytes) -> bytes:
    """Returns the SHA-256 of an event's content, archived or not, from the column `data`."""
    if data[:1] == _MARK[:1] and (reference := reference_in(data)) is not None:
        return reference.sha256
    return hashlib.sha256(data).digest()


def file_id(content: bytes) -> bytes:
    """Returns the id of a file: the same content has the same name, however often it is written."""
    return hashlib.sha256(content).digest()[:16]


def file_key(merchant: bytes, id_: bytes) -> str:
    """Returns the name of a file of a merchant's events in the store of files."""
    return f"archive/{UUID(bytes=merchant)}/{id_.hex()}.jsonl"


Stored = tuple[bytes, bytes]
"""An event's merchant, as 16 bytes, and what the column `data` has."""


class EventArchive:
    """The files of archived events, in the store of files at this address (LEDGER_FILES_URL). Without an address, none
    can be read.

    `contents` waits for the store at most `answer_max_s`.
    """

    answer_max_s = 4.0  # less than a session may be idle in its transaction

    def __init__(self, url: str | None) -> None:
        # Threads of its own: a store that is silent must not keep those of other work.
        self._threads = ThreadPoolExecutor(_THREADS, "archived-events")
        self._ends: dict[object, float] = {}  # of the reads that run, not of those that wait for a thread
        self._silent_until_s = 0.0
        self._store = (
            None
            if url is None
            else WriteOnceStore(url, fault=ArchiveUnavailable, files="archived events", variable="LEDGER_FILES_URL")
        )

    @property
    def store(self) -> WriteOnceStore:
        """The store of the files. Raises ArchiveUnavailable if this process has none."""
        if self._store is None:
            raise ArchiveUnavailable("archived events are in the store of files: name it in LEDGER_FILES_URL")
        return self._store

    async def contents(self, events: Iterable[Stored], *, within_s: float | None = None) -> Mapping[Stored, bytes]:
        """Returns the contents of those events that are archived and can be read. The others are logged and counted, a
        store that fails too: each is a fault where the event is needed (see `unreadable`). Waits for the store for
        `within_s` seconds, by default `answer_max_s`.
        """
        archived = [event for event in events if reference_in(event[1]) is not None]
        if not archived:
            return {}
        try:
            return await self._read_in_time(archived, within_s or self.answer_max_s)
        except ArchiveUnavailable as fault:
            _log.error("archive_unavailable", reason=str(fault))  # has what an operator can do, and nothing stored
            return {}

    async def _read_in_time(self, events: Sequence[Stored], seconds: float) -> Mapping[Stored, bytes]:
        """Returns what `read` does. Raises ArchiveUnavailable if the store leaves a read unanswered for so many
        seconds, and for a while after: many reads have a connection to the database, for which others wait.
        """
        if time.monotonic() < self._silent_until_s:
            raise ArchiveUnavailable(_SILENT)
        loop = asyncio.get_running_loop()
        files = _by_file(events).items()
        reading = {loop.run_in_executor(self._threads, self._read_timed, seconds, *file) for file in files}
        found: dict[Stored, bytes] = {}
        try:
            while reading:
                left_s = min(list(self._ends.values()), default=time.monotonic() + seconds) - time.monotonic()
                if left_s < 0:
                    self._silent_until_s = time.monotonic() + _SILENT_S
                    raise ArchiveUnavailable(_SILENT)
                ended, reading = await asyncio.wait(reading, timeout=left_s)
                for fault in [each.exception() for each in ended]:
                    if fault is not None:
                        raise fault
                for each in ended:
                    found |= each.result()
            return found
        finally:
            for each in reading:
                each.cancel()

    def _read_timed(self, seconds: float, key: str, references: Mapping[Stored, Reference]) -> dict[Stored, bytes]:
        """Returns what `_read_file` does, and keeps meanwhile until when the store is to answer."""
        read = object()
        self._ends[read] = time.monotonic() + seconds
        try:
            return self._read_file(key, references)
        finally:
            del self._ends[read]

    async def with_contents(self, merchant_id: UUID, rows: Sequence[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
        """Returns rows of a merchant's events, whose last column is `data`, with their contents. There may be many, and
        no connection may wait for them. Raises ArchiveUnavailable if one cannot be read.
        """
        merchant = merchant_id.bytes
        contents = await self.contents(((merchant, row[-1]) for row in rows), within_s=_MANY_MAX_S)
        return [(*row[:-1], self.content(contents, merchant, row[-1])) for row in rows]

    @staticmethod
    def content(contents: Mapping[Stored, bytes], merchant: bytes, data: bytes) -> bytes:
        """Returns an event's content, where it is archived that of `contents`. Raises ArchiveUnavailable."""
        content = contents.get((merchant, data), data)
        if (reference := reference_in(content)) is not None:
            raise unreadable(merchant, reference)
        return content

    def read(self, events: Iterable[Stored]) -> Mapping[Stored, bytes]:
        """Returns the contents of archived events, without those whose file is missing or has other bytes there, which
        are logged and counted. Others are left out too. Blocks. Raises ArchiveUnavailable if the store fails.
        """
        found: dict[Stored, bytes] = {}
        for key, references in _by_file(events).items():
            found |= self._read_file(key, references)
        return found

    def _read_file(self, key: str, references: Mapping[Stored, Reference]) -> dict[Stored, bytes]:
        """Returns the contents of events that are in one file, as `read` does."""
        parts = self.store.read_parts(key, [(each.offset, each.length) for each in references.values()])
        found: dict[Stored, bytes] = {}
        for (event, reference), part in zip(references.items(), parts or (), strict=False):
            content = _content_of(part)
            if hashlib.sha256(content).digest() == reference.sha256:
                found[event] = content
        if (lost := len(references) - len(found)) > 0:
            FILES_MISSING.inc()
            _log.error("archived_events_lost", key=key, events=lost, missing=parts is None)
        return found


NO_ARCHIVE: Final = EventArchive(None)


def unreadable(merchant: bytes, reference: Reference) -> ArchiveUnavailable:
    """Returns the fault of an event whose content could not be read."""
    key = file_key(merchant, reference.file_id)
    return ArchiveUnavailable(
        f"the content of an archived event cannot be read from {key}: bring the file back as it was"
    )


def _by_file(events: Iterable[Stored]) -> dict[str, dict[Stored, Reference]]:
    """Returns those events that are archived, with their references, by the names of their files."""
    by_file: dict[str, dict[Stored, Reference]] = defaultdict(dict)
    for event in events:
        if (reference := reference_in(event[1])) is not None:
            by_file[file_key(event[0], reference.file_id)][event] = reference
    return by_file


def _content_of(part: bytes) -> bytes:
    """Returns the content in its part of a line. Bytes that are damaged stay as they are, and have another hash."""
    if not part.startswith(_ENCODED):
        return part
    try:
        return binascii.a2b_base64(part[1:-1], strict_mode=True)
    except ValueError:
        return part
