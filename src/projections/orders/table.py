"""The payment order's row: written with its events, and served by splicing stored bytes.

Never store `isOverdue` or the customer in the row. They depend on the time of reading and on the customer's current
data, and are added when the order is read.

While a call is open, `head` and `payments` are empty: the call's outcome replaces the row within a second, and few read
it before. A reader folds the order's stream up to the row's version instead, so that the document agrees with the
columns by which the order was found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.fold import fold
from ledger.domain.ids import parse_uuid
from ledger.domain.money import scaled
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import MethodType
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from projections.binary import micros, text
from projections.orders.documents import document, is_overdue
from projections.orders.head import render_head
from projections.orders.payments import in_language, render_payments
from projections.search.lines import names_folded

# Writes the order's row as it is after the commit. Names that never change are written again, which costs nothing.
_WRITE: Final = """
insert into payment_order
  (merchant_id, order_id, version, status, customer_id, external_id, order_number, invoice_number, names_folded,
   due_at, created_at, updated_at, call_deadline_at, currency, amount, method_types, last4s, head, payments)
select
   merchant_id, order_id, version, status, customer_id, external_id, order_number, invoice_number, names_folded,
   due_at, created_at, updated_at, call_deadline_at, currency, amount, method_types, last4s, head, payments
  from {rows}
on conflict (merchant_id, order_id) do update set
  version = excluded.version, status = excluded.status, invoice_number = excluded.invoice_number,
  names_folded = excluded.names_folded, due_at = excluded.due_at, updated_at = excluded.updated_at,
  call_deadline_at = excluded.call_deadline_at, currency = excluded.currency, amount = excluded.amount,
  method_types = excluded.method_types, last4s = excluded.last4s,
  head = excluded.head, payments = excluded.payments
"""

TABLE: Final = InlineTable(
    "payment_order",
    (
        ("merchant_id", "uuid"),
        ("order_id", "uuid"),
        ("version", "int4"),
        ("status", "text"),
        ("customer_id", "uuid"),
        ("external_id", "text"),
        ("order_number", "text"),
        ("invoice_number", "text"),
        ("names_folded", "text"),
        ("due_at", "timestamptz"),
        ("created_at", "timestamptz"),
        ("updated_at", "timestamptz"),
        ("call_deadline_at", "timestamptz"),
        ("currency", "text"),
        ("amount", "int8"),
        ("method_types", "int4"),
        ("last4s", "text"),
        ("head", "bytea"),
        ("payments", "bytea"),
    ),
    _WRITE,
)

_PAYCASH: Final = 8
_METHOD_BITS: Final = {
    MethodType.CARD: 1,
    MethodType.SPEI: 2,
    MethodType.CIE_CASH_NET: 4,
    MethodType.PAYCASH: 4 | _PAYCASH,
}
"""What each method counts in `method_types`. A payment at Paycash is shown as CIE_CASH_NET (contract N16), and has both
bits. Rows have them: never change one.
"""

# Orders by service id or external id. `own` is the order with the service id; `named`, the order with the external id,
# is looked up only if there is none. Kind 1 is ClaimKind.ORDER_EXTERNAL_ID. Each row begins with the number of the key
# that it answers. An id is looked up as a range for the reason given at _PAGE in `projections.lists.statements`.
FIND: Final = """
select q.n, coalesce(own.order_id, named.order_id), coalesce(own.version, named.version),
       coalesce(own.status, named.status), coalesce(own.due_at, named.due_at), coalesce(own.head, named.head),
       coalesce(own.payments, named.payments), c.doc
  from unnest(%s::int4[], %s::uuid[], %s::uuid[], %s::text[]) as q(n, merchant_id, order_id, reference)
  left join lateral (
    select o.order_id, o.version, o.status, o.due_at, o.head, o.payments, o.customer_id from payment_order o
     where o.merchant_id = q.merchant_id and o.order_id between q.order_id and q.order_id
     order by o.order_id limit 1) own on true
  left join lateral (
    select o.order_id, o.version, o.status, o.due_at, o.head, o.payments, o.customer_id
      from claim k cross join lateral (
        select order_id, version, status, due_at, head, payments, customer_id from payment_order
         where merchant_id = q.merchant_id and order_id between k.stream_id and k.stream_id order by order_id limit 1) o
     where own.customer_id is null
       and k.merchant_id = q.merchant_id and k.kind = 1 and k.key = q.reference
     limit 1) named on true
  join lateral (
    select doc from customer
     where merchant_id = q.merchant_id and customer_id = coalesce(own.customer_id, named.customer_id) limit 1) c on true
