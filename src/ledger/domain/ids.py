"""Ids: those that follow from others, and how one is read.

Never draw a random number here. The caller brings the id, so that a decision made twice is the same decision.
"""

from __future__ import annotations

import uuid


def entry_id(payment_id: uuid.UUID, ordinal: int) -> uuid.UUID:
    """Returns the id of the n-th history entry (`PaymentEvent`) of a payment: the same in every replay."""
    return uuid.uuid5(payment_id, str(ordinal))


def parse_uuid(text: str) -> uuid.UUID | None:
    """Returns the UUID of a 36-character text, else None: `{id}` in a path may be an external id too."""
    if len(text) != 36:
        return None
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
