"""The events of messages to a subscription's customer: part of the storage format of its stream (see `events`)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.py311_speedups import fast_members


@fast_members
class NoticeKind(StrEnum):
    """What a message to a subscription's customer is about."""

    TRIAL_WILL_END = "TRIAL_WILL_END"
    PAYMENT_FAILED = "PAYMENT_FAILED"
    RECEIPT = "RECEIPT"


@fast_members
class NoticeDroppedBecause(StrEnum):
    """Why a message was not sent.

    Its cause had passed: the trial was over or cancelled, the invoice was paid or void; the customer was erased, has no
    e-mail address or wants no such message; its time had long passed; the mail server refused it; no attempt of many
    reached the server; the outcome of two attempts is unknown.
    """

    NOT_NEEDED = "NOT_NEEDED"
    ERASED = "ERASED"
    NO_ADDRESS = "NO_ADDRESS"
    UNWANTED = "UNWANTED"
    MISSED = "MISSED"
    REFUSED = "REFUSED"
    UNDELIVERED = "UNDELIVERED"
    UNKNOWN = "UNKNOWN"


class NoticeRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The ledger decided to hand a message to a notifier: an intent. The attempt ends at `deadline_at` (real time).

    The message's id follows from its cause: the end of the trial, the declined order, or the paid invoice.
    """

    notice_id: UUID
    kind: NoticeKind
    notifier: str
    deadline_at: datetime
    at: datetime


class NoticePostponed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The notifier did not accept the message, and is to be asked again at `retry_at` by the merchant's clock.

    `unknown`: it may have accepted it, because its answer did not arrive.
    """

    notice_id: UUID
    code: str
    retry_at: datetime
    at: datetime
    unknown: bool = False


class NoticeSent(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The notifier accepted the message. Whether the customer received it is not known."""

    notice_id: UUID
    at: datetime


class NoticeDropped(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The message was not sent, or its sending is unknown, and it is not tried again.

    `code` is the notifier's own, without any text that could name the customer.
    """

    notice_id: UUID
    kind: NoticeKind
    because: NoticeDroppedBecause
    at: datetime
    code: str | None = None


NoticeEvent = NoticeRequested | NoticePostponed | NoticeSent | NoticeDropped

TOPICS: Final[dict[str, type[Struct]]] = {
    "subscription-notice-requested.v1": NoticeRequested,
    "subscription-notice-postponed.v1": NoticePostponed,
    "subscription-notice-sent.v1": NoticeSent,
    "subscription-notice-dropped.v1": NoticeDropped,
}
