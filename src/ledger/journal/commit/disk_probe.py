"""Probes whether the database takes writes and has room for them, by writing. Commits may still find room for a while
after a failed probe.

Probe without a commit. The write-ahead log of a probe would fill a segment of the archive every minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import psycopg
import structlog

from ledger.postgres.connection import QueryTimeout, SharedClient, TakesNoWrites
from ledger.postgres.faults import DatabaseUnavailable

_log = structlog.get_logger()

# Whether the server can only be read. The probe keeps its rows in a temporary file of 128 kB on the disk of the data,
# because they exceed what memory may hold.
_MEMORY: Final = "select current_setting('transaction_read_only') = 'on', set_config('work_mem', '64kB', false)"
_PROBE: Final = "select count(*) from generate_series(1, 4000)"

_NO_ROOM: Final = (psycopg.errors.DiskFull, psycopg.errors.IoError)
"""A full disk and a used-up quota, and a disk that fails."""


class DiskProbe:
    """The probe of one process. `refusal` is the reason why the last probe was refused, for a person; "" if it
    succeeded. `is_read_only` is whether the server takes no writes: it is a standby, or an operator made it read-only.

    While the database does not answer, the last result stays.
    """

    def __init__(self, client: SharedClient) -> None:
        self._client = client
        self.refusal = ""
        self.is_read_only = False

    @asynccontextmanager
    async def probing(self, pause_s: float) -> AsyncIterator[None]:
        """Probes now and then every `pause_s` seconds, while the block runs."""
        task = asyncio.create_task(self._probe_forever(pause_s), name="disk-probe")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _probe_forever(self, pause_s: float) -> None:
        while True:
            try:
                self._record(await self._probe())
            except DatabaseUnavailable as fault:
                self._record_read_only(is_read_only=isinstance(fault.__cause__, TakesNoWrites) or self.is_read_only)
            await asyncio.sleep(pause_s)

    async def _probe(self) -> str:
        async with self._client.turn() as connection:
            try:
                with QueryTimeout(connection):
                    row = await (await connection.execute(_MEMORY)).fetchone()
                    assert row is not None, "a select without from has one row"
                    self._record_read_only(is_read_only=row[0])
                    await connection.execute(_PROBE)
            except _NO_ROOM as fault:
                return f"the database has no room to write: {type(fault).__name__}"
            except psycopg.OperationalError:
                raise
            except psycopg.Error as fault:  # such as a disk that was mounted again to be read only
                return f"the database cannot write: {type(fault).__name__}"
        return ""

    def _record_read_only(self, *, is_read_only: bool) -> None:
        if is_read_only and not self.is_read_only:
            _log.error("database_read_only", of="disk-probe", reason="the server takes no writes")
        self.is_read_only = is_read_only

    def _record(self, refusal: str) -> None:
        if refusal and not self.refusal:
            _log.error("database_disk_full", reason=refusal)
        elif self.refusal and not refusal:
            _log.info("database_disk_has_room")
        self.refusal = refusal
