"""The customer's row, with the document that every order of that customer contains.

An order shows its customer as it is now. Copy only the customer's id into the order's row: then the erasure of a person
changes one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from ledger.domain.customers.state import Customer
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from projections.binary import text
from projections.orders.formats import Moment, moment
from projections.search.lines import fold

_encode: Final = msgspec.json.Encoder().encode

# Writes the customer's row as it is after the commit.
_WRITE: Final = """
insert into customer (merchant_id, customer_id, version, external_id, email, email_folded, source_id, doc)
select merchant_id, customer_id, version, external_id, email, email_folded, source_id, doc from {rows}
on conflict (merchant_id, customer_id) do update set
  version = excluded.version, external_id = excluded.external_id, email = excluded.email,
  email_folded = excluded.email_folded, source_id = excluded.source_id, doc = excluded.doc
"""

TABLE: Final = InlineTable(
    "customer",
    (
        ("merchant_id", "uuid"),
        ("customer_id", "uuid"),
        ("version", "int4"),
        ("external_id", "text"),
        ("email", "text"),
        ("email_folded", "text"),
        ("source_id", "uuid"),
        ("doc", "bytea"),
    ),
    _WRITE,
)

# The documents of customers by service id. Each row begins with the number of the key that it answers.
FIND: Final = """
select q.n, c.doc
  from unnest(%s::int4[], %s::uuid[], %s::uuid[]) as q(n, merchant_id, customer_id)
  join customer c on c.merchant_id = q.merchant_id and c.customer_id = q.customer_id
"""


class CustomerDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The customer of an order, with its current data."""

    id: UUID
    external_id: Annotated[str, Meta(description="The merchant's id of the customer.")]
    first_name: str | None
    last_name: str | None
    email: str | None
    phone_number: str | None
    active: Annotated[bool, Meta(description="False once the customer was removed.")]
    source_id: Annotated[UUID | None, Meta(description="The customer that this one was derived from.")]
    created_at: Moment
    updated_at: Moment


def render_customer(customer: Customer) -> bytes:
    """Returns the customer's JSON object, as orders contain it."""
    return _encode(
        CustomerDocument(
            id=customer.customer_id,
            external_id=customer.external_id,
            first_name=customer.first_name,
            last_name=customer.last_name,
            email=customer.email,
            phone_number=customer.phone_number,
            active=customer.active,
            source_id=customer.source_id,
            created_at=moment(customer.created_at),
            updated_at=moment(customer.updated_at),
        )
    )


def row(merchant_id: UUID, version: int, customer: Customer) -> Row:
    """Returns the customer's row at a version of its stream."""
    return (
        merchant_id.bytes,
        customer.customer_id.bytes,
        version,
        customer.external_id.encode(),
        text(customer.email),
        None if customer.email is None else fold(customer.email).encode(),
        None if customer.source_id is None else customer.source_id.bytes,
        render_customer(customer),
    )


def find_parameters(keys: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    """Returns the columns that FIND unnests, for keys of a merchant's and a customer's id, as bytes."""
    return [
        ENCODE_ARRAY["int4"](range(len(keys))),
        ENCODE_ARRAY["uuid"]([merchant_id for merchant_id, _ in keys]),
        ENCODE_ARRAY["uuid"]([customer_id for _, customer_id in keys]),
    ]


def found(row: Sequence[Any]) -> bytes:
    """Returns the customer's document from a row of FIND."""
    document: bytes = row[1]
    return document
