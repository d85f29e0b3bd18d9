"""What the endpoints are given."""

from __future__ import annotations

from msgspec import Struct

from api.http.auth import Keys
from api.http.rate_limits import Limiter, SharedLimiter
from ledger.operations.clock import ClockMoves
from ledger.operations.ledger import Ledger
from ledger.operations.message_delivery import Mail
from ledger.operations.payment_lookup import PaymentNames
from ledger.postgres.faults import DatabaseUnavailable
from projections.queries import Reader


class Rooms(Struct, frozen=True):
    """What the operations work with, for as long as the application runs."""

    ledger: Ledger
    reader: Reader
    keys: Keys
    limiter: Limiter
    body_limit: int
    fingerprint_key: bytes
    clocks: ClockMoves | None
    """How merchants' clocks are moved: only in the sandbox."""
    mail: Mail | None
    """Where processors' messages are handed over."""
    names: PaymentNames | None
    """Where payments are found by their ids alone: only in the sandbox."""
    shared_limiter: SharedLimiter | None = None
    """Counts instead of `limiter` where several processes serve."""


class House:
    """Where the rooms are once the application has started; routes are laid out before that."""

    rooms: Rooms | None = None

    def opened(self) -> Rooms:
        """The rooms. Raises DatabaseUnavailable before the start and after the end."""
        if self.rooms is None:
            raise DatabaseUnavailable("the application has not started")
        return self.rooms
