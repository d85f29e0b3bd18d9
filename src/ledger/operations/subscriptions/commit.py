"""The commit of a subscription's events, with the use of its saved card in the stream of the customer's methods.

Both are one commit: a card that a subscription is charged to is never deleted without force (contract N58), and an
erased customer's live subscriptions are all found through the customer's cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID
from zoneinfo import ZoneInfo

from ledger.domain.ids import parse_uuid
from ledger.domain.payment_methods.commands import MoveSubscription
from ledger.domain.payment_methods.decide import decide_move, method_to_charge, not_found
from ledger.domain.payment_methods.state import SavedMethod, stream_of
from ledger.domain.plans.state import Plan as MerchantPlan
from ledger.domain.streams import PAYMENT_METHODS, SUBSCRIPTIONS
from ledger.domain.subscriptions.commands import ChosenPlan
from ledger.domain.subscriptions.events import ChargeBegun, SubscriptionEvent
from ledger.domain.subscriptions.state import Subscription
from ledger.journal.append import Change, Claim
from ledger.operations.context.results import WHOLE_ORDER, RequestTarget
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork


async def subscription_plan(
    uow: UnitOfWork,
    subscription_id: UUID,
    events: Sequence[SubscriptionEvent],
    *others: Change,
    claims: Sequence[Claim] = (),
) -> Plan:
    """Returns the plan of a subscription's events. `others` are further streams that the commit changes or checks.

    The plan of a charge that begins is about its payment.
    """
    change = uow.change(SUBSCRIPTIONS, subscription_id, events)
    changes = [change, *others]
    if events:
        changes += await _moves(uow, change)
    begun = next((event for event in events if isinstance(event, ChargeBegun)), None)
    target = WHOLE_ORDER if begun is None else RequestTarget(payment_id=begun.payment_id)
    return Plan(changes=changes, claims=claims, target=target)


def chosen(plan: MerchantPlan) -> ChosenPlan:
    """Returns what a subscription keeps of a plan."""
    return ChosenPlan(plan_id=plan.plan_id, name=plan.name, terms=plan.terms)


async def method_of(uow: UnitOfWork, customer_id: UUID, reference: str) -> SavedMethod:
    """Returns the customer's saved card that a request names. Raises PaymentMethodNotFound, PaymentMethodExpired."""
    method_id = parse_uuid(reference)
    if method_id is None:
        raise not_found()
    methods = await uow.load(PAYMENT_METHODS, stream_of(customer_id))
    merchant = await uow.ledger.merchant(uow.merchant_id)
    return method_to_charge(methods, method_id, uow.now.astimezone(ZoneInfo(merchant.settings.time_zone)).date())


async def _moves(uow: UnitOfWork, change: Change) -> list[Change]:
    """Returns the change of the customer's methods if the subscription is charged to another one, or to none."""
    before: Subscription | None = change.before
    after: Subscription = change.after
    away_from = None if before is None else before.method_in_use
    if away_from == after.method_in_use:
        return []
    stream_id = stream_of(after.customer_id)
    methods = await uow.load(PAYMENT_METHODS, stream_id)
    assert methods is not None, "a subscription's customer has a saved card"
    command = MoveSubscription(
        subscription_id=after.subscription_id, at=uow.now, away_from=away_from, to=after.method_in_use
    )
    return [uow.change(PAYMENT_METHODS, stream_id, decide_move(methods, command))]
