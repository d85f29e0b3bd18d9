"""The terms of an account with a processor: what it can take, and what is stored of its keys.

These shapes are stored inside the events of accounts. Add a field only with a default, and never rename one. Never add
a key that is secret: an event names the sealed keys by an id.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.terms import MethodType
from ledger.py311_speedups import fast_members


@fast_members
class AccountMode(StrEnum):
    """Whether the account moves money."""

    TEST = "TEST"
    LIVE = "LIVE"


@fast_members
class AccountStatus(StrEnum):
    """Whether the account takes new payments."""

    CONNECTED = "CONNECTED"
    DISCONNECTED = "DISCONNECTED"


@fast_members
class CircuitState(StrEnum):
    """Whether an account's processor answers payments by a method: an OPEN account is asked after all others."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class AccountMethod(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A method that an account takes, in these currencies, with amounts from `amount_min` to `amount_max` minor units.

    `installments` are the numbers of monthly payments that a card can be charged in, beside one payment.
    """

    type: MethodType
    currencies: tuple[str, ...]
    amount_min: Decimal
    amount_max: Decimal
    installments: tuple[int, ...] = ()


class AccountTerms(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What is known of an account since its keys were last checked.

    `country` is that of the account's holder. `methods` is what the processor takes there, without what the merchant
    leaves out. `secret_id` names the sealed keys; None for an account that has none. `reference` is the processor's own
    id of the account, whichever of its keys is used; None if it has none, or was connected before ids were kept.
    """

    mode: AccountMode
    methods: tuple[AccountMethod, ...]
    country: str | None = None
    publishable_key: str | None = None
    secret_id: UUID | None = None
    reference: str | None = None
