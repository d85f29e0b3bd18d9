"""What falls due on the verifications of a customer's cards, by the merchant's clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from ledger.domain.payment_methods.state import SavedMethods

LOOK_UP: Final = "card-verification"
EXPIRY: Final = "card-verification-expiry"
"""The kinds of timers: the look-up of a call without an outcome, and the end of a payer's time to act."""

_CALL_TIME: Final = timedelta(seconds=60)
"""After how long a call is looked up that no process may have been left to record."""
_PAUSE: Final = timedelta(seconds=5)
"""After how long a call is looked up that came back without an answer."""


class VerificationDue(NamedTuple):
    """Work on the verification of a card that is due at `at`."""

    kind: str
    payment_method_id: UUID
    at: datetime


def due_of(methods: SavedMethods) -> Iterator[VerificationDue]:
    """Yields what falls due on the verifications that are open: one thing for each."""
    for each in methods.verifications:
        if each.ended is not None:
            continue
        if each.call is not None:
            came_back_at = each.call.came_back_at
            at = each.call.announced_at + _CALL_TIME if came_back_at is None else came_back_at + _PAUSE
            yield VerificationDue(LOOK_UP, each.payment_method_id, at)
        elif each.action_expires_at is not None:
            yield VerificationDue(EXPIRY, each.payment_method_id, each.action_expires_at)
