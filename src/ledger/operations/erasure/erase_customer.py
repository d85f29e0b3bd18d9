"""Erases a customer: destroys the key of the personal data and the saved cards, then renders every order again.

Destroy the key first, in the commit that records the erasure. From then on nothing can be opened and no order can
begin; the rest only takes the person out of the rows and may run any number of times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

import structlog

from ledger.domain.customers.commands import EraseCustomer
from ledger.domain.customers.decide import decide_erasure
from ledger.domain.customers.state import Customer
from ledger.domain.orders.commands import ErasePayer
from ledger.domain.orders.decide.cancellation import decide_payer_erasure
from ledger.domain.payment_methods.commands import EraseMethods
from ledger.domain.payment_methods.decide import decide_erase_methods
from ledger.domain.payment_methods.state import stream_of
from ledger.domain.rejections import ConcurrentUpdate, RequestInProgress
from ledger.domain.streams import CUSTOMERS, PAYMENT_METHODS
from ledger.journal.append import Conflict
from ledger.operations.context.card_vault import VaultMissing
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.customers.requests import execute_customer_request
from ledger.operations.payment_methods.kept_cards import forget_customer
from ledger.operations.payment_methods.sessions import withdraw_sessions
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.operations.subscriptions.cancel import cancel_subscriptions_of
from ledger.postgres.faults import Fault

_log = structlog.get_logger()

_AT_ONCE: Final = 50

OrdersOf = Callable[[UUID, UUID, UUID, int], Awaitable[Sequence[UUID]]]
"""Returns at most so many orders of a merchant's customer with ids after the given one, in the order of ids."""


async def delete_customer(
    ledger: Ledger, actor: Actor, reference: str, orders_of: OrdersOf, key: IdempotencyKey | None = None
) -> StreamResult[Customer]:
    """Erases the customer that `reference` (service id or external id) names (contract N61), and returns what is left.

    Afterwards the log reveals nothing of the person, and no row of a customer or an order shows it; the worker removes
    the e-mail from the search lines. If the orders cannot all be rendered again now, the worker finishes that too.
    Raises like `execute_customer_request`; CustomerNotFound, also if the customer is erased already.
    """
    return await ledger.complete(_delete(UnitOfWork(ledger, actor, key), actor, reference, orders_of))


async def _delete(uow: UnitOfWork, actor: Actor, reference: str, orders_of: OrdersOf) -> StreamResult[Customer]:
    async def attempt(_: Conflict | None) -> Plan:
        return await _planned(uow, await uow.find(CUSTOMERS, reference))

    result = await execute_customer_request(uow, attempt)
    if not result.repeated:
        try:
            await erase_payer(uow.ledger, actor, result.state.customer_id, orders_of)
        except (Fault, ConcurrentUpdate, RequestInProgress) as fault:
            _log.warning("forgetting_waits", reason=type(fault).__name__)
    return result


async def _planned(uow: UnitOfWork, customer: Customer) -> Plan:
    """Returns what the erasure commits: the customer, whose key it destroys, and the customer's saved methods.

    It checks the methods also if there are none: a card that is saved meanwhile makes the request decide again.
    """
    customer_id = customer.customer_id
    methods = await uow.load(PAYMENT_METHODS, stream_of(customer_id))
    erased = uow.change(CUSTOMERS, customer_id, decide_erasure(customer, EraseCustomer(at=uow.now)))
    if methods is None:
        return Plan(changes=[erased, uow.absence(stream_of(customer_id))])
    deleted = decide_erase_methods(methods, EraseMethods(at=uow.now))
    return Plan(changes=[erased, uow.change(PAYMENT_METHODS, stream_of(customer_id), deleted)])


async def erase_payer(
    ledger: Ledger, actor: Actor, customer_id: UUID, orders_of: OrdersOf, cause: UUID | None = None
) -> None:
    """Cancels an erased customer's subscriptions, destroys their saved cards here and at the processors that keep them,
    and removes the customer from every order.

    No new order of theirs can begin and no card be saved, so one walk finds all of them. An order that cannot be read
    or written keeps no other one from it; the first fault is raised at the end. So is VaultMissing: a process that has
    the vault finishes the erasure.
    """
    await cancel_subscriptions_of(ledger, actor, customer_id)
    failed: list[BaseException] = []
    if ledger.vault is not None:
        await ledger.vault.destroy_all(actor.merchant_id, customer_id)
    elif await _had_numbers(ledger, actor.merchant_id, customer_id):
        failed.append(VaultMissing())
    if ledger.card_references is not None:
        await ledger.card_references.unsettle_all(actor.merchant_id, customer_id)
        ledger.begin(forget_customer(ledger, actor.merchant_id, customer_id))
    ledger.begin(withdraw_sessions(ledger, actor.merchant_id, customer_id))
    last = UUID(int=0)
    while order_ids := await orders_of(actor.merchant_id, customer_id, last, _AT_ONCE):
        ended = await asyncio.gather(
            *[_erase_payer_of(UnitOfWork(ledger, actor, cause=cause), order_id) for order_id in order_ids],
            return_exceptions=True,
        )
        failed += [each for each in ended if isinstance(each, BaseException)]
        last = order_ids[-1]
    if failed:
        raise failed[0]


async def _had_numbers(ledger: Ledger, merchant_id: UUID, customer_id: UUID) -> bool:
    """Returns whether the vault may have a number of the customer: of a saved card, or of one that was to be saved."""
    methods, _ = await ledger.journal.load(merchant_id, PAYMENT_METHODS, stream_of(customer_id))
    if methods is None:
        return False
    return any(each.account is None for each in methods.methods) or any(
        not each.by_token for each in methods.verifications
    )


async def _erase_payer_of(uow: UnitOfWork, order_id: UUID) -> None:
    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        command = ErasePayer(at=uow.now)
        return Plan(changes=[uow.change_order(order_id, decide_payer_erasure(order, command))])

    await execute(uow, attempt)
