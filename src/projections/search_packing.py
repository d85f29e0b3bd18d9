"""Keeps the lines that searches read packed and up to date: many to a row, and no e-mail that nobody has any more.

The rule a stranger would break: nothing here is needed for a search to be right. An append writes its lines itself; this
makes one row of the many that small appends leave behind, and takes out what a changed or erased e-mail left there.
"""

from __future__ import annotations

from typing import Final, Self
from uuid import UUID

import psycopg

from ledger.journal.append import DatabaseUnavailable
from ledger.journal.connection import Connection, connect
from projections.search_text import Kind

_ROWS_MIN: Final = 16
"""So many unpacked rows of a merchant are worth the work."""
_MERCHANTS_MAX: Final = 200
_LOCK: Final = (
    0x5EA6C4  # any number, the same for ever: one tidying at a time, for each sees blocks that the other replaces
)

# Who has something to tidy, from the partial index alone.
_DUE: Final = """
select merchant_id, kind from search_block where not packed group by merchant_id, kind
having kind = %(changed)s or count(*) >= %(rows)s limit %(limit)s
"""

# The lines of `opened` in new rows that fit on a page, each order's or customer's once; the last one is not full. What the
# lowest and the highest of some texts begin with, in the order of their bytes, all of them begin with.
_PACKED: Final = """,
filled as (
  select (array_agg(id order by id))[1] as first_id, block < max(block) over () as packed, array_agg(id order by id) as ids,
         array_agg(at order by id) as ats, string_agg(text, chr(10) order by id) as texts,
         array[min(split_part(text, chr(31), 1) collate "C"), min(split_part(text, chr(31), 2) collate "C"),
               min(split_part(text, chr(31), 3) collate "C")] as lowest,
         array[max(split_part(text, chr(31), 1) collate "C"), max(split_part(text, chr(31), 2) collate "C"),
               max(split_part(text, chr(31), 3) collate "C")] as highest
    from (select *, sum(octet_length(text) + 40) over (order by id) / 6500 as block from opened) o
   group by block)
insert into search_block (merchant_id, kind, first_id, packed, ids, ats, texts, grams, shared)
select %(merchant_id)s, %(kind)s, first_id, packed, ids, ats, texts, search_grams(texts), (
         select string_agg(left(f.lowest, (select count(*) from generate_series(1, length(f.lowest)) as n
                                           where left(f.lowest, n) = left(f.highest, n))::int4), chr(31) order by f.n)
           from unnest(lowest, highest) with ordinality as f(lowest, highest, n))
  from filled
"""

# Pack what is not packed, as much of it as takes about a second.
_PACK: Final = """
with gone as (
  delete from search_block where ctid = any(array(
    select w.place from (select ctid as place, sum(octet_length(texts)) over (order by first_id, ctid) - octet_length(texts) as before
                           from search_block where merchant_id = %(merchant_id)s and kind = %(kind)s and not packed) w
     where w.before < 500000))
  returning ids, ats, texts),
opened as (
  select u.id, u.at, u.text from gone g cross join lateral unnest(g.ids, g.ats, string_to_array(g.texts, chr(10))) as u(id, at, text))
"""

# Replace the lines of the customers that were noted as changed by what their rows say now.
_REFRESH: Final = """
with noted as (
  delete from search_block where merchant_id = %(merchant_id)s and kind = %(changed)s returning ids),
changed as materialized (select distinct u.id from noted n cross join lateral unnest(n.ids) as u(id)),
gone as (
  delete from search_block where merchant_id = %(merchant_id)s and kind = %(kind)s
     and ids && (select coalesce(array_agg(id), '{}') from changed)
  returning ids, ats, texts),
opened as (
  select u.id, u.at, u.text from gone g cross join lateral unnest(g.ids, g.ats, string_to_array(g.texts, chr(10))) as u(id, at, text)
   where u.id not in (select id from changed)
  union all
  select h.id, null::timestamptz, c.email_folded from changed h
    join customer c on c.merchant_id = %(merchant_id)s and c.customer_id = h.id
   where c.email_folded is not null)
"""


class SearchPacking:
    """Packs over all merchants, on a connection of its own that is opened again when it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises psycopg.OperationalError."""
        self._connection = await connect(self._url, "ledger-search-packing")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def pack(self) -> int:
        """Do what is due now and return for how many merchants; nothing while another worker does it.

        Raises DatabaseUnavailable; the next call connects again.
        """
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await connect(self._url, "ledger-search-packing")
            return await self._pack(self._connection)
        except psycopg.OperationalError as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault

    async def _pack(self, connection: Connection) -> int:
        limits = {"changed": Kind.CHANGED.value, "rows": _ROWS_MIN, "limit": _MERCHANTS_MAX}
        due = await (await connection.execute(_DUE, limits)).fetchall()
        for merchant_id, kind in due:
            async with connection.transaction():
                free = await (await connection.execute("select pg_try_advisory_xact_lock(%s)", (_LOCK,))).fetchone()
                if free != (True,):
                    return 0
                await self._tidy(connection, merchant_id, Kind(kind))
        return len(due)

    async def _tidy(self, connection: Connection, merchant_id: UUID, kind: Kind) -> None:
        refreshes = kind is Kind.CHANGED
        of = Kind.CUSTOMER if refreshes else kind
        values = {"merchant_id": merchant_id, "kind": of.value, "changed": Kind.CHANGED.value}
        await connection.execute((_REFRESH if refreshes else _PACK) + _PACKED, values)
