"""Makes a global invoice: chooses the orders, and records it with an event of each of them in one commit.

An order that changes meanwhile, or that another request has taken, makes the commit fail: the choice is made again on
the orders as they are. So no order is in two global invoices, or in one and invoiced besides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.invoices.global_invoices.commands import AnnounceGlobalInvoice
from ledger.domain.invoices.global_invoices.contents import StatedOrder, is_unstated, stated
from ledger.domain.invoices.global_invoices.decide import decide_announcement, decide_inclusion
from ledger.domain.invoices.global_invoices.periods import bounds_of, check_period
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.terms import GlobalPeriod, Issuer, Periodicity
from ledger.domain.orders.state import Order
from ledger.domain.rejections import FiscalDataIncomplete, InvalidField
from ledger.domain.streams import GLOBAL_INVOICES
from ledger.invoicing.contract import ProviderUnavailable
from ledger.invoicing.issuers import IssuerMissing
from ledger.journal.append import Change, Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.global_invoices.provider_call import LOADED_AT_ONCE
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.stamping.building import load_libraries

ORDERS_MAX: Final = 1000
"""How many orders one global invoice states. SAT takes more; a commit and a document of that size stay quick."""
CONCEPTS_MAX: Final = 5000
"""How many concepts it has: more than one for an order with several combinations of taxes."""
_FOLIOS: Final = "GLOBAL INVOICES"
"""The counter of the folios, which begin with G. No series has a space."""
_SMALL_BUSINESS: Final = "621"
"""The regime whose taxpayers issue global invoices for two months (Anexo 20, Periodicidad 05)."""

Candidates = Callable[[datetime, datetime, Sequence[Any] | None], Awaitable[Sequence[tuple[datetime, UUID]]]]
"""Returns the next orders that may have been paid between two times and are not invoiced, after the last one that it
returned before; none at the end.
"""


async def create_global_invoice(
    ledger: Ledger, actor: Actor, period: GlobalPeriod, candidates: Candidates
) -> tuple[GlobalInvoice | None, bool]:
    """Makes a global invoice of at most a thousand orders of a period, and has it stamped.

    Returns it, None if no order is left, and whether more orders may be left. Raises InvalidField, FiscalDataIncomplete
    without an issuer, ProviderUnavailable without a provider, ConcurrentUpdate, a Fault.
    """
    uow = UnitOfWork(ledger, actor)
    has_more = False

    async def attempt(_: Conflict | None) -> Plan:
        nonlocal has_more
        merchant = await ledger.merchant(uow.merchant_id)
        now = await uow.refresh()
        check_period(period, merchant.settings.time_zone, now)
        issuer, certificate, provider = await _issuer(ledger, uow.merchant_id, period)
        begin, end = bounds_of(period, merchant.settings.time_zone)
        chosen: list[StatedOrder] = []
        has_more = False
        async for orders in _loaded(uow, candidates, begin, end):
            found = await asyncio.to_thread(_stated, orders, issuer, begin, end)
            has_more = _fill(chosen, found)
            if has_more:
                break
        if not chosen:
            return Plan(changes=[Change(uuid7(), 0, (), None, None)])
        command = AnnounceGlobalInvoice(
            global_invoice_id=uuid7(),
            folio=f"G{await _next_folio(ledger, uow.merchant_id)}",
            series=merchant.settings.invoice_series,
            issuer=issuer,
            period=period,
            orders=chosen,
            provider=provider,
            certificate=certificate,
            deadline_at=ledger.call_deadline(),
            at=uow.now,
        )
        events = await asyncio.to_thread(decide_announcement, command)
        changes = [uow.change(GLOBAL_INVOICES, command.global_invoice_id, events)]
        changes += [uow.change_order(each.order.terms.order_id, decide_inclusion(each, command)) for each in chosen]
        return Plan(changes=changes)

    plan = await ledger.complete(execute(uow, attempt))
    if not plan.events:
        return None, False
    invoice = await uow.shown(GLOBAL_INVOICES, plan.stream_id)
    return invoice, has_more


def _fill(chosen: list[StatedOrder], found: Sequence[StatedOrder]) -> bool:
    """Adds the orders that have room in one document. Returns whether one is left."""
    concepts = sum(len(each.concepts) for each in chosen)
    for each in found:
        concepts += len(each.concepts)
        if len(chosen) == ORDERS_MAX or concepts > CONCEPTS_MAX:
            return True
        chosen.append(each)
    return False


async def _issuer(ledger: Ledger, merchant_id: UUID, period: GlobalPeriod) -> tuple[Issuer, str, str]:
    """Returns the issuer, the number of its certificate, and the provider's name."""
    invoicing = ledger.invoicing
    if invoicing is None or invoicing.provider is None:
        raise ProviderUnavailable("no stamping provider is configured")
    try:
        issuer, signer = await invoicing.issuers.signer_of(merchant_id)
    except IssuerMissing:
        raise FiscalDataIncomplete("The merchant has set no issuer of invoices.", ["fiscalIssuer"]) from None
    if period.periodicity is Periodicity.BIMONTHLY and issuer.tax_system != _SMALL_BUSINESS:
        raise InvalidField(
            "periodicity", f"must be another: SAT takes two months of the regime {_SMALL_BUSINESS} alone"
        )
    await asyncio.to_thread(load_libraries)
    return issuer, signer.certificate_number, invoicing.provider.capabilities.name


async def _next_folio(ledger: Ledger, merchant_id: UUID) -> int:
    assert ledger.invoicing is not None, "the issuer was found"
    return await ledger.invoicing.issuers.next_folio(merchant_id, _FOLIOS)


async def _loaded(
    uow: UnitOfWork, candidates: Candidates, begin: datetime, end: datetime
) -> AsyncIterator[Sequence[Order]]:
    """Yields the candidates of a period as the log has them, page by page."""
    last: Sequence[Any] | None = None
    while page := await candidates(begin, end, last):
        for n in range(0, len(page), LOADED_AT_ONCE):
            yield await asyncio.gather(*[uow.order(order_id) for _, order_id in page[n : n + LOADED_AT_ONCE]])
        last = page[-1]


def _stated(orders: Sequence[Order], issuer: Issuer, begin: datetime, end: datetime) -> list[StatedOrder]:
    found = (stated(order, issuer) for order in orders if is_unstated(order, begin, end))
    return [each for each in found if each is not None]
