"""The command of a product, and the problems of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct


class Problem(Struct, frozen=True):
    """A wrong field of an import: its name in the interface, a public code, and the rule that it breaks."""

    field: str
    code: str
    message: str


class ImportProduct(Struct, frozen=True, kw_only=True):
    """Creates a product, or updates the details of an existing one (contract N69).

    `product_id` and `id` are used for a new product only. `details` has the given ones by their names in `Product`; an
    absent detail keeps its value, None clears it. `attributes` is a mapping that is merged into those that the product
    has: a member that is None is removed, and None instead of the mapping removes all of them.
    """

    product_id: UUID
    id: str
    details: Mapping[str, Any]
    at: datetime
