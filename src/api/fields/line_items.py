"""The lines of an order: their shape, and the check that they add up to the order's amount.

Add exact decimals. With floats, 3 × 0.1 would miss the tolerance on honest orders, and a large cart would hide a wrong
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from api.fields.types import LINE_ITEMS_MAX, TAXES_MAX, LongText, Metadata, Number, PositiveNumber, Text
from api.fields.values import amount, is_given, measure, metadata
from api.http.errors import ApiError, invalid, required
from ledger.domain.money import ZERO
from ledger.domain.orders import terms

_TOLERANCE: Final = Decimal("0.001")


class Tax(Struct, frozen=True, kw_only=True, rename="camel"):
    """A tax on a line item."""

    type: Annotated[Literal["IVA", "ISR", "IEPS"], Meta(description="The tax.")]
    rate: Annotated[
        Number | UnsetType,
        Meta(description="As a fraction, up to six decimals. Required unless factor is Exento.", examples=[0.16]),
    ] = UNSET
    factor: Annotated[
        Literal["Tasa", "Cuota", "Exento"] | None, Meta(description="SAT c_TipoFactor; Tasa where absent.")
    ] = None
    withholding: Annotated[bool | None, Meta(description="True for a tax that the payer withholds.")] = None


class LineItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of the order. The sum of quantity × unitPrice over all lines is the order's amount, within 0.001."""

    description: Annotated[LongText | None, Meta(description="What is sold. Required unless name is given.")] = None
    name: Annotated[
        Text | None, Meta(description="Name of the product; used as the description where that is absent.")
    ] = None
    quantity: Annotated[
        PositiveNumber | UnsetType, Meta(description="Required. May be a fraction, up to six decimals.", examples=[2])
    ] = UNSET
    unit_price: Annotated[
        Number | UnsetType, Meta(description="Required. Price of one, in minor units (cents).", examples=[75000])
    ] = UNSET
    sku: Annotated[Text | None, Meta(description="The merchant's stock number.")] = None
    product_id: Annotated[Text | None, Meta(description="Id of the product.")] = None
    product_key: Annotated[Text | None, Meta(description="SAT c_ClaveProdServ.", examples=["50201706"])] = None
    unit_key: Annotated[Text | None, Meta(description="SAT c_ClaveUnidad.", examples=["H87"])] = None
    unit_name: Annotated[Text | None, Meta(description="Name of the unit.")] = None
    discount: Annotated[Number | UnsetType, Meta(description="Discount on the line, in minor units (cents).")] = UNSET
    tax_included: Annotated[bool | None, Meta(description="Whether unitPrice contains the taxes; default true.")] = None
    taxes: Annotated[
        Annotated[list[Tax], Meta(max_length=TAXES_MAX)] | None, Meta(description="Taxes on the line.")
    ] = None
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object.")] = UNSET


LineItems = Annotated[list[LineItem], Meta(max_length=LINE_ITEMS_MAX)]


def line_items(items: Sequence[LineItem] | None, total: Decimal) -> tuple[terms.LineItem, ...]:
    """Returns the lines, whose quantity × unitPrice must add up to `total`, the order's subtotal (contract N5).

    Without lines nothing is added up. Raises ApiError (400).
    """
    if not items:
        return ()
    lines = []
    for at, item in enumerate(items):
        try:
            lines.append(_line(item))
        except ApiError as error:
            raise error.within(f"lineItems[{at}]") from None
    added = sum([line.quantity * line.unit_price for line in lines], ZERO)
    if abs(added - total) > _TOLERANCE:
        raise invalid("lineItems", "must add up to amount: the sum of quantity × unitPrice differs", "LINE_ITEMS_SUM")
    return tuple(lines)


def _line(item: LineItem) -> terms.LineItem:
    description = item.description or item.name
    if not description:
        raise required("description")
    quantity = measure(item.quantity, "quantity")
    if not quantity:
        raise invalid("quantity", "must be greater than 0", "OUT_OF_RANGE")
    return terms.LineItem(
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


def _taxes(taxes: Sequence[Tax] | None) -> tuple[terms.Tax, ...]:
    parsed = []
    for at, tax in enumerate(taxes or ()):
        try:
            parsed.append(_tax(tax))
        except ApiError as error:
            raise error.within(f"taxes[{at}]") from None
    return tuple(parsed)


def _tax(tax: Tax) -> terms.Tax:
    exempt = tax.factor == "Exento" and not is_given(tax.rate)
    return terms.Tax(
        type=tax.type,
        rate=ZERO if exempt else measure(tax.rate, "rate"),
        factor=tax.factor or "Tasa",
        withholding=bool(tax.withholding),
    )
