"""What falls due on orders: kept as the order as it stands has it, and done by deciding on it again.

The rule a stranger would break: a kind is kept only where its handler stands here. A capture or a void calls the processor,
which is an operation of its own; one that were only announced would be taken for a call that got lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from ledger.journal.journal import Journal
from ledger.operations.dues import carry_out
from ledger.operations.ledger import Ledger
from ledger.orders.dues import Due as OrderDue
from ledger.orders.dues import DueKind, decide_due, due_key, dues
from ledger.orders.events import TOPICS, OrderEvent
from ledger.orders.evolve import evolve
from ledger.orders.state import Order
from ledger.reactions.jobs import Handler
from ledger.reactions.reaction import Due


class OrderDues:
    """Looks at every order that something happened to."""

    name = "order-dues"
    topics = frozenset(TOPICS) - {"order-created.v1", "payment-started.v1", "payer-forgotten.v1"}

    async def standing(self, journal: Journal, merchant_id: UUID, stream_id: UUID) -> Sequence[Due]:
        """What is due on an order as it stands now. Raises a Fault."""
        order, _ = await journal.load(merchant_id, stream_id, evolve)
        if order is None:
            return []
        return [Due(due.kind, stream_id, due.payment_id, due.at) for due in dues(order) if due.kind in HANDLERS]


async def _end(
    kind: DueKind, ledger: Ledger, merchant_id: UUID, order_id: UUID, payment_id: UUID, due_at: datetime
) -> None:
    """An authorisation has lapsed, a session or a reference has expired: nobody has to be called."""
    deadline_at = datetime.now(UTC) + timedelta(seconds=ledger.patience.processor_timeout_s)

    def decide(order: Order, now: datetime) -> Sequence[OrderEvent]:
        due = OrderDue(kind, payment_id, due_at)
        return decide_due(order, due, due_key(order, due), deadline_at, now)

    await carry_out(ledger, merchant_id, order_id, payment_id, decide)


HANDLERS: Final[Mapping[str, Handler]] = {kind: partial(_end, kind) for kind in (DueKind.EXPIRY, DueKind.LAPSE)}
