"""Every reason why a message is not sent has words for operators."""

from __future__ import annotations

from ledger.domain.orders.events import ReminderDroppedBecause
from ledger.domain.orders.invoices.mail_events import MailDroppedBecause
from ledger.domain.subscriptions.notice_events import NoticeDroppedBecause
from ledger.notifications.not_sent import in_words


def test_every_reason_is_a_sentence_for_operators() -> None:
    reasons = {*map(str, ReminderDroppedBecause), *map(str, NoticeDroppedBecause), *map(str, MailDroppedBecause)}
    assert all(in_words(because).endswith(".") for because in reasons)
    assert len({in_words(because) for because in reasons}) == len(reasons)
