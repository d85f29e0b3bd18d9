"""Registers a merchant, changes its settings, issues and revokes its API keys, for operators' commands.

Commit a registration, its settings and the first key together: a merchant without a key cannot send a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.fold import fold
from ledger.domain.merchants.commands import ChangeSettings, IssueApiKey, RegisterMerchant, RevokeApiKey
from ledger.domain.merchants.decide import decide_issue, decide_registration, decide_revocation, decide_settings
from ledger.domain.merchants.events import MerchantEvent
from ledger.domain.merchants.evolve import evolve
from ledger.domain.merchants.state import ApiKey, Merchant
from ledger.journal.append import Conflict
from ledger.operations.inputs import Actor
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
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
    await ledger.journal.open_log(uow.merchant_id)

    async def attempt(_: Conflict | None) -> Plan:
        events: list[MerchantEvent] = []
        if await uow.load(uow.merchant_id, evolve) is None:
            at = uow.now
            events += decide_registration(None, RegisterMerchant(merchant_id=uow.merchant_id, name=name, at=at))
            merchant = fold(evolve, None, events)
            events += decide_settings(merchant, ChangeSettings(at=at, **(settings or {})))
            events += decide_issue(merchant, _issue(key, at))
        return Plan(changes=[uow.change(uow.merchant_id, evolve, events)])

    plan = await execute(uow, attempt)
    return uow.states[uow.merchant_id], bool(plan.events)


async def change_settings(ledger: Ledger, merchant_id: UUID, settings: Mapping[str, Any]) -> Merchant:
    """Changes a merchant's settings, which are fields of `ChangeSettings`. Raises UnknownMerchant, InvalidField."""
    return await _change(
        ledger, merchant_id, lambda merchant, at: decide_settings(merchant, ChangeSettings(at=at, **settings))
    )


async def issue_key(
    ledger: Ledger,
    merchant_id: UUID,
    key: NewKey,
    *,
    name: str | None = None,
    scopes: Sequence[str] = (),
    expires_at: datetime | None = None,
) -> ApiKey:
    """Issues a further key of a merchant; empty `scopes` allow everything. Raises UnknownMerchant, InvalidField."""
    key_id = uuid7()

    def decide(merchant: Merchant, at: datetime) -> Sequence[MerchantEvent]:
        command = _issue(key, at, key_id=key_id, name=name, scopes=tuple(scopes), expires_at=expires_at)
        return decide_issue(merchant, command)

    return _key(await _change(ledger, merchant_id, decide), key_id)


async def revoke_key(ledger: Ledger, merchant_id: UUID, key_id: UUID) -> ApiKey:
    """Revokes a key; a revoked key stays so. Raises UnknownMerchant, ApiKeyNotFound."""
    merchant = await _change(
        ledger, merchant_id, lambda merchant, at: decide_revocation(merchant, RevokeApiKey(key_id=key_id, at=at))
    )
    return _key(merchant, key_id)


async def merchant_of(ledger: Ledger, merchant_id: UUID) -> Merchant:
    """Returns the merchant from the log, where `Ledger.merchant` may be two seconds old. Raises UnknownMerchant."""
    merchant, _ = await ledger.journal.load(merchant_id, merchant_id, evolve)
    if merchant is None:
        raise UnknownMerchant(merchant_id)
    return merchant


async def _change(ledger: Ledger, merchant_id: UUID, decide: Decision) -> Merchant:
    """Returns the merchant after a decision on it. Raises UnknownMerchant, and what `decide` raises."""
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id))

    async def attempt(_: Conflict | None) -> Plan:
        merchant = await uow.load(merchant_id, evolve)
        if merchant is None:
            raise UnknownMerchant(merchant_id)
        uow.now = await ledger.clock.refresh(merchant_id)
        return Plan(changes=[uow.change(merchant_id, evolve, decide(merchant, uow.now))])

    plan = await execute(uow, attempt)
    merchant: Merchant = plan.changes[0].after
    return merchant


def _issue(key: NewKey, at: datetime, *, key_id: UUID | None = None, **limits: Any) -> IssueApiKey:
    return IssueApiKey(key_id=key_id or uuid7(), key_hash=key.key_hash, hint=key.hint, at=at, **limits)


def _key(merchant: Merchant, key_id: UUID) -> ApiKey:
    return next(key for key in merchant.keys if key.key_id == key_id)
