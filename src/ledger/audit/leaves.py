"""The leaf hashes of a log by position, in a file: events are read in the order of streams, and the tree has positions.

A file keeps them out of the memory of the audit, and lets several processes write to it at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from ledger.journal.event_archive import content_hash
from ledger.tlog.merkle import HASH_BYTES

_SHIFT_US: Final = 946_684_800_000_000
"""Microseconds from 1970 to 2000, from which Postgres counts."""


class LeafFile:
    """A file of leaf hashes. Each log has a region of its own, which begins at `starts` (in hashes)."""

    def __init__(self, place: Path, starts: Mapping[bytes, int]) -> None:
        self._file = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
        self._starts = starts

    def close(self) -> None:
        os.close(self._file)

    def write_page(self, events: Sequence[tuple[Any, ...]], sealed: Mapping[bytes, int]) -> None:
        """Writes the leaf hashes of rows of events, of those up to the position `sealed` of each log."""
        self._write(sorted(self._leaves(events, sealed)))

    def _leaves(self, events: Sequence[tuple[Any, ...]], sealed: Mapping[bytes, int]) -> list[tuple[int, bytes]]:
        """Returns the places in the file and the hashes. Neighbours have a merchant, a stream, a command and a context
        in common, whose texts are made once.
        """
        sha256, leaves = hashlib.sha256, list[tuple[int, bytes]]()
        of_merchant = of_stream = of_command = of_context = b""
        beginning = stream_text = command_text = context_hash = ""
        before, end = 0, 0
        for merchant, stream, version, position, command, recorded_at, topic, data, context in events:
            if merchant != of_merchant:
                of_merchant, beginning = merchant, f'\0{{"merchantId":"{_uuid(merchant)}","position":'
                before, end = self._starts.get(merchant, 0) - 1, sealed.get(merchant, 0)
            if position > end:
                continue
            if stream != of_stream:
                of_stream, stream_text = stream, _uuid(stream)
            if command != of_command:
                of_command, command_text = command, _uuid(command)
            if context != of_context or not context_hash:
                of_context, context_hash = context, sha256(context).hexdigest()
            data_hash = content_hash(data).hex() if data[:1] == b"\0" else sha256(data).hexdigest()
            entry = (  # the bytes that `tlog.entries` builds
                f'{beginning}{position},"streamId":"{stream_text}"'
                f',"version":{version},"topic":{_json(topic)},"recordedAtUs":{recorded_at + _SHIFT_US}'
                f',"commandId":"{command_text}","dataSha256":"{data_hash}","contextSha256":"{context_hash}"}}'
            )
            leaves.append((before + position, sha256(entry.encode()).digest()))
        return leaves

    def _write(self, leaves: Iterable[tuple[int, bytes]]) -> None:
        """Writes hashes that are in the order of their places: neighbours at once."""
        first, run = 0, list[bytes]()
        for place, leaf in leaves:
            if place != first + len(run):
                self._write_run(first, run)
                first, run = place, []
            run.append(leaf)
        self._write_run(first, run)

    def _write_run(self, first: int, run: Sequence[bytes]) -> None:
        if run:
            os.pwrite(self._file, b"".join(run), first * HASH_BYTES)

    def read(self, merchant: bytes, start: int, end: int) -> bytes:
        """Returns the leaf hashes of a log from index `start` to before `end`; zeros for those of missing events."""
        length = (end - start) * HASH_BYTES
        found = os.pread(self._file, length, (self._starts[merchant] + start) * HASH_BYTES)
        return found.ljust(length, b"\0")

    def replace(self, merchant: bytes, start: int, hashes: bytes) -> None:
        """Writes other leaf hashes of a log from index `start` on."""
        os.pwrite(self._file, hashes, (self._starts[merchant] + start) * HASH_BYTES)


def _uuid(value: bytes) -> str:
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@lru_cache(maxsize=1024)
def _json(topic: bytes) -> str:
    return msgspec.json.encode(topic.decode()).decode()
