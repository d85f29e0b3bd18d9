"""The orders and subscriptions of a merchant in sums, as they were at a time.

Orders without an event behind the position are summed by the database over their stored documents; the others are
folded. Nothing is counted in a commit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import Meta, Struct

from ledger.domain.money import shortest
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.subscriptions.state import Subscription
from ledger.postgres.connection import Connection
from projections.as_of.points import find_position
from projections.as_of.reports import FOLDED_MAX, ReportClient, too_large
from projections.events.states import StateReader
from projections.formats import Amount, Currency, Moment, encode, moment
from projections.subscriptions.subscriptions import SubscriptionStatusName

_SUMMED_MAX: Final = 200_000
_AT_ONCE: Final = 500
"""How many states are held at once."""

# The streams that have changed behind the position.
_BEHIND: Final = """
behind as materialized (
  select distinct stream_id from event where merchant_id = %(merchant_id)s and position > %(position)s)
"""
# Whether a stream existed at the position.
_EXISTED: Final = """
exists (select from event where merchant_id = %(merchant_id)s and stream_id = b.stream_id and version = 1
         and position <= %(position)s)
"""

# The orders that are to be folded: those that have changed, and those in flight, which have no stored document.
_ORDERS_TO_FOLD: Final = f"""
with {_BEHIND}
select b.stream_id from behind b join payment_order o on o.merchant_id = %(merchant_id)s and o.order_id = b.stream_id
 where {_EXISTED}
union all
select o.order_id from payment_order o
 where o.merchant_id = %(merchant_id)s and o.call_deadline_at is not null
   and o.order_id not in (select stream_id from behind)
 limit %(limit)s
"""  # noqa: S608 - constants

# All other orders that existed at the position: those of which every event is behind it are among those that changed.
_UNCHANGED: Final = """
  o.merchant_id = %(merchant_id)s and o.call_deadline_at is null and o.order_id not in (select stream_id from behind)
"""
# How many there are, up to a limit, and their sums.
_ORDERS: Final = f"""
with {_BEHIND}
select count(*) from (select from payment_order o where {_UNCHANGED} limit %(limit)s) o
"""  # noqa: S608 - constants
_SUMS: Final = f"""
with {_BEHIND}
select d.doc ->> 'currency', o.status, count(*), sum((d.doc ->> 'amount')::numeric),
       sum((d.doc ->> 'amountPaid')::numeric), sum((d.doc ->> 'amountRefunded')::numeric),
       sum((d.doc ->> 'amountPending')::numeric)
  from payment_order o cross join lateral (select convert_from(o.head, 'UTF8')::jsonb as doc offset 0) d
 where {_UNCHANGED}
 group by 1, 2
"""  # noqa: S608 - constants

# The subscriptions that are to be folded, and the numbers of all others by status.
_SUBSCRIPTIONS_TO_FOLD: Final = f"""
with {_BEHIND}
select b.stream_id from behind b
  join subscription s on s.merchant_id = %(merchant_id)s and s.subscription_id = b.stream_id
 where {_EXISTED}
 limit %(limit)s
"""  # noqa: S608 - constants
_SUBSCRIPTIONS: Final = f"""
with {_BEHIND}
select status, count(*) from subscription
 where merchant_id = %(merchant_id)s and subscription_id not in (select stream_id from behind) group by status
"""  # noqa: S608 - constants


class OrderSums(Struct, frozen=True, kw_only=True, rename="camel"):
    """The orders of one currency in one status."""

    currency: Currency
    status: Annotated[OrderStatus, Meta(description="The status.")]
    orders: Annotated[int, Meta(description="How many there are.")]
    amount: Annotated[Amount, Meta(description="The sum of `amount`, in minor units (cents).")]
    amount_paid: Annotated[Amount, Meta(description="The sum of `amountPaid`, in minor units (cents).")]
    amount_refunded: Annotated[Amount, Meta(description="The sum of `amountRefunded`, in minor units (cents).")]
    amount_pending: Annotated[Amount, Meta(description="The sum of `amountPending`, in minor units (cents).")]


class SubscriptionCount(Struct, frozen=True, kw_only=True, rename="camel"):
    """The subscriptions in one status."""

    status: Annotated[SubscriptionStatusName, Meta(description="The status.")]
    subscriptions: Annotated[int, Meta(description="How many there are.")]


class SummaryDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """The merchant's orders and subscriptions at a time."""

    as_of: Annotated[Moment, Meta(description="The time.")]
    position: Annotated[int, Meta(description="The position in the merchant's log up to which events are included.")]
    orders: Annotated[list[OrderSums], Meta(description="A line for each currency and status with orders.")]
    subscriptions: Annotated[list[SubscriptionCount], Meta(description="A line for each status with subscriptions.")]


