"""Finds an account of a merchant, the one that needs no stream included."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ledger.domain.processor_accounts.state import SANDBOX, ProcessorAccount, account_id, built_in_account
from ledger.domain.streams import PROCESSOR_ACCOUNTS
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.processors.merchant_accounts import MerchantAccounts


def accounts_of(ledger: Ledger) -> MerchantAccounts:
    """Returns the access to accounts, which every process has that carries out requests about them."""
    assert ledger.accounts is not None, "a process that connects accounts has access to them"
    return ledger.accounts


async def load_account(uow: UnitOfWork, name: str) -> ProcessorAccount | None:
    """Returns the merchant's account with this name as the log has it, or None. Raises a Fault."""
    account = await uow.load(PROCESSOR_ACCOUNTS, account_id(uow.merchant_id, name))
    terms = accounts_of(uow.ledger).built_in
    if account is None and name == SANDBOX and terms is not None:
        merchant = await uow.ledger.merchant(uow.merchant_id)
        account = built_in_account(uow.merchant_id, terms, merchant.registered_at)
    return account


async def with_built_in(
    ledger: Ledger, merchant_id: UUID, stored: Sequence[ProcessorAccount]
) -> Sequence[ProcessorAccount]:
    """Returns a merchant's stored accounts, behind the one that needs no stream. Raises a Fault."""
    terms = accounts_of(ledger).built_in
    if terms is None or any(account.name == SANDBOX for account in stored):
        return stored
    merchant = await ledger.merchant(merchant_id)
    return [built_in_account(merchant_id, terms, merchant.registered_at), *stored]


async def find_account(uow: UnitOfWork, name: str) -> ProcessorAccount:
    """Returns what `load_account` returns. Raises ProcessorAccountNotFound, a Fault."""
    account = await load_account(uow, name)
    if account is None:
        raise PROCESSOR_ACCOUNTS.missing()
    return account