"""


ReadStream = Callable[[UUID, UUID], Awaitable[Sequence[Any]]]
"""Returns the events of a merchant's stream, oldest first, as `LogReader.stream` does."""


class OrderRow(Struct, frozen=True, gc=False):
    """An order as it is stored, with its customer's current document."""

    stream_id: UUID
    version: int
    status: str
    due_at: datetime | None
    head: bytes
    payments: bytes
    customer: bytes

    async def rendered(self, merchant_id: UUID, read: ReadStream) -> OrderRow:
        """Returns the row of an order in flight with the bytes that it lacks. Raises like `read`."""
        order = await order_at(merchant_id, self.stream_id, self.version, read)
        return replace(self, head=render_head(order), payments=render_payments(order))

    @property
    def order_id(self) -> str:
        """The order's id, with which its head begins: `{"id":"…`."""
        return self.head[7:43].decode()

    @property
    def customer_id(self) -> str:
        """The customer's id, with which its document begins."""
        return self.customer[7:43].decode()

    def document(self, now: datetime, language: str = "es") -> bytes:
        """Returns the order's whole document, with texts for payers in a language. `now` is by the merchant's clock."""
        payments = in_language(self.payments, language)
        return document(self.head, self.customer, payments, is_overdue(self.status, self.due_at, now))


async def order_at(merchant_id: UUID, order_id: UUID, version: int, read: ReadStream) -> Order:
    """Returns an order as it was at a version that a row has: the log has at least the events of every row."""
    events = await read(merchant_id, order_id)
    return fold(evolve, None, events[:version])


def rendered(order: Order) -> tuple[bytes, bytes]:
    """Returns the columns `head` and `payments`, which are empty while a call is open."""
    return (render_head(order), render_payments(order)) if order.call_deadline_at is None else (b"", b"")


def filtered_by(order: Order) -> tuple[bytes, int, int, bytes | None]:
    """Returns the columns `currency`, `amount`, `method_types` and `last4s`, by which lists are filtered."""
    currency, amount = order.terms.currency.encode(), scaled(order.amount)
    if not order.payments:
        return currency, amount, 0, None
    bits, last4s = 0, set[str]()
    for payment in order.payments:
        method = payment.started.method
        bits |= _METHOD_BITS[method.type]
        if method.card is not None:
            last4s.add(method.card.last4)
    return currency, amount, bits, ",".join(sorted(last4s)).encode() or None


def method_bits(types: Iterable[MethodType]) -> int:
    """Returns the bits of payment methods, as `method_types` has them."""
    bits = 0
    for each in types:
        bits |= _METHOD_BITS[each]
    return bits


def sought_bits(types: Collection[MethodType]) -> int:
    """Returns the bits of which an order with a payment by one of these methods has one: Paycash has its own."""
    return method_bits(set(types) - {MethodType.PAYCASH}) | (_PAYCASH if MethodType.PAYCASH in types else 0)


def row(merchant_id: UUID, version: int, order: Order) -> Row:
    """Returns the order's row at a version of its stream."""
    terms, call_deadline_at = order.terms, order.call_deadline_at
    return (
        merchant_id.bytes,
        terms.order_id.bytes,
        version,
        order.status.encode(),
        terms.customer_id.bytes,
        terms.external_id.encode(),
        terms.order_number.encode(),
        text(terms.invoice_number),
        text(names_folded(terms.order_number, terms.external_id, terms.invoice_number)),
        None if terms.due_date is None else micros(terms.due_date),
        micros(terms.at),
        micros(order.updated_at),
        None if call_deadline_at is None else micros(call_deadline_at),
        *filtered_by(order),
        *rendered(order),
    )


def find_parameters(keys: Sequence[tuple[bytes, str]]) -> list[bytes]:
    """Returns the columns that FIND unnests, for keys of a merchant's id and an order's service id or external id."""
    order_ids = [parse_uuid(reference) for _, reference in keys]
    return [
        ENCODE_ARRAY["int4"](range(len(keys))),
        ENCODE_ARRAY["uuid"]([merchant_id for merchant_id, _ in keys]),
        ENCODE_ARRAY["uuid"]([None if order_id is None else order_id.bytes for order_id in order_ids]),
        ENCODE_ARRAY["text"]([reference.encode() for _, reference in keys]),
    ]


def found(row: Sequence[Any]) -> OrderRow:
    """Returns the order of a row of FIND."""
    return OrderRow(*row[1:])
