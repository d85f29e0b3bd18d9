"""The language of texts for payers: that of the header Accept-Language, else the customer's, else Spanish."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_HEADER: Final = b"accept-language"
VARIES: Final = ((b"vary", _HEADER),)
"""The headers of an answer to a read that contains texts for payers (RFC 9110, 12.5.5)."""

_LANGUAGES: Final = ("es", "en")


def payer_language(headers: Mapping[bytes, bytes], customers: str = "es") -> str:
    """Returns `es` or `en`: the one that the header prefers, `customers` if it names neither."""
    return accepted_language(headers) or customers


def accepted_language(headers: Mapping[bytes, bytes]) -> str | None:
    """Returns `es` or `en`, the one that the header prefers, or None if it names neither (RFC 9110, 12.5.4)."""
    header = headers.get(_HEADER)
    return None if header is None else _preferred(header)


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
