"""The deciders of an account with a processor.

Never give a name to an account with another processor: payments name their account, and are captured and refunded
there.
"""

from __future__ import annotations

from ledger.domain.processor_accounts.commands import ConnectAccount, DisconnectAccount, EraseAccountKeys
from ledger.domain.processor_accounts.events import (
    ProcessorAccountChanged,
    ProcessorAccountConnected,
    ProcessorAccountDisconnected,
    ProcessorAccountEvent,
    ProcessorAccountKeysErased,
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


def require_reference(account: ProcessorAccount | None, reference: str | None) -> None:
    """Raises ProcessorAccountExists if a key is of another account at the processor.

    The payments of the first one could not be captured, refunded or looked up there.
    """
    if account is None or None in {account.terms.reference, reference} or account.terms.reference == reference:
        return
    raise ProcessorAccountExists(
        f"The key is of the account {reference} at the processor, and {account.name} is {account.terms.reference}, where "
        "its payments are: send a key of that account, or connect the other one under another name.",
        field="secretKey",
    )


def decide_connect(account: ProcessorAccount | None, command: ConnectAccount) -> list[ProcessorAccountEvent]:
    """Connects an account, for the first time or again, or records its changed terms.

    Returns no events if it is connected with these terms. Raises ProcessorAccountExists.
    """
    require_processor(account, command.processor)
    require_reference(account, command.terms.reference)
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


def decide_key_erasure(account: ProcessorAccount, command: EraseAccountKeys) -> list[ProcessorAccountEvent]:
    """Erases the keys of an account that has been disconnected for as long as they are kept.

    Returns no events for any other account, and for one that has none.
    """
    if account.disconnected_at is None or account.terms.secret_id is None:
        return []
    if command.at < account.disconnected_at + command.kept:
        return []
    return [ProcessorAccountKeysErased(account_id=account.account_id, at=command.at)]


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
