"""The rows of products, with the document that is answered, and pages of them.

A page and its total are read by one statement, so that both show the same snapshot. A search compares the folded texts
of the merchant's products one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cache, partial
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from ledger.domain.money import shortest
from ledger.domain.orders.terms import Tax
from ledger.domain.products.state import Product
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from projections.binary import micros
from projections.formats import Moment, encode, metadata_or_null, moment, number_or_null
from projections.lists.cursor import Cursor
from projections.lists.paging import Pagination, cursor_behind, page_parameters, paginated
from projections.search.accents import patterns_of
from projections.search.lines import FIELD_END, fold, fold_search

# Writes the product's row as it is after the commit. Its id and the time of its creation never change.
_WRITE: Final = """
insert into product (merchant_id, product_id, version, id, status, created_at, folded, doc)
select merchant_id, product_id, version, id, status, created_at, folded, doc from {rows}
on conflict (merchant_id, product_id) do update set
  version = excluded.version, status = excluded.status, folded = excluded.folded, doc = excluded.doc
"""

TABLE: Final = InlineTable(
    "product",
    (
        ("merchant_id", "uuid"),
        ("product_id", "uuid"),
        ("version", "int4"),
        ("id", "text"),
        ("status", "text"),
        ("created_at", "timestamptz"),
        ("folded", "text"),
        ("doc", "bytea"),
    ),
    _WRITE,
    is_rare=True,
)

# The documents of products by the merchant's id. Each row begins with the number of the key that it answers.
FIND: Final = """
select q.n, p.doc
  from unnest(%s::int4[], %s::uuid[], %s::text[]) as q(n, merchant_id, id)
 cross join lateral (select doc from product where merchant_id = q.merchant_id and id = q.id limit 1) p
"""

_STATUS: Final = "and status = any(%(statuses)s::text[])"
_SEARCH: Final = "and folded ~ all(%(search)s::text[])"
_BEYOND: Final = "and (created_at, product_id) < (%(after_at)s, %(after_id)s)"

# One page, newest first, and the number of products on all pages.
_PAGE: Final = """
with counted as (select count(*) as total from product where merchant_id = %(merchant_id)s {filters})
select t.total, p.created_at, p.product_id, p.doc
  from counted t left join lateral (
    select created_at, product_id, doc from product where merchant_id = %(merchant_id)s {filters} {beyond}
     order by created_at desc, product_id desc offset %(offset)s limit %(limit)s) p on true
 order by p.created_at desc, p.product_id desc
"""


# Keep the order of the fields: `ledger restore` compares the stored rows with the log byte by byte, those of earlier
# releases too.
class ProductDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A product of the merchant's catalogue."""

    id: Annotated[str, Meta(description="The merchant's id of the product, or a generated one where it gave none.")]
    external_id: Annotated[str | None, Meta(description="An id of the product in another system.")]
    name: Annotated[str, Meta(description="Name of the product.")]
    description: Annotated[str | None, Meta(description="Free text.")]
    price: Annotated[Decimal, Meta(description="In minor units (cents).")]
    currency: Annotated[str | None, Meta(description="ISO 4217 code of the price.", examples=["MXN"])]
    status: Annotated[str, Meta(description="active, inactive, archived, or the merchant's own.", examples=["active"])]
    sku: Annotated[str | None, Meta(description="The merchant's stock number.")]
    product_key: Annotated[str | None, Meta(description="SAT c_ClaveProdServ.", examples=["50201706"])]
    unit_key: Annotated[str | None, Meta(description="SAT c_ClaveUnidad.", examples=["H87"])]
    unit_name: Annotated[str | None, Meta(description="Name of the unit.")]
    tax_included: Annotated[bool | None, Meta(description="Whether price contains the taxes; null where not given.")]
    taxes: Annotated[tuple[Tax, ...] | None, Meta(description="Taxes on the product; null where not given.")]
    category: Annotated[str | None, Meta(description="The merchant's category.")]
    image_url: Annotated[str | None, Meta(description="A web address.", examples=["https://example.com/1.jpg"])]
    stock: Annotated[Decimal | None, Meta(description="How many there are.")]
    metadata: Annotated[
        Annotated[Raw, Meta(extra_json_schema={"type": "object"})] | None,
        Meta(description="JSON object, as the merchant sent it."),
    ]
    attributes: Annotated[
        Raw,
        Meta(
            description="The fields of the product that are none of these, as they were sent.",
            extra_json_schema={"type": "object"},
        ),
    ]
    created_at: Annotated[Moment, Meta(description="The time of the first import.")]
    updated_at: Annotated[Moment, Meta(description="The time of the last import that changed the product.")]


