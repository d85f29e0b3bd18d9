"""Packs the lines that searches read, counts their texts, and removes what customers and orders no longer have.

A search is correct without any of this. Each append writes its own lines; the compactor turns the many small rows of
appends into few full ones, counts the orders in the full ones, removes the lines of e-mails that were changed or
erased, and replaces those of orders whose invoice number was changed.

A full block is packed once its orders are counted. Counting costs more than all the rest, and spares searches little
if a merchant has few orders. So the full blocks of a merchant stay unpacked and uncounted, but with what lets a
search skip them, until there are `COUNTED_FROM_BLOCKS` of them. From then on all of the merchant's orders are counted.

One worker at a time does this, for as long as its connection lasts, in transactions that each see one snapshot. An
order is counted by the e-mail that its customer's line has in that snapshot, and a line is replaced together with its
counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final
from uuid import UUID

from psycopg import IsolationLevel

from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection, DatabaseClient
from ledger.postgres.merchant_transactions import MerchantTransactions
from projections.binary import micros
from projections.search.blocks import BLOCK_BYTES, Block, SearchLine, blocks, summary
from projections.search.counts import Counted, SearchCounters
from projections.search.lines import LineKind, order_line

ROWS_MIN: Final = 16
"""How many unpacked rows of a merchant are worth packing."""
COUNTED_FROM_BLOCKS: Final = 250
"""From how many full blocks on, about 20,000 orders, a merchant's texts are counted. Most searches read fewer blocks in
1 to 8 ms.
"""
_MERCHANTS_MAX: Final = 200
_BYTES_MAX: Final = 500_000
"""How much text is packed at once: about a second's work."""
_LOCK: Final = 0x5EA6C4
"""An arbitrary number that must never change: workers of older releases, which do not count, take the same lock."""

# The merchants with lines to pack or to refresh, from the partial index alone.
_DUE: Final = """
select merchant_id from (
  select merchant_id, kind from search_block where not packed and grams is null group by merchant_id, kind
  having kind = any(%(noted)s) or count(*) >= %(rows)s) due
 group by merchant_id limit %(limit)s
"""

# Whether any order of a merchant is counted, and how many full blocks are not, at most `counted_from`.
_COUNTED: Final = """
select exists (select from search_count where merchant_id = %(merchant_id)s and kind = %(short)s),
       (select count(*) from (
          select from search_block
           where merchant_id = %(merchant_id)s and kind = %(kind)s and not packed and grams is not null
           limit %(counted_from)s) b)
"""

# Takes the oldest unpacked rows of a kind, up to so many bytes, if there are enough of them. `{loose}` leaves out full
# blocks that are not counted.
_TAKE: Final = """
delete from search_block where ctid = any(array(
  select w.block
    from (select ctid as block, count(*) over () as rows,
                 sum(octet_length(texts)) over (order by first_id, ctid) - octet_length(texts) as before
            from search_block where merchant_id = %(merchant_id)s and kind = %(kind)s and not packed {loose}) w
   where w.rows >= %(rows)s and w.before < %(bytes)s))
returning ids, ats, texts
"""

_TAKE_ALL, _TAKE_LOOSE = _TAKE.format(loose=""), _TAKE.format(loose="and grams is null")

# Writes a block: its lines, and for a full one what lets a search skip it.
_PUT: Final = """
insert into search_block
  (merchant_id, kind, first_id, packed, ids, ats, texts, grams, local_grams, shared, oldest, newest)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

# Adds the folded fields to orders that a process of an older release wrote without them.
_FOLD: Final = """
update payment_order o set names_folded = u.line from unnest(%(orders)s::uuid[], %(lines)s::text[]) as u(id, line)
 where o.merchant_id = %(merchant_id)s and o.order_id between u.id and u.id and o.names_folded is null
"""

# Takes the notes of the customers whose e-mail has changed.
_TAKE_CHANGED: Final = """
delete from search_block where merchant_id = %(merchant_id)s and kind = %(changed)s
returning ids
"""

# Takes the blocks that hold lines of those customers.
_TAKE_OUTDATED: Final = """
delete from search_block where merchant_id = %(merchant_id)s and kind = %(kind)s and ids && %(customers)s::uuid[]
returning ids, ats, texts
"""

# The current e-mails of those customers.
_CURRENT_EMAILS: Final = """
select customer_id, email_folded from customer
 where merchant_id = %(merchant_id)s and customer_id = any(%(customers)s::uuid[])
"""


# The orders that are noted as renamed.
_RENAMED: Final = """
select distinct unnest(ids) from search_block where merchant_id = %(merchant_id)s and kind = %(renamed)s
"""

# Their lines, as they are stored.
_FORMER: Final = """
select l.id, l.line
  from search_block b cross join lateral unnest(b.ids, string_to_array(b.texts, chr(10))) as l(id, line)
 where b.merchant_id = %(merchant_id)s and b.kind = %(kind)s and b.ids && %(orders)s::uuid[]
   and l.id = any(%(orders)s::uuid[])
