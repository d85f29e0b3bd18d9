"""How many packed orders each short text finds, and each end of an e-mail: what a search need not count again.

The rule a stranger would break: an order is counted once, by the whole of what it is found by. A short text that stands in
its number and in its customer's e-mail counts it once, so that no sum of two counters could say the same.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final
from uuid import UUID

from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection
from projections.search.blocks import SearchLine
from projections.search.lines import FIELD_END, LineKind, order_line

ORDERS_AT_ONCE: Final = 1_000
"""So many orders of a customer whose e-mail has changed are read by one statement; there may be half a million."""
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)
_LETTERS_MAX: Final = 2
"""What a counted text is at most; `_short_texts` makes no other."""


class Counted(IntEnum):
    """What orders are counted by."""

    SHORT = 1
    """One letter, or two that follow each other, in one of the four fields."""
    TAIL = 2
    """The e-mail of an order's customer from its first @ on."""


# The e-mails of some orders' customers, as searches compare them.
_EMAILS: Final = """
select asked.id, c.email_folded from unnest(%(orders)s::uuid[]) as asked(id)
 cross join lateral (
   select customer_id from payment_order
    where merchant_id = %(merchant_id)s and order_id between asked.id and asked.id order by order_id limit 1) o
 cross join lateral (
   select email_folded from customer where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c
"""

# The orders that nobody has counted, and the next of a customer's, in the order of its index.
_UNCOUNTED: Final = """
select unnest(ids) from search_block where merchant_id = %(merchant_id)s and kind = %(kind)s and not packed
"""
_ORDERS: Final = """
select created_at, order_id, order_number, external_id, invoice_number from payment_order
 where merchant_id = %(merchant_id)s and customer_id = %(customer_id)s
   and (created_at, order_id) > (%(after_at)s, %(after_id)s)
 order by created_at, order_id limit %(limit)s
"""

# Move the counters; what nobody has any more stands nowhere, for it may be somebody's own address.
_MOVE: Final = """
with moved as (
  insert into search_count as c (merchant_id, kind, text, orders)
  select %(merchant_id)s, u.kind, u.text, u.n
    from unnest(%(kinds)s::int4[], %(texts)s::text[], %(moves)s::int8[]) as u(kind, text, n)
  on conflict (merchant_id, kind, text) do update set orders = c.orders + excluded.orders
  returning kind, text, orders)
select kind, text from moved where orders = 0
"""
_DROP: Final = """
delete from search_count where merchant_id = %(merchant_id)s
   and (kind, text) in (select * from unnest(%(kinds)s::int4[], %(texts)s::text[]))
"""


def is_counted(folded: str) -> bool:
    """Whether a counter says how many orders have this text."""
    return 1 <= len(folded) <= _LETTERS_MAX


class SearchCounters:
    """Moves of one merchant's counters, gathered within a transaction that sees one moment, and written at its end."""

    def __init__(self, connection: Connection, merchant_id: UUID) -> None:
        self._connection = connection
        self._merchant_id = merchant_id
        self._shorts: Counter[str] = Counter()
        self._tails: Counter[str] = Counter()
        self._email_shorts: dict[str, set[str]] = {}

    async def count(self, orders: Sequence[SearchLine]) -> None:
        """Count these orders, by their lines and by their customers' e-mails."""
        values = {"merchant_id": self._merchant_id, "orders": ENCODE_ARRAY["uuid"]([line.id.bytes for line in orders])}
        rows = await self._connection.execute(_EMAILS, values, binary=True)
        emails: dict[UUID, str | None] = dict(await rows.fetchall())
        for line in orders:
            self._add(line.text, emails[line.id])

    async def recount(
        self, customers: Iterable[UUID], were: Mapping[UUID, str], now: Mapping[UUID, str | None]
    ) -> None:
        """Let the orders of these customers that have been counted count by the e-mails of now instead of by those that were."""
        values = {"merchant_id": self._merchant_id, "kind": LineKind.ORDER.value}
        rows = await self._connection.execute(_UNCOUNTED, values)
        uncounted = {order_id for (order_id,) in await rows.fetchall()}
        for customer_id in customers:
            was, is_now = were.get(customer_id), now.get(customer_id)
            if was == is_now:
                continue
            async for order_id, line in self._lines(customer_id):
                if order_id not in uncounted:
                    self._add(line, was, -1)
                    self._add(line, is_now)

    async def _lines(self, customer_id: UUID) -> AsyncIterator[tuple[UUID, str]]:
        """The ids and the lines of a customer's orders."""
        after_at, after_id = _BEGINNING, UUID(int=0)
        of = {"merchant_id": self._merchant_id, "customer_id": customer_id, "limit": ORDERS_AT_ONCE}
        while True:
            place = {"after_at": after_at, "after_id": after_id}
            rows = await self._connection.execute(_ORDERS, {**of, **place}, binary=True)
            orders = await rows.fetchall()
            for _, order_id, *names in orders:
                yield order_id, order_line(*names)
            if len(orders) < ORDERS_AT_ONCE:
                return
            after_at, after_id = orders[-1][:2]

    def _add(self, line: str, email: str | None, n: int = 1) -> None:
        """Count an order with this line, whose customer has this folded e-mail, `n` times."""
        found = _short_texts(line)
        if email is not None:
            shorts = self._email_shorts.get(email)
            if shorts is None:
                shorts = self._email_shorts[email] = _short_texts(email)
            found |= shorts
        self._shorts.update(found if n == 1 else dict.fromkeys(found, n))
        if email is not None and (tail := _tail(email)) is not None:
            self._tails[tail] += n

    async def write(self) -> None:
        """Move the stored counters."""
        moves = [
            (kind, text.encode(), n)
            for kind, counter in ((Counted.SHORT, self._shorts), (Counted.TAIL, self._tails))
            for text, n in counter.items()
            if n and FIELD_END not in text
        ]
        if not moves:
            return
        kinds, texts, ns = zip(*moves, strict=True)
        values = {
            "merchant_id": self._merchant_id,
            "kinds": ENCODE_ARRAY["int4"](kinds),
            "texts": ENCODE_ARRAY["text"](texts),
            "moves": ENCODE_ARRAY["int8"](ns),
        }
        gone = await (await self._connection.execute(_MOVE, values)).fetchall()
        if gone:
            kinds, texts = zip(*gone, strict=True)
            values = {"merchant_id": self._merchant_id, "kinds": list(kinds), "texts": list(texts)}
            await self._connection.execute(_DROP, values)


def _short_texts(line: str) -> set[str]:
    """Every letter, and every two that follow each other, of a line. Those across its fields' ends are in it too, and not written."""
    return {*line, *map(operator.add, line, line[1:])}


def _tail(email: str) -> str | None:
    at = email.find("@")
    return email[at:] if at >= 0 else None
