"""How many packed orders each short text finds, and each end of an e-mail: what a search need not count again.

The rule a stranger would break: an order is counted once, by the whole of what it is found by. A short text that stands in
its number and in its customer's e-mail counts it once, so that no sum of two counters could say the same.
"""

from __future__ import annotations

from collections import Counter
from typing import Final
from uuid import UUID

from ledger.journal.connection import Connection
from ledger.journal.packing import PACK
from projections.search_blocks import Counted, short_texts, tail
from projections.search_text import FIELD_END

# Move the counters; what nobody has any more stands nowhere, for it may be somebody's own address. In one order, always.
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


class Counts:
    """Moves of the counters of one merchant, gathered to be written once."""

    def __init__(self) -> None:
        self._shorts: Counter[str] = Counter()
        self._tails: Counter[str] = Counter()
        self._email_shorts: dict[str, set[str]] = {}

    def add(self, line: str, email: str | None, n: int = 1) -> None:
        """Count an order with this line, whose customer has this folded e-mail, `n` times."""
        found = short_texts(line)
        if email is not None:
            shorts = self._email_shorts.get(email)
            if shorts is None:
                shorts = self._email_shorts[email] = short_texts(email)
            found |= shorts
        self._shorts.update(found if n == 1 else dict.fromkeys(found, n))
        if email is not None and (end := tail(email)) is not None:
            self._tails[end] += n

    async def write(self, connection: Connection, merchant_id: UUID) -> None:
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
            "merchant_id": merchant_id,
            "kinds": PACK["int4"](kinds),
            "texts": PACK["text"](texts),
            "moves": PACK["int8"](ns),
        }
        gone = await (await connection.execute(_MOVE, values)).fetchall()
        if gone:
            kinds, texts = zip(*gone, strict=True)
            values = {"merchant_id": merchant_id, "kinds": list(kinds), "texts": list(texts)}
            await connection.execute(_DROP, values)
