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

from ledger.journal.journal import Journal
from ledger.operations.lapses import run_due
from ledger.operations.ledger import Ledger
from ledger.orders.dues import DueKind, dues
from ledger.orders.events import TOPICS
from ledger.orders.evolve import evolve
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


async def _do(
    kind: DueKind, ledger: Ledger, merchant_id: UUID, order_id: UUID, payment_id: UUID, due_at: datetime
) -> None:
    await run_due(ledger, merchant_id, order_id, kind, payment_id, due_at)


HANDLERS: Final[Mapping[str, Handler]] = {kind: partial(_do, kind) for kind in DueKind}
