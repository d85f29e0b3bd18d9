"""Warns that the legal deadline of a payment receipt is near."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import structlog

from ledger.domain.invoices.commands import WarnOfDeadline
from ledger.domain.invoices.decide.deadlines import decide_deadline_warning, is_being_stamped, near_deadline
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.telemetry.metrics import RECEIPTS_NEAR_DEADLINE

_log = structlog.get_logger()


class StampUnderWay(Exception):
    """A document of the order is being stamped, or its worker has crashed and the deadline of its call is ahead."""


async def warn_of_deadline(ledger: Ledger, merchant_id: UUID, order_id: UUID, payment_id: UUID) -> None:
    """Records, logs and counts a payment whose receipt is not stamped shortly before its deadline, once.

    Raises StampUnderWay, ConcurrentUpdate, a Fault: run it again later. A call that a crash has left open may stay
    without an outcome for as long as the provider is away, so that no event sets the timer of the warning again.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=payment_id)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        command = WarnOfDeadline(payment_id=payment_id, at=uow.now, real_at=datetime.now(UTC))
        if near_deadline(order, command) is not None and is_being_stamped(order, command):
            raise StampUnderWay
        events = decide_deadline_warning(order, command)
        return Plan(changes=[uow.change_order(order_id, events)])

    plan = await execute(uow, attempt)
    for warning in plan.events:
        RECEIPTS_NEAR_DEADLINE.inc()
        _log.warning(
            "receipt_deadline_near",
            merchant_id=str(merchant_id),
            order_id=str(order_id),
            payment_id=str(payment_id),
            due_at=warning.receipt_due_at.isoformat(),
        )
