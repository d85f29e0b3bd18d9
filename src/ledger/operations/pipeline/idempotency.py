"""The answer that an idempotency key has already received, and the record of a rejection (contract N30, section 8.14).

Refuse the same key with another request before anything of it happens, and never guess the answer of a request that is
neither answered nor refused.
"""

from __future__ import annotations

import hmac
import json
from decimal import Decimal
from typing import Final

import msgspec
from msgspec import Raw

from ledger.domain.idempotency.events import RequestRefused
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.rejections import IdempotencyKeyReused, Rejected, rejection_of
from ledger.operations.pipeline.unit_of_work import UnitOfWork, in_progress

_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


async def find_record(uow: UnitOfWork) -> IdempotencyRecord | None:
    """Returns the record of an accepted or completed request under the key; None if the request is new, or nothing of
    it was sent.

    Raises the recorded rejection, IdempotencyKeyReused, a Fault of the journal.
    """
    record = await uow.load_record()
    if record is None:
        return None
    assert uow.key is not None, "only a request with a key has a record"
    if not hmac.compare_digest(record.fingerprint, uow.key.fingerprint):
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request: use another key.")
    if record.refusal is not None:
        raise _refused_before(record.refusal)
    return None if record.released else record


def result_of(record: IdempotencyRecord) -> Raw:
    """Returns the JSON with which a request was answered that is not about one order."""
    assert record.result is not None, "the fingerprint contains the operation, which keeps its result"
    return record.result


async def record_rejection(uow: UnitOfWork, rejection: Rejected) -> None:
    """Records a rejection if it will not change. Raises RequestInProgress if the request was sent twice at once, and
    the other one has changed what this one met.
    """
    if await uow.was_overtaken():
        raise in_progress() from rejection
    if rejection.lasting:
        assert uow.key is not None, "only a request with a key has a record"
        await uow.record_refusal(
            RequestRefused(
                fingerprint=uow.key.fingerprint,
                code=rejection.code,
                message=rejection.message,
                facts=msgspec.Raw(_encode(rejection.facts)),
                at=uow.now,
            )
        )


def _refused_before(refusal: RequestRefused) -> Rejected:
    """Returns the recorded rejection as it was first raised."""
    facts = json.loads(bytes(refusal.facts), parse_float=Decimal)
    rejection = rejection_of(refusal.code)(refusal.message, **facts)
    rejection.repeated = True
    return rejection
