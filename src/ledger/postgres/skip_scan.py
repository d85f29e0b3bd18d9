"""The distinct values of an indexed column by one probe of the index for each value, however many rows each has.

For `select distinct`, PostgreSQL reads every row.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ledger.postgres.connection import Connection

_SKIP_SCAN: Final = """
with recursive probe as (
  (select {column} as value from {table} where {where} order by {order} limit 1)
  union all
  select (select {column} from {table} where {where} and {column} > p.value order by {order} limit 1)
    from probe p where p.value is not null),
found as (select value from probe where value is not null)
{then}
"""


_OF_EACH: Final = """
select f.value, oldest.{id} from found f cross join lateral (
  select {id}, {at}, row_number() over (order by {at}) as n from {table}
   where merchant_id = f.value and {where} and {due}
   order by {at} limit %(limit)s) oldest
 order by oldest.n, oldest.{at} limit %(limit)s
"""

_OF_ALL: Final = """
select merchant_id, {id} from (
  select merchant_id, {id}, {at}, row_number() over (partition by merchant_id order by {at}) as n from {table}
   where {where} and {due}) oldest
 order by n, {at} limit %(limit)s
"""


def skip_scan(*, table: str, column: str, where: str, then: str, order: str | None = None) -> str:
    """Returns a statement in which `then` follows the named query `found`: the distinct values of a column as `value`.

    `where` selects the rows of a partial index whose first column is this one; `order` names more of its columns if
    the planner could take another index. The arguments are parts of the program.
    """
    return _SKIP_SCAN.format(table=table, column=column, where=where, then=then, order=order or column)


class InTurn(Struct, frozen=True):
    """Statements that read rows of all merchants: of each one the oldest first, and of the merchants each in turn.

    `where` selects the rows of a partial index that begins with `merchant_id` and `at`; `due` selects among them. `id`
    is the column that is returned beside the merchant. The values are `limit`, and those of `due`. The arguments are
    parts of the program.
    """

    table: str
    id: str
    at: str
    where: str
    due: str

    def on(self, connection: Connection) -> str:
        """Returns the statement for a server. Citus supports no recursion over all merchants, and reads every row."""
        return self._on_citus if connection.has_citus else self._skipping

    @property
    def _skipping(self) -> str:
        then = _OF_EACH.format(table=self.table, id=self.id, at=self.at, where=self.where, due=self.due)
        return skip_scan(table=self.table, column="merchant_id", where=self.where, then=then)

    @property
    def _on_citus(self) -> str:
        return _OF_ALL.format(table=self.table, id=self.id, at=self.at, where=self.where, due=self.due)
