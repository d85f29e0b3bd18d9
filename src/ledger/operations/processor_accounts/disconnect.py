"""Disconnects an account with a processor: it takes no new payments.

Keep its keys: what it has is captured, refunded and looked up there, until `erase_keys` finds its time over.
"""

from __future__ import annotations

from ledger.domain.processor_accounts.commands import DisconnectAccount
from ledger.domain.processor_accounts.decide import decide_disconnect
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.streams import PROCESSOR_ACCOUNTS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.processor_accounts.account import find_account


async def disconnect_account(ledger: Ledger, actor: Actor, name: str) -> ProcessorAccount:
    """Disconnects the merchant's account with this name, and returns it; one that is disconnected stays so.

    Raises ProcessorAccountNotFound, ConcurrentUpdate, a Fault.
    """
    return await ledger.complete(_disconnect(ledger, actor, name))


async def _disconnect(ledger: Ledger, actor: Actor, name: str) -> ProcessorAccount:
    uow = UnitOfWork(ledger, actor)

    async def attempt(_: Conflict | None) -> Plan:
        account = await find_account(uow, name)
        events = decide_disconnect(account, DisconnectAccount(at=uow.now))
        return Plan(changes=[uow.change(PROCESSOR_ACCOUNTS, account.account_id, events)])

    plan = await execute(uow, attempt)
    account: ProcessorAccount = plan.changes[0].after
    return account
