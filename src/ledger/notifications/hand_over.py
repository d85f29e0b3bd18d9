"""Hands a message to a notifier: one attempt, which returns an outcome for every failure."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from msgspec import Struct

from ledger.notifications.contract import (
    Notification,
    NotificationRefused,
    NotificationUnanswered,
    Notifier,
    NotifierUnavailable,
)

_log = structlog.get_logger()

MARGIN: Final = timedelta(seconds=5)
"""The time that an attempt gets for its commit, beside the notifier's time."""


class AttemptRunning(Exception):
    """Another worker's attempt to send the message has not ended, and its deadline has not passed."""


class HandedOver(Struct, frozen=True):
    """How an attempt ended: accepted without a `code`; refused for good, or not accepted, with one.

    `unknown`: the notifier may have accepted the message.
    """

    code: str | None = None
    refused: bool = False
    unknown: bool = False


async def hand_over(
    notifier: Notifier, written: Awaitable[Notification], deadline_at: datetime, **about: str
) -> HandedOver:
    """Writes a message, and hands it over until `deadline_at`, in real time. Never raises. `about` is logged."""
    try:
        notification = await written
        left_s = (deadline_at - datetime.now(UTC)).total_seconds()
        if left_s <= 0:
            return HandedOver("LATE")
    except Exception as fault:  # noqa: BLE001 - nothing was handed over: the next attempt makes the message again
        _log.error("reminder_not_written", reason=type(fault).__name__, **about)
        return HandedOver("NOT_WRITTEN")
    try:
        await notifier.send(notification, min(notifier.timeout_s, left_s))
    except NotificationRefused as refused:
        return HandedOver(refused.code, refused=True)
    except NotifierUnavailable as unavailable:
        return HandedOver(unavailable.code)
    except NotificationUnanswered as unanswered:
        return HandedOver(unanswered.code, unknown=True)
    except Exception as fault:  # noqa: BLE001 - an answer that cannot be read is an unknown outcome
        _log.error("notifier_failed", notifier=notifier.name, reason=type(fault).__name__, **about)
        return HandedOver("UNREADABLE", unknown=True)
    return HandedOver()
