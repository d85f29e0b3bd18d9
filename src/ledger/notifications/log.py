"""The notifier without a mail server: it logs that there was a message, without its receiver."""

from __future__ import annotations

import structlog

from ledger.notifications.contract import Notification

_log = structlog.get_logger()


class LogNotifier:
    """Logs the kind, the language and the id of a message, and what it is about. It accepts every message."""

    name = "log"
    timeout_s = 10.0

    async def send(self, notification: Notification, within_s: float) -> None:  # noqa: ARG002 - the contract's
        """Logs a message."""
        message = notification.message
        _log.info(
            "message_logged",
            notification_id=str(notification.notification_id),
            kind=message.kind,
            language=message.language,
            **notification.about,
        )
