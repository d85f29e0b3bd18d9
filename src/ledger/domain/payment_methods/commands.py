"""The commands about saved payment methods. A detail that is UNSET was absent from the request and keeps its value."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from ledger.domain.orders.terms import CardSummary
from ledger.domain.payment_methods.events import Billing


class SaveCard(Struct, frozen=True, kw_only=True):
    """Saves a card whose number the vault has under `payment_method_id` (contract N11)."""

    payment_method_id: UUID
    customer_id: UUID
    card: CardSummary
    at: datetime
    billing: Billing | None = None


class UpdatePaymentMethod(Struct, frozen=True, kw_only=True):
    """Changes billing details (contract N59): `billing` has the given ones by their names in `Billing`."""

    payment_method_id: UUID
    at: datetime
    billing: Mapping[str, str | None]
    nickname: str | None | UnsetType = UNSET
    is_default: bool | UnsetType = UNSET


class DeletePaymentMethod(Struct, frozen=True, kw_only=True):
    """Deletes a method (contract N58). `force` deletes it although a live subscription is charged to it."""

    payment_method_id: UUID
    at: datetime
    force: bool = False


class MoveSubscription(Struct, frozen=True, kw_only=True):
    """Charges a subscription to the method `to` from now on, and no longer to `away_from`. Each may be None."""

    subscription_id: UUID
    at: datetime
    away_from: UUID | None = None
    to: UUID | None = None


class EraseMethods(Struct, frozen=True, kw_only=True):
    """Deletes all methods of a customer who is erased (contract N61)."""

    at: datetime
