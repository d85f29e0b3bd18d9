"""Previews the next invoice of a subscription."""

from __future__ import annotations

from ledger.domain.streams import SUBSCRIPTIONS
from ledger.domain.subscriptions.decide.preview import preview_next
from ledger.domain.subscriptions.state import Invoice, Subscription
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.unit_of_work import UnitOfWork


async def preview_invoice(ledger: Ledger, actor: Actor, reference: str) -> tuple[Subscription, Invoice]:
    """Returns the subscription that `reference` names, and the invoice that the end of its current period makes.

    Nothing is recorded. Raises SubscriptionNotFound, SubscriptionCanceled, NoNextInvoice, a Fault.
    """
    state = await UnitOfWork(ledger, actor).find(SUBSCRIPTIONS, reference)
    return state, preview_next(state)
