"""What became of a batch whose connection was lost: asked of the log, with the ids that only this batch has.

The rule a stranger would break: ask only after the old backend is gone. Until then it may still commit what it was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.journal.append import Append
from ledger.journal.connection import Connection
from ledger.journal.packing import PACK

# Which of these commands are in the log: asked with each command's last event after a connection was lost.
_FATE: Final = """
select c.n, e.position
  from unnest(%s::int4[], %s::uuid[], %s::uuid[], %s::int4[], %s::uuid[]) as c(n, m, o, v, command_id)
  join event e on e.merchant_id = c.m and e.stream_id = c.o and e.version = c.v and e.command_id = c.command_id
"""


async def which_landed(connection: Connection, batch: Sequence[Append]) -> dict[int, int]:
    """The commands of the batch that had been committed, by their number in it, with the position of their last event."""
    if not batch:
        return {}
    rows = []
    for n, append in enumerate(batch):
        last = [stream for stream in append.streams if stream.events][-1]
        rows.append((n, append.merchant_id, last.stream_id, last.expected + len(last.events), append.command_id))
    columns = zip(*rows, strict=True)
    packed = [
        PACK[type_](column) for type_, column in zip(("int4", "uuid", "uuid", "int4", "uuid"), columns, strict=True)
    ]
    found = await connection.cursor(binary=True).execute(_FATE, packed)
    return {int(n): int(position) for n, position in await found.fetchall()}
