"""The contract of a card processor: what an operation may ask of it, and what it may answer.

The rule a stranger would break: no answer in time is `ProcessorTimedOut`, which means unknown. Only a processor that can
prove that nothing left this process raises `ProcessorUnavailable`; everything else that goes wrong is a time-out.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from ledger.orders.commands import Approved, Declined


class Card(Struct, frozen=True, kw_only=True):
    """A card as the payer typed it: lives from the request to the processor's call, and prints as stars."""

    number: str
    exp_month: int
    exp_year: int
    cvc: str | None = None
    cardholder_name: str | None = None

    def __repr__(self) -> str:
        return "Card(***)"

    __str__ = __repr__


class AuthorizationRequest(Struct, frozen=True, kw_only=True):
    """Ask the issuer for `amount` minor units; `capture` takes them in the same call.

    The same `idempotency_key` again is the same request and gets the same answer.
    """

    merchant_id: UUID
    idempotency_key: str
    amount: Decimal
    currency: str
    card: Card
    capture: bool
    deadline_at: datetime
    virtual_terminal: bool = False


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a processor can do, and how long its windows are, in seconds."""

    name: str
    late_arrival_s: float
    """How long after a call the processor may still apply it: before that, "not found" is not final."""


class ProcessorTimedOut(Exception):
    """No answer before the deadline, or one that cannot be read: unknown, which is not declined."""


class ProcessorUnavailable(Exception):
    """The request was never sent."""


class CardProcessor(Protocol):
    """A company that moves card money."""

    capabilities: Capabilities

    async def authorize(self, request: AuthorizationRequest) -> Approved | Declined:
        """Raises `ProcessorTimedOut` or `ProcessorUnavailable`; anything else it raises counts as a time-out."""
        ...

    async def look_up(self, merchant_id: UUID, idempotency_key: str) -> Approved | Declined | None:
        """What became of the call with this key; None where the processor knows no such call. Raises like `authorize`."""
        ...
