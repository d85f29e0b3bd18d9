"""The lines of an order: their shape, and the check that they add up to the order's amount.

Add exact decimals. With floats, 3 × 0.1 would miss the tolerance on honest orders, and a large cart would hide a wrong
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from api.decoding.field_errors import FieldErrors
from api.decoding.field_warnings import WarningCode, warn
from api.decoding.types import LINE_ITEMS_MAX, TAXES_MAX, LongText, Metadata, Number, PositiveNumber, Text
from api.errors import ApiError, invalid, required
from api.fields.metadata import metadata
from api.fields.values import amount, is_given, measure
from ledger.domain.money import ZERO
from ledger.domain.orders import terms
from ledger.invoicing.line_keys import are_in_catalogs, wrong_keys, wrong_taxes
from projections.products import ProductDocument

_TOLERANCE: Final = Decimal("0.001")
_NAMES: Final = ("description", "name", "productId")


class Tax(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A tax on a line item."""

    type: Annotated[Literal["IVA", "ISR", "IEPS"], Meta(description="The tax.")]
    rate: Annotated[
        Number | UnsetType,
        Meta(
            description="As a fraction, up to six decimals. Required unless factor is Exento. If the order has fiscal "
            "data, a rate of SAT c_TasaOCuota; else checked with a warning.",
            examples=[0.16],
        ),
    ] = UNSET
    factor: Annotated[
        Literal["Tasa", "Cuota", "Exento"] | None, Meta(description="SAT c_TipoFactor; Tasa where absent.")
    ] = None
    withholding: Annotated[bool | None, Meta(description="True for a tax that the payer withholds.")] = None


