"""The contract of a notifier: what an operation may ask of it, and what it may answer.

Raise `NotifierUnavailable` only if the message was certainly not accepted. If the answer to a message that was
handed over is missing, raise `NotificationUnanswered`: the outcome is unknown.

`code` is short and names no person: it is stored in events and logged. Never put a server's own text into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from ledger.call_failures import TimedOut, Unavailable


class MessageKind(StrEnum):
    """What a message is about."""

    PAYMENT_REMINDER = "PAYMENT_REMINDER"
    OVERDUE = "OVERDUE"
    TRIAL_WILL_END = "TRIAL_WILL_END"
    PAYMENT_FAILED = "PAYMENT_FAILED"
    RENEWAL_RECEIPT = "RENEWAL_RECEIPT"
    CFDI_INVOICE = "CFDI_INVOICE"
    CFDI_RECEIPT = "CFDI_RECEIPT"
    CFDI_CREDIT_NOTE = "CFDI_CREDIT_NOTE"
    WEBHOOK_DISABLED = "WEBHOOK_DISABLED"


class Message(Struct, frozen=True, kw_only=True):
    """The content of a message, the same for every recipient of its values. `language` is `es` or `en`."""

    kind: MessageKind
    language: str
    subject: str
    text: str
    html: str


class Attachment(Struct, frozen=True, kw_only=True):
    """A file of a message. `name` and `media_type` are ASCII."""

    name: str
    media_type: str
    content: bytes


class Notification(Struct, frozen=True, kw_only=True):
    """A message to one recipient. `notification_id` is the same in every attempt: a mail's Message-ID is derived from
    it. `about` names the merchant and the order or subscription, for the log.
    """

    notification_id: UUID
    sender_name: str
    recipient: str
    message: Message
    attachments: tuple[Attachment, ...] = ()
    about: Mapping[str, str] = {}


class NotificationFailed(Exception):
    """The notifier did not confirm a message."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class NotificationRefused(NotificationFailed):
    """The message is refused for good: another attempt would be refused, too."""


class NotifierUnavailable(NotificationFailed, Unavailable):
    """The message was certainly not accepted; another attempt may succeed."""


class NotificationUnanswered(NotificationFailed, TimedOut):
    """The message was handed over, and no answer came: it may have been accepted."""


class Notifier(Protocol):
    """Delivers messages. `timeout_s` is how long an attempt may take, in seconds of real time."""

    name: str
    timeout_s: float

    async def send(self, notification: Notification, within_s: float) -> None:
        """Returns once the message is accepted, within so many seconds.

        Raises NotificationRefused, NotifierUnavailable, NotificationUnanswered.
        """
        ...
