"""A page of a merchant's customers: the query, its statement, and the JSON of the answer.

Customers come in the order of their service ids, which is the order of creation, the newest first. Without filters the
total is the merchant's counter; with filters, what they find is counted by the statement that reads the page. Never put
a client's value into the text of a statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from projections.customers import CustomerDetailDocument, detail
from projections.lists.cursor import AnyCursor, CursorCodec, list_hash
from projections.lists.paging import Pagination, paginated
from projections.search.accents import patterns_of
from projections.search.lines import fold, fold_search

# The filters. The claim is that of an external id (kind 2 is ClaimKind.CUSTOMER_EXTERNAL_ID).
_WITH_EMAIL: Final = "and email_folded = %(email)s"
_WITH_EXTERNAL_ID: Final = """and customer_id = (
     select stream_id from claim where merchant_id = %(merchant_id)s and kind = 2 and key = %(external_id)s)"""
_WITH_TEXT: Final = "and text_folded ~ all(%(text)s::text[])"
_NOTHING: Final = "and false"
_BEYOND: Final = "and customer_id < %(after)s"

# All customers: the total from the counter, and the ids of the page from the index alone.
_COUNTED: Final = """
with counted as (
  select coalesce((select n from customer_count where merchant_id = %(merchant_id)s), 0)::int8 as total)"""
_PLACES: Final = "select customer_id from customer where merchant_id = %(merchant_id)s and not erased {beyond}"

# The customers that the filters find, how many they are, and the ids of the page among them.
_FOUND: Final = """
with found as materialized (
  select customer_id from customer where merchant_id = %(merchant_id)s and not erased {filters}),
counted as (select count(*) as total from found)"""
_FOUND_PLACES: Final = "select customer_id from found where true {beyond}"

# The rows of a page, after its total.
_PAGE: Final = """
select t.total, p.customer_id, p.doc, p.extras
  from counted t left join lateral (
    select k.customer_id, c.doc, c.extras
      from ({places} order by customer_id desc offset %(offset)s limit %(limit)s) k
      join lateral (select doc, extras from customer
                     where merchant_id = %(merchant_id)s and customer_id = k.customer_id limit 1) c on true) p on true
 order by p.customer_id desc
"""


class CustomerCursor(AnyCursor, frozen=True):
    """The end of a page: its last customer, and the number of customers up to and including that one."""

    customer_id: UUID
    behind: int


CUSTOMER_CURSORS: Final = CursorCodec(CustomerCursor, behind="q", customer_id="16s")


class CustomerQuery(Struct, frozen=True, kw_only=True):
    """The filters of a list of customers, and one page of it.

    `email` is compared without regard to case; each word of `search` is matched literally, without regard to case and
    accents. With a cursor the page continues after it, and `offset` is ignored.
    """

    email: str | None = None
    external_id: str | None = None
    search: str | None = None
    limit: int = 20
    offset: int = 0
    cursor: CustomerCursor | None = None


class CustomerPage(Struct, rename="camel"):
    """A page of the merchant's customers, the newest first."""

    data: Annotated[list[CustomerDetailDocument], Meta(description="The customers.")]
    pagination: Pagination


def customer_page_statement(merchant_id: UUID, query: CustomerQuery) -> tuple[str, dict[str, Any]]:
    """Returns the statement of a page and its parameters. It reads one customer more than the page holds."""
    cursor, text = query.cursor, None if query.search is None else fold_search(query.search)
    parameters = {
        "merchant_id": merchant_id,
        "email": None if query.email is None else fold(query.email),
        "external_id": query.external_id,
        "text": None if text is None else patterns_of(text),
        "after": None if cursor is None else cursor.customer_id,
        "offset": query.offset if cursor is None else 0,
        "limit": query.limit + 1,
    }
    filters = [
        condition
        for condition, value in (
            (_WITH_EMAIL, query.email),
            (_WITH_EXTERNAL_ID, query.external_id),
            (_WITH_TEXT if text is not None else _NOTHING, query.search),
        )
        if value is not None
    ]
    if any("\0" in value for value in (query.email, query.external_id) if value is not None):
        filters, parameters = [_NOTHING], parameters | {"email": None, "external_id": None}
    beyond = "" if cursor is None else _BEYOND
    if not filters:
        return _COUNTED + _PAGE.format(places=_PLACES.format(beyond=beyond)), parameters
    found = _FOUND.format(filters="\n   ".join(filters))
    return found + _PAGE.format(places=_FOUND_PLACES.format(beyond=beyond)), parameters


def customer_page_body(query: CustomerQuery, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Returns the JSON of a page from the rows of its statement."""
    shown, pagination = paginated(query, rows, partial(_cursor_behind, query))
    documents: list[Any] = [Raw(detail(doc, extras)) for _, _, doc, extras in shown]
    return msgspec.json.encode(CustomerPage(data=documents, pagination=pagination))


def _cursor_behind(query: CustomerQuery, row: tuple[Any, ...], behind: int) -> str:
    return CUSTOMER_CURSORS.encode(CustomerCursor(row[1], behind, list_hash=list_hash(query)))