class LineItem(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One line of the order. The sum of quantity × unitPrice over all lines is the order's amount, within 0.001."""

    description: Annotated[
        LongText | None, Meta(description="What is sold. Required unless name or the productId of a product is given.")
    ] = None
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
    product_id: Annotated[
        Text | None,
        Meta(
            description="Id of the product. Of an imported product, the line takes name, productKey, unitKey, unitName, "
            "and taxes with taxIncluded, where it has none of its own; an unknown id is kept."
        ),
    ] = None
    product_key: Annotated[
        Text | None,
        Meta(
            description="SAT c_ClaveProdServ; required to be one if the order has fiscal data, else checked with a warning.",
            examples=["50201706"],
        ),
    ] = None
    unit_key: Annotated[
        Text | None,
        Meta(
            description="SAT c_ClaveUnidad; required to be one if the order has fiscal data, else checked with a warning.",
            examples=["H87"],
        ),
    ] = None
    unit_name: Annotated[Text | None, Meta(description="Name of the unit.")] = None
    discount: Annotated[
        Number | UnsetType, Meta(description="Discount on the line, in minor units (cents): shown on the invoice.")
    ] = UNSET
    tax_included: Annotated[bool | None, Meta(description="Whether unitPrice contains the taxes; default true.")] = None
    taxes: Annotated[
        Annotated[list[Tax], Meta(max_length=TAXES_MAX)] | None,
        Meta(description="Taxes on the line. Absent or empty: on the invoice, the IVA of the merchant's fiscalIssuer."),
    ] = None
    metadata: Annotated[Metadata | UnsetType, Meta(description="Arbitrary JSON object.")] = UNSET


LineItems = Annotated[list[LineItem], Meta(max_length=LINE_ITEMS_MAX)]


Products = Mapping[str, ProductDocument]
"""The merchant's products by its ids of them."""

NO_PRODUCTS: Final[Products] = {}

_encode: Final = msgspec.json.Encoder().encode
_decode_taxes: Final = msgspec.json.Decoder(list[Tax]).decode


def product_ids(items: Sequence[LineItem] | None) -> set[str]:
    """Returns the products that the lines name."""
    return {item.product_id for item in items or () if item.product_id is not None}


def line_items(
    items: Sequence[LineItem | None] | None,
    total: Decimal | None,
    products: Products | None,
    errors: FieldErrors,
    *,
    is_invoiced: bool,
) -> tuple[terms.LineItem, ...]:
    """Returns the lines, whose quantity × unitPrice must add up to `total`, the order's subtotal (contract N5).

    If the order is invoiced, the keys and rates of each line, also those of its product, must be in SAT's catalogues:
    nothing is charged that no invoice can state. Otherwise the answer warns of them.

    Adds the errors of the lines until there are enough. A line takes what it does not give from its product; without
    lines nothing is added up. An entry that cannot be decoded is None. `total` is None if the amount is wrong, and
    `products` if they have not been read: a line with a product may then lack a description.
    """
    lines = []
    for at, item in enumerate(items or ()):
        if errors.are_enough:
            break
        if item is not None:
            within = errors.inside(f"lineItems[{at}]")
            line = _line(item, at, products, within)
            lines.append(line)
            if line is not None and is_invoiced:
                _require_known_keys(line, at, within)
            elif line is not None and not are_in_catalogs(line.product_key, line.unit_key, line.taxes):
                for field, problem in _unknown_keys(line):
                    warn(
                        f"lineItems[{at}].{field}",
                        WarningCode.NOT_IN_SAT_CATALOG,
                        f"could not be invoiced: it {problem}",
                    )
    parsed = tuple([line for line in lines if line is not None])
    if parsed and total is not None and not errors.has("lineItems", "items"):
        _require_sum(parsed, total, errors)
    return parsed


def _require_known_keys(line: terms.LineItem, at: int, errors: FieldErrors) -> None:
    """Adds what SAT's catalogues do not have. Taxes are left alone if one of them is wrong already."""
    if are_in_catalogs(line.product_key, line.unit_key, line.taxes):
        return
    wrong = _unknown_keys(line)
    if errors.has("taxes") or errors.of_body.has(f"items[{at}].taxes"):
        wrong = wrong_keys(line.product_key, line.unit_key)
    for field, problem in wrong:
        errors.add(invalid(field, problem))


def _unknown_keys(line: terms.LineItem) -> list[tuple[str, str]]:
    """Returns the fields of a line whose value SAT's catalogues do not have, and what they must be."""
    return wrong_keys(line.product_key, line.unit_key) + wrong_taxes(line.taxes)


def _require_sum(lines: Sequence[terms.LineItem], total: Decimal, errors: FieldErrors) -> None:
    added = sum([line.quantity * line.unit_price for line in lines], ZERO)
    if abs(added - total) > _TOLERANCE:
        sums = f"the sum of quantity × unitPrice is {added.normalize():f}, and amount is {total.normalize():f}"
        errors.add(invalid("lineItems", f"must add up to amount: {sums}", "LINE_ITEMS_SUM"))


def _line(item: LineItem, at: int, products: Products | None, errors: FieldErrors) -> terms.LineItem | None:
    """Returns a line, None if one of its numbers is wrong. Adds the errors of its fields, within the line."""
    product = None if item.product_id is None or not products else products.get(item.product_id)
    name = item.name or (None if product is None else product.name)
    description = item.description or name or ""
    if not description and not _may_have_a_name(item, at, products, errors):
        errors.add(required("description"))
    quantity = errors.check(_quantity, item.quantity)
    unit_price = errors.check(amount, item.unit_price, "unitPrice")
    discount = errors.check(amount, item.discount, "discount") if is_given(item.discount) else None
    content = item.metadata if item.metadata is UNSET else errors.check(metadata, item.metadata)
    taxes = parse_taxes(item.taxes, errors)
    if quantity is None or unit_price is None:
        return None
    line = terms.LineItem(
        description=description,
        quantity=quantity,
        unit_price=unit_price,
        name=name,
        sku=item.sku,
        product_id=item.product_id,
        product_key=item.product_key,
        unit_key=item.unit_key,
        unit_name=item.unit_name,
        discount=discount,
        tax_included=item.tax_included is not False,
        taxes=taxes,
        metadata=content or UNSET,
    )
    return line if product is None else _with_product(line, item, product)


def _may_have_a_name(item: LineItem, at: int, products: Products | None, errors: FieldErrors) -> bool:
    """Returns whether a line without a description could have one: of a product, or in a field that is wrong."""
    if products is None and item.product_id is not None:
        return True
    return errors.has(*_NAMES) or errors.of_body.has(*(f"items[{at}].{name}" for name in _NAMES))


def _quantity(raw: Raw | UnsetType) -> Decimal:
    quantity = measure(raw, "quantity")
    if not quantity:
        raise invalid("quantity", "must be greater than 0", "OUT_OF_RANGE")
    return quantity


def _with_product(line: terms.LineItem, item: LineItem, product: ProductDocument) -> terms.LineItem:
    """Returns the line with the product's keys and taxes if the line gives none.

    The product's `taxIncluded` belongs to its taxes and its price: a line with taxes of its own keeps the default.
    """
    tax_included = line.tax_included
    if item.taxes is None and item.tax_included is None and product.tax_included is not None:
        tax_included = product.tax_included
    return replace(
        line,
        product_key=item.product_key or product.product_key,
        unit_key=item.unit_key or product.unit_key,
        unit_name=item.unit_name or product.unit_name,
        tax_included=tax_included,
        taxes=line.taxes if item.taxes is not None else product.taxes or (),
    )


def parse_taxes(taxes: Sequence[Tax | None] | None, errors: FieldErrors) -> tuple[terms.Tax, ...]:
    """Returns the taxes of a line or a plan. Adds their errors. An entry that cannot be decoded is None."""
    if not taxes:
        return ()
    try:
        return _right_taxes(_encode(taxes))
    except (ApiError, msgspec.ValidationError):
        parsed = []
    for at, tax in enumerate(taxes):
        if tax is not None:
            try:
                parsed.append(parse_tax(tax))
            except ApiError as error:
                errors.add(error.within(f"taxes[{at}]"))
    return tuple(parsed)


@lru_cache(maxsize=1024)
def _right_taxes(taxes: bytes) -> tuple[terms.Tax, ...]:
    """Returns the taxes in a JSON list, once for all lines with the same ones. Raises if one is wrong."""
    return tuple([parse_tax(tax) for tax in _decode_taxes(taxes)])


def parse_tax(tax: Tax) -> terms.Tax:
    """Returns the tax as it is stored. Raises ApiError (400), within the tax."""
    exempt = tax.factor == "Exento" and not is_given(tax.rate)
    return terms.Tax(
        type=tax.type,
        rate=ZERO if exempt else measure(tax.rate, "rate"),
        factor=tax.factor or "Tasa",
        withholding=bool(tax.withholding),
    )
