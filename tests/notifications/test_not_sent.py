"""The log lines about messages that were not sent: every reason in words, and a warning only for a mail server's."""

from __future__ import annotations

from structlog.testing import capture_logs

from ledger.domain.orders.events import ReminderDroppedBecause
from ledger.domain.subscriptions.notice_events import NoticeDroppedBecause
from ledger.notifications.not_sent import log_dropped


def test_every_reason_is_logged_in_words_and_a_mail_server_s_is_a_warning() -> None:
    reasons = {*map(str, ReminderDroppedBecause), *map(str, NoticeDroppedBecause)}
    with capture_logs() as logged:
        for because in sorted(reasons):
            code = "RCPT 550 5.1.1" if because in ("REFUSED", "UNDELIVERED") else None
            log_dropped("reminder_dropped", because, code, merchant_id="m", order_id="o")
    assert {line["because"] for line in logged if line["message"].endswith(".")} == reasons
    assert {line["because"] for line in logged if line["log_level"] != "info"} == {"REFUSED", "UNDELIVERED"}
    assert {(line["merchant_id"], line["order_id"]) for line in logged} == {("m", "o")}
