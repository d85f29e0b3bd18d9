"""The vault as operations use it (see `ledger.vault`), which alone has the numbers of saved cards."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from ledger.journal.append import KeyUnavailable
from ledger.telemetry.unopened import note_unopened


class VaultMissing(KeyUnavailable):
    """The process has no vault, and the number of a saved card is in one: another machine has its role."""

    def __init__(self) -> None:
        note_unopened("payment method", "missing")
        super().__init__("this process has no role for the vault: set LEDGER_DATABASE_VAULT_URL")


class UnsettledCard(NamedTuple):
    """A number whose payment method may be missing from the log; `touched_at` is real time."""

    merchant_id: UUID
    customer_id: UUID
    payment_method_id: UUID
    touched_at: datetime


class CardVault(Protocol):
    """The numbers of saved cards. Every method raises a Fault if the vault's database is unavailable."""

    async def keep(self, merchant_id: UUID, customer_id: UUID, number: str) -> UUID:
        """Stores a number sealed and returns the id of its payment method: the existing id for a number that is stored
        already.
        """
        ...

    async def open(self, merchant_id: UUID, payment_method_id: UUID, payment_id: UUID) -> str | None:
        """Returns the number for the call of a payment, None if it is destroyed. Logs who asked.

        Raises KeyUnavailable, SealBroken.
        """
        ...

    async def unsettle(self, merchant_id: UUID, payment_method_ids: Sequence[UUID]) -> None:
        """Marks numbers that are about to be deleted, so that a crash leaves them to the sweep."""
        ...

    async def destroy(self, merchant_id: UUID, payment_method_ids: Sequence[UUID]) -> None:
        """Destroys numbers and their keys. A second time changes nothing."""
        ...

    async def destroy_all(self, merchant_id: UUID, customer_id: UUID) -> None:
        """Destroys all numbers of a customer and their keys. A second time changes nothing."""
        ...

    async def unsettled(self, age_s: float, limit: int) -> Sequence[UnsettledCard]:
        """Returns at most `limit` unsettled numbers that were last touched at least `age_s` seconds ago."""
        ...

    async def settle(self, card: UnsettledCard, *, is_saved: bool) -> None:
        """Settles a number whose method is saved, and destroys any other, unless it was touched meanwhile."""
        ...
