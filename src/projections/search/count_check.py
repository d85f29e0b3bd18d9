"""Compares the counters of texts with the lines that they count: those of packed orders, each with the e-mail of its
customer.

An order is counted by the e-mail that its customer's line has: the one of before, where a note is there that it has
changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from projections.search.counts import TextCounts
from projections.search.lines import LineKind

# The packed lines of a merchant's orders, and the e-mails by which these are counted.
LINES: Final = f"""
with changed as materialized (
  select distinct on (n.id) n.id, l.text
    from search_block b cross join lateral unnest(b.ids) as n(id)
    left join lateral (
      select u.text from search_block s cross join lateral unnest(s.ids, string_to_array(s.texts, chr(10))) as u(id, text)
       where s.merchant_id = %(merchant_id)s and s.kind = {LineKind.CUSTOMER} and n.id = any(s.ids) and u.id = n.id
       limit 1) l on true
   where b.merchant_id = %(merchant_id)s and b.kind = {LineKind.CHANGED} order by n.id)
select u.text, case when h.id is null then c.email_folded else h.text end
  from search_block b cross join lateral unnest(b.ids, string_to_array(b.texts, chr(10))) as u(id, text)
  left join payment_order o on o.merchant_id = %(merchant_id)s and o.order_id = u.id
  left join customer c on c.merchant_id = %(merchant_id)s and c.customer_id = o.customer_id
  left join changed h on h.id = o.customer_id
 where b.merchant_id = %(merchant_id)s and b.kind = {LineKind.ORDER} and b.packed and u.text is not null
"""  # noqa: S608 - constants

STORED: Final = "select kind, text, orders from search_count where merchant_id = %s"


class WrongCount(NamedTuple):
    """A counter that does not follow from the lines, with the number of orders that follows from them and its own."""

    kind: int
    text: str
    expected: int
    found: int


def wrong_counts(counts: TextCounts, stored: Iterable[tuple[int, str, int]]) -> list[WrongCount]:
    """Returns the counters that do not follow from the rows of LINES, all counted, by the rows of STORED."""
    due = {(kind, text): n for kind, text, n in counts.changes()}
    found = {(kind, text): n for kind, text, n in stored}
    wrong = (WrongCount(*key, due.get(key, 0), found.get(key, 0)) for key in sorted(due.keys() | found.keys()))
    return [each for each in wrong if each.expected != each.found]
