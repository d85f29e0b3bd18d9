"""Stamps the documents of an order, one after another: for a timer, and for a merchant's request.

Each step is one commit: the outcome of the last call, the documents that are due by then, and the intent of the next
call. A crash between two commits leaves at most one open call, which recovery looks up before anything is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import EnableInvoicing, Refused, Stamped, StampingOutcome, StampNext, StampRequest
from ledger.domain.invoices.decide.stamping import (
    decide_blocked,
    decide_enabling,
    decide_next,
    require_not_in_global,
    series_to_count,
    with_folio,
)
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.events import InvoiceEvent, StampingRequested
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import FiscalData
from ledger.domain.rejections import FiscalDataIncomplete, Rejected
from ledger.domain.streams import ORDERS
from ledger.invoicing.catalogs import time_zone_of
from ledger.invoicing.contract import ProviderUnavailable
from ledger.invoicing.issuers import IssuerMissing
from ledger.invoicing.line_keys import Problem, wrong_lines
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, StampInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.document_request import DocumentAnswer, DocumentResult, is_being_called
from ledger.operations.orders.invoices.policy import invoicing_policy
from ledger.operations.pipeline.execute import Attempt, Continue, execute
from ledger.operations.pipeline.execute_request import execute_request, wait_until
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.operations.stamping.building import load_libraries

_NO_PROVIDER: Final = "STAMPING_NOT_CONFIGURED"
"""The failure of an invoice that is due where no stamping provider is configured. Stamp the order afterwards."""

LINES_ON_LOOP: Final = 20
"""For how many lines an invoice is composed on the event loop, at 0.1 ms each; one of more lines in a thread."""


async def stamp_due(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> Order:
    """Stamps what is due on an order by its merchant's clock, and returns the order.

    Does nothing if nothing is due. Raises ConcurrentUpdate, a Fault.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=order_id)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        return Plan(changes=[uow.change_order(order_id, await _next(uow, order, None, is_first=True))])

    async def go_on(order: Order, outcome: StampingOutcome) -> Sequence[InvoiceEvent]:
        return await _next(uow, order, None, is_first=False) if isinstance(outcome, Stamped | Refused) else ()

    await execute(uow, attempt, go_on=go_on)
    return await uow.order(order_id)


async def stamp_order(
    ledger: Ledger,
    actor: Actor,
    reference: str,
    request: StampInput,
    key: IdempotencyKey | None = None,
    *,
    check: Callable[[Order], None] | None = None,
) -> DocumentResult:
    """Stamps the pending and failed documents that the request asks for (contract N43), and returns the order.

    A document that the provider refuses stays FAILED, and one whose outcome is unknown PENDING. `check` may refuse the
    order, as the commit finds it, by an exception. Raises that, OrderNotFound, DocumentNotFound, FiscalDataIncomplete,
    AmountNotStampable, InvalidField; ProviderUnavailable if the provider could not be reached, FilesUnavailable while
    the store of files does not answer; ConcurrentUpdate, a Fault; with a key also IdempotencyKeyReused and
    RequestInProgress.
    """
    uow = UnitOfWork(ledger, actor, key)
    before: dict[UUID, int] = {}

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        if ledger.invoicing is not None:
            ledger.invoicing.files.require_answering()
        if check is not None:
            check(order)
        for document in () if order.invoices is None else order.invoices.documents:
            before.setdefault(document.document_id, document.attempts)
        wrong = _wrong_lines(order)
        try:
            events = await _enabling(uow, order, request)
            events += await _next(uow, fold(evolve, order, events), request.stamp, is_first=True, before=before)
        except FiscalDataIncomplete as lacking:
            raise FiscalDataIncomplete(lacking.message, lacking.missing, wrong) from None
        if wrong:
            raise FiscalDataIncomplete(f"No invoice can state the order's {wrong[0][0]}: it {wrong[0][1]}.", (), wrong)
        return Plan(changes=[uow.change_order(order.terms.order_id, events)])

    async def go_on(order: Order, outcome: StampingOutcome) -> Sequence[InvoiceEvent]:
        if not isinstance(outcome, Stamped | Refused):
            return ()
        return await _next(uow, order, request.stamp, is_first=False, before=before)

    return await ledger.complete(execute_request(uow, attempt, _StampingAnswer(attempt, go_on), go_on=go_on))


