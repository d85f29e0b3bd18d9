"""What orders are searched by: the texts of many orders in one row, so that a search reads a few thousand rows, not all.

The rule a stranger would break: both sides of a comparison go through `fold`, here and nowhere else. The database compares
bytes; what a capital letter is it is asked of ASCII alone, by the collation C, and of the orders without `names_folded`.

A line is written once, with the order or the customer it belongs to. A customer's e-mail may change: that adds a line of
the kind CHANGED, and from then on the customer's own row is asked instead of the line, until the tidying has replaced it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final
from uuid import UUID

from ledger.domain.customers.state import Customer
from ledger.domain.orders.state import Order
from ledger.journal.inline import InlineTable, Row
from projections.binary import micros


class LineKind(IntEnum):
    """Whose lines a block holds."""

    ORDER = 1
    """Order number, external id and invoice number, which never change."""
    CUSTOMER = 2
    """The e-mail that a customer was introduced with."""
    CHANGED = 3
    """Customers whose e-mail is another by now; their lines are empty."""


# The new lines of a batch, in one row for each merchant and kind. The view of the same name shows them one by one.
_WRITE: Final = """
insert into search_block (merchant_id, kind, first_id, ids, ats, texts)
select merchant_id, kind, (array_agg(id))[1], array_agg(id), array_agg(at), string_agg(text, chr(10))
  from {rows} group by merchant_id, kind
"""

TABLE: Final = InlineTable(
    "search_line",
    (("merchant_id", "uuid"), ("kind", "int4"), ("id", "uuid"), ("at", "timestamptz"), ("text", "text")),
    _WRITE,
)

FIELD_END: Final = "\x1f"
_NEVER_STORED: Final = dict.fromkeys(map(ord, ("\n", FIELD_END)), " ")


def fold(text: str) -> str:
    """A text as it is compared without regard to case: Unicode's full case folding, in which STRASSE is straße."""
    return text.casefold()


def fold_search(search: str) -> str | None:
    """What to look for in folded lines; None where no line can hold it (control characters, which also part the lines)."""
    if any(character < " " or "\x7f" <= character < "\xa0" for character in search):
        return None
    return fold(search)


def order_line(order_number: str, external_id: str, invoice_number: str | None) -> str:
    """The line of an order: its three fields as they are compared."""
    return FIELD_END.join([_line(text) for text in (order_number, external_id, invoice_number or "")])


def names_folded(order_number: str, external_id: str, invoice_number: str | None) -> str | None:
    """The line of an order, where the database cannot fold its fields itself; None where they are printable ASCII."""
    fields = order_number + external_id + (invoice_number or "")
    if fields.isascii() and fields.isprintable():
        return None
    return order_line(order_number, external_id, invoice_number)


def order_rows(merchant_id: UUID, before: Order | None, after: Order) -> list[Row]:
    """The line of an order that has just come into being; none later, for nothing in it changes."""
    if before is not None:
        return []
    terms = after.terms
    line = order_line(terms.order_number, terms.external_id, terms.invoice_number)
    return [(merchant_id.bytes, LineKind.ORDER, terms.order_id.bytes, micros(terms.at), line.encode())]


def customer_rows(merchant_id: UUID, before: Customer | None, after: Customer) -> list[Row]:
    """The line of a new customer with an e-mail, or the note that a known one's is another now."""
    if before is not None:
        changed = before.email != after.email
        return [(merchant_id.bytes, LineKind.CHANGED, after.customer_id.bytes, None, b"")] if changed else []
    if after.email is None:
        return []
    return [(merchant_id.bytes, LineKind.CUSTOMER, after.customer_id.bytes, None, _line(after.email).encode())]


def _line(text: str) -> str:
    return fold(text).translate(_NEVER_STORED)
