"""The lanes of jobs. Messages to people have one, since one slow mail server delays all of them, and renewals have one,
since they wait for their pace. All other work has the main lane.

A merchant has a queue in each lane, so that its captures wait behind neither its messages nor its renewals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.invoices.due import InvoiceTimerKind
from ledger.domain.orders.timers import REMINDER
from ledger.domain.subscriptions.due import DUE
from ledger.domain.subscriptions.notices import NOTICE

MAIL_KINDS: Final = frozenset({REMINDER, NOTICE, InvoiceTimerKind.MAIL})
"""The kinds of due work that hand messages to the notifier."""

PACED_KINDS: Final = frozenset({DUE})
"""The kinds of work that is due for many subscriptions at once: a worker begins it at `LEDGER_RENEWALS_PER_SECOND`."""

MAILS_AT_ONCE: Final = 8
"""How many jobs with messages a process runs at once, and how many of their tasks: as many as a notifier connects."""

RENEWALS_AT_ONCE: Final = 16
"""How many jobs with renewals a process runs at once: half of all. Each holds up to a hundred renewals."""


class _Lane(Struct, frozen=True):
    """A lane beside the main one: the end of its queues' names, its kinds of work, and its jobs in a process."""

    suffix: str
    kinds: frozenset[str]
    jobs_max: int


_LANES: Final = (_Lane("-mail", MAIL_KINDS, MAILS_AT_ONCE), _Lane("-due", PACED_KINDS, RENEWALS_AT_ONCE))
_NAME_LENGTH: Final = 32


def lane_of(kind: str) -> str:
    """Returns the end of the names of queues for work of a kind, which is empty for the main lane."""
    return next((lane.suffix for lane in _LANES if kind in lane.kinds), "")


def queue_of(merchant_id: UUID, kind: str = "") -> str:
    """Returns the name of a merchant's queue for work of a kind. Its jobs can be run and awaited alone."""
    return merchant_id.hex + lane_of(kind)  # it becomes part of a channel's name, which is short


def queues_of(merchant_id: UUID) -> list[str]:
    """Returns the names of all queues of a merchant."""
    return [merchant_id.hex, *(merchant_id.hex + lane.suffix for lane in _LANES)]


def full_lanes(running: Iterable[tuple[str, int]]) -> list[str]:
    """Returns the ends of the names of queues whose lane has all the jobs that it may have.

    `running` counts the jobs of this process by queue.
    """
    counts = dict.fromkeys((lane.suffix for lane in _LANES), 0)
    for queue, count in running:
        suffix = queue[_NAME_LENGTH:]
        if suffix in counts:
            counts[suffix] += count
    return [lane.suffix for lane in _LANES if counts[lane.suffix] >= lane.jobs_max]