class ProductPage(Struct, rename="camel"):
    """A page of the merchant's products, the newest first."""

    data: Annotated[list[ProductDocument], Meta(description="The products.")]
    pagination: Pagination


class ProductQuery(Struct, frozen=True, kw_only=True):
    """The filters of a list, and one page of it. No status means all; with a cursor, the page continues after it.

    Each word of `search` is matched literally and without regard to case and accents in id, name, sku and external id.
    """

    statuses: tuple[str, ...] = ()
    search: str | None = None
    limit: int = 20
    offset: int = 0
    cursor: Cursor | None = None


_decode: Final = msgspec.json.Decoder(ProductDocument).decode


def render_product(product: Product) -> bytes:
    """Returns the product's JSON object, as it is answered."""
    attributes = metadata_or_null(product.attributes)
    return encode(
        ProductDocument(
            id=product.id,
            external_id=product.external_id,
            name=product.name,
            description=product.description,
            price=shortest(product.price),
            currency=product.currency,
            status=product.status,
            sku=product.sku,
            product_key=product.product_key,
            unit_key=product.unit_key,
            unit_name=product.unit_name,
            tax_included=product.tax_included,
            taxes=product.taxes,
            category=product.category,
            image_url=product.image_url,
            stock=number_or_null(product.stock),
            metadata=metadata_or_null(product.metadata),
            attributes=Raw(b"{}") if attributes is None else attributes,
            created_at=moment(product.created_at),
            updated_at=moment(product.updated_at),
        )
    )


def row(merchant_id: UUID, version: int, product: Product) -> Row:
    """Returns the product's row at a version of its stream."""
    searched = (product.id, product.name, product.sku or "", product.external_id or "")
    return (
        merchant_id.bytes,
        product.product_id.bytes,
        version,
        product.id.encode(),
        product.status.encode(),
        micros(product.created_at),
        fold(FIELD_END.join(searched)).encode(),
        render_product(product),
    )


def find_parameters(keys: Sequence[tuple[bytes, str]]) -> list[bytes]:
    """Returns the columns that FIND unnests, for keys of a merchant's id, as bytes, and a product's."""
    return [
        ENCODE_ARRAY["int4"](range(len(keys))),
        ENCODE_ARRAY["uuid"]([merchant_id for merchant_id, _ in keys]),
        ENCODE_ARRAY["text"]([product_id.encode() for _, product_id in keys]),
    ]


def found(row: Sequence[Any]) -> bytes:
    """Returns the product's document from a row of FIND."""
    document: bytes = row[1]
    return document


def read_document(document: bytes) -> ProductDocument:
    """Returns the product that a stored document shows."""
    return _decode(document)


def page_statement(merchant_id: UUID, query: ProductQuery) -> tuple[str, dict[str, Any]]:
    """Returns the statement for a page and its parameters. It reads one product more than the page holds."""
    text = None if query.search is None else fold_search(query.search)
    parameters = page_parameters(merchant_id, query) | {
        "statuses": list(query.statuses),
        # null, for a search with control characters, matches no product
        "search": None if text is None else patterns_of(text),
    }
    return _statement(bool(query.statuses), query.search is not None, query.cursor is not None), parameters


@cache
def _statement(has_statuses: bool, has_search: bool, has_cursor: bool) -> str:
    filters = " ".join([_STATUS] * has_statuses + [_SEARCH] * has_search)
    return _PAGE.format(filters=filters, beyond=_BEYOND if has_cursor else "")


def page_body(query: ProductQuery, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Returns the JSON of a page from the rows of its statement."""
    shown, pagination = paginated(query, rows, partial(cursor_behind, query))
    documents: list[Any] = [Raw(document) for _, _, _, document in shown]
    return msgspec.json.encode(ProductPage(data=documents, pagination=pagination))
