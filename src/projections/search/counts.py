"""Counters of the packed orders that contain a short text, or whose customer's e-mail has a given end.

Count an order once for each text, by all its fields and its customer's e-mail together. An order with a short text in
both its number and the e-mail counts once, which the sum of two counters could not express.
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
"""How many orders of a customer whose e-mail has changed are read by one statement. There may be half a million."""
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)
_LETTERS_MAX: Final = 2
"""The longest short text that is counted; `_short_texts` makes them."""


class Counted(IntEnum):
    """The kinds of counters."""

    SHORT = 1
    """One letter, or two consecutive ones, in one of the four fields."""
    TAIL = 2
    """The e-mail of an order's customer from its first @ on."""


# The folded e-mails of the customers of some orders.
_EMAILS: Final = """
select orders.id, c.email_folded from unnest(%(orders)s::uuid[]) as orders(id)
 cross join lateral (
   select customer_id from payment_order
    where merchant_id = %(merchant_id)s and order_id between orders.id and orders.id order by order_id limit 1) o
 cross join lateral (
   select email_folded from customer where merchant_id = %(merchant_id)s and customer_id = o.customer_id limit 1) c
"""

# The orders that are not counted yet.
_UNCOUNTED: Final = """
select unnest(ids) from search_block where merchant_id = %(merchant_id)s and kind = %(kind)s and not packed
"""

# The next orders of a customer, in the order of its index.
_ORDERS: Final = """
select created_at, order_id, order_number, external_id, invoice_number from payment_order
 where merchant_id = %(merchant_id)s and customer_id = %(customer_id)s
   and (created_at, order_id) > (%(after_at)s, %(after_id)s)
 order by created_at, order_id limit %(limit)s
"""

# Changes the counters, and returns those that are zero now.
_CHANGE: Final = """
with changed as (
  insert into search_count as c (merchant_id, kind, text, orders)
  select %(merchant_id)s, u.kind, u.text, u.n
    from unnest(%(kinds)s::int4[], %(texts)s::text[], %(changes)s::int8[]) as u(kind, text, n)
  on conflict (merchant_id, kind, text) do update set orders = c.orders + excluded.orders
  returning kind, text, orders)
select kind, text from changed where orders = 0
"""

# Deletes counters that are zero: an end of an e-mail may be one person's own domain.
_DELETE: Final = """
delete from search_count where merchant_id = %(merchant_id)s
   and (kind, text) in (select * from unnest(%(kinds)s::int4[], %(texts)s::text[]))
"""


def is_counted(folded: str) -> bool:
    """Returns whether there is a counter for this text."""
    return 1 <= len(folded) <= _LETTERS_MAX


class TextCounts:
    """How many orders have each short text, and each end of an e-mail."""

    def __init__(self) -> None:
        self._shorts: Counter[str] = Counter()
        self._tails: Counter[str] = Counter()
        self._email_shorts: dict[str, set[str]] = {}

    def add(self, line: str, email: str | None, n: int = 1) -> None:
        """Counts an order with this line, whose customer has this folded e-mail, `n` times."""
        found = _short_texts(line)
        if email is not None:
            shorts = self._email_shorts.get(email)
            if shorts is None:
                shorts = self._email_shorts[email] = _short_texts(email)
            found |= shorts
        self._shorts.update(found if n == 1 else dict.fromkeys(found, n))
        if email is not None and (tail := _tail(email)) is not None:
            self._tails[tail] += n

    def changes(self) -> list[tuple[int, str, int]]:
        """Returns the counters that are not 0: the kind, the text and the number of each."""
        return [
            (kind.value, text, n)
            for kind, counter in ((Counted.SHORT, self._shorts), (Counted.TAIL, self._tails))
            for text, n in counter.items()
            if n and FIELD_END not in text
        ]


class SearchCounters:
    """Changes to one merchant's counters, collected in a transaction with one snapshot, and written at its end.

    `former` are the lines of orders that were counted by them and have other fields by now.
    """

    def __init__(self, connection: Connection, merchant_id: UUID, former: Mapping[UUID, str]) -> None:
        self._connection = connection
        self._merchant_id = merchant_id
        self._former = former
        self._counts = TextCounts()

    async def count(self, orders: Sequence[SearchLine], n: int = 1) -> None:
        """Counts these orders `n` times, by their lines and by their customers' e-mails."""
        values = {"merchant_id": self._merchant_id, "orders": ENCODE_ARRAY["uuid"]([line.id.bytes for line in orders])}
        rows = await self._connection.execute(_EMAILS, values, binary=True)
        emails: dict[UUID, str | None] = dict(await rows.fetchall())
        for line in orders:
            self._counts.add(line.text, emails[line.id], n)

    async def recount(
        self, customers: Iterable[UUID], previous: Mapping[UUID, str], current: Mapping[UUID, str | None]
    ) -> None:
        """Counts the counted orders of these customers by their current e-mails instead of the previous ones."""
        values = {"merchant_id": self._merchant_id, "kind": LineKind.ORDER.value}
        rows = await self._connection.execute(_UNCOUNTED, values)
        uncounted = {order_id for (order_id,) in await rows.fetchall()}
        for customer_id in customers:
            before, after = previous.get(customer_id), current.get(customer_id)
            if before == after:
                continue
            async for order_id, line in self._lines(customer_id):
                if order_id not in uncounted:
                    self._counts.add(line, before, -1)
                    self._counts.add(line, after)

    async def _lines(self, customer_id: UUID) -> AsyncIterator[tuple[UUID, str]]:
        """Yields the ids of a customer's orders, and the lines by which they were counted."""
        after_at, after_id = _BEGINNING, UUID(int=0)
        customer = {"merchant_id": self._merchant_id, "customer_id": customer_id, "limit": ORDERS_AT_ONCE}
        while True:
            after = {"after_at": after_at, "after_id": after_id}
            rows = await self._connection.execute(_ORDERS, {**customer, **after}, binary=True)
            orders = await rows.fetchall()
            for _, order_id, *names in orders:
                yield order_id, self._former.get(order_id) or order_line(*names)
            if len(orders) < ORDERS_AT_ONCE:
                return
            after_at, after_id = orders[-1][:2]

    async def write(self) -> None:
        """Writes the collected changes."""
        changes = self._counts.changes()
        if not changes:
            return
        kinds, texts, ns = zip(*changes, strict=True)
        values = {
            "merchant_id": self._merchant_id,
            "kinds": ENCODE_ARRAY["int4"](kinds),
            "texts": ENCODE_ARRAY["text"]([text.encode() for text in texts]),
            "changes": ENCODE_ARRAY["int8"](ns),
        }
        zero = await (await self._connection.execute(_CHANGE, values)).fetchall()
        if zero:
            kinds, texts = zip(*zero, strict=True)
            values = {"merchant_id": self._merchant_id, "kinds": list(kinds), "texts": list(texts)}
            await self._connection.execute(_DELETE, values)


def _short_texts(line: str) -> set[str]:
    """Returns every letter, and every two consecutive letters, of a line.

    Texts across the end of a field are among them; `changes` leaves them out.
    """
    return {*line, *map(operator.add, line, line[1:])}


def _tail(email: str) -> str | None:
    at = email.find("@")
    return email[at:] if at >= 0 else None
