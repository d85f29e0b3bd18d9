"""Keeps the lines that searches read packed and counted, and no e-mail that nobody has any more.

The rule a stranger would break: nothing here is needed for a search to be right. An append writes its lines itself; this
makes one row of the many that small appends leave behind, counts what stands in the full ones, and takes out what a changed
or erased e-mail left there.

One at a time does this, for as long as it is connected, and in transactions that see one moment each: an order is counted by
the e-mail that its customer's line has at that moment, and a line is replaced together with what it counted for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Self
from uuid import UUID

import psycopg
from psycopg import IsolationLevel

from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection, connect
from ledger.postgres.faults import DatabaseUnavailable
from projections.binary import micros
from projections.search.blocks import BLOCK_BYTES, Block, SearchLine, blocks, grams, local_grams
from projections.search.counts import SearchCounters
from projections.search.lines import LineKind

ROWS_MIN: Final = 16
"""So many unpacked rows of a merchant are worth the work."""
_MERCHANTS_MAX: Final = 200
_BYTES_MAX: Final = 500_000
"""So much text is packed at once: about a second's work."""
_LOCK: Final = 0x5EA6C4
"""Any number, the same for ever. The connection holds it: a worker of an older release, which does not count, packs nothing."""

# Who has something to tidy, from the partial index alone.
_DUE: Final = """
select merchant_id from (
  select merchant_id, kind from search_block where not packed group by merchant_id, kind
  having kind = %(changed)s or count(*) >= %(rows)s) due
 group by merchant_id limit %(limit)s
"""

# The oldest of what is not packed, where that is worth the work.
_TAKE: Final = """
delete from search_block where ctid = any(array(
  select w.block
    from (select ctid as block, count(*) over () as rows,
                 sum(octet_length(texts)) over (order by first_id, ctid) - octet_length(texts) as before
            from search_block where merchant_id = %(merchant_id)s and kind = %(kind)s and not packed) w
   where w.rows >= %(rows)s and w.before < %(bytes)s))
returning ids, ats, texts
"""

# A block, and what it says about its lines where it is full.
_PUT: Final = """
insert into search_block (merchant_id, kind, first_id, packed, ids, ats, texts, grams, local_grams, shared, oldest, newest)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

# Orders that a process of an older release has written, without their fields as searches compare them.
_FOLD: Final = """
update payment_order o set names_folded = u.line from unnest(%(orders)s::uuid[], %(lines)s::text[]) as u(id, line)
 where o.merchant_id = %(merchant_id)s and o.order_id between u.id and u.id and o.names_folded is null
