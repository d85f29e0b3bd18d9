"""Compares every read model of a database with a replay of its log, byte for byte."""

from __future__ import annotations

from collections import Counter
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.backup.log_reader import log_reader
from ledger.domain.streams import TOPICS
from ledger.journal.reader import LogReader
from ledger.postgres.connection import Connection, connect
from ledger.progress import Progress, unreported
from ledger.settings import Settings
from projections.rebuild import Replay, Rows, stored

_PAGE: Final = 5000

# Every merchant with the length of its log, and how many events it has: positions have no gap.
_MERCHANTS: Final = """
select h.merchant_id, h.position, (select count(*) from event e where e.merchant_id = h.merchant_id)
  from merchant_head h order by h.merchant_id
"""


class Verification(Struct, frozen=True, kw_only=True):
    """The result of a comparison: one line for each merchant and table that differs."""

    merchants: int
    events: int
    differences: list[str]


async def verify(settings: Settings, url: str, progress: Progress = unreported) -> Verification:
    """Replays the log of every merchant in one snapshot. Raises KeyUnavailable, SealBroken if a key is missing."""
    reader = log_reader(settings, url)
    differences: list[str] = []
    async with await connect(url, "ledger-verification") as connection:
        await connection.execute("set statement_timeout = 0")
        await connection.execute("set idle_in_transaction_session_timeout = 0")
        await connection.execute("begin isolation level repeatable read read only")
        merchants = await (await connection.execute(_MERCHANTS)).fetchall()
        events, compared = sum(count for _, _, count in merchants), 0
        for merchant_id, position, count in merchants:
            if position != count:
                differences.append(f"merchant {merchant_id} has {count} events up to position {position}")
            differences += await _compare(connection, reader, merchant_id, position)
            compared += count
            progress("comparing events with every read model", compared, events)
    return Verification(merchants=len(merchants), events=events, differences=differences)


async def _compare(connection: Connection, reader: LogReader, merchant_id: UUID, last: int) -> list[str]:
    replay = Replay(merchant_id)
    for after in range(0, last, _PAGE):
        page = await reader.range(connection, merchant_id, after, min(after + _PAGE, last), list(TOPICS))
        replay.take((event.stream_id, event.version, event.event) for event in page)
    return differing(merchant_id, replay.rows(), await stored(connection, merchant_id))


def differing(merchant_id: UUID, computed: Rows, found: Rows) -> list[str]:
    """Returns a line for each table whose rows differ from a replay of the log."""
    lines = []
    for table in sorted(computed.keys() | found.keys()):
        of_log, of_table = Counter(computed.get(table, ())), Counter(found.get(table, ()))
        rows = sum(((of_log - of_table) + (of_table - of_log)).values())
        if rows:
            lines.append(f"merchant {merchant_id}: {rows} rows of {table} differ from its log")
    return lines
