"""The state of a product, folded from its events."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from ledger.domain.products.terms import ProductTerms


class Product(ProductTerms, frozen=True, kw_only=True):
    """A product that a merchant sells. `id` is the merchant's id of it, `product_id` that of its stream.

    `price` is in minor units.
    """

    product_id: UUID
    id: str
    name: str
    price: Decimal
    status: str
    created_at: datetime
    updated_at: datetime
