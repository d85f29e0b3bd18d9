"""The events of the message that brings a stamped document to its receiver: a part of the storage format of orders.

Topics and fields are permanent (see `ledger.domain.orders.events`). `at` is by the merchant's clock, `deadline_at` is
real time. None of it is personal data: the address is read when the message is sent.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.py311_speedups import fast_members


@fast_members
class MailDroppedBecause(StrEnum):
    """Why a document is not mailed.

    The document was cancelled; the customer was erased, has no e-mail address or wants no such message; the mail server
    refused it; no attempt of many reached the server; the outcome of two attempts is unknown.
    """

    CANCELLED = "CANCELLED"
    ERASED = "ERASED"
    NO_ADDRESS = "NO_ADDRESS"
    UNWANTED = "UNWANTED"
    REFUSED = "REFUSED"
    UNDELIVERED = "UNDELIVERED"
    UNKNOWN = "UNKNOWN"


class DocumentMailRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to hand the document to the notifier: an intent. The attempt ends at `deadline_at`."""

    document_id: UUID
    notifier: str
    deadline_at: datetime
    at: datetime


class DocumentMailPostponed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The notifier did not accept the document. The next attempt is due at `retry_at` by the merchant's clock.

    `unknown` is True if it may have accepted it.
    """

    document_id: UUID
    code: str
    retry_at: datetime
    at: datetime
    unknown: bool = False


class DocumentMailed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The notifier accepted the document, with its XML and its PDF."""

    document_id: UUID
    at: datetime


class DocumentMailDropped(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The document is not mailed any more. `code` is the notifier's, if it caused this."""

    document_id: UUID
    because: MailDroppedBecause
    at: datetime
    code: str | None = None


MailEvent = DocumentMailRequested | DocumentMailPostponed | DocumentMailed | DocumentMailDropped

TOPICS: Final[dict[str, type[Struct]]] = {
    "document-mail-requested.v1": DocumentMailRequested,
    "document-mail-postponed.v1": DocumentMailPostponed,
    "document-mailed.v1": DocumentMailed,
    "document-mail-dropped.v1": DocumentMailDropped,
}
