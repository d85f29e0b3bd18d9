"""Forgetting a person: the key to everything personal is destroyed, then every order of that person is rendered again.

The rule a stranger would break: the key goes first, in the commit that says so. From then on nothing can be opened and no
order can begin; what is left to do is only to take the person out of the rows, and may be done any number of times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.customers.commands import EraseCustomer
from ledger.domain.customers.decide import decide_erasure
from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.customers.state import Customer
from ledger.domain.orders.commands import ErasePayer
from ledger.domain.orders.decide.payments import decide_payer_erasure
from ledger.domain.orders.evolve.order import evolve as evolve_order
from ledger.domain.rejections import ConcurrentUpdate, CustomerNotFound
from ledger.journal.append import Change, VersionConflict
from ledger.journal.journal import Context
from ledger.operations.inputs import Actor
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.loading import load_order

_ATTEMPTS: Final = 20
_AT_ONCE: Final = 50

OrdersOf = Callable[[UUID, UUID, UUID, int], Awaitable[Sequence[UUID]]]
"""At most so many orders of a merchant's customer whose ids come after the given one, in the order of their ids."""


async def erase_customer(ledger: Ledger, actor: Actor, reference: str, orders_of: OrdersOf) -> Customer:
    """Forget the customer that `reference` (service id or external id) names (contract N61); what is left of it.

    Once it returns, nothing of the person can be read from the log, and no customer's or order's row shows it; the worker takes
    the e-mail out of the search's lines. Asked again it goes on where it was interrupted. Raises CustomerNotFound, ConcurrentUpdate, or a Fault of the journal.
    """
    return await ledger.complete(_erase(ledger, actor, reference, orders_of))


async def _erase(ledger: Ledger, actor: Actor, reference: str, orders_of: OrdersOf) -> Customer:
    context = Context(actor=actor.key_id, request=actor.request_id)
    customer = await _destroy(ledger, actor.merchant_id, reference, context)
    await erase_payer(ledger, actor.merchant_id, customer.customer_id, orders_of, context)
    return customer


async def _destroy(ledger: Ledger, merchant_id: UUID, reference: str, context: Context) -> Customer:
    for _ in range(_ATTEMPTS):
        known = await ledger.customers.by_reference(merchant_id, reference)
        if known is None:
            raise CustomerNotFound("The customer was not found.")
        before = after = known.customer
        events = decide_erasure(before, EraseCustomer(at=ledger.clock.now(merchant_id)))
        if not events:
            return before
        for event in events:
            after = evolve_customer(after, event)
        change = Change(before.customer_id, known.version, events, before, after)
        try:
            await ledger.journal.commit(merchant_id, uuid7(), [change], context=context)
        except VersionConflict:
            continue
        ledger.customers.put(merchant_id, after, known.version + len(events))
        return after
    raise ConcurrentUpdate("The customer is being changed by many requests at once.")


async def erase_payer(
    ledger: Ledger, merchant_id: UUID, customer_id: UUID, orders_of: OrdersOf, context: Context
) -> None:
    """Take an erased customer out of every order. No order of theirs can begin any more, so one walk finds them all."""
    last = UUID(int=0)
    while order_ids := await orders_of(merchant_id, customer_id, last, _AT_ONCE):
        await asyncio.gather(*[_forget_in(ledger, merchant_id, order_id, context) for order_id in order_ids])
        last = order_ids[-1]


async def _forget_in(ledger: Ledger, merchant_id: UUID, order_id: UUID, context: Context) -> None:
    for _ in range(_ATTEMPTS):
        before, version = await load_order(ledger, merchant_id, order_id)
        events = decide_payer_erasure(before, ErasePayer(at=ledger.clock.now(merchant_id)))
        if not events:
            return
        after = before
        for event in events:
            after = evolve_order(after, event)
        try:
            change = Change(order_id, version, events, before, after)
            await ledger.journal.commit(merchant_id, uuid7(), [change], context=context)
        except VersionConflict:
            continue
        return
    raise ConcurrentUpdate("The order is being changed by many requests at once.")
