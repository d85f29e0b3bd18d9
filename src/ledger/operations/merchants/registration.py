"""Registers, renames and closes a merchant and changes its settings, for requests and operators' commands.

Commit a registration, its settings and the first key together: a merchant without a key cannot send a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.fold import fold
from ledger.domain.merchants.commands import (
    ChangeSettings,
    CloseMerchant,
    IssueApiKey,
    RegisterMerchant,
    RenameMerchant,
)
from ledger.domain.merchants.decide import (
    decide_closing,
    decide_issue,
    decide_registration,
    decide_renaming,
    decide_settings,
)
from ledger.domain.merchants.events import MerchantEvent
from ledger.domain.merchants.evolve import evolve
from ledger.domain.merchants.state import Merchant
from ledger.domain.streams import MERCHANTS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.execute_stream import StreamResult, execute_on_stream
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.security.api_keys import NewKey
from ledger.settings import CannotRun

Decision = Callable[[Merchant, datetime], Sequence[MerchantEvent]]
"""Decides on a merchant as it is, at a time of its clock."""


class UnknownMerchant(CannotRun):
    """No merchant has this id."""

    def __init__(self, merchant_id: UUID) -> None:
        super().__init__(f"there is no merchant {merchant_id}")


async def register_merchant(
    ledger: Ledger,
    name: str,
    key: NewKey,
    *,
    settings: Mapping[str, Any] | None = None,
    merchant_id: UUID | None = None,
) -> tuple[Merchant, bool]:
    """Registers a merchant with its first key; returns it, and whether it is new. `settings` are fields of
    `ChangeSettings`.

    A caller that fixes `merchant_id` may call twice: a merchant that exists is returned as it is, without the key.
    Raises InvalidField on the name or a setting.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id or uuid7()))

    async def attempt(_: Conflict | None) -> Plan:
        events: list[MerchantEvent] = []
        if await uow.load(MERCHANTS, uow.merchant_id) is None:
            at = uow.now
            events += decide_registration(None, RegisterMerchant(merchant_id=uow.merchant_id, name=name, at=at))
            merchant = fold(evolve, None, events)
            events += decide_settings(merchant, ChangeSettings(at=at, **(settings or {})))
            first = IssueApiKey(key_id=uuid7(), key_hash=key.key_hash, hint=key.hint, at=at, real_at=datetime.now(UTC))
            events += decide_issue(merchant, first)
            await ledger.journal.open_log(uow.merchant_id)  # not before: a refused registration leaves nothing
        return Plan(changes=[uow.change(MERCHANTS, uow.merchant_id, events)])

    plan = await execute(uow, attempt)
    merchant: Merchant = plan.changes[0].after
    return merchant, bool(plan.events)


async def change_settings(
    ledger: Ledger, actor: Actor, settings: Mapping[str, Any], key: IdempotencyKey | None = None
) -> StreamResult[Merchant]:
    """Changes the settings of the actor's merchant, which are fields of `ChangeSettings`.

    Raises like `change_merchant`; InvalidField.
    """
    return await change_merchant(
        ledger, actor, lambda merchant, at: decide_settings(merchant, ChangeSettings(at=at, **settings)), key
    )


async def rename_merchant(ledger: Ledger, actor: Actor, name: str) -> StreamResult[Merchant]:
    """Gives the actor's merchant another name. Raises like `change_merchant`; InvalidField."""
    return await change_merchant(
        ledger, actor, lambda merchant, at: decide_renaming(merchant, RenameMerchant(name=name, at=at))
    )


async def close_merchant(ledger: Ledger, actor: Actor) -> StreamResult[Merchant]:
    """Closes the actor's merchant, whose API keys are refused from the commit on. Raises like `change_merchant`.

    The merchant's orders stay: the worker goes on with their timers, refunds, messages and settlements.
    """
    return await change_merchant(ledger, actor, lambda merchant, at: decide_closing(merchant, CloseMerchant(at=at)))


async def change_merchant(
    ledger: Ledger, actor: Actor, decide: Decision, key: IdempotencyKey | None = None
) -> StreamResult[Merchant]:
    """Returns the actor's merchant after a decision on it. `key` is the request's idempotency key.

    Raises like `execute_on_stream`; UnknownMerchant, and what `decide` raises.
    """
    uow = UnitOfWork(ledger, actor, key)
    merchant_id = actor.merchant_id

    async def attempt(_: Conflict | None) -> Plan:
        merchant = await uow.load(MERCHANTS, merchant_id)
        if merchant is None:
            raise UnknownMerchant(merchant_id)
        return Plan(changes=[uow.change(MERCHANTS, merchant_id, decide(merchant, uow.now))])

    return await ledger.complete(execute_on_stream(uow, attempt, MERCHANTS))


async def merchant_of(ledger: Ledger, merchant_id: UUID) -> Merchant:
    """Returns the merchant from the log; `Ledger.merchant` may be two seconds old. Raises UnknownMerchant."""
    merchant, _ = await ledger.journal.load(merchant_id, MERCHANTS, merchant_id)
    if merchant is None:
        raise UnknownMerchant(merchant_id)
    return merchant
