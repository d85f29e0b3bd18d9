"""What falls due on orders: kept as the order as it stands has it, and done by deciding on it again.

The rule a stranger would break: a kind is kept only where its handler stands here. What the handler does is an operation, which
asks the order again: a reminder that comes twice does nothing the second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from ledger.background.reactions.reaction import SetTimer
from ledger.background.scheduler.jobs import Handler
from ledger.domain.orders.events import TOPICS, CaptureRequested, CaptureScheduled, PaymentAuthorized, PaymentCaptured
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.timers import TimerKind, timers_of
from ledger.journal.journal import Journal
from ledger.journal.reader import RecordedEvent
from ledger.operations.ledger import Ledger
from ledger.operations.orders.timers import run_timer

_BRINGS_NOTHING_DUE: Final = frozenset(
    {"order-created.v1", "payment-started.v1", "authorization-requested.v1", "payer-forgotten.v1"}
)
_SALE: Final = (PaymentAuthorized, CaptureScheduled, CaptureRequested, PaymentCaptured)
_OUTCOME_VERSION: Final = 4
"""Where the outcome of an order's first payment stands: behind the order, its payment and the payment's intent."""


class OrderTimers:
    """Looks at every order that something happened to."""

    name = "order-dues"
    topics = frozenset(TOPICS) - _BRINGS_NOTHING_DUE

    def is_settled(self, seen: Sequence[RecordedEvent]) -> bool:
        """Whether an order was paid by its first payment in one go: most are, and none of those is worth a question."""
        if len(seen) != len(_SALE) or seen[0].version != _OUTCOME_VERSION:
            return False
        events = [each.event for each in seen]
        return tuple(map(type, events)) == _SALE and events[0].amount == events[-1].amount

    async def standing(self, journal: Journal, merchant_id: UUID, stream_id: UUID) -> Sequence[SetTimer]:
        """What is due on an order as it stands now. Raises a Fault."""
        order, _ = await journal.load(merchant_id, stream_id, evolve)
        if order is None:
            return []
        return [
            SetTimer(due.kind, stream_id, due.payment_id, due.at) for due in timers_of(order) if due.kind in HANDLERS
        ]


async def _do(
    kind: TimerKind, ledger: Ledger, merchant_id: UUID, order_id: UUID, payment_id: UUID, due_at: datetime
) -> None:
    await run_timer(ledger, merchant_id, order_id, kind, payment_id, due_at)


HANDLERS: Final[Mapping[str, Handler]] = {kind: partial(_do, kind) for kind in TimerKind}
