"""Which rows of each table follow from which stream, and the statements that compare and repair them.

The counters (`tally`) and the lines of searches (`search_line`) follow from many streams and are not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.payment_methods.state import stream_of as methods_stream_of
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY, Array
from projections import (
    customers,
    global_invoices,
    merchants,
    payment_methods,
    processor_accounts,
    products,
    webhook_endpoints,
)
from projections.lists import tally
from projections.orders import table
from projections.search import lines
from projections.subscriptions import invoices, plans, subscriptions

Key = tuple[Any, ...]
"""The values of a table's primary key, in wire form."""

CUSTOMER_COUNT: Final = "customer_count"
"""The table of how many customers merchants have, which a trigger on `customer` changes."""
TALLY, LINES, ORDERS, CUSTOMERS = tally.TABLE.name, lines.TABLE.name, table.TABLE.name, customers.TABLE.name

_READ: Final = "select {columns} from {table} where merchant_id = %s"

# Writes rows over those with the same key, and leaves out those that are stored so.
_WRITE: Final = """
insert into {table} as t ({columns}) select * from unnest({types}) as r({columns})
on conflict on constraint {table}_pkey do update set {assignments}
 where ({stored}) is distinct from ({excluded})
"""

# Removes rows by their key, unless they have changed to another owner.
_REMOVE: Final = """
delete from {table} t using unnest({types}) as r({names}) where {same}
"""


class ReadModel(Struct, frozen=True):
    """A table whose rows each follow from one stream.

    `key` is its primary key. From the column `owner` follows the id of a row's stream, by `stream_of`. In a ranged
    table it is that id, and an index finds rows by it.
    """

    table: InlineTable
    key: tuple[str, ...]
    owner: str
    stream_of: Callable[[UUID], UUID] | None = None
    is_ranged: bool = True

    @property
    def name(self) -> str:
        return self.table.name

    def key_of(self, row: Row) -> Key:
        """Returns the key of a row."""
        return self._values(row, self.key)

    def stream_id(self, row: Row) -> UUID:
        """Returns the stream that a stored row names."""
        (owner,) = self._values(row, (self.owner,))
        stream_id = UUID(bytes=bytes(owner))
        return stream_id if self.stream_of is None else self.stream_of(stream_id)

    def _values(self, row: Row, columns: tuple[str, ...]) -> Key:
        return tuple([row[place] for place in _places(self.name, columns)])

    def read_range(self) -> str:
        """Returns the statement for the rows of a merchant, the owners of which lie in a range, both ends included."""
        return f"{self._read()} and {self.owner} >= %s and {self.owner} <= %s"

    def read_behind(self) -> str:
        """Returns the statement for the next rows of a merchant behind a key without the merchant, and their number."""
        own = ", ".join(self.key[1:])
        places = ", ".join(["%s"] * len(self.key[1:]))
        return f"{self._read()} and ({own}) > ({places}) order by {own} limit %s"

    def read_keys(self) -> str:
        """Returns the statement for the rows of a merchant that have one of these keys."""
        places = ", ".join(f"%s::{self._type(column)}[]" for column in self.key)
        return f"{self._read()} and ({', '.join(self.key)}) in (select * from unnest({places}))"  # noqa: S608

    def keys(self, keys: Iterable[Key]) -> list[Array]:
        """Returns the parameters of `read_keys` behind the merchant."""
        columns = zip(*keys, strict=True)
        return [ENCODE_ARRAY[self._type(name)](list(column)) for name, column in zip(self.key, columns, strict=True)]

    def write(self, rows: Sequence[Row]) -> tuple[str, list[Array]]:
        """Returns the statement that writes rows, and its parameters."""
        columns = [name for name, _ in self.table.columns]
        others = [name for name in columns if name not in self.key]
        statement = _WRITE.format(
            table=self.name,
            columns=", ".join(columns),
            types=", ".join(f"%s::{type_}[]" for _, type_ in self.table.columns),
            assignments=", ".join(f"{name} = excluded.{name}" for name in others),
            stored=", ".join(f"t.{name}" for name in others),
            excluded=", ".join(f"excluded.{name}" for name in others),
        )
        types = [type_ for _, type_ in self.table.columns]
        arrays = zip(types, zip(*rows, strict=True), strict=True)
        return statement, [ENCODE_ARRAY[type_](column) for type_, column in arrays]

    def remove(self, rows: Sequence[Row]) -> tuple[str, list[Array]]:
        """Returns the statement that removes stored rows, and its parameters."""
        names = tuple(dict.fromkeys([*self.key, self.owner, "merchant_id"]))
        values = zip(*(self._values(row, names) for row in rows), strict=True)
        statement = _REMOVE.format(
            table=self.name,
            types=", ".join(f"%s::{self._type(name)}[]" for name in names),
            names=", ".join(names),
            same=" and ".join(f"t.{name} = r.{name}" for name in names),
        )
        typed = zip(names, values, strict=True)
        return statement, [ENCODE_ARRAY[self._type(name)](list(column)) for name, column in typed]

    def _read(self) -> str:
        return _READ.format(table=self.name, columns=", ".join(name for name, _ in self.table.columns))

    def _type(self, column: str) -> str:
        return dict(self.table.columns)[column]


@cache
def _places(table: str, columns: tuple[str, ...]) -> tuple[int, ...]:
    """Returns where a row has these columns."""
    names = [name for name, _ in next(model.table.columns for model in READ_MODELS if model.name == table)]
    return tuple(names.index(column) for column in columns)


def _own(of: InlineTable, key: str) -> ReadModel:
    """Returns a table of which a row has the id of its stream."""
    return ReadModel(of, ("merchant_id", key), key)


READ_MODELS: Final[tuple[ReadModel, ...]] = (
    ReadModel(merchants.TABLE, ("merchant_id",), "merchant_id"),
    ReadModel(merchants.KEY_TABLE, ("key_hash",), "merchant_id"),
    _own(customers.TABLE, "customer_id"),
    ReadModel(
        payment_methods.TABLE,
        ("merchant_id", "payment_method_id"),
        "customer_id",
        stream_of=methods_stream_of,
        is_ranged=False,
    ),
    _own(products.TABLE, "product_id"),
    _own(plans.TABLE, "plan_id"),
    _own(subscriptions.TABLE, "subscription_id"),
    ReadModel(invoices.TABLE, ("merchant_id", "invoice_id"), "subscription_id"),
    _own(table.TABLE, "order_id"),
    _own(global_invoices.TABLE, "global_invoice_id"),
    ReadModel(
        global_invoices.ORDERS, ("merchant_id", "order_id", "global_invoice_id"), "global_invoice_id", is_ranged=False
    ),
    _own(processor_accounts.TABLE, "account_id"),
    _own(webhook_endpoints.TABLE, "endpoint_id"),
)

NAMES: Final = tuple(sorted([*(model.name for model in READ_MODELS), TALLY, LINES, CUSTOMER_COUNT]))
"""All tables that can be rebuilt."""
