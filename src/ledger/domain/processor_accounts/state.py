"""The state of an account with a processor, folded from its events; and the account that needs none."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

from msgspec import Struct

from ledger.domain.processor_accounts.terms import AccountStatus, AccountTerms

SANDBOX: Final = "sandbox"
"""The simulated processor, and the name of the account with it that every merchant of a sandbox has."""


class ProcessorAccount(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An account of a merchant with a processor, since `created_at`: its first connection.

    `is_built_in` marks the account of a sandbox's merchant that has no stream yet. An account whose keys are erased has
    `keys_erased_at`, until it is connected again.
    """

    account_id: UUID
    name: str
    processor: str
    terms: AccountTerms
    created_at: datetime
    updated_at: datetime
    disconnected_at: datetime | None = None
    is_built_in: bool = False
    keys_erased_at: datetime | None = None

    @property
    def status(self) -> AccountStatus:
        return AccountStatus.CONNECTED if self.disconnected_at is None else AccountStatus.DISCONNECTED


def account_id(merchant_id: UUID, name: str) -> UUID:
    """Returns the id of a merchant's account with this name, which is that of its stream: no name is given twice."""
    return uuid5(merchant_id, f"processor-account:{name}")


def built_in_account(merchant_id: UUID, terms: AccountTerms, registered_at: datetime) -> ProcessorAccount:
    """Returns the account that a sandbox's merchant has from its registration on."""
    return ProcessorAccount(
        account_id=account_id(merchant_id, SANDBOX),
        name=SANDBOX,
        processor=SANDBOX,
        terms=terms,
        created_at=registered_at,
        updated_at=registered_at,
        is_built_in=True,
    )
