"""The lines of text that a search reads: a few thousand rows, each with the texts of many orders.

Fold both sides of a comparison by `fold`, and only here. The database compares bytes. It folds only printable ASCII, by
the collation C, for orders without `names_folded`.

A line is written once, with the order or the customer that it belongs to. When a customer's e-mail changes, a line of
the kind CHANGED is added. From then on searches read the customer's row instead of the line, until the compactor has
replaced it. When the invoice number of an order changes, a line of the kind RENAMED does the same for the order.
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
    """The kinds of blocks, by their lines."""

    ORDER = 1
    """Order number, external id and invoice number, as they were at creation or when the line was last replaced."""
    CUSTOMER = 2
    """The e-mail that a customer had at first, or when the line was last replaced."""
    CHANGED = 3
    """Customers whose e-mail has changed since; their lines are empty."""
    RENAMED = 4
    """Orders whose invoice number has changed since; their lines are empty."""


# Writes the new lines of a batch, in one row for each merchant and kind. The view `search_line` shows them one by one.
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
    """Returns a text for comparison without regard to case, by Unicode's full case folding: STRASSE equals straße."""
    return text.casefold()


def fold_search(search: str) -> str | None:
    """Returns the text to find in lines, or None if it has control characters, which separate lines."""
    if any(character < " " or "\x7f" <= character < "\xa0" for character in search):
        return None
    return fold(search)


def order_line(order_number: str, external_id: str, invoice_number: str | None) -> str:
    """Returns the line of an order: its three folded fields."""
    fields = [order_number, external_id, invoice_number or ""]
    if not "".join(fields).isprintable():  # printable text has no separators
        fields = [field.translate(_NEVER_STORED) for field in fields]
    return fold(FIELD_END.join(fields))


def names_folded(order_number: str, external_id: str, invoice_number: str | None) -> str | None:
    """Returns the line of an order, or None if its fields are printable ASCII, which the database folds itself."""
    fields = order_number + external_id + (invoice_number or "")
    if fields.isascii() and fields.isprintable():
        return None
    return order_line(order_number, external_id, invoice_number)


def order_rows(merchant_id: UUID, before: Order | None, after: Order) -> list[Row]:
    """Returns the line of a new order, or the note that an existing order's invoice number has changed."""
    terms = after.terms
    if before is not None:
        is_renamed = before.terms.invoice_number != terms.invoice_number
        return [(merchant_id.bytes, LineKind.RENAMED, terms.order_id.bytes, None, b"")] if is_renamed else []
    line = order_line(terms.order_number, terms.external_id, terms.invoice_number)
    return [(merchant_id.bytes, LineKind.ORDER, terms.order_id.bytes, micros(terms.at), line.encode())]


def customer_rows(merchant_id: UUID, before: Customer | None, after: Customer) -> list[Row]:
    """Returns the line of a new customer with an e-mail, or the note that an existing customer's e-mail has changed."""
    if before is not None:
        changed = before.email != after.email
        return [(merchant_id.bytes, LineKind.CHANGED, after.customer_id.bytes, None, b"")] if changed else []
    if after.email is None:
        return []
    return [(merchant_id.bytes, LineKind.CUSTOMER, after.customer_id.bytes, None, _line(after.email).encode())]


def _line(text: str) -> str:
    folded = fold(text)
    return folded if text.isprintable() else folded.translate(_NEVER_STORED)  # printable text has no separators
