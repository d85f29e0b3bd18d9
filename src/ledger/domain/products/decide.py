"""The decider of a product.

Never overwrite a detail that the import leaves out. If no detail differs, there is no event.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ledger.domain.products.commands import ImportProduct, Problem
from ledger.domain.products.events import ProductEvent, ProductImported
from ledger.domain.products.state import Product
from ledger.domain.products.terms import ProductTerms

ATTRIBUTES_BYTES_MAX: Final = 32_768
"""The largest size of a product's attributes as compact JSON (contract N23)."""

_REQUIRED: Final = ("name", "price")
_DEFAULT_STATUS: Final = "active"
_CONTENT: Final = ("name", "price", "status", *ProductTerms.__struct_fields__)
"""The details that an import can change."""

_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def problems_of(product: Product | None, details: Mapping[str, Any]) -> list[Problem]:
    """Returns the problems that prevent the import of these details; none if `decide_import` accepts them.

    A new product needs a name and a price. The attributes of a product have a maximal size.
    """
    found = []
    if product is None:
        found = [Problem(name, "REQUIRED", "is required") for name in _REQUIRED if name not in details]
    attributes = _attributes(product, details)
    if details.get("attributes") and not isinstance(attributes, UnsetType) and len(attributes) > ATTRIBUTES_BYTES_MAX:
        too_long = f"must have at most {ATTRIBUTES_BYTES_MAX} bytes as compact JSON, with those before"
        found.append(Problem("attributes", "INVALID_LENGTH", too_long))
    return found


def decide_import(product: Product | None, command: ImportProduct) -> list[ProductEvent]:
    """Creates a product, or records it with the details that the import changes (contract N69, N70).

    Returns no events if every given detail has its value already.
    """
    assert not problems_of(product, command.details), "an import with problems is not decided"
    if product is None:
        return [_imported(None, command, command.product_id, command.id, command.at)]
    imported = _imported(product, command, product.product_id, product.id, product.created_at)
    is_changed = any(getattr(imported, name) != getattr(product, name) for name in _CONTENT)
    return [imported] if is_changed else []


def _imported(
    product: Product | None, command: ImportProduct, product_id: UUID, id_: str, created_at: datetime
) -> ProductImported:
    before: dict[str, Any] = {"status": _DEFAULT_STATUS}
    if product is not None:
        before = {name: getattr(product, name) for name in _CONTENT}
    content = {**before, **command.details, "attributes": _attributes(product, command.details)}
    if content.get("metadata") is None:
        content["metadata"] = UNSET
    return ProductImported(product_id=product_id, id=id_, created_at=created_at, at=command.at, **content)


def _attributes(product: Product | None, details: Mapping[str, Any]) -> Raw | UnsetType:
    """Returns the product's attributes after an import of these details, as compact JSON."""
    current = UNSET if product is None else product.attributes
    if "attributes" not in details:
        return current
    given: Mapping[str, Raw | None] | None = details["attributes"]
    merged: dict[str, Raw | None] = {}
    if given is not None:
        merged |= {} if isinstance(current, UnsetType) else _members(current)
        merged |= given
    merged = {name: value for name, value in merged.items() if value is not None}
    return Raw(msgspec.json.encode(merged)) if merged else UNSET
