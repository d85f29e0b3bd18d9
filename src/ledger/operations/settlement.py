"""From an intent to its outcome: call the processor, record what came of it.

The rule a stranger would break: nothing that a processor said is ever dropped. When the order has moved on meanwhile,
the outcome is decided again on the order as it is now, until it is written; a time-out is unknown, never declined.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

import structlog
from uuid_utils.compat import uuid7

from ledger.gateways.contract import AuthorizationRequest, Card, ProcessorTimedOut, ProcessorUnavailable
from ledger.journal.append import Change, VersionConflict
from ledger.journal.journal import Context
from ledger.operations.ledger import Ledger
from ledger.orders.commands import AuthorizationOutcome, NotSent, SettleAuthorization, Unanswered
from ledger.orders.decide import decide_settlement
from ledger.orders.evolve import evolve
from ledger.orders.outcomes import ActionRequired
from ledger.orders.state import Intent, Order

_log = structlog.get_logger()


async def call_processor(
    ledger: Ledger, merchant_id: UUID, order: Order, intent: Intent, card: Card
) -> AuthorizationOutcome:
    """Ask the processor for what the committed intent announced. Never raises: every failure is an outcome."""
    request = AuthorizationRequest(
        merchant_id=merchant_id,
        idempotency_key=intent.idempotency_key,
        amount=intent.amount,
        currency=order.terms.currency,
        card=card,
        capture=intent.capture,
        deadline_at=intent.deadline_at,
    )
    assert ledger.processor is not None, "no intent is committed without a processor"
    try:
        async with asyncio.timeout((intent.deadline_at - datetime.now(UTC)).total_seconds()):
            answer = await ledger.processor.authorize(request)
    except ProcessorUnavailable:
        return NotSent()
    except (ProcessorTimedOut, TimeoutError):
        return Unanswered(reason="The processor did not answer in time.")
    except Exception as fault:  # noqa: BLE001 - an answer that we cannot read is an unknown outcome
        _log.error("processor_failed", processor=intent.processor, reason=type(fault).__name__)
        return Unanswered(reason="The processor's answer could not be read.")
    if isinstance(answer, ActionRequired):  # no request allows it yet: an answer to something else
        return Unanswered(reason="The processor's answer could not be read.")
    return answer


async def record_outcome(
    ledger: Ledger,
    merchant_id: UUID,
    order: Order,
    version: int,
    payment_id: UUID,
    outcome: AuthorizationOutcome,
    context: Context,
    beside: Callable[[int], Sequence[Change]] = lambda _: (),
) -> tuple[Order, int]:
    """Write what became of a payment; the order and its version afterwards. Raises a Fault: the recovery goes on then.

    `beside` says what else belongs into the outcome's commit, given the order's version after it.
    """
    await ledger.clock.look(merchant_id)  # the processor has taken its time
    while True:
        command = SettleAuthorization(payment_id=payment_id, outcome=outcome, at=ledger.clock.now(merchant_id))
        events = decide_settlement(order, command)
        if not events:
            return order, version
        after: Order | None = order
        for event in events:
            after = evolve(after, event)
        assert after is not None
        change = Change(order.terms.order_id, version, events, order, after)
        changes = [change, *beside(version + len(events))]
        try:
            await ledger.journal.commit(merchant_id, uuid7(), changes, context=context)
        except VersionConflict:
            order, version = await load_order(ledger, merchant_id, order.terms.order_id)
            continue
        return after, version + len(events)


async def load_order(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> tuple[Order, int]:
    """An order that is known to exist, as the log has it now."""
    order, version = await ledger.journal.load(merchant_id, order_id, evolve)
    assert order is not None, "an order does not go away"
    await ledger.clock.look(merchant_id)  # what is decided on this state is not dated before it
    return order, version
