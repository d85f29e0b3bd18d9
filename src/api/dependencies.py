"""What the endpoints are given."""

from __future__ import annotations

from msgspec import Struct

from api.http.auth import Authenticator
from api.http.rate_limits import RateLimiter
from ledger.operations.clock import ClockControl
from ledger.operations.ledger import Ledger
from ledger.operations.message_delivery import MessageDelivery
from ledger.operations.payment_lookup import PaymentLookup
from ledger.postgres.faults import DatabaseUnavailable
from projections.queries import Queries


class Dependencies(Struct, frozen=True):
    """What the operations work with, for as long as the application runs."""

    ledger: Ledger
    reader: Queries
    keys: Authenticator
    limiter: RateLimiter
    body_limit: int
    fingerprint_key: bytes
    clocks: ClockControl | None
    """How merchants' clocks are moved: only in the sandbox."""
    mail: MessageDelivery | None
    """Where processors' messages are handed over."""
    names: PaymentLookup | None
    """Where payments are found by their ids alone: only in the sandbox."""


class DependencyHolder:
    """Where the rooms are once the application has started; routes are laid out before that."""

    rooms: Dependencies | None = None

    def opened(self) -> Dependencies:
        """The rooms. Raises DatabaseUnavailable before the start and after the end."""
        if self.rooms is None:
            raise DatabaseUnavailable("the application has not started")
        return self.rooms
