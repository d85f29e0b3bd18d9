"""The events of a product: the storage format of its stream. None of it is personal data.

Topics and fields are permanent (see `ledger.domain.orders.events`). Each event has the whole product after it: an
import reads only the last event of a product, however often the merchant has imported it.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.products.terms import ProductTerms


class ProductImported(ProductTerms, frozen=True, omit_defaults=True):  # without kw_only, its own fields come first
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


ProductEvent = ProductImported

TOPICS: Final[dict[str, type[Struct]]] = {"product-imported.v1": ProductImported}
