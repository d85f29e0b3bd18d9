"""The distinct values of an indexed column by one probe of the index for each value, however many rows each has.

For `select distinct`, PostgreSQL reads every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import merge
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from ledger.postgres.connection import Connection
from ledger.postgres.merchant_transactions import MerchantTransactions

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
select f.value, oldest.{id}, oldest.n, oldest.{at} from found f cross join lateral (
  select {id}, {at}, row_number() over (order by {at}) as n from {table}
   where merchant_id = f.value and {where} and {due}
   order by {at} limit %(limit)s) oldest
 order by oldest.n, oldest.{at} limit %(limit)s
"""


def skip_scan(*, table: str, column: str, where: str, then: str, order: str | None = None) -> str:
    """Returns a statement in which `then` follows the named query `found`: the distinct values of a column as `value`.

    `where` selects the rows of a partial index whose first column is this one; `order` names more of its columns if
    the planner could take another index. The arguments are parts of the program.
    """
    return _SKIP_SCAN.format(table=table, column=column, where=where, then=then, order=order or column)


class InTurn(Struct, frozen=True):
    """A read of rows of all merchants: of each one the oldest first, and of the merchants each in turn.

    `where` selects the rows of a partial index that begins with `merchant_id` and `at`; `due` selects among them. `id`
    is the column that is returned beside the merchant. The arguments are parts of the program.
    """

    table: str
    id: str
    at: str
    where: str
    due: str

    async def read(
        self, transactions: MerchantTransactions, connection: Connection, limit: int, values: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Returns at most `limit` rows of a merchant and an id. The values are those of `due`. The merchants whose node
        of Citus cannot be read now are left out. Raises psycopg.Error.
        """
        found = await transactions.read_all(connection, self._statement, {**values, "limit": limit})
        in_turn = merge(*found.groups, key=lambda row: row[2:])
        return [(merchant_id, id_) for merchant_id, id_, *_ in islice(in_turn, limit)]

    @property
    def _statement(self) -> str:
        then = _OF_EACH.format(table=self.table, id=self.id, at=self.at, where=self.where, due=self.due)
        return skip_scan(table=self.table, column="merchant_id", where=self.where, then=then)
