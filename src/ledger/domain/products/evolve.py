"""The fold of a product: an import replaces it."""

from __future__ import annotations

from msgspec.structs import asdict

from ledger.domain.products.events import ProductEvent
from ledger.domain.products.state import Product


def evolve(_: Product | None, event: ProductEvent) -> Product:
    """Returns the product after `event`, which has all of it."""
    content = asdict(event)
    return Product(updated_at=content.pop("at"), **content)
