"""Which orders a global invoice states, and how: one concept for an order, or for each combination of its taxes.

SAT's guide to the global CFDI fixes the keys: 01010101 (not in the catalogue), ACT, "Venta", and the number of the
order as NoIdentificacion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.invoices.concepts import UNKNOWN_PRODUCT, concepts_of
from ledger.domain.invoices.documents import payment_form
from ledger.domain.invoices.paid_in_full import paid_in_full_at
from ledger.domain.invoices.parts import key_of, signed_sum, summed
from ledger.domain.invoices.receivers import NO_EFFECT, NO_OBLIGATIONS, PUBLIC_NAME
from ledger.domain.money import ZERO, is_multiple
from ledger.domain.orders.invoices.terms import (
    FEE,
    PUBLIC_IN_GENERAL,
    Concept,
    GlobalPeriod,
    InvoiceTerms,
    Issuer,
    Receiver,
)
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.terms import LineItem, Tax
from ledger.domain.rejections import AmountNotStampable

_CURRENCY: Final = "MXN"
_SALE: Final = "Venta"
_ACTIVITY: Final = "ACT"
_CENTAVO: Final = Decimal(1)


class StatedOrder(Struct, frozen=True):
    """An order that a global invoice is to state: the subtotal that it holds, and its concepts. All in minor units."""

    order: Order
    amount: Decimal
    concepts: tuple[Concept, ...]


def held_subtotal(order: Order) -> Decimal:
    """Returns the subtotal that an order holds: captured less refunded, lost disputes included, without surcharge, at
    most what was asked.
    """
    return order.terms.amount - order.unpaid_subtotal


def is_unstated(order: Order, begin: datetime, end: datetime) -> bool:
    """Returns whether a global invoice of a period has to state an order: it was paid in full in it, or finished by a
    release, in pesos, holds money, and has neither fiscal data nor a global invoice. One whose refund is on its way
    waits.
    """
    if order.terms.currency != _CURRENCY or order.is_fiscal or order.global_invoice_id is not None:
        return False
    if order.closed or order.cancel_requested or order.status is OrderStatus.REFUND_PROCESSING:
        return False
    paid_at = paid_in_full_at(order)
    return paid_at is not None and begin <= paid_at < end and held_subtotal(order) > 0


def stated(order: Order, issuer: Issuer) -> StatedOrder | None:
    """Returns an order as a global invoice states it; None if no invoice can state its amount."""
    amount = held_subtotal(order)
    if not is_multiple(amount, _CENTAVO):
        return None
    try:
        concepts = _concepts(order, int(amount), issuer)
    except AmountNotStampable:
        return None
    return StatedOrder(order, amount, concepts)


def global_terms(
    orders: Sequence[StatedOrder],
    *,
    document_id: UUID,
    folio: str,
    issued_at: datetime,
    issuer: Issuer,
    series: str | None,
    period: GlobalPeriod,
) -> InvoiceTerms:
    """Returns the terms of the global invoice of these orders, with the payment form that brought most of the money."""
    concepts = tuple(concept for each in orders for concept in each.concepts)
    return InvoiceTerms(
        document_id=document_id,
        series=issuer.series if series is None else series,
        folio=folio,
        issued_at=issued_at,
        currency=_CURRENCY,
        payment_method="PUE",
        payment_form=_main_form(orders),
        receiver=Receiver(
            tax_id=PUBLIC_IN_GENERAL,
            legal_name=PUBLIC_NAME,
            tax_system=NO_OBLIGATIONS,
            cfdi_use=NO_EFFECT,
            zip_code=issuer.zip_code,
        ),
        concepts=concepts,
        subtotal=sum((concept.amount for concept in concepts), ZERO),
        taxes=summed(tax for concept in concepts for tax in concept.taxes),
        total=sum((each.amount for each in orders), ZERO),
        period=period,
        replaces_all=_replaced(orders),
    )


def _concepts(order: Order, amount: int, issuer: Issuer) -> tuple[Concept, ...]:
    """Returns the concepts of an order, whose sum is exactly `amount`. Raises AmountNotStampable."""
    sold = concepts_of(order.terms.line_items, amount, None, issuer)
    if any(tax.factor == FEE for concept in sold for tax in concept.taxes):
        return tuple(_stated(order, concept) for concept in sold)  # a quota taxes quantities, which do not add up
    groups: dict[tuple[Tax, ...], Decimal] = defaultdict(Decimal)
    for concept in sold:
        rules = tuple(
            Tax(type=kind, factor=factor, rate=rate, withholding=withheld)
            for kind, factor, rate, withheld in map(key_of, concept.taxes)
        )
        groups[rules] += concept.amount - concept.discount + signed_sum(concept.taxes)
    return tuple(
        _stated(order, concept)
        for rules, total in groups.items()
        for concept in concepts_of((_line(rules, total),), int(total), None, replace(issuer, iva_rate=None))
    )


def _line(rules: tuple[Tax, ...], total: Decimal) -> LineItem:
    return LineItem(description=_SALE, quantity=Decimal(1), unit_price=total, tax_included=True, taxes=rules)


def _stated(order: Order, concept: Concept) -> Concept:
    """Returns a concept of an order with the keys of a global invoice. A discount is in the amount already."""
    net = concept.amount - concept.discount
    return replace(
        concept,
        description=_SALE,
        quantity=Decimal(1),
        unit_price=net,
        amount=net,
        discount=ZERO,
        product_key=UNKNOWN_PRODUCT,
        unit_key=_ACTIVITY,
        unit_name=None,
        sku=order.terms.order_number,
    )


def _replaced(orders: Sequence[StatedOrder]) -> tuple[UUID, ...]:
    """Returns the fiscal UUIDs of the cancelled global invoices that stated some of these orders."""
    return tuple(sorted({found for each in orders if (found := each.order.cancelled_global_uuid) is not None}))


def _main_form(orders: Sequence[StatedOrder]) -> str:
    """Returns the form of payment of the most money (SAT's guide, node FormaPago)."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for each in orders:
        for payment in each.order.payments:
            method = payment.started.method
            form = payment_form(method.type, None if method.card is None else method.card.type)
            sums[form] += payment.captured - payment.refunded
    return max(sorted(sums), key=lambda form: sums[form])
