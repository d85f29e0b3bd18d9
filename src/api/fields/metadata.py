"""Metadata: a JSON object of the merchant's own, which is stored as it was sent, and its limits (contract N23)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from api.errors import invalid
from api.fields.values import is_given
from ledger.domain.orders.terms import METADATA_BYTES_MAX

METADATA_DEPTH_MAX: Final = 10

_format: Final = msgspec.json.format


def metadata(raw: Raw | UnsetType, field: str = "metadata") -> Raw | UnsetType:
    """Returns a JSON object without the whitespace between its tokens, otherwise byte by byte as it was sent (section
    8.12).

    No object in it has a key twice: the body was searched for such keys. Raises ApiError (400).
    """
    if raw is UNSET or not is_given(raw):
        return UNSET
    if bytes(raw)[:1] != b"{":
        raise invalid(field, "must be an object", "INVALID_TYPE")
    compact = _format(raw, indent=-1)
    if len(compact) > METADATA_BYTES_MAX:
        raise invalid(field, f"must have at most {METADATA_BYTES_MAX} bytes as compact JSON", "INVALID_LENGTH")
    try:
        content = msgspec.json.decode(compact)
    except msgspec.ValidationError:
        raise invalid(field, "contains a number that is out of range", "OUT_OF_RANGE") from None
    may_be_deep = compact.count(b"{") + compact.count(b"[") > METADATA_DEPTH_MAX
    if may_be_deep and not _fits(content, METADATA_DEPTH_MAX):
        raise invalid(field, f"must be nested at most {METADATA_DEPTH_MAX} levels deep", "INVALID_LENGTH")
    return Raw(compact)


def _fits(content: Any, levels: int) -> bool:
    if isinstance(content, dict):
        return levels > 0 and all(_fits(value, levels - 1) for value in content.values())
    if isinstance(content, list):
        return levels > 0 and all(_fits(value, levels - 1) for value in content)
    return True
