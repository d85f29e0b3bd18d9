"""The state of a product, folded from its events."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.orders.terms import Tax


class Product(Struct, frozen=True, kw_only=True):
    """A product that a merchant sells. `id` is the merchant's id of it, `product_id` that of its stream.

    `price` is in minor units. A field that is None was not given, or was cleared.
    """

    product_id: UUID
    id: str
    name: str
    price: Decimal
    status: str
    created_at: datetime
    updated_at: datetime
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