class _StampingAnswer(DocumentAnswer):
    """Waits also for a call that the worker or another request has open, and stamps what is left then."""

    def __init__(self, attempt: Attempt, go_on: Continue) -> None:
        self._attempt = attempt
        self._go_on = go_on

    async def after(self, uow: UnitOfWork, plan: Plan) -> DocumentResult:
        tried: Plan | None = plan

        async def has_ended() -> bool:
            nonlocal tried
            if tried is None:
                uow.forget(plan.stream_id)
                tried = await execute(uow, self._attempt, go_on=self._go_on)
            if _starts(tried) or not is_being_called(await uow.order(plan.stream_id)):
                return True
            tried = None
            return False

        await wait_until(uow.ledger, has_ended)
        return await super().after(uow, plan)


def _starts(plan: Plan) -> bool:
    return any(isinstance(event, StampingRequested) for event in plan.events)


def _wrong_lines(order: Order) -> list[Problem]:
    """Returns what SAT's catalogues do not have of an order whose invoice would be drawn up now."""
    invoice = None if order.invoices is None else order.invoices.invoice
    return wrong_lines(order.terms.line_items) if invoice is None or invoice.is_cancelled else []


async def _enabling(uow: UnitOfWork, order: Order, given: StampInput) -> list[InvoiceEvent]:
    """Returns the events of fiscal data that came with the request. Raises OrderInGlobalInvoice, and
    FiscalDataIncomplete if there is none.
    """
    require_not_in_global(order)
    fiscal: FiscalData | None = given.fiscal
    if fiscal is None and order.terms.fiscal is None and order.invoices is None:
        raise FiscalDataIncomplete("The order has no fiscal data: send fiscalConfig.", ["fiscalConfig.taxId"])
    merchant = await uow.ledger.merchant(uow.merchant_id)
    policy = await invoicing_policy(uow.ledger, merchant, given.exchange_rate)
    return decide_enabling(order, EnableInvoicing(policy=policy, at=uow.now, fiscal=fiscal))


async def _next(
    uow: UnitOfWork,
    order: Order,
    request: StampRequest | None,
    *,
    is_first: bool,
    before: Mapping[UUID, int] | None = None,
) -> Sequence[InvoiceEvent]:
    """Returns the next step's events. Once a document was tried, what prevents the next one is no refusal.

    `before` has the attempts of the documents as the request found them.
    """
    invoicing = uow.ledger.invoicing
    assert invoicing is not None, "a process that stamps has an access to stamping"
    if invoicing.provider is None:
        if request is not None:
            raise ProviderUnavailable("no stamping provider is configured")
        return decide_blocked(order, _NO_PROVIDER, "No stamping provider is configured.", uow.now)
    try:
        issuer, signer = await invoicing.issuers.signer_of(uow.merchant_id)
        await asyncio.to_thread(load_libraries)
        command = StampNext(
            issuer=issuer,
            time_zone=time_zone_of(issuer.zip_code).key,
            certificate=signer.certificate_number,
            provider=invoicing.provider.capabilities.name,
            deadline_at=uow.ledger.call_deadline(),
            at=uow.now,
            request=request,
            attempts_before=before,
        )
        if len(order.terms.line_items) > LINES_ON_LOOP:
            events = await asyncio.to_thread(decide_next, order, command)
        else:
            events = decide_next(order, command)
        series = series_to_count(order, events)
        if series is None:
            return events
        return with_folio(events, await invoicing.issuers.next_folio(uow.merchant_id, series))
    except IssuerMissing:
        rejection: Rejected = FiscalDataIncomplete("The merchant has set no issuer of invoices.", ["fiscalIssuer"])
    except Rejected as refused:
        rejection = refused
    if request is not None and is_first:
        raise rejection
    if request is not None:
        return []
    return decide_blocked(order, rejection.code, rejection.message, uow.now)
