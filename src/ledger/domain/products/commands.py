"""The command of a product, and the problems of its fields.

A detail that is UNSET was absent from the request and keeps its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.orders.terms import Tax


class ProductDetails(Struct, frozen=True, kw_only=True):
    """The details of a product that an import gives. None clears a detail.

    `attributes` is merged into those that the product has: a member that is None is removed, and None instead of the
    mapping removes all of them.
    """

    name: str | UnsetType = UNSET
    price: Decimal | UnsetType = UNSET
    status: str | UnsetType = UNSET
    external_id: str | None | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    sku: str | None | UnsetType = UNSET
    currency: str | None | UnsetType = UNSET
    product_key: str | None | UnsetType = UNSET
    unit_key: str | None | UnsetType = UNSET
    unit_name: str | None | UnsetType = UNSET
    tax_included: bool | None | UnsetType = UNSET
    taxes: tuple[Tax, ...] | None | UnsetType = UNSET
    category: str | None | UnsetType = UNSET
    image_url: str | None | UnsetType = UNSET
    stock: Decimal | None | UnsetType = UNSET
    metadata: Raw | None | UnsetType = UNSET
    attributes: Mapping[str, Raw | None] | None | UnsetType = UNSET


class Problem(Struct, frozen=True):
    """A wrong field of an import: its name in the interface, a public code, and the rule that it breaks."""

    field: str
    code: str
    message: str


class ImportProduct(Struct, frozen=True, kw_only=True):
    """Creates a product, or updates the details of an existing one (contract N69).

    `product_id` and `id` are used for a new product only.
    """

    product_id: UUID
    id: str
    details: ProductDetails
    at: datetime
