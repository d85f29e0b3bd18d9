"""The terms of a product that an import can leave out: the event and the state have the same.

These fields are stored inside the events of products. Add a field only at the end and with a default, and never rename
one.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.orders.terms import Tax


class ProductTerms(Struct, frozen=True, kw_only=True, rename="camel"):
    """The terms of a product. A field that is None was not given, or was cleared.

    `attributes` is a JSON object of the fields that the interface does not know.
    """

    external_id: str | None = None
    description: str | None = None
    sku: str | None = None
    currency: str | None = None
    product_key: str | None = None
    unit_key: str | None = None
    unit_name: str | None = None
    tax_included: bool | None = None
    taxes: tuple[Tax, ...] | None = None
    category: str | None = None
    image_url: str | None = None
    stock: Decimal | None = None
    metadata: Raw | UnsetType = UNSET
    attributes: Raw | UnsetType = UNSET
