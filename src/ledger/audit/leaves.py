"""The leaf hashes of a log by position, in a file: events are read in the order of streams, and the tree has positions.

A file keeps them out of the memory of the audit, and lets several processes write to it at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from ledger.tlog.merkle import HASH_BYTES

_SHIFT_US: Final = 946_684_800_000_000
"""Microseconds from 1970 to 2000, from which Postgres counts."""


class LeafFile:
    """A file of leaf hashes. Each log has a region of its own, which begins at `starts` (in hashes)."""

    def __init__(self, place: Path, starts: dict[bytes, int]) -> None:
        self._file = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
        self._starts = starts
        self._merchant, self._text, self._at = b"", b"", 0

    def close(self) -> None:
        os.close(self._file)

    def write_page(self, events: Sequence[tuple[Any, ...]], sealed: Mapping[bytes, int]) -> None:
        """Writes the leaf hashes of rows of events, of those up to the position `sealed` of each log."""
        for merchant, stream, version, position, command, recorded_at, topic, data, context in events:
            if position <= sealed.get(merchant, 0):
                self.write(merchant, stream, version, position, command, recorded_at, topic, data, context)

    def write(
        self,
        merchant: bytes,
        stream: bytes,
        version: int,
        position: int,
        command: bytes,
        recorded_at: int,
        topic: bytes,
        data: bytes,
        context: bytes,
    ) -> None:
        """Writes the leaf hash of an event, from the columns of its row as the database sends them."""
        if merchant != self._merchant:
            self._merchant, self._text, self._at = merchant, _uuid(merchant), self._starts[merchant] - 1
        leaf = leaf_of(self._text, _uuid(stream), version, position, command, recorded_at, topic, data, context)
        os.pwrite(self._file, leaf, (self._at + position) * HASH_BYTES)

    def read(self, merchant: bytes, start: int, end: int) -> bytes:
        """Returns the leaf hashes of a log from index `start` to before `end`; zeros for those of missing events."""
        length = (end - start) * HASH_BYTES
        found = os.pread(self._file, length, (self._starts[merchant] + start) * HASH_BYTES)
        return found.ljust(length, b"\0")


def leaf_of(
    merchant: bytes,
    stream: bytes,
    version: int,
    position: int,
    command: bytes,
    recorded_at: int,
    topic: bytes,
    data: bytes,
    context: bytes,
) -> bytes:
    """Returns the leaf hash of an event. `merchant` and `stream` are the texts of their ids; `command` is an id's 16
    bytes, `recorded_at` in microseconds since 2000. The entry has the bytes that `tlog.entries` builds.
    """
    sha256 = hashlib.sha256
    return sha256(
        b'\0{"merchantId":"%b","position":%d,"streamId":"%b","version":%d,"topic":%b,"recordedAtUs":%d,'
        b'"commandId":"%b","dataSha256":"%b","contextSha256":"%b"}'
        % (
            merchant,
            position,
            stream,
            version,
            msgspec.json.encode(topic.decode()),
            recorded_at + _SHIFT_US,
            _uuid(command),
            sha256(data).hexdigest().encode(),
            sha256(context).hexdigest().encode(),
        )
    ).digest()


def _uuid(value: bytes) -> bytes:
    digits = value.hex().encode()
    return b"%b-%b-%b-%b-%b" % (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
