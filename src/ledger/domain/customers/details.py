"""The details of a customer: what its creation and its state have in common, and what a request can give of them.

These fields are stored inside the events of customers. Add a field only at the end and with a default, and never rename
one.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType


class GivenDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    """The details that an order can contain too. UNSET is absent and keeps the value, None clears it."""

    first_name: str | None | UnsetType = UNSET
    last_name: str | None | UnsetType = UNSET
    email: str | None | UnsetType = UNSET
    phone_number: str | None | UnsetType = UNSET


DETAILS: Final = GivenDetails.__struct_fields__
"""The details of its customer that an order can contain."""


class CustomerDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    """The details that a customer has. `source_id` is the service id of the customer that it was derived from."""

    first_name: str | None = None
    last_name: str | None = None
    email: str | None = None
    phone_number: str | None = None
    source_id: UUID | None = None
    metadata: Raw | UnsetType = UNSET