"""

# Whose e-mails were noted as changed, the blocks with those customers' lines, and their e-mails by their rows.
_TAKE_CHANGED: Final = """
delete from search_block where merchant_id = %(merchant_id)s and kind = %(changed)s
returning ids
"""
_TAKE_OUTDATED: Final = """
delete from search_block where merchant_id = %(merchant_id)s and kind = %(kind)s and ids && %(customers)s::uuid[]
returning ids, ats, texts
"""
_EMAILS_NOW: Final = """
select customer_id, email_folded from customer where merchant_id = %(merchant_id)s and customer_id = any(%(customers)s::uuid[])
"""


class SearchCompactor:
    """Packs over all merchants, on a connection of its own that is opened again when it was lost.

    `rows_min` unpacked rows of a merchant are packed, into rows of `block_bytes`.
    """

    def __init__(self, url: str, *, rows_min: int = ROWS_MIN, block_bytes: int = BLOCK_BYTES) -> None:
        self._url = url
        self._rows_min = rows_min
        self._block_bytes = block_bytes
        self._connection: Connection | None = None
        self._alone = False

    async def __aenter__(self) -> Self:
        """Connect. Raises psycopg.OperationalError."""
        self._connection = await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def pack(self) -> int:
        """Do what is due now and return for how many merchants; nothing as long as another worker is connected for it.

        Raises DatabaseUnavailable; the next call connects again.
        """
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await self._connect()
            return await self._pack_alone(self._connection)
        except psycopg.OperationalError as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault

    async def _connect(self) -> Connection:
        connection = await connect(self._url, "ledger-search-packing")
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        self._alone = False
        return connection

    async def _pack_alone(self, connection: Connection) -> int:
        limits = {"changed": LineKind.CHANGED.value, "rows": self._rows_min, "limit": _MERCHANTS_MAX}
        due = await (await connection.execute(_DUE, limits)).fetchall()
        if not due:
            return 0
        if not self._alone:
            mine = await (await connection.execute("select pg_try_advisory_lock(%s)", (_LOCK,))).fetchone()
            self._alone = mine == (True,)
        if not self._alone:
            return 0
        for (merchant_id,) in due:
            async with connection.transaction():
                await self._tidy(connection, merchant_id)
        return len(due)

    async def _tidy(self, connection: Connection, merchant_id: UUID) -> None:
        counts = SearchCounters(connection, merchant_id)
        await self._refresh(connection, merchant_id, counts)
        for kind in (LineKind.CUSTOMER, LineKind.ORDER):
            limits = {"rows": self._rows_min, "bytes": _BYTES_MAX}
            lines = await _lines(connection, _TAKE, {"merchant_id": merchant_id, "kind": kind.value, **limits})
            await self._put(connection, merchant_id, kind, lines, counts)
        await counts.write()

    async def _refresh(self, connection: Connection, merchant_id: UUID, counts: SearchCounters) -> None:
        """Replace the lines of the customers that were noted as changed by what their rows say now."""
        of: dict[str, object] = {
            "merchant_id": merchant_id,
            "changed": LineKind.CHANGED.value,
            "kind": LineKind.CUSTOMER.value,
        }
        noted = await (await connection.execute(_TAKE_CHANGED, of)).fetchall()
        if not noted:
            return
        changed = {customer_id for (ids,) in noted for customer_id in ids}
        of["customers"] = list(changed)
        lines = await _lines(connection, _TAKE_OUTDATED, of)
        now: dict[UUID, str | None] = dict(await (await connection.execute(_EMAILS_NOW, of)).fetchall())
        were = {line.id: line.text for line in lines if line.id in changed}
        await counts.recount(changed, were, now)
        kept = [line for line in lines if line.id not in changed]
        new = [SearchLine(customer_id, None, email) for customer_id, email in now.items() if email is not None]
        await self._put(connection, merchant_id, LineKind.CUSTOMER, kept + new, counts)

    async def _put(
        self,
        connection: Connection,
        merchant_id: UUID,
        kind: LineKind,
        lines: Iterable[SearchLine],
        counts: SearchCounters,
    ) -> None:
        """Write lines in new rows. The last one is not full: it is packed, and its orders are counted, another time."""
        rows = []
        for block in blocks(lines, self._block_bytes):
            if block.full and kind is LineKind.ORDER:
                await counts.count(block.lines)
                await _fold(connection, merchant_id, block)
            rows.append(_row(merchant_id, kind, block))
            await asyncio.sleep(0)  # a full block is milliseconds of work, and the worker has other things to do
        await connection.cursor().executemany(_PUT, rows)


async def _fold(connection: Connection, merchant_id: UUID, block: Block) -> None:
    unlike = [line for line in block.lines if not line.text.isascii()]
    if unlike:
        orders = ENCODE_ARRAY["uuid"]([line.id.bytes for line in unlike])
        lines = ENCODE_ARRAY["text"]([line.text.encode() for line in unlike])
        await connection.execute(_FOLD, {"merchant_id": merchant_id, "orders": orders, "lines": lines})


def _row(merchant_id: UUID, kind: LineKind, block: Block) -> tuple[object, ...]:
    said: tuple[object, ...] = (None,) * 5
    if block.full and kind is LineKind.ORDER:
        said = (grams(block.texts), None, block.shared, *block.span)
    elif block.full:
        said = (grams(block.texts), local_grams(line.text for line in block.lines), None, None, None)
    ids = ENCODE_ARRAY["uuid"]([line.id.bytes for line in block.lines])
    ats = ENCODE_ARRAY["timestamptz"]([None if line.at is None else micros(line.at) for line in block.lines])
    return merchant_id, kind.value, block.lines[0].id, block.full, ids, ats, block.texts, *said


async def _lines(connection: Connection, statement: str, values: Mapping[str, object]) -> list[SearchLine]:
    rows = await connection.execute(statement, values, binary=True)
    return [
        SearchLine(line_id, at, text)
        for ids, ats, texts in await rows.fetchall()
        for line_id, at, text in zip(ids, ats, texts.split("\n"), strict=True)
    ]
