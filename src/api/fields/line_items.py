"""The lines of an order, and that they add up to it.

The rule a stranger would break: the sum is made of exact decimals. With floats, 3 × 0.1 would miss the tolerance on
honest orders and a large cart would hide a wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from api.fields.values import amount, is_given, measure, metadata
from api.http.errors import ApiError, invalid, required
from api.orders import order_schemas as sent
from ledger.domain.money import ZERO
from ledger.domain.orders.terms import LineItem, Tax

_TOLERANCE: Final = Decimal("0.001")


def line_items(items: Sequence[sent.LineItem] | None, total: Decimal) -> tuple[LineItem, ...]:
    """The lines; without any there is nothing to add up. `total` is the order's subtotal (contract N5)."""
    if not items:
        return ()
    lines = []
    for at, item in enumerate(items):
        try:
            lines.append(_line(item))
        except ApiError as refusal:
            raise refusal.within(f"lineItems[{at}]") from None
    added = sum([line.quantity * line.unit_price for line in lines], ZERO)
    if abs(added - total) > _TOLERANCE:
        raise invalid("lineItems", "must add up to amount: the sum of quantity × unitPrice differs", "LINE_ITEMS_SUM")
    return tuple(lines)


def _line(item: sent.LineItem) -> LineItem:
    description = item.description or item.name
    if not description:
        raise required("description")
    quantity = measure(item.quantity, "quantity")
    if not quantity:
        raise invalid("quantity", "must be greater than 0", "OUT_OF_RANGE")
    return LineItem(
        description=description,
        quantity=quantity,
        unit_price=amount(item.unit_price, "unitPrice"),
        name=item.name,
        sku=item.sku,
        product_id=item.product_id,
        product_key=item.product_key,
        unit_key=item.unit_key,
        unit_name=item.unit_name,
        discount=amount(item.discount, "discount") if is_given(item.discount) else None,
        tax_included=item.tax_included is not False,
        taxes=_taxes(item.taxes),
        metadata=metadata(item.metadata),
    )


def _taxes(taxes: Sequence[sent.Tax] | None) -> tuple[Tax, ...]:
    drafted = []
    for at, tax in enumerate(taxes or ()):
        try:
            drafted.append(_tax(tax))
        except ApiError as refusal:
            raise refusal.within(f"taxes[{at}]") from None
    return tuple(drafted)


def _tax(tax: sent.Tax) -> Tax:
    exempt = tax.factor == "Exento" and not is_given(tax.rate)
    return Tax(
        type=tax.type,
        rate=ZERO if exempt else measure(tax.rate, "rate"),
        factor=tax.factor or "Tasa",
        withholding=bool(tax.withholding),
    )