"""

# Takes the notes of renamed orders.
_DROP_RENAMED: Final = "delete from search_block where merchant_id = %(merchant_id)s and kind = %(renamed)s"

# Takes the blocks that hold lines of those orders.
_TAKE_RENAMED: Final = """
delete from search_block where merchant_id = %(merchant_id)s and kind = %(kind)s and ids && %(orders)s::uuid[]
returning packed, ids, ats, texts
"""

# The current fields of those orders.
_CURRENT_FIELDS: Final = """
select order_id, order_number, external_id, invoice_number from payment_order
 where merchant_id = %(merchant_id)s and order_id = any(%(orders)s::uuid[])
"""


class SearchCompactor(DatabaseClient):
    """The compactor of all merchants' lines.

    A merchant's rows are packed once `rows_min` of them are unpacked, into rows of `block_bytes`, and counted once
    `counted_from` of these are full.
    """

    def __init__(
        self,
        url: str,
        *,
        rows_min: int = ROWS_MIN,
        block_bytes: int = BLOCK_BYTES,
        counted_from: int = COUNTED_FROM_BLOCKS,
    ) -> None:
        super().__init__(url, "ledger-search-packing")
        self._rows_min = rows_min
        self._block_bytes = block_bytes
        self._counted_from = counted_from
        self._has_lock = False
        self._transactions = MerchantTransactions(url, "ledger-search-packing")

    async def __aexit__(self, *exception: object) -> None:
        await self._transactions.stop()
        await super().__aexit__(*exception)

    async def pack(self) -> int:
        """Does what is due now and returns for how many merchants: for none while another worker holds the lock.

        Raises DatabaseUnavailable; the next call connects again.
        """
        async with self._connected() as connection:
            noted = [LineKind.CHANGED.value, LineKind.RENAMED.value]
            limits = {"noted": noted, "rows": self._rows_min, "limit": _MERCHANTS_MAX}
            found = await self._transactions.read_all(connection, _DUE, limits)
            due = list(islice(found.rows, _MERCHANTS_MAX))
            if not due or not await self._locked(connection):
                return 0
            for (merchant_id,) in due:
                more = True
                while more:
                    async with self._transactions.begin(connection, merchant_id) as on_its_server:
                        more = await self._compact(on_its_server, merchant_id)
            return len(due)

    async def _open(self) -> Connection:
        connection = await super()._open()
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        self._has_lock = False
        return connection

    async def _locked(self, connection: Connection) -> bool:
        if not self._has_lock:
            row = await (await connection.execute("select pg_try_advisory_lock(%s)", (_LOCK,))).fetchone()
            self._has_lock = row == (True,)
        return self._has_lock

    async def _compact(self, connection: Connection, merchant_id: UUID) -> bool:
        """Does what is due for a merchant. Returns whether full blocks are left that have to be counted."""
        about = {"merchant_id": merchant_id, "kind": LineKind.ORDER.value, "short": Counted.SHORT.value}
        row = await (await connection.execute(_COUNTED, {**about, "counted_from": self._counted_from})).fetchone()
        assert row is not None, "a select without from has one row"
        is_begun: bool
        uncounted: int
        is_begun, uncounted = row
        renamed = await _renamed(connection, merchant_id)
        former = await _former_lines(connection, merchant_id, renamed)
        has_counters = is_begun or uncounted >= self._counted_from
        counters = SearchCounters(connection, merchant_id, former) if has_counters else None
        await self._refresh(connection, merchant_id, counters if is_begun else None)
        await self._rename(connection, merchant_id, renamed, counters)
        for kind in (LineKind.CUSTOMER, LineKind.ORDER):
            take = _TAKE_LOOSE if counters is None else _TAKE_ALL
            is_behind = counters is not None and uncounted > 0
            limits = {"rows": 1 if is_behind else self._rows_min, "bytes": _BYTES_MAX}
            lines = await _lines(connection, take, {"merchant_id": merchant_id, "kind": kind.value, **limits})
            await self._put(connection, merchant_id, kind, lines, counters)
        if counters is None:
            return False
        await counters.write()
        return uncounted > 0

    async def _refresh(self, connection: Connection, merchant_id: UUID, counters: SearchCounters | None) -> None:
        """Replaces the lines of customers that were noted as changed by their current e-mails.

        Without counters, no order is counted yet.
        """
        parameters: dict[str, object] = {
            "merchant_id": merchant_id,
            "changed": LineKind.CHANGED.value,
            "kind": LineKind.CUSTOMER.value,
        }
        notes = await (await connection.execute(_TAKE_CHANGED, parameters)).fetchall()
        if not notes:
            return
        changed = {customer_id for (ids,) in notes for customer_id in ids}
        parameters["customers"] = list(changed)
        lines = await _lines(connection, _TAKE_OUTDATED, parameters)
        rows = await (await connection.execute(_CURRENT_EMAILS, parameters)).fetchall()
        current: dict[UUID, str | None] = dict(rows)
        if counters is not None:
            previous = {line.id: line.text for line in lines if line.id in changed}
            await counters.recount(changed, previous, current)
        kept = [line for line in lines if line.id not in changed]
        new = [SearchLine(customer_id, None, email) for customer_id, email in current.items() if email is not None]
        await self._put(connection, merchant_id, LineKind.CUSTOMER, kept + new, counters)

    async def _rename(
        self, connection: Connection, merchant_id: UUID, orders: list[UUID], counters: SearchCounters | None
    ) -> None:
        """Replaces the lines of orders that were noted as renamed by their current fields, and counts them anew.

        The counters have the current e-mails of their customers already.
        """
        if not orders:
            return
        parameters: dict[str, object] = {
            "merchant_id": merchant_id,
            "kind": LineKind.ORDER.value,
            "renamed": LineKind.RENAMED.value,
            "orders": orders,
        }
        await connection.execute(_DROP_RENAMED, parameters)
        taken = await (await connection.execute(_TAKE_RENAMED, parameters, binary=True)).fetchall()
        fields = await (await connection.execute(_CURRENT_FIELDS, parameters)).fetchall()
        current = {order_id: order_line(*names) for order_id, *names in fields}
        lines: list[SearchLine] = []
        for is_packed, *block in taken:
            in_block = _split(*block)
            if is_packed and counters is not None:
                await counters.count(in_block, -1)
            lines += [SearchLine(each.id, each.at, current.get(each.id, each.text)) for each in in_block]
        await self._put(connection, merchant_id, LineKind.ORDER, lines, counters)

    async def _put(
        self,
        connection: Connection,
        merchant_id: UUID,
        kind: LineKind,
        lines: Iterable[SearchLine],
        counters: SearchCounters | None,
    ) -> None:
        """Writes lines in new rows, and counts the orders of the full ones if there are counters.

        The last row is not full: a later run packs it.
        """
        rows = []
        for block in blocks(lines, self._block_bytes):
            is_packed = block.full
            if block.full and kind is LineKind.ORDER:
                await _fold(connection, merchant_id, block)
                if counters is None:
                    is_packed = False
                else:
                    await counters.count(block.lines)
            rows.append(_row(merchant_id, kind, block, is_packed=is_packed))
            await asyncio.sleep(0)  # a full block takes milliseconds, and the worker has other tasks
        await connection.cursor().executemany(_PUT, rows)


async def _fold(connection: Connection, merchant_id: UUID, block: Block) -> None:
    folded = [line for line in block.lines if not line.text.isascii()]
    if folded:
        orders = ENCODE_ARRAY["uuid"]([line.id.bytes for line in folded])
        lines = ENCODE_ARRAY["text"]([line.text.encode() for line in folded])
        await connection.execute(_FOLD, {"merchant_id": merchant_id, "orders": orders, "lines": lines})


def _row(merchant_id: UUID, kind: LineKind, block: Block, *, is_packed: bool) -> tuple[object, ...]:
    """Returns the parameters of _PUT. Only a full block has the bits that let a search skip it."""
    texts = block.texts
    what: Sequence[object] = summary(kind, texts, [line.at for line in block.lines]) if block.full else (None,) * 5
    ids = ENCODE_ARRAY["uuid"]([line.id.bytes for line in block.lines])
    ats = ENCODE_ARRAY["timestamptz"]([None if line.at is None else micros(line.at) for line in block.lines])
    return merchant_id, kind.value, block.lines[0].id, is_packed, ids, ats, texts, *what


async def _lines(connection: Connection, statement: str, parameters: Mapping[str, object]) -> list[SearchLine]:
    cursor = await connection.execute(statement, parameters, binary=True)
    return [line for block in await cursor.fetchall() for line in _split(*block)]


def _split(ids: Sequence[UUID], ats: Sequence[datetime | None], texts: str) -> list[SearchLine]:
    """Returns the lines of a row."""
    return [SearchLine(line_id, at, text) for line_id, at, text in zip(ids, ats, texts.split("\n"), strict=True)]


async def _renamed(connection: Connection, merchant_id: UUID) -> list[UUID]:
    """Returns the orders that are noted as renamed."""
    notes = {"merchant_id": merchant_id, "renamed": LineKind.RENAMED.value}
    return [order_id for (order_id,) in await (await connection.execute(_RENAMED, notes)).fetchall()]


async def _former_lines(connection: Connection, merchant_id: UUID, orders: Sequence[UUID]) -> dict[UUID, str]:
    """Returns the lines of these orders as they are stored."""
    if not orders:
        return {}
    values = {"merchant_id": merchant_id, "kind": LineKind.ORDER.value, "orders": list(orders)}
    return dict(await (await connection.execute(_FORMER, values)).fetchall())
