"""The events of an account with a processor: the storage format of its stream. None of it is personal data or secret.

Topics and fields are permanent (see `ledger.domain.orders.events`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.processor_accounts.terms import AccountTerms


class ProcessorAccountConnected(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant connected an account, for the first time or again: it takes new payments from then on.

    `name` is the merchant's own, and permanent like `processor`.
    """

    account_id: UUID
    name: str
    processor: str
    terms: AccountTerms
    at: datetime


class ProcessorAccountChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant changed the keys or the methods of an account, or the processor had changed its terms.

    `terms` are all of them from then on.
    """

    account_id: UUID
    terms: AccountTerms
    at: datetime


class ProcessorAccountDisconnected(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant disconnected an account: it takes no new payments, and goes on with those that it has."""

    account_id: UUID
    at: datetime


class ProcessorAccountKeysErased(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The account was disconnected so long ago that its keys are of no use: they are destroyed after this commit."""

    account_id: UUID
    at: datetime


ProcessorAccountEvent = (
    ProcessorAccountConnected | ProcessorAccountChanged | ProcessorAccountDisconnected | ProcessorAccountKeysErased
)

TOPICS: Final[dict[str, type[Struct]]] = {
    "processor-account-connected.v1": ProcessorAccountConnected,
    "processor-account-changed.v1": ProcessorAccountChanged,
    "processor-account-disconnected.v1": ProcessorAccountDisconnected,
    "processor-account-keys-erased.v1": ProcessorAccountKeysErased,
}