class SummaryReader:
    """Reads the summaries of all merchants, one at a time."""

    def __init__(self, reports: ReportClient, states: StateReader) -> None:
        self._reports, self._states = reports, states

    async def summary(self, merchant_id: UUID, as_of: datetime | None, now: datetime) -> bytes:
        """Returns the summary as of a time as JSON, that of the present for None. `now` is by the merchant's clock.

        Raises ReportTooLarge, and like `LogReader.opened`.
        """

        async def read(connection: Connection) -> SummaryDocument:
            point = await find_position(connection, merchant_id, as_of, now)
            values = {"merchant_id": merchant_id, "position": point.position}
            orders = await self._orders(connection, merchant_id, values)
            subscriptions = await self._subscriptions(connection, merchant_id, values)
            at, position = moment(point.as_of), point.position
            return SummaryDocument(as_of=at, position=position, orders=orders, subscriptions=subscriptions)

        return encode(await self._reports.read(merchant_id, read))

    async def _orders(self, connection: Connection, merchant_id: UUID, values: dict[str, Any]) -> list[OrderSums]:
        to_fold = await _rows(connection, _ORDERS_TO_FOLD, values | {"limit": FOLDED_MAX + 1})
        if len(to_fold) > FOLDED_MAX:
            raise too_large("summary", f"more than {FOLDED_MAX} orders have changed since", len(to_fold))
        ((number,),) = await _rows(connection, _ORDERS, values | {"limit": _SUMMED_MAX + 1})
        if number > _SUMMED_MAX:
            raise too_large("summary", f"the merchant had more than {_SUMMED_MAX} orders then", number)
        sums: dict[tuple[str, str], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 5)
        for currency, status, *added in await _rows(connection, _SUMS, values):
            _add(sums[currency, status], added)
        for ids in _pieces(to_fold):
            points = [(order_id, values["position"]) for order_id in ids]
            order: Order
            for order in (await self._states.states(connection, merchant_id, points)).values():
                added = [1, order.amount, order.amount_paid, order.amount_refunded, order.amount_pending]
                _add(sums[order.terms.currency, order.status.value], added)
        return [
            OrderSums(
                currency=currency,
                status=OrderStatus(status),
                orders=int(number),
                amount=shortest(amount),
                amount_paid=shortest(paid),
                amount_refunded=shortest(refunded),
                amount_pending=shortest(pending),
            )
            for (currency, status), (number, amount, paid, refunded, pending) in sorted(sums.items())
        ]

    async def _subscriptions(
        self, connection: Connection, merchant_id: UUID, values: dict[str, Any]
    ) -> list[SubscriptionCount]:
        to_fold = await _rows(connection, _SUBSCRIPTIONS_TO_FOLD, values | {"limit": FOLDED_MAX + 1})
        if len(to_fold) > FOLDED_MAX:
            raise too_large("summary", f"more than {FOLDED_MAX} subscriptions have changed since", len(to_fold))
        numbers: Counter[str] = Counter(dict(await _rows(connection, _SUBSCRIPTIONS, values)))
        for ids in _pieces(to_fold):
            points = [(subscription_id, values["position"]) for subscription_id in ids]
            subscription: Subscription
            for subscription in (await self._states.states(connection, merchant_id, points)).values():
                if subscription.status is not None:
                    numbers[subscription.status.value] += 1
        return [SubscriptionCount(status=status, subscriptions=n) for status, n in sorted(numbers.items())]  # type: ignore[arg-type] # the rows have these statuses alone


def _add(sums: list[Decimal], added: Sequence[Any]) -> None:
    for n, value in enumerate(added):
        sums[n] += value


def _pieces(rows: Sequence[tuple[UUID]]) -> Iterator[list[UUID]]:
    for n in range(0, len(rows), _AT_ONCE):
        yield [stream_id for (stream_id,) in rows[n : n + _AT_ONCE]]


async def _rows(connection: Connection, statement: str, values: dict[str, Any]) -> list[Any]:
    cursor = await connection.execute(statement, values, binary=True)
    return await cursor.fetchall()
