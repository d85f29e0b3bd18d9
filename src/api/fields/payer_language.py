"""The language of texts for payers: that of the header Accept-Language, else the customer's, else Spanish."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_HEADER: Final = b"accept-language"
_LANGUAGES: Final = ("es", "en")


def payer_language(headers: Mapping[bytes, bytes], customers: str = "es") -> str:
    """Returns `es` or `en`: the one that the header prefers, `customers` where it names neither (RFC 9110, 12.5.4)."""
    header = headers.get(_HEADER)
    return customers if header is None else _preferred(header) or customers


@lru_cache(maxsize=256)
def _preferred(header: bytes) -> str | None:
    found = {}
    for at, part in enumerate(header.decode("latin-1").lower().split(",")[:20]):
        name, _, weight = part.strip().partition(";q=")
        language = name.split("-")[0].strip()
        if language in _LANGUAGES and language not in found and (quality := _quality(weight)) > 0:
            found[language] = (-quality, at)
    return min(found, key=lambda each: found[each]) if found else None


def _quality(weight: str) -> float:
    try:
        return float(weight or 1)
    except ValueError:
        return 0.0
