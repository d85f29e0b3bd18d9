"""The state of the message that brings a stamped document to its receiver, and the fold of its events."""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from ledger.domain.customers.terms import Attempts, begun, postponed
from ledger.domain.orders.invoices.mail_events import (
    DocumentMailDropped,
    DocumentMailed,
    DocumentMailPostponed,
    DocumentMailRequested,
    MailDroppedBecause,
    MailEvent,
)


class DocumentMail(Attempts, frozen=True, kw_only=True):
    """The message with a document. `send_at` is when the next attempt is due; None once it is sent or dropped."""

    send_at: datetime | None
    sent_at: datetime | None = None
    dropped: MailDroppedBecause | None = None


def evolve_mail(mail: DocumentMail, event: MailEvent) -> DocumentMail:
    """Returns the message after `event`."""
    match event:
        case DocumentMailRequested():
            return begun(mail, event.deadline_at)
        case DocumentMailPostponed():
            return postponed(mail, event.retry_at, unknown=event.unknown)
        case DocumentMailed():
            return replace(mail, send_at=None, deadline_at=None, sent_at=event.at)
        case DocumentMailDropped():
            return replace(mail, send_at=None, deadline_at=None, dropped=event.because)
        case _:
            assert_never(event)
