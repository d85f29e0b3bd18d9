"""The lanes of jobs: messages to people have one beside all other work, since one slow mail server delays all of them.

A merchant has a queue in each lane, so that its billing never waits behind its messages.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ledger.domain.orders.timers import REMINDER
from ledger.domain.subscriptions.notices import NOTICE

MAIL_KINDS: Final = frozenset({REMINDER, NOTICE})
"""The kinds of due work that hand messages to the notifier."""

MAILS_AT_ONCE: Final = 8
"""How many jobs with messages a process runs at once, and how many of their tasks: as many as a notifier connects."""

_MAIL: Final = "-mail"


def queue_of(merchant_id: UUID, kind: str = "") -> str:
    """Returns the name of a merchant's queue for work of a kind. Its jobs can be run and awaited alone."""
    name = merchant_id.hex  # it becomes part of a channel's name, which is short
    return name + _MAIL if kind in MAIL_KINDS else name


def queues_of(merchant_id: UUID) -> list[str]:
    """Returns the names of all queues of a merchant."""
    return [merchant_id.hex, merchant_id.hex + _MAIL]


def is_mail(queue: str) -> bool:
    """Returns whether a queue has messages."""
    return queue.endswith(_MAIL)
