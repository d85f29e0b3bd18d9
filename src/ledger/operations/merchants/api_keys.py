"""Issues, rotates and revokes a merchant's API keys, for requests with a key and for operators' commands.

Never store a secret. A repeated request under an idempotency key gets its first answer without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from msgspec import Struct
from uuid_utils.compat import uuid7

from ledger.domain.merchants.commands import IssueApiKey, RevokeApiKey, RotateApiKey
from ledger.domain.merchants.decide import decide_issue, decide_revocation, decide_rotation
from ledger.domain.merchants.events import MerchantEvent
from ledger.domain.merchants.state import ApiKey, Merchant
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.registration import change_merchant
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from ledger.security.api_keys import NewKey


class KeyResult(Struct, frozen=True, kw_only=True):
    """The API key that a request issued or revoked. `replaced` is the key whose place it took.

    `replayed` marks a request that changed nothing because the key was revoked already. `repeated` marks the answer
    that this idempotency key received the first time.
    """

    key: ApiKey
    replaced: ApiKey | None = None
    replayed: bool = False
    repeated: bool = False


async def issue_key(
    ledger: Ledger,
    actor: Actor,
    key: NewKey,
    *,
    name: str | None = None,
    scopes: Sequence[str] = (),
    expires_at: datetime | None = None,
    idempotency_key: IdempotencyKey | None = None,
) -> KeyResult:
    """Issues a further key of the actor's merchant; empty `scopes` allow everything. `expires_at` is real time.

    Raises like `change_merchant`; ActingKeyEnded, InsufficientScope, InvalidField, ApiKeyLimitReached.
    """
    key_id = uuid7()

    def decide(merchant: Merchant, at: datetime) -> Sequence[MerchantEvent]:
        command = IssueApiKey(
            key_id=key_id,
            key_hash=key.key_hash,
            hint=key.hint,
            at=at,
            real_at=datetime.now(UTC),
            name=name,
            scopes=tuple(scopes),
            expires_at=expires_at,
            acting_key_id=actor.key_id,
        )
        return decide_issue(merchant, command)

    return await _newest_after(ledger, actor, decide, idempotency_key)


async def rotate_key(
    ledger: Ledger,
    actor: Actor,
    key_id: UUID,
    key: NewKey,
    *,
    overlap: timedelta,
    name: str | None = None,
    expires_at: datetime | None = None,
    idempotency_key: IdempotencyKey | None = None,
) -> KeyResult:
    """Issues a key in the place of another, which stays valid for the time of `overlap`. `expires_at` is real time.

    Raises like `change_merchant`; ActingKeyEnded, ApiKeyNotFound, ApiKeyNotActive, InsufficientScope, InvalidField,
    ApiKeyLimitReached.
    """
    new_id = uuid7()

    def decide(merchant: Merchant, at: datetime) -> Sequence[MerchantEvent]:
        real_at = datetime.now(UTC)
        command = RotateApiKey(
            replaced_id=key_id,
            replaced_until=real_at + overlap,
            key_id=new_id,
            key_hash=key.key_hash,
            hint=key.hint,
            at=at,
            real_at=real_at,
            name=name,
            expires_at=expires_at,
            acting_key_id=actor.key_id,
        )
        return decide_rotation(merchant, command)

    return await _newest_after(ledger, actor, decide, idempotency_key)


async def revoke_key(
    ledger: Ledger, actor: Actor, key_id: UUID, idempotency_key: IdempotencyKey | None = None
) -> KeyResult:
    """Revokes a key; a revoked key stays so. Raises like `change_merchant`; ActingKeyEnded, ApiKeyNotFound,
    LastManagingKey.
    """

    def decide(merchant: Merchant, at: datetime) -> Sequence[MerchantEvent]:
        command = RevokeApiKey(key_id=key_id, at=at, real_at=datetime.now(UTC), acting_key_id=actor.key_id)
        return decide_revocation(merchant, command)

    result = await change_merchant(ledger, actor, decide, idempotency_key)
    key = next(key for key in result.state.keys if key.key_id == key_id)
    return KeyResult(key=key, replayed=result.replayed, repeated=result.repeated)


async def _newest_after(
    ledger: Ledger,
    actor: Actor,
    decide: Callable[[Merchant, datetime], Sequence[MerchantEvent]],
    idempotency_key: IdempotencyKey | None,
) -> KeyResult:
    """Returns the key that a decision issues: the merchant's last one, in the version that the commit left."""
    result = await change_merchant(ledger, actor, decide, idempotency_key)
    key = result.state.keys[-1]
    replaced = next((each for each in result.state.keys if each.replaced_by == key.key_id), None)
    return KeyResult(key=key, replaced=replaced, repeated=result.repeated)
