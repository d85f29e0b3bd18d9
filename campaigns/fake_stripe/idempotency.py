"""Idempotency keys as Stripe keeps them: the first answer of a key is stored and replayed, a 500 too, for 24 hours.

Source: https://docs.stripe.com/api/idempotent_requests. Nothing is stored where the request was refused before its operation
began: a wrong parameter, a key in use (409), too many requests (429).
"""

from __future__ import annotations

import json
from typing import Final

from msgspec import Struct

from campaigns.fake_stripe.clock import Clock
from campaigns.fake_stripe.errors import StripeError, invalid
from campaigns.fake_stripe.forms import Tree

LIFE_S: Final = 24 * 3600.0
_KEY_MAX: Final = 255


class Stored(Struct, frozen=True):
    """The first request of a key and its answer."""

    endpoint: str
    parameters: str
    request: str
    status: int
    body: bytes
    at: float


class Keys:
    """The keys of one account in one mode."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stored: dict[str, Stored] = {}
        self._running: dict[str, tuple[str, str]] = {}

    def begin(self, key: str, endpoint: str, tree: Tree) -> Stored | None:
        """Returns the stored answer, or None after it notes that the key is in use. Raises StripeError."""
        if len(key) > _KEY_MAX:
            raise invalid(f"Idempotency keys can have up to {_KEY_MAX} characters.")
        stored = self._stored.get(key)
        if stored and self._clock.now() - stored.at >= LIFE_S:
            del self._stored[key]
            stored = None
        if stored:
            self._compare(key, (stored.endpoint, stored.parameters), endpoint, tree)
            return stored
        if running := self._running.get(key):
            self._compare(key, running, endpoint, tree)
            raise in_use(key)
        self._running[key] = endpoint, _canonical(tree)
        return None

    def store(self, key: str, request: str, status: int, body: bytes) -> None:
        """Stores the answer of the request that uses the key."""
        endpoint, parameters = self._running.pop(key)
        self._stored[key] = Stored(endpoint, parameters, request, status, body, self._clock.now())

    def forget(self, key: str) -> None:
        """Ends the use of a key whose request never began."""
        self._running.pop(key, None)

    def _compare(self, key: str, before: tuple[str, str], endpoint: str, tree: Tree) -> None:
        if before[0] != endpoint:
            raise StripeError(
                400,
                "idempotency_error",
                f"Keys for idempotent requests can only be used for the same endpoint they were first used for ('{endpoint}' vs "
                f"'{before[0]}'). Try using a key other than '{key}' if you meant to execute a different request.",
            )
        if before[1] != _canonical(tree):
            raise StripeError(
                400,
                "idempotency_error",
                "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key "
                f"other than '{key}' if you meant to execute a different request.",
            )


def in_use(key: str) -> StripeError:
    """Returns the 409 of a key whose request is being worked on."""
    return StripeError(
        409,
        "idempotency_error",
        f"There is currently another in-progress request using this Idempotency Key ({key}). Please try again later.",
        code="idempotency_key_in_use",
    )


def _canonical(tree: Tree) -> str:
    return json.dumps(tree, sort_keys=True)
