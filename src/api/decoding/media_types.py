"""The media type of an answer that exists in several (RFC 9110, 12.5.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from api.response import Headers

CSV: Final = "text/csv"
HTML: Final = "text/html"
JSON: Final = "application/json"

HEADERS: Final[Headers] = ((b"vary", b"accept"), (b"cache-control", b"private, no-store"))
"""The headers of such an answer."""
OF_A_PAGE: Final[Headers] = (
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    (b"x-content-type-options", b"nosniff"),
)
"""The further headers of a page without script."""


def preferred_type(accept: bytes, offered: Sequence[str], otherwise: str = JSON) -> str:
    """Returns the one of these media types that a header Accept prefers, `otherwise` if it prefers none of them."""
    best, quality = otherwise, 0.0
    for part in accept.decode("latin-1").lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weights = [text for parameter in parameters if (text := parameter.removeprefix("q=")) != parameter]
        weight = float(weights[0]) if weights and re.fullmatch(r"[01](\.[0-9]{0,3})?", weights[0]) else 1.0
        if name in offered and weight > quality:
            best, quality = name, weight
    return best
