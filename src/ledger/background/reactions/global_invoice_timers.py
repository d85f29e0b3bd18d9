"""The timer of a global invoice that is being stamped or cancelled. A handler decides on it as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from ledger.background.effects import SetTimer
from ledger.background.scheduler.jobs import Handler
from ledger.domain.invoices.global_invoices.due import due_at
from ledger.domain.orders.global_invoices.events import TOPICS
from ledger.domain.orders.global_invoices.state import DUE
from ledger.domain.streams import GLOBAL_INVOICES
from ledger.journal.journal import Journal
from ledger.journal.reader import SeenEvent
from ledger.operations.context.ledger import Ledger
from ledger.operations.global_invoices.due import advance_global_invoice


class GlobalInvoiceTimers:
    """Stores when a global invoice has to be looked at, until its stamp or its cancellation has ended."""

    name = "global-invoice-dues"
    topics = frozenset(TOPICS)

    def is_settled(self, seen: Sequence[SeenEvent]) -> bool:  # noqa: ARG002 - the protocol's parameter
        """Returns False: the timer follows from the document as it is."""
        return False

    async def timers(self, journal: Journal, merchant_id: UUID, stream_id: UUID) -> Sequence[SetTimer]:
        """Returns the timer of a global invoice as it is now. Raises a Fault."""
        invoice, _ = await journal.load(merchant_id, GLOBAL_INVOICES, stream_id)
        at = None if invoice is None else due_at(invoice)
        return [] if at is None else [SetTimer(DUE, stream_id, stream_id, at)]


async def _advance(ledger: Ledger, merchant_id: UUID, global_invoice_id: UUID, _: UUID, __: datetime) -> None:
    await advance_global_invoice(ledger, merchant_id, global_invoice_id)


HANDLERS: Final[Mapping[str, Handler]] = {DUE: _advance}
