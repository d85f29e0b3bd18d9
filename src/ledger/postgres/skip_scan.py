"""The distinct values of an indexed column by one probe of the index for each value, however many rows each has.

For `select distinct`, PostgreSQL reads every row.
"""

from __future__ import annotations

from typing import Final

_SKIP_SCAN: Final = """
with recursive probe as (
  (select {column} as value from {table} where {where} order by {order} limit 1)
  union all
  select (select {column} from {table} where {where} and {column} > p.value order by {order} limit 1)
    from probe p where p.value is not null),
found as (select value from probe where value is not null)
{then}
"""


def skip_scan(*, table: str, column: str, where: str, then: str, order: str | None = None) -> str:
    """Returns a statement in which `then` follows the named query `found`: the distinct values of a column as `value`.

    `where` selects the rows of a partial index whose first column is this one; `order` names more of its columns if
    the planner could take another index. The arguments are parts of the program.
    """
    return _SKIP_SCAN.format(table=table, column=column, where=where, then=then, order=order or column)
