"""The customer's row, with the document that every order of that customer contains, and what the customer's own has
beyond it.

An order shows its customer as it is now. Copy only the customer's id into the order's row: then the erasure of a person
changes one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ledger.domain.customers.events import NotificationPreferences
from ledger.domain.customers.state import Customer
from ledger.domain.fiscal_data import FiscalData
from ledger.domain.ids import parse_uuid
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from projections.binary import text
from projections.formats import Moment, moment
from projections.search.lines import FIELD_END, fold

RELATED_SHOWN_MAX: Final = 100
"""How many related customers the document of one customer shows."""

_encode: Final = msgspec.json.Encoder().encode

# Writes the customer's row as it is after the commit.
_WRITE: Final = """
insert into customer (merchant_id, customer_id, version, external_id, email, email_folded, source_id, doc, extras,
                      erased, text_folded)
select merchant_id, customer_id, version, external_id, email, email_folded, source_id, doc, extras, erased, text_folded
  from {rows}
on conflict (merchant_id, customer_id) do update set
  version = excluded.version, external_id = excluded.external_id, email = excluded.email,
  email_folded = excluded.email_folded, source_id = excluded.source_id, doc = excluded.doc, extras = excluded.extras,
  erased = excluded.erased, text_folded = excluded.text_folded
"""

# How many customers a merchant has, which triggers count on an ordinary Postgres (migration 0021).
_COUNT: Final = """
insert into customer_count as t (merchant_id, n)
select merchant_id, sum(change) from (
  select r.merchant_id, (not r.erased)::int4 - coalesce((not c.erased)::int4, 0) as change
    from {rows} r left join customer c on c.merchant_id = r.merchant_id and c.customer_id = r.customer_id) as changed
 group by merchant_id having sum(change) <> 0
on conflict (merchant_id) do update set n = t.n + excluded.n
"""

# Removes the metadata of erased customers' subscriptions, as a trigger does on an ordinary Postgres (migration 0027).
_FORGET: Final = """
update subscription s set metadata = null
  from {rows} r join customer c on c.merchant_id = r.merchant_id and c.customer_id = r.customer_id
 where c.erased and s.merchant_id = r.merchant_id and s.customer_id = r.customer_id and s.metadata is not null
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
        ("extras", "bytea"),
        ("erased", "bool"),
        ("text_folded", "text"),
    ),
    _WRITE,
    is_rare=True,
    beside_on_shards=_COUNT,
    after_on_shards=_FORGET,
)

# The documents of customers by service id. Each row begins with the number of the key that it answers.
FIND: Final = """
select q.n, c.doc
  from unnest(%s::int4[], %s::uuid[], %s::uuid[]) as q(n, merchant_id, customer_id)
  join customer c on c.merchant_id = q.merchant_id and c.customer_id = q.customer_id
"""

# Customers by service id or external id, erased ones left out, as FIND of `projections.orders.table` finds orders. The
# last column is whether another customer is related: this one has a source, or is a source. Kind 2 is
# ClaimKind.CUSTOMER_EXTERNAL_ID.
FIND_BY_REFERENCE: Final = """
select q.n, c.customer_id, c.doc, c.extras,
       c.source_id is not null or exists (
         select from customer d where d.merchant_id = q.merchant_id and d.source_id = c.customer_id)
  from unnest(%s::int4[], %s::uuid[], %s::uuid[], %s::text[]) as q(n, merchant_id, customer_id, reference)
  left join lateral (
    select customer_id from customer
     where merchant_id = q.merchant_id and customer_id = q.customer_id limit 1) own on true
  left join lateral (
    select k.stream_id from claim k
     where own.customer_id is null and k.merchant_id = q.merchant_id and k.kind = 2 and k.key = q.reference
     limit 1) named on true
  join lateral (
    select customer_id, doc, extras, source_id from customer
     where merchant_id = q.merchant_id and customer_id = coalesce(own.customer_id, named.stream_id) and not erased
     limit 1) c on true
"""


# Keep the order of the fields: `ledger restore` compares the stored rows with the log byte by byte, those of earlier
# releases too.
class CustomerDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The customer of an order, with its current data."""

    id: Annotated[UUID, Meta(description="The service's id of the customer.")]
    external_id: Annotated[str, Meta(description="The merchant's id of the customer.")]
    first_name: Annotated[str | None, Meta(description="Given name.")]
    last_name: Annotated[str | None, Meta(description="Family name.")]
    email: Annotated[str | None, Meta(description="E-mail address.")]
    phone_number: Annotated[str | None, Meta(description="Phone.")]
    active: Annotated[bool, Meta(description="False once the customer was removed.")]
    source_id: Annotated[UUID | None, Meta(description="The customer that this one was derived from.")]
    created_at: Moment
    updated_at: Moment


class NotificationPreferencesDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Which messages the customer wants, over which channels, and in which language."""

    email: Annotated[bool, Meta(description="Messages by e-mail.")]
    sms: Annotated[bool, Meta(description="Messages by SMS.")]
    whatsapp: Annotated[bool, Meta(description="Messages by WhatsApp.")]
    payment_reminders: Annotated[bool, Meta(description="Reminders before a due date.")]
    receipts: Annotated[bool, Meta(description="Receipts of payments.")]
    invoices: Annotated[bool, Meta(description="Invoices.")]
    language: Annotated[Literal["es", "en"], Meta(description="The language of messages.")]


