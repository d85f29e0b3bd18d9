"""Commits of many streams, such as an import of products: they have a writer of their own, on a connection of its own.

Postgres works on such a commit for some tenths of a second. In the writer of all commands, those of other merchants
would wait behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import psycopg

from ledger.journal.append import Append
from ledger.journal.commit.shard_writers import ShardWriters
from ledger.journal.commit.writer import Writer
from ledger.postgres.faults import DatabaseUnavailable

STREAMS_MIN: Final = 100
"""From how many streams on a commit is a large one."""

QUEUE_MAX: Final = 64


class LargeCommits:
    """The writer of large commits, which is started by the first one. `new_writer` makes it.

    `depth` counts those that wait; `oldest_commit_s` is as a writer's.
    """

    def __init__(self, new_writer: Callable[[], Writer | ShardWriters]) -> None:
        self._new_writer = new_writer
        self._writer: Writer | ShardWriters | None = None
        self._starting = asyncio.Lock()
        self._is_stopped = False
        self._under_way: dict[bytes, list[asyncio.Future[int]]] = {}

    @property
    def depth(self) -> int:
        return 0 if self._writer is None else self._writer.depth

    @property
    def oldest_commit_s(self) -> float:
        return 0.0 if self._writer is None else self._writer.oldest_commit_s

    async def stop(self) -> None:
        """Writes the pending commits, then disconnects."""
        self._is_stopped = True
        async with self._starting:
            if self._writer is not None:
                await self._writer.stop()

    async def submit(self, command: Append) -> asyncio.Future[int]:
        """Queues a command as `Writer.submit` does, and raises like it. A writer that has ended is replaced."""
        writer = self._writer
        if writer is None or writer.has_ended:
            writer = await self._start()
        answer = writer.submit(command)
        under_way = self._under_way.setdefault(command.merchant_id, [])
        under_way.append(answer)
        answer.add_done_callback(lambda _: self._end(command.merchant_id, answer))
        return answer

    async def ended(self, merchant_id: bytes) -> None:
        """Waits for the large commits of a merchant that are under way: they hold the head of its log.

        A batch with another command of this merchant would wait for it as a whole.
        """
        while under_way := self._under_way.get(merchant_id):
            await asyncio.wait(under_way)

    @property
    def are_under_way(self) -> bool:
        """Whether any merchant has a large commit under way."""
        return bool(self._under_way)

    async def _start(self) -> Writer | ShardWriters:
        async with self._starting:
            if self._is_stopped:
                raise DatabaseUnavailable("the journal is stopped")
            if self._writer is None or self._writer.has_ended:
                writer = self._new_writer()
                try:
                    await writer.start()
                except psycopg.OperationalError as fault:
                    raise DatabaseUnavailable(type(fault).__name__) from fault
                self._writer = writer
            return self._writer

    def _end(self, merchant_id: bytes, answer: asyncio.Future[int]) -> None:
        under_way = self._under_way[merchant_id]
        under_way.remove(answer)
        if not under_way:
            del self._under_way[merchant_id]
