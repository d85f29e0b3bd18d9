"""The events of a product: the storage format of its stream. None of it is personal data.

Topics and fields are permanent (see `ledger.domain.orders.events`). Each event has the whole product after it: an
import reads only the last event of a product, however often the merchant has imported it.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.orders.terms import Tax


class ProductImported(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant imported a product: the first time, or with a change. The fields are the product from then on.

    `id` is the merchant's id of the product. `price` is in minor units. `created_at` is the time of the first import.
    `attributes` is a JSON object of the fields that the interface does not know.
    """

    product_id: UUID
    id: str
    name: str
    price: Decimal
    status: str
    created_at: datetime
    at: datetime
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


ProductEvent = ProductImported

TOPICS: Final[dict[str, type[Struct]]] = {"product-imported.v1": ProductImported}
