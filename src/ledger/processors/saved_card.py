"""A saved card in a request, before the vault adds its number."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from ledger.processors.contract import Card


class SavedCard(Struct, frozen=True, kw_only=True):
    """A saved card that a payment names, with the CVC that the payer entered for it, if any. Prints as stars.

    The vault has its number until the processor's call, or its processor keeps the card (`is_kept`).
    """

    payment_method_id: UUID
    exp_month: int
    exp_year: int
    cvc: str | None = None
    cardholder_name: str | None = None
    is_kept: bool = False

    def __repr__(self) -> str:
        return "SavedCard(***)"

    __str__ = __repr__

    def with_number(self, number: str) -> Card:
        """Returns the card as the processor's request has it."""
        return Card(
            number=number,
            exp_month=self.exp_month,
            exp_year=self.exp_year,
            cvc=self.cvc,
            cardholder_name=self.cardholder_name,
        )


class SecurityCode(Struct, frozen=True):
    """The CVC of a saved card, from the request until the processor's call. Prints as stars."""

    digits: str

    def __repr__(self) -> str:
        return "SecurityCode(***)"

    __str__ = __repr__
