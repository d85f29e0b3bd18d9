"""The deciders of the cancellation of a global invoice.

Never refuse the outcome of a call. The orders are released in the commit that records the cancellation (`decide`).
"""

from __future__ import annotations

from datetime import datetime

from ledger.domain.invoices.commands import (
    CancellationOutcome,
    CancellationPending,
    Cancelled,
    Refused,
    RequestCancellation,
)
from ledger.domain.invoices.decide.cancellation import reported, require_other_document, require_substitute
from ledger.domain.orders.global_invoices.events import (
    GlobalCancellationPending,
    GlobalCancellationRefused,
    GlobalCancellationRequested,
    GlobalInvoiceCancelled,
    GlobalInvoiceEvent,
)
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.state import CancellationStatus
from ledger.domain.rejections import InvoiceNotReady


def decide_cancellation(invoice: GlobalInvoice, command: RequestCancellation) -> list[GlobalInvoiceEvent]:
    """Asks the provider to cancel a stamped global invoice. Returns no events if an earlier request was not refused.

    Raises InvalidField for `substitutedBy`, which motive 01 requires and the others exclude, and which names another
    document; InvoiceNotReady.
    """
    require_substitute(command)
    if invoice.stamp is None:
        raise InvoiceNotReady("The global invoice is not stamped, so that it cannot be cancelled.")
    before = invoice.cancellation
    if before is not None and before.status is not CancellationStatus.REFUSED:
        return []
    require_other_document(command, invoice.stamp)
    return [
        GlobalCancellationRequested(
            motive=command.motive,
            substituted_by=command.substituted_by,
            provider=command.provider,
            deadline_at=command.deadline_at,
            at=command.at,
        )
    ]


def decide_cancellation_again(
    invoice: GlobalInvoice, provider: str, deadline_at: datetime, at: datetime
) -> list[GlobalInvoiceEvent]:
    """Asks again for a cancellation that has no result and no open call. Returns no events in any other case."""
    before = invoice.cancellation
    if before is None or before.status is not CancellationStatus.PENDING:
        return []
    return [
        GlobalCancellationRequested(
            motive=before.motive,
            substituted_by=before.substituted_by,
            provider=provider,
            deadline_at=deadline_at,
            at=at,
        )
    ]


def decide_cancellation_outcome(
    invoice: GlobalInvoice, outcome: CancellationOutcome, at: datetime
) -> list[GlobalInvoiceEvent]:
    """Records what the provider reports about the cancellation."""
    match reported(invoice.cancellation, outcome):
        case None:
            return []
        case Cancelled():
            return [GlobalInvoiceCancelled(at=at)]
        case CancellationPending(message=message, unanswered=unanswered):
            return [GlobalCancellationPending(at=at, message=message, unanswered=unanswered)]
        case Refused(code=code, message=message):
            return [GlobalCancellationRefused(code=code, message=message, at=at)]
