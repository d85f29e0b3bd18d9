"""The notifier without a mail server, and which notifier the settings choose."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from tests.notifications.conftest import NOTIFICATION, SENDER

from ledger.notifications.log import LogNotifier
from ledger.settings import Settings
from ledger.wiring import _notifier


@pytest.mark.anyio
async def test_a_logged_message_names_its_order_and_no_person() -> None:
    with capture_logs() as logged:
        await LogNotifier().send(replace(NOTIFICATION, about={"order_id": "019a"}), 1.0)
    assert logged == [
        {
            "event": "message_logged",
            "log_level": "info",
            "notification_id": str(NOTIFICATION.notification_id),
            "kind": "PAYMENT_REMINDER",
            "language": "es",
            "order_id": "019a",
        }
    ]


def test_the_settings_choose_the_notifier() -> None:
    assert _notifier(Settings()).name == "log"
    configured = _notifier(Settings(smtp_url="smtps://u:p@mail.example.com", mail_from=SENDER, mail_timeout_s=7.0))
    assert (configured.name, configured.timeout_s) == ("smtp", 7.0)
