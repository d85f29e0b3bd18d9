"""The documents of refunds: the requested amount, and the part of it that each payment gives back.

The subtotal and surcharge of a part depend on the earlier refunds of its payment (section 4.4). They are calculated
here in the same way as in the order, and are not stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from ledger.domain.ids import entry_id
from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.refund import Refund, RefundPart, RefundStatus
from ledger.domain.orders.state import Order
from ledger.domain.orders.surcharge import SurchargeSplit
from ledger.domain.orders.terms import DestinationType
from projections.formats import Amount, Currency, Moment, encode, moment, moment_or_null

_SHOWN: Final = 4
"""How many digits of an account are shown."""


class RefundDestinationDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Where the money of a payout goes."""

    type: Annotated[
        DestinationType,
        Meta(
            description="ACCOUNT: the account that the merchant named. PAYING_ACCOUNT: the one that paid. MANUAL: the "
            "merchant pays it out, and confirms it."
        ),
    ]
    clabe: Annotated[
        str | None,
        Meta(description="The account, with all digits but the last four as stars.", examples=["**************9719"]),
    ]
    account_holder: Annotated[
        str | None, Meta(description="The holder of the account; null where no request named one.")
    ]


class AllocationDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The part of a refund that one payment gives back."""

    payment_id: Annotated[UUID, Meta(description="The payment.")]
    payment_event_id: Annotated[
        UUID, Meta(description="The id of the refund's entry in the payment's `paymentEvents`.")
    ]
    amount: Amount
    subtotal_amount: Annotated[
        Amount, Meta(description="The part of the amount without surcharge, in minor units (cents).")
    ]
    surcharge_amount: Annotated[
        Amount, Meta(description="The part of the amount that is surcharge, in minor units (cents).")
    ]
    status: RefundStatus
    destination: Annotated[
        RefundDestinationDocument | None, Meta(description="Where a payout goes; null for a refund to a card.")
    ]


class RefundDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A refund of an order. Amounts include the surcharge, except subtotalAmount."""

    id: Annotated[UUID, Meta(description="The service's id of the refund.")]
    payment_order_id: Annotated[UUID, Meta(description="The order.")]
    amount: Annotated[Amount, Meta(description="The requested amount, in minor units (cents).")]
    subtotal_amount: Annotated[
        Amount, Meta(description="The part of the amount without surcharge, in minor units (cents).")
    ]
    surcharge_amount: Annotated[
        Amount, Meta(description="The part of the amount that is surcharge, in minor units (cents).")
    ]
    currency: Currency
    reason: Annotated[str, Meta(description="The reason, in the merchant's words.")]
    status: Annotated[
        RefundStatus, Meta(description="PENDING while a part is pending; afterwards FAILED where a part failed.")
    ]
    external_id: Annotated[str | None, Meta(description="The merchant's id of the refund.")]
    destination: Annotated[
        RefundDestinationDocument | None,
        Meta(
            description="Where the payouts go; null for a refund to a card, and where they go to different accounts: "
            "see `allocations`."
        ),
    ]
    paid_at: Annotated[
        Moment | None, Meta(description="When the merchant paid it out, as it has confirmed; null for others.")
    ]
    payout_reference: Annotated[
        str | None, Meta(description="The merchant's own reference of that payment, as it has confirmed it.")
    ]
    allocations: Annotated[list[AllocationDocument], Meta(description="The part that each payment gives back.")]
    created_at: Moment


def render_refund(order: Order, refund: Refund) -> bytes:
    """Returns one refund of the order as a JSON object."""
    return encode(_refund(order, refund))


def render_refunds(order: Order) -> list[bytes]:
    """Returns all refunds of the order, oldest first, each as a JSON object."""
    return [render_refund(order, refund) for refund in order.refunds]


def _refund(order: Order, refund: Refund) -> RefundDocument:
    allocations = [_allocation(order, part) for part in refund.parts]
    destinations = {each.destination for each in allocations if each.destination is not None}
    confirmed = [part for part in refund.parts if part.paid_at is not None]
    return RefundDocument(
        id=refund.refund_id,
        payment_order_id=order.terms.order_id,
        amount=shortest(refund.amount),
        subtotal_amount=_sum([each.subtotal_amount for each in allocations]),
        surcharge_amount=_sum([each.surcharge_amount for each in allocations]),
        currency=order.terms.currency,
        reason=refund.reason,
        status=refund.status,
        external_id=refund.external_id,
        destination=destinations.pop() if len(destinations) == 1 else None,
        paid_at=moment_or_null(next((part.paid_at for part in confirmed), None)),
        payout_reference=next((part.payout_reference for part in confirmed), None),
        allocations=allocations,
        created_at=moment(refund.at),
    )


def _allocation(order: Order, part: RefundPart) -> AllocationDocument:
    split = _split(order, part)
    return AllocationDocument(
        payment_id=part.payment_id,
        payment_event_id=entry_id(part.payment_id, part.ordinal),
        amount=shortest(part.amount),
        subtotal_amount=shortest(split.subtotal),
        surcharge_amount=shortest(split.surcharge),
        status=part.status,
        destination=_destination(part),
    )


def _destination(part: RefundPart) -> RefundDestinationDocument | None:
    if part.destination_type is None:
        return None
    to = part.destination
    return RefundDestinationDocument(
        type=part.destination_type,
        clabe=None if to is None else "*" * (len(to.clabe) - _SHOWN) + to.clabe[-_SHOWN:],
        account_holder=None if to is None else to.account_holder,
    )


def _split(order: Order, part: RefundPart) -> SurchargeSplit:
    """Returns the amounts that this refund adds to the refunded subtotal and surcharge of its payment."""
    payment = order.payment(part.payment_id)
    before = payment.parts_of_refund(part.before, order.quantum)
    after = payment.parts_of_refund(part.before + part.amount, order.quantum)
    return SurchargeSplit(after.subtotal - before.subtotal, after.surcharge - before.surcharge)


def _sum(amounts: Sequence[Decimal]) -> Decimal:
    return shortest(sum(amounts, ZERO))
