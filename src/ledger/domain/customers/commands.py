"""The commands of a customer. A detail that is UNSET was absent from the request and keeps its value."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType


class UpsertCustomer(Struct, frozen=True, kw_only=True):
    """Creates the customer of a payment order where the external id is new, and else updates the customer's details.

    `customer_id` and `external_id` are used for a new customer only. None sets a detail to null.
    """

    customer_id: UUID
    external_id: str
    at: datetime
    first_name: str | None | UnsetType = UNSET
    last_name: str | None | UnsetType = UNSET
    email: str | None | UnsetType = UNSET
    phone_number: str | None | UnsetType = UNSET


class EraseCustomer(Struct, frozen=True, kw_only=True):
    """Erases the personal data of a customer (contract N61)."""

    at: datetime
