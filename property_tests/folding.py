"""Fold a merchant's log into its read models and print their digest: what a replay in another process must repeat.

The rule a stranger would break: nothing here may depend on this process. It is run with another hash seed, another time
zone and other batch sizes, and has to print the same line.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from uuid import UUID

from tests.sealing import data_keys

from ledger.journal.codec import CODEC
from ledger.journal.reader import LogReader, RecordedEvent
from ledger.postgres.connection import connect
from projections.rebuild import Replay, Rows


async def the_log(url: str, merchant_id: UUID, size: int = 1000) -> list[RecordedEvent]:
    """A merchant's whole log, read in stretches of `size` events."""
    log: list[RecordedEvent] = []
    async with await connect(url, "property-tests") as connection:
        reader = LogReader(url, CODEC, data_keys())
        while stretch := await reader.feed(connection, merchant_id, len(log), size):
            log += stretch
    return log


def fold(merchant_id: UUID, log: list[RecordedEvent], size: int) -> Rows:
    """The read models of a log, folded `size` events at a time."""
    replay = Replay(merchant_id)
    for start in range(0, len(log), size):
        replay.take((event.stream_id, event.version, event.event) for event in log[start : start + size])
    return replay.rows()


def digest(rows: Rows) -> str:
    """SHA-256 over every cell of every row; a number is its value, whatever it is called in Python."""
    cells = [(name, [[_plain(cell) for cell in row] for row in some]) for name, some in sorted(rows.items())]
    return hashlib.sha256(repr(cells).encode()).hexdigest()


def _plain(cell: object) -> object:
    return int(cell) if isinstance(cell, int) else cell


if __name__ == "__main__":
    url, merchant, size = sys.argv[1], UUID(sys.argv[2]), int(sys.argv[3])
    sys.stdout.write(digest(fold(merchant, asyncio.run(the_log(url, merchant, size)), size)) + "\n")