class CustomerDetailDocument(CustomerDocument, frozen=True, kw_only=True, rename="camel"):
    """A customer."""

    fiscal_data: Annotated[
        FiscalData | None, Meta(description="The receiver of the customer's invoices; null where not given.")
    ]
    notification_preferences: NotificationPreferencesDocument
    metadata: Annotated[Raw | None, Meta(description="JSON, exactly as the merchant sent it.")]


class CustomerWithRelatedDocument(CustomerDetailDocument, frozen=True, kw_only=True, rename="camel"):
    """A customer, with the customers that `sourceId` connects with it."""

    related_customers: Annotated[
        list[CustomerDocument],
        Meta(description="The customers of the whole chain of `sourceId`, in both directions, without this one."),
    ]
    has_more_related_customers: Annotated[
        bool, Meta(description=f"True where more than {RELATED_SHOWN_MAX} are related: only so many are shown.")
    ]


class CustomerRow(Struct, frozen=True, gc=False):
    """A customer as it is stored. `is_related` is true if a chain of sourceId may lead to others."""

    customer_id: UUID
    doc: bytes
    extras: bytes | None
    is_related: bool

    def document(self, related: Sequence[bytes] = (), *, has_more: bool = False) -> bytes:
        """Returns the customer's whole document, with these documents of related customers."""
        return with_related(detail(self.doc, self.extras), related, has_more=has_more)


def with_related(detail: bytes, related: Sequence[bytes], *, has_more: bool) -> bytes:
    """Returns a customer's own document with these documents of related customers, in the order of the ids with which
    they begin.
    """
    shown = b",".join(sorted(related))
    more = b"true" if has_more else b"false"
    return b'%b,"relatedCustomers":[%b],"hasMoreRelatedCustomers":%b}' % (detail[:-1], shown, more)


def detail(doc: bytes, extras: bytes | None) -> bytes:
    """Returns a customer's own document from the one that orders contain."""
    if extras is None:
        return doc[:-1] + _PLAIN
    return doc[:-1] + (extras if extras.startswith(_FISCAL) else _NO_FISCAL + extras)


class _Preferred(Struct, rename="camel"):
    class Language(Struct):
        language: str

    notification_preferences: Language


_preferred: Final = msgspec.json.Decoder(_Preferred).decode


def language_of(detail: bytes) -> str:
    """Returns the language that a customer's own document states."""
    return _preferred(detail).notification_preferences.language


def render_detail(customer: Customer) -> bytes:
    """Returns the customer's own document."""
    return detail(render_customer(customer), render_extras(customer))


def render_extras(customer: Customer) -> bytes | None:
    """Returns the last members of a customer's own document, or None for those of most customers."""
    if customer.metadata is UNSET and customer.preferences == _DEFAULTS and customer.fiscal is None:
        return None
    extras = _extras(customer.preferences, customer.metadata)
    return extras if customer.fiscal is None else _FISCAL + _encode(customer.fiscal) + extras


def _extras(preferences: NotificationPreferences, metadata: Raw | UnsetType) -> bytes:
    content = b"null" if isinstance(metadata, UnsetType) else bytes(metadata)
    return b"".join((b',"notificationPreferences":', _encode(preferences), b',"metadata":', content, b"}"))


_DEFAULTS: Final = NotificationPreferences()
_FISCAL: Final = b',"fiscalData":'
_NO_FISCAL: Final = _FISCAL + b"null"
"""What stored members of a customer without fiscal data lack, as in rows of earlier releases."""
_PLAIN: Final = _NO_FISCAL + _extras(_DEFAULTS, UNSET)


def text_folded(customer: Customer) -> str | None:
    """Returns the text in which a search of customers looks, or None for an erased customer.

    Its fields are external id, full name, e-mail and phone.
    """
    if customer.erased:
        return None
    name = " ".join(filter(None, (customer.first_name, customer.last_name)))
    fields = (customer.external_id, name, customer.email or "", customer.phone_number or "")
    return fold(FIELD_END.join(fields))


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
        render_extras(customer),
        customer.erased,
        text(text_folded(customer)),
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


def find_by_reference_parameters(keys: Sequence[tuple[bytes, str]]) -> list[bytes]:
    """Returns the columns that FIND_BY_REFERENCE unnests, for keys of a merchant's id and a service id or external
    id.
    """
    ids = [parse_uuid(reference) for _, reference in keys]
    return [
        ENCODE_ARRAY["int4"](range(len(keys))),
        ENCODE_ARRAY["uuid"]([merchant_id for merchant_id, _ in keys]),
        ENCODE_ARRAY["uuid"]([None if customer_id is None else customer_id.bytes for customer_id in ids]),
        ENCODE_ARRAY["text"]([reference.encode() for _, reference in keys]),
    ]


def found_by_reference(row: Sequence[Any]) -> CustomerRow:
    """Returns the customer of a row of FIND_BY_REFERENCE."""
    return CustomerRow(*row[1:])
