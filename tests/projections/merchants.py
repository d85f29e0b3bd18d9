"""The events of a merchant with a key, and the change that commits them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.domain.builders import NOON
from uuid_utils.compat import uuid7

from ledger.domain.merchants.events import ApiKeyIssued, MerchantRegistered
from ledger.domain.merchants.evolve import evolve
from ledger.domain.merchants.state import Merchant
from ledger.journal.append import Change
from ledger.journal.journal import Journal


def registered(merchant_id: UUID, name: str = "Café Tacuba") -> MerchantRegistered:
    return MerchantRegistered(merchant_id=merchant_id, name=name, at=NOON)


def issued(merchant_id: UUID, key_hash: bytes, **more: Any) -> ApiKeyIssued:
    return ApiKeyIssued(merchant_id=merchant_id, key_id=uuid7(), key_hash=key_hash.hex(), hint="…abcd", at=NOON, **more)


async def commit(journal: Journal, before: Merchant | None, version: int, events: Sequence[Any]) -> Merchant:
    """Commits these events of a merchant together, and returns its state."""
    after = before
    for event in events:
        after = evolve(after, event)
    assert after is not None
    await journal.commit(after.merchant_id, uuid7(), [Change(after.merchant_id, version, events, before, after)])
    return after
