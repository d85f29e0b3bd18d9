"""An order's past, event by event: what happened, who requested it, and the order afterwards.

Fold it from the log by the `evolve` that everything else uses, and read no stored row: a replay is right even if a
read model is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from ledger.domain.money import plain
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.journal.reader import RecordedEvent


class ReplayStep(Struct, frozen=True):
    """One event with its envelope, and the order after it."""

    recorded: RecordedEvent
    order: Order

    @property
    def context(self) -> dict[str, Any]:
        """Who caused the event and why: `actor`, `operator`, `request` and `causation`, if they were recorded."""
        found: dict[str, Any] = msgspec.json.decode(self.recorded.context)
        return found


def steps(
    history: Sequence[RecordedEvent], *, at: datetime | None = None, version: int | None = None
) -> Iterator[ReplayStep]:
    """Yields the steps of an order's stream, oldest first: those recorded up to `at`, and up to that version."""
    order: Order | None = None
    for recorded in history:
        if (at is not None and recorded.recorded_at > at) or (version is not None and recorded.version > version):
            return
        order = evolve(order, recorded.event)
        yield ReplayStep(recorded, order)


def replay_document(merchant_id: UUID, replayed: Sequence[ReplayStep]) -> dict[str, Any]:
    """Returns the replay for programs. Amounts are decimal strings in minor units; `event` is what the log holds."""
    terms = replayed[-1].order.terms
    return {
        "merchantId": merchant_id,
        "orderId": terms.order_id,
        "orderNumber": terms.order_number,
        "externalId": terms.external_id,
        "currency": terms.currency,
        "events": [_step_document(step) for step in replayed],
    }


def _step_document(step: ReplayStep) -> dict[str, Any]:
    recorded, context = step.recorded, step.context
    return {
        "version": recorded.version,
        "position": recorded.position,
        "recordedAt": recorded.recorded_at,
        "topic": recorded.topic,
        "commandId": recorded.command_id,
        "actor": context.get("actor"),
        "operator": context.get("operator"),
        "request": context.get("request"),
        "causation": context.get("causation"),
        "event": recorded.event,
        "state": _state(step.order),
    }


def _state(order: Order) -> dict[str, Any]:
    return {
        "status": order.status,
        "amount": plain(order.amount),
        "amountPaid": plain(order.amount_paid),
        "amountRefunded": plain(order.amount_refunded),
        "amountPending": plain(order.amount_pending),
        "payments": [
            {
                "id": payment.started.payment_id,
                "status": payment.status,
                "captured": plain(payment.captured),
                "refunded": plain(payment.refunded),
            }
            for payment in order.payments
        ],
    }
