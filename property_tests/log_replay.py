"""Folds a merchant's log into its read models and prints their digest, which a replay in another process must repeat.

Depend on nothing of this process: the test runs the module with other hash seeds, time zones and batch sizes, and it
has to print the same line.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from uuid import UUID

from tests.sealing import data_keys
from tests.whole_log import page_of_log

from ledger.journal.codec import CODEC
from ledger.journal.reader import LogReader, RecordedEvent
from ledger.postgres.connection import connect
from projections.rebuild import Replay, Rows


async def read_log(url: str, merchant_id: UUID, size: int = 1000) -> list[RecordedEvent]:
    """Returns a merchant's whole log, read in pages of `size` events."""
    log: list[RecordedEvent] = []
    async with await connect(url, "property-tests") as connection:
        reader = LogReader(url, CODEC, data_keys())
        while page := await page_of_log(reader, connection, merchant_id, len(log), size):
            log += page
    return log


def replay_log(merchant_id: UUID, log: list[RecordedEvent], size: int) -> Rows:
    """Returns the rows of the read models of a log, replayed `size` events at a time."""
    replay = Replay(merchant_id)
    for start in range(0, len(log), size):
        replay.take((event.stream_id, event.version, event.event) for event in log[start : start + size])
    return replay.rows()


def digest(rows: Rows) -> str:
    """Returns the SHA-256 of every cell of every row. Numbers of all Python types count by their value."""
    cells = [(name, [[_plain(cell) for cell in row] for row in some]) for name, some in sorted(rows.items())]
    return hashlib.sha256(repr(cells).encode()).hexdigest()


def _plain(cell: object) -> object:
    return int(cell) if isinstance(cell, int) else cell


if __name__ == "__main__":
    url, merchant, size = sys.argv[1], UUID(sys.argv[2]), int(sys.argv[3])
    sys.stdout.write(digest(replay_log(merchant, asyncio.run(read_log(url, merchant, size)), size)) + "\n")
