"""Why a message was not sent, in words for operators."""

from __future__ import annotations

from typing import Final

_REASONS: Final = {
    "NOTHING_OWED": "The order waits for no payment any more.",
    "RESCHEDULED": "The due date of the order was changed: reminders of the new one follow.",
    "NOT_NEEDED": "What the message was about has passed.",
    "CANCELLED": "The document was cancelled.",
    "TURNED_OFF": "The merchant sends no reminders.",
    "ERASED": "The customer was erased.",
    "NO_ADDRESS": "The customer has no e-mail address.",
    "UNWANTED": "The customer's preferences leave this message out.",
    "MISSED": "The time of the message was more than 24 hours ago when the worker came to it, as with orders that are "
    "recorded later than they were made.",
    "REFUSED": "The mail server refused the message for good.",
    "UNDELIVERED": "The mail server accepted the message in none of the attempts.",
    "UNKNOWN": "Two attempts ended without an answer: the customer may have received the message.",
}


def in_words(because: str) -> str:
    """Returns why a message is not sent, as a sentence for an operator."""
    return _REASONS[because]
