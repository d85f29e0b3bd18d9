"""The deciders of an account with a processor.

Never give a name to an account with another processor: payments name their account, and are captured and refunded
there.
"""

from __future__ import annotations

from ledger.domain.processor_accounts.commands import ConnectAccount, DisconnectAccount
from ledger.domain.processor_accounts.events import (
    ProcessorAccountChanged,
    ProcessorAccountConnected,
    ProcessorAccountDisconnected,
    ProcessorAccountEvent,
)
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.processor_accounts.terms import AccountStatus
from ledger.domain.rejections import ProcessorAccountExists


def require_processor(account: ProcessorAccount | None, processor: str) -> None:
    """Raises ProcessorAccountExists if the account is with another processor."""
    if account is not None and account.processor != processor:
        raise ProcessorAccountExists(
            f"The account {account.name} is with the processor {account.processor}, which never changes: "
            "connect the other processor under another name.",
            field="processor",
        )


def decide_connect(account: ProcessorAccount | None, command: ConnectAccount) -> list[ProcessorAccountEvent]:
    """Connects an account, for the first time or again, or records its changed terms.

    Returns no events if it is connected with these terms. Raises ProcessorAccountExists.
    """
    require_processor(account, command.processor)
    if account is None or account.status is AccountStatus.DISCONNECTED:
        connected = ProcessorAccountConnected(
            account_id=command.account_id,
            name=command.name,
            processor=command.processor,
            terms=command.terms,
            at=command.at,
        )
        return [connected]
    if account.terms == command.terms:
        return []
    changed = ProcessorAccountChanged(account_id=account.account_id, terms=command.terms, at=command.at)
    return [*_begun(account), changed]


def decide_disconnect(account: ProcessorAccount, command: DisconnectAccount) -> list[ProcessorAccountEvent]:
    """Disconnects an account. Returns no events if it is disconnected already."""
    if account.status is AccountStatus.DISCONNECTED:
        return []
    return [*_begun(account), ProcessorAccountDisconnected(account_id=account.account_id, at=command.at)]


def _begun(account: ProcessorAccount) -> list[ProcessorAccountEvent]:
    """Returns the beginning of the stream of an account that has none: it is as old as the merchant."""
    if not account.is_built_in:
        return []
    connected = ProcessorAccountConnected(
        account_id=account.account_id,
        name=account.name,
        processor=account.processor,
        terms=account.terms,
        at=account.created_at,
    )
    return [connected]
