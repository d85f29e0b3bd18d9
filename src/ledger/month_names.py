"""The names of the months in the languages of messages and printed documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

MONTHS: Final[Mapping[str, Sequence[str]]] = {
    "es": (
        "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre",
        "diciembre",
    ),
    "en": (
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    ),
}  # fmt: skip
"""By language, from January."""
