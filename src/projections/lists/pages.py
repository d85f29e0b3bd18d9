"""A page of a merchant's orders: the query, and the JSON of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.terms import MethodType
from projections.lists.cursor import Cursor
from projections.lists.paging import Pagination, cursor_behind, paginated
from projections.orders.documents import OrderDocument, document, is_overdue


class OrderQuery(Struct, frozen=True, kw_only=True):
    """The filters of a list, and one page of it.

    No status means all. `customer` is a service id or an external id; `related` adds the customers that a chain of
    sourceId connects with it. `exclude_overdue` leaves out every order whose due date has passed, whatever its status.
    `search` is matched literally and without regard to case. `email` is the customer's present one, in any case;
    `methods` and `last4` are of any payment. The amounts, in minor units with the surcharge, are inclusive, and so are
    the dates, to the millisecond that `createdAt` shows. With a cursor, the page continues after it in the cursor's
    direction; `ascending` and `offset` are ignored.

    `as_of` asks for the list of a time; None is the present.
    """

    statuses: tuple[OrderStatus, ...] = ()
    customer: str | None = None
    related: bool = False
    exclude_overdue: bool = False
    search: str | None = None
    external_id: str | None = None
    email: str | None = None
    currency: str | None = None
    amount_min: Decimal | None = None
    amount_max: Decimal | None = None
    methods: tuple[MethodType, ...] = ()
    last4: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    ascending: bool = False
    limit: int = 20
    offset: int = 0
    cursor: Cursor | None = None
    as_of: datetime | None = None

    @property
    def has_columns(self) -> bool:
        """Whether a filter reads columns that only rows of this release have."""
        terms = (self.currency, self.amount_min, self.amount_max, self.last4)
        return bool(self.methods) or any(term is not None for term in terms)

    @property
    def is_of_fixed_fields(self) -> bool:
        """Whether every filter is by what no event changes: what an order was created with, and its customer."""
        terms = (self.amount_min, self.amount_max, self.last4)
        is_by_state = self.statuses or self.methods or self.exclude_overdue
        return not is_by_state and all(term is None for term in terms)

    def of_fixed_fields(self) -> OrderQuery:
        """Returns the query with those filters alone."""
        return replace(
            self, statuses=(), methods=(), exclude_overdue=False, amount_min=None, amount_max=None, last4=None
        )


class OrderPage(Struct, rename="camel"):
    """A page of the merchant's orders, by default the newest first."""

    data: Annotated[list[OrderDocument], Meta(description="The orders, without their payments.")]
    pagination: Pagination


def page_body(query: OrderQuery, rows: Sequence[tuple[Any, ...]], now: datetime) -> bytes:
    """Returns the JSON of a page from the rows of its statement, with heads. `now` is by the merchant's clock."""
    shown, pagination = paginated(
        query, rows, lambda row, behind: cursor_behind(query, row, behind, is_ascending(query), query.as_of)
    )
    documents: list[Any] = [
        Raw(document(head, customer, None, is_overdue(status, due_at, now)))
        for _, _, _, _, status, due_at, head, customer in shown
    ]
    return msgspec.json.encode(OrderPage(data=documents, pagination=pagination))


def is_ascending(query: OrderQuery) -> bool:
    """Returns the direction of a list. A cursor continues in its own direction."""
    return query.ascending if query.cursor is None else query.cursor.ascending
