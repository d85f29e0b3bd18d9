"""Erases the keys of accounts that were disconnected so long ago that nothing can be captured or refunded there.

The log comes first: its event names the keys no longer, and then they are destroyed. A process that ends in
between leaves keys that no event names, which the next run destroys.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from uuid import UUID

import structlog

from ledger.domain.processor_accounts.commands import EraseAccountKeys
from ledger.domain.processor_accounts.decide import decide_key_erasure
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.streams import PROCESSOR_ACCOUNTS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.processor_accounts.account import accounts_of

_log = structlog.get_logger()

FindDisconnected = Callable[[], Awaitable[Sequence[tuple[UUID, ProcessorAccount]]]]
"""Returns the disconnected accounts of all merchants, each with its merchant. Raises a Fault."""


async def erase_expired_keys(ledger: Ledger, find_disconnected: FindDisconnected) -> int:
    """Erases the keys of accounts whose time is over by their merchant's clock. Returns how many accounts had some.

    An account that this process cannot open is left for another time. Raises ConcurrentUpdate, a Fault.
    """
    count = 0
    for merchant_id, account in await find_disconnected():
        if account.keys_erased_at is not None:
            await accounts_of(ledger).keys.destroy(merchant_id, account.account_id, None, None)
        elif account.terms.secret_id is not None:
            count += await _erase(ledger, merchant_id, account)
    return count


async def _erase(ledger: Ledger, merchant_id: UUID, account: ProcessorAccount) -> bool:
    """Erases the keys of an account if nothing can be captured or refunded there any more."""
    opened = await ledger.processors.named(merchant_id, account.name)
    if opened is None:
        return False
    capabilities = opened.processor.capabilities
    open_s = max(capabilities.authorization_validity_s, capabilities.reference_validity_s)
    kept = timedelta(seconds=open_s + capabilities.refund_window_s)
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="keys"))
    await uow.refresh()

    async def attempt(_: Conflict | None) -> Plan:
        present = await uow.load(PROCESSOR_ACCOUNTS, account.account_id)
        assert present is not None, "a stored account has a stream"
        events = decide_key_erasure(present, EraseAccountKeys(at=uow.now, kept=kept))
        return Plan(changes=[uow.change(PROCESSOR_ACCOUNTS, account.account_id, events)])

    change = (await execute(uow, attempt)).changes[0]
    if not change.events:
        return False
    await accounts_of(ledger).keys.destroy(merchant_id, account.account_id, change.before.terms.secret_id, None)
    _log.info("processor_keys_erased", account=account.name, merchant_id=str(merchant_id))
    return True
