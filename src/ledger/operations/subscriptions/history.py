"""A subscription's past, event by event: what happened, who requested it, and the subscription afterwards.

Fold it from the log, as the past of an order is, and read no stored row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from ledger.domain.subscriptions.evolve import evolve
from ledger.domain.subscriptions.state import Subscription
from ledger.journal.reader import RecordedEvent


class SubscriptionStep(Struct, frozen=True):
    """One event with its envelope, and the subscription after it."""

    recorded: RecordedEvent
    subscription: Subscription

    @property
    def context(self) -> dict[str, Any]:
        """Who caused the event and why: `actor`, `operator`, `request` and `causation`, if they were recorded."""
        found: dict[str, Any] = msgspec.json.decode(self.recorded.context)
        return found

    @property
    def status(self) -> str:
        """The status; REQUESTED or REFUSED for a subscription that has not started, which no merchant sees."""
        state = self.subscription
        if state.status is not None:
            return state.status.value
        return "REQUESTED" if state.refusal is None else "REFUSED"

    @property
    def open_invoices(self) -> int:
        """How many invoices can still be charged."""
        return sum(invoice.is_collectable for invoice in self.subscription.invoices)


def subscription_steps(
    history: Sequence[RecordedEvent], *, at: datetime | None = None, version: int | None = None
) -> list[SubscriptionStep]:
    """Returns the steps of a subscription's stream, oldest first: those recorded up to `at`, and up to that version."""
    found: list[SubscriptionStep] = []
    state: Subscription | None = None
    for recorded in history:
        if (at is not None and recorded.recorded_at > at) or (version is not None and recorded.version > version):
            break
        state = evolve(state, recorded.event)
        found.append(SubscriptionStep(recorded, state))
    return found


def subscription_document(merchant_id: UUID, replayed: Sequence[SubscriptionStep]) -> dict[str, Any]:
    """Returns the replay for programs. `event` is what the log holds."""
    state = replayed[-1].subscription
    return {
        "merchantId": merchant_id,
        "subscriptionId": state.subscription_id,
        "externalId": state.external_id,
        "customerId": state.customer_id,
        "planId": state.plan_id,
        "events": [_step_document(step) for step in replayed],
    }


def _step_document(step: SubscriptionStep) -> dict[str, Any]:
    recorded, state, context = step.recorded, step.subscription, step.context
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
        "state": {
            "status": step.status,
            "currentPeriodStart": state.current_period_start,
            "currentPeriodEnd": state.current_period_end,
            "nextBillingDate": state.next_billing_at,
            "invoices": len(state.invoices),
            "openInvoices": step.open_invoices,
        },
    }
