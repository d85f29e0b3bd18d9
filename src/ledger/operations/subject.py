"""What of an order a request is about.

The rule a stranger would break: it is settled with the acceptance, so that the same key is answered about the same thing.
"""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct


class Subject(Struct, frozen=True, kw_only=True):
    """A payment, a refund, or neither: the order as a whole."""

    payment_id: UUID | None = None
    refund_id: UUID | None = None


WHOLE_ORDER = Subject()
