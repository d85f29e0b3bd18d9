"""What the endpoints work with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from api.http.auth import Authenticator
from api.http.rate_limits import RateLimiter
from ledger.operations.clock import ClockControl
from ledger.operations.ledger import Ledger
from ledger.operations.message_delivery import MessageDelivery
from ledger.operations.orders.payment_lookup import PaymentLookup
from ledger.postgres.faults import DatabaseUnavailable
from ledger.security.api_keys import NewKey
from projections.queries import Queries


class Dependencies(Struct, frozen=True):
    """What the operations work with while the application runs."""

    ledger: Ledger
    queries: Queries
    authenticator: Authenticator
    limiter: RateLimiter
    body_limit: int
    """The most bytes that a body may have."""
    import_body_limit: int
    """The same for an import of products."""
    fingerprint_key: bytes
    """Hashes the requests that come with an Idempotency-Key."""
    environment: Literal["sandbox", "production"]
    new_key: Callable[[], NewKey]
    """Draws a new API key of this installation."""
    delivery: MessageDelivery
    """Keeps and delivers processors' messages."""
    clock_control: ClockControl | None = None
    """Moves merchants' clocks: only in the sandbox."""
    payment_lookup: PaymentLookup | None = None
    """Finds payments by their ids alone: only in the sandbox."""


class DependencyHolder:
    """Holds the dependencies between the application's start and its end. Routes exist before the start."""

    deps: Dependencies | None = None


def not_started() -> DatabaseUnavailable:
    """Returns the fault of a request before the application's start or after its end."""
    return DatabaseUnavailable("the application has not started")
