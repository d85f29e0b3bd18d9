"""The fold of an account with a processor: its state after one more event."""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from ledger.domain.processor_accounts.events import (
    ProcessorAccountChanged,
    ProcessorAccountConnected,
    ProcessorAccountDisconnected,
    ProcessorAccountEvent,
    ProcessorAccountKeysErased,
)
from ledger.domain.processor_accounts.state import ProcessorAccount


def evolve(account: ProcessorAccount | None, event: ProcessorAccountEvent) -> ProcessorAccount:
    """Returns the account after `event`. `account` is None before it was first connected."""
    if isinstance(event, ProcessorAccountConnected):
        return ProcessorAccount(
            account_id=event.account_id,
            name=event.name,
            processor=event.processor,
            terms=event.terms,
            created_at=event.at if account is None else account.created_at,
            updated_at=event.at,
        )
    assert account is not None, "a stream begins with its connection"
    match event:
        case ProcessorAccountChanged():
            return replace(account, terms=event.terms, updated_at=event.at)
        case ProcessorAccountDisconnected():
            return replace(account, disconnected_at=event.at, updated_at=event.at)
        case ProcessorAccountKeysErased():
            terms = replace(account.terms, secret_id=None)
            return replace(account, terms=terms, keys_erased_at=event.at, updated_at=event.at)
        case _:
            assert_never(event)
