"""Log lines about messages that were not sent, with the reason in words."""

from __future__ import annotations

from typing import Final

import structlog

_log = structlog.get_logger()

_REASONS: Final = {
    "NOTHING_OWED": "The order waits for no payment any more.",
    "NOT_NEEDED": "What the message was about has passed.",
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


def log_dropped(event: str, because: str, code: str | None, **about: str) -> None:
    """Logs that a message is not sent: a warning where a mail server caused it, whose code is then given."""
    about |= {"because": because, "message": _REASONS[because]}
    if code is None:
        _log.info(event, **about)
    else:
        _log.warning(event, code=code, **about)


def log_postponed(event: str, code: str, **about: str) -> None:
    """Logs that a mail server did not accept a message, which is tried again."""
    _log.info(event, code=code, **about)
