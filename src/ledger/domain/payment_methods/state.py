"""The state of a customer's saved payment methods, folded from their events."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID, uuid5

from msgspec import Struct

from ledger.domain.orders.terms import CardSummary
from ledger.domain.payment_methods.events import Billing


def stream_of(customer_id: UUID) -> UUID:
    """Returns the id of the stream that has a customer's saved payment methods."""
    return uuid5(customer_id, "payment-methods")


class SavedMethod(Struct, frozen=True, kw_only=True):
    """A saved card without its number. A deleted card keeps only its ids, its times and its subscriptions.

    `used_by` are the live subscriptions that are charged to it.
    """

    payment_method_id: UUID
    customer_id: UUID
    created_at: datetime
    updated_at: datetime
    card: CardSummary | None
    billing: Billing = Billing()
    nickname: str | None = None
    is_default: bool = False
    used_by: tuple[UUID, ...] = ()

    @property
    def deleted(self) -> bool:
        return self.card is None


class SavedMethods(Struct, frozen=True, kw_only=True):
    """All payment methods that a customer ever had, oldest first, deleted ones included."""

    customer_id: UUID
    methods: tuple[SavedMethod, ...] = ()

    @property
    def live(self) -> list[SavedMethod]:
        """Returns the methods that are not deleted, oldest first."""
        return [method for method in self.methods if not method.deleted]

    def method(self, payment_method_id: UUID) -> SavedMethod | None:
        """Returns the method with this id, None if there is none or it was deleted."""
        return next((method for method in self.live if method.payment_method_id == payment_method_id), None)

    @property
    def subscriptions(self) -> list[UUID]:
        """Returns the customer's live subscriptions, those that are charged to a deleted method included."""
        return [subscription_id for method in self.methods for subscription_id in method.used_by]

    def had(self, payment_method_id: UUID) -> bool:
        """Returns whether a deleted method had this id."""
        return any(method.deleted and method.payment_method_id == payment_method_id for method in self.methods)
