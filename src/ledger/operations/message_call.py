"""A call that hands a message for a customer to the notifier: one attempt, whose result is an outcome."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import structlog

from ledger.domain.customers.terms import Accepted, AttemptOutcome, NotAccepted, Refused
from ledger.notifications.contract import Notification, NotificationFailed, NotificationRefused, NotifierUnavailable
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.calls import Call, Ended, Failure

_log = structlog.get_logger()

_MARGIN: Final = timedelta(seconds=5)
"""What an attempt gets beside the notifier's time, for its commit."""


class AttemptRunning(Exception):
    """Another worker's attempt to send the message has not ended, and its deadline has not passed."""


class MessageCall(Call, frozen=True, kw_only=True):
    """Hands a message over. A mail server cannot be asked later whether it has a message, so none is looked up."""

    async def send(self, prepared: Notification, left_s: float) -> AttemptOutcome:
        notifier = self.ledger.notifier
        try:
            await notifier.send(prepared, min(notifier.timeout_s, left_s))
        except NotificationRefused as refused:
            return Refused(refused.code)
        return Accepted()

    def without_answer(self, failure: Failure) -> AttemptOutcome:
        fault, reason = failure.fault, type(failure.fault).__name__
        match failure.ended:
            case Ended.NOT_SENT if fault is None:
                return NotAccepted("LATE")
            case Ended.NOT_SENT if isinstance(fault, NotifierUnavailable):
                return NotAccepted(fault.code)
            case Ended.NOT_SENT:
                _log.error("reminder_not_written", reason=reason, **self.about)
                return NotAccepted("NOT_WRITTEN")
            case Ended.TIMED_OUT:
                return NotAccepted(fault.code if isinstance(fault, NotificationFailed) else "TIMEOUT", unknown=True)
            case Ended.UNREADABLE:
                _log.error("notifier_failed", notifier=self.ledger.notifier.name, reason=reason, **self.about)
                return NotAccepted("UNREADABLE", unknown=True)


def message_deadline(ledger: Ledger, begins_at: datetime) -> datetime:
    """Returns the real time until which an attempt must have ended that begins at this real time."""
    return begins_at + timedelta(seconds=ledger.notifier.timeout_s) + _MARGIN
