"""Register a merchant, change its settings, issue and revoke its API keys.

The rule a stranger would break: a merchant without a key cannot be reached by anybody, so its registration, its settings
and its first key are one commit. Only an operator's command comes here, never a merchant's request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.merchants.commands import ChangeSettings, IssueApiKey, RegisterMerchant, RevokeApiKey
from ledger.domain.merchants.decide import decide_issue, decide_registration, decide_revocation, decide_settings
from ledger.domain.merchants.events import MerchantEvent
from ledger.domain.merchants.evolve import evolve
from ledger.domain.merchants.state import ApiKey, Merchant
from ledger.domain.rejections import ConcurrentUpdate
from ledger.journal.append import Change, VersionConflict
from ledger.operations.ledger import Ledger
from ledger.security.api_keys import NewKey
from ledger.settings import CannotRun

_ATTEMPTS: Final = 20

Decision = Callable[[Merchant, datetime], Sequence[MerchantEvent]]
"""What follows for a merchant as it stands at a moment of its clock."""


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
    """A merchant with its first key, and whether it is new. `settings` are fields of `ChangeSettings`.

    Whoever fixes `merchant_id` may ask twice: a merchant that exists is returned as it stands, without the key. Raises
    InvalidField on the name or a setting.
    """
    merchant_id = merchant_id or uuid7()
    known, _ = await _load(ledger, merchant_id)
    if known is not None:
        return known, False
    at = ledger.clock.now(merchant_id)
    events: list[MerchantEvent] = [
        *decide_registration(None, RegisterMerchant(merchant_id=merchant_id, name=name, at=at))
    ]
    merchant = _fold(None, events)
    events += decide_settings(merchant, ChangeSettings(at=at, **(settings or {})))
    events += decide_issue(merchant, _issue(key, at))
    merchant = _fold(None, events)
    await ledger.journal.open_log(merchant_id)
    try:
        await ledger.journal.commit(merchant_id, uuid7(), [Change(merchant_id, 0, events, None, merchant)])
    except VersionConflict:  # the same id was registered beside us
        return await merchant_of(ledger, merchant_id), False
    return merchant, True


async def change_settings(ledger: Ledger, merchant_id: UUID, settings: Mapping[str, Any]) -> Merchant:
    """Put a merchant on other terms; `settings` are fields of `ChangeSettings`. Raises UnknownMerchant, InvalidField."""
    return await _change(
        ledger, merchant_id, lambda known, at: decide_settings(known, ChangeSettings(at=at, **settings))
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
    """Let a further key speak for a merchant; `scopes` empty for everything. Raises UnknownMerchant, InvalidField."""
    key_id = uuid7()

    def decide(merchant: Merchant, at: datetime) -> Sequence[MerchantEvent]:
        command = _issue(key, at, key_id=key_id, name=name, scopes=tuple(scopes), expires_at=expires_at)
        return decide_issue(merchant, command)

    return _key(await _change(ledger, merchant_id, decide), key_id)


async def revoke_key(ledger: Ledger, merchant_id: UUID, key_id: UUID) -> ApiKey:
    """End a key; one that has ended stays so. Raises UnknownMerchant, ApiKeyNotFound."""
    merchant = await _change(
        ledger, merchant_id, lambda known, at: decide_revocation(known, RevokeApiKey(key_id=key_id, at=at))
    )
    return _key(merchant, key_id)


async def merchant_of(ledger: Ledger, merchant_id: UUID) -> Merchant:
    """The merchant as the log has it now, where `Ledger.merchant` may be two seconds old. Raises UnknownMerchant."""
    merchant, _ = await _load(ledger, merchant_id)
    if merchant is None:
        raise UnknownMerchant(merchant_id)
    return merchant


async def _change(ledger: Ledger, merchant_id: UUID, decide: Decision) -> Merchant:
    """The merchant after a decision on it. Raises UnknownMerchant, and whatever the decision refuses."""
    for _ in range(_ATTEMPTS):
        merchant, version = await _load(ledger, merchant_id)
        if merchant is None:
            raise UnknownMerchant(merchant_id)
        await ledger.clock.refresh(merchant_id)
        events = decide(merchant, ledger.clock.now(merchant_id))
        if not events:
            return merchant
        after = _fold(merchant, events)
        try:
            await ledger.journal.commit(merchant_id, uuid7(), [Change(merchant_id, version, events, merchant, after)])
        except VersionConflict:
            continue
        return after
    raise ConcurrentUpdate("The merchant is being changed by many commands at once.")


async def _load(ledger: Ledger, merchant_id: UUID) -> tuple[Merchant | None, int]:
    return await ledger.journal.load(merchant_id, merchant_id, evolve)


def _issue(key: NewKey, at: datetime, *, key_id: UUID | None = None, **limits: Any) -> IssueApiKey:
    return IssueApiKey(key_id=key_id or uuid7(), key_hash=key.key_hash, hint=key.hint, at=at, **limits)


def _key(merchant: Merchant, key_id: UUID) -> ApiKey:
    return next(key for key in merchant.keys if key.key_id == key_id)


def _fold(merchant: Merchant | None, events: Sequence[MerchantEvent]) -> Merchant:
    for event in events:
        merchant = evolve(merchant, event)
    assert merchant is not None, "the first event registers it"
    return merchant
