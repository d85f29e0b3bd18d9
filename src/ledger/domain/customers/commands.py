"""What may be asked of a customer. What is UNSET was not given and stays as it is."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType


class UpsertCustomer(Struct, frozen=True, kw_only=True):
    """The customer that a payment order brings along: created where the external id is new, else brought up to date.

    `customer_id` and `external_id` are used for a new customer only.
    """

    customer_id: UUID
    external_id: str
    at: datetime
    first_name: str | None | UnsetType = UNSET
    last_name: str | None | UnsetType = UNSET
    email: str | None | UnsetType = UNSET
    phone_number: str | None | UnsetType = UNSET


class EraseCustomer(Struct, frozen=True, kw_only=True):
    """Forget who a customer is."""

    at: datetime
