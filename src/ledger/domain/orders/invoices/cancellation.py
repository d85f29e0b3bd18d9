"""The fold of the cancellation of a stamped document, whichever stream records it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec.structs import replace

from ledger.domain.orders.invoices.state import (
    CancellationStatus,
    DocumentCancellation,
    DocumentFailure,
    StampingIntent,
)
from ledger.domain.orders.invoices.terms import CancellationMotive


def requested(
    before: DocumentCancellation | None,
    intent: StampingIntent,
    motive: CancellationMotive,
    substituted_by: UUID | None,
    at: datetime,
    *,
    for_refund: bool = False,
) -> DocumentCancellation:
    """Returns the cancellation after a request: the same one if `before` has no result yet, otherwise a new one."""
    if before is not None and before.status is CancellationStatus.PENDING:
        status, requests = CancellationStatus.REQUESTED, before.requests + 1
        return replace(before, status=status, requests=requests, updated_at=at, intent=intent)
    return DocumentCancellation(
        status=CancellationStatus.REQUESTED,
        motive=motive,
        substituted_by=substituted_by,
        requested_at=at,
        updated_at=at,
        intent=intent,
        for_refund=for_refund or (before is not None and before.for_refund),
    )


def pending(before: DocumentCancellation | None, at: datetime, *, unanswered: bool) -> DocumentCancellation:
    """Returns the cancellation without a result after its call."""
    times = _begun(before).unanswered + 1 if unanswered else 0
    return _after(before, CancellationStatus.PENDING, at, unanswered=times)


def cancelled(before: DocumentCancellation | None, at: datetime) -> DocumentCancellation:
    """Returns the cancellation that SAT has carried out."""
    return _after(before, CancellationStatus.CANCELLED, at, failure=None)


def refused(before: DocumentCancellation | None, code: str, message: str, at: datetime) -> DocumentCancellation:
    """Returns the cancellation that was refused."""
    return _after(before, CancellationStatus.REFUSED, at, failure=DocumentFailure(code, message, at))


def _after(
    before: DocumentCancellation | None, status: CancellationStatus, at: datetime, **changes: object
) -> DocumentCancellation:
    return replace(_begun(before), status=status, intent=None, updated_at=at, **changes)


def _begun(before: DocumentCancellation | None) -> DocumentCancellation:
    assert before is not None, "a cancellation begins with its request"
    return before
