"""Creates a subscription. Its request and its first charge are recorded before the money moves.

A crash between the charge and its record leaves a subscription that is not shown: a worker completes it, so that in the
end there is a subscription with its first invoice paid, or none and no money kept.
"""

from __future__ import annotations

from uuid_utils.compat import uuid7

from ledger.domain.orders.decide.guards import require_whole_centavos
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import MethodNotEnabled
from ledger.domain.streams import CUSTOMERS, PLANS, SUBSCRIPTIONS, ClaimKind
from ledger.domain.subscriptions.commands import RequestSubscription
from ledger.domain.subscriptions.decide.request import decide_request
from ledger.domain.subscriptions.state import Subscription
from ledger.journal.append import Claim, ClaimTaken, Conflict
from ledger.operations.context.card_vault import VaultMissing
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.accounts import card_account
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.operations.plans.use import use_plan
from ledger.operations.subscriptions.charging import execute_charging
from ledger.operations.subscriptions.commit import chosen, method_of, subscription_plan
from ledger.operations.subscriptions.requests import NewSubscription


async def create_subscription(
    ledger: Ledger, actor: Actor, request: NewSubscription, key: IdempotencyKey | None = None
) -> StreamResult[Subscription]:
    """Creates a subscription and charges its first period, unless it begins with a trial (contract N67, 2.3).

    Raises like `execute_charging`; CustomerNotFound, PaymentMethodNotFound, PlanNotFound (also of an archived plan),
    InvalidField for `startDate` and `trialEnd`, DuplicateExternalId, MethodNotEnabled, PaymentMethodExpired;
    AmountNotChargeable for the plan of a customer with fiscal data whose invoices could not state its amount.
    """
    uow = UnitOfWork(ledger, actor, key, creates=True)
    subscription_id = new_id = uuid7()

    async def attempt(conflict: Conflict | None) -> Plan:
        nonlocal subscription_id
        merchant = await ledger.merchant(uow.merchant_id)
        if MethodType.CARD not in merchant.settings.payment_methods:
            raise _not_enabled()
        customer = await uow.find(CUSTOMERS, request.customer)
        plan = await uow.find(PLANS, request.plan)
        if customer.fiscal is not None:
            require_whole_centavos(plan.terms.amount)
        method = await method_of(uow, customer.customer_id, request.payment_method)
        account = await card_account(ledger, uow.merchant_id, method.account)
        if account is None:
            raise _not_enabled()
        if method.account is None and ledger.vault is None:
            raise VaultMissing
        if isinstance(conflict, ClaimTaken):  # a later conflict about another stream does not undo it
            subscription_id = await uow.owner(SUBSCRIPTIONS, conflict.claim.key) or new_id
        state = None if subscription_id == new_id else await uow.load(SUBSCRIPTIONS, subscription_id)
        use = use_plan(uow, plan, subscription_id)
        command = RequestSubscription(
            subscription_id=subscription_id,
            customer_id=customer.customer_id,
            plan=chosen(plan),
            payment_method_id=method.payment_method_id,
            time_zone=merchant.settings.time_zone,
            at=uow.now,
            start=request.start,
            trial_end=request.trial_end,
            external_id=request.external_id,
            metadata=request.metadata,
        )
        claims = []
        if request.external_id is not None and state is None:
            claims.append(Claim(ClaimKind.SUBSCRIPTION_EXTERNAL_ID, request.external_id, subscription_id))
        events = decide_request(state, command)
        unchanged = uow.change(CUSTOMERS, customer.customer_id, ())
        return await subscription_plan(uow, subscription_id, events, use, unchanged, claims=claims)

    return await ledger.complete(execute_charging(uow, attempt, must_be_paid=True))


def _not_enabled() -> MethodNotEnabled:
    return MethodNotEnabled("Payments by card are not enabled for this merchant: subscriptions need them.")
