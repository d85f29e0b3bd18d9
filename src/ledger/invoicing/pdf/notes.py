"""What a printed document shows beside its XML: how it was paid, and why a refund was made."""

from __future__ import annotations

from msgspec import Struct


class Notes(Struct, frozen=True, kw_only=True):
    """Facts of the order. `paid_with` is a card's brand with its last four digits, or a CLABE; `reason` a refund's."""

    paid_with: str | None = None
    reason: str | None = None


NO_NOTES = Notes()
