"""The call to the stamping provider about a global invoice.

Record a stamp only once its files are stored, as for every document. A refusal releases the orders in the same commit:
no order is locked by a document that does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final
from uuid import UUID

import structlog

from ledger.domain.invoices.commands import NotFound, NotSent, Refused, Stamped, StampingOutcome, Unanswered
from ledger.domain.invoices.global_invoices.decide import decide_outcome, decide_release
from ledger.domain.orders.global_invoices.events import (
    GlobalInvoiceEvent,
    GlobalInvoiceRefused,
    GlobalStampingRequested,
)
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.state import StampingIntent
from ledger.domain.streams import GLOBAL_INVOICES, Stream
from ledger.invoicing import contract
from ledger.invoicing.contract import ProviderUnavailable
from ledger.invoicing.files import FilesUnavailable
from ledger.invoicing.invoicing import Invoicing
from ledger.invoicing.issuers import IssuerMissing
from ledger.invoicing.pdf.notes import Notes
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.provider_calls import NOT_BUILT, printed, sealed_xml
from ledger.operations.pipeline.calls import Call, Ended, Failure, LookUp
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.postgres.faults import Fault
from ledger.telemetry.metrics import STAMPS

_log = structlog.get_logger()

LOADED_AT_ONCE: Final = 25
_SILENT: Final = Unanswered("The stamping provider did not answer in time.")
_UNREADABLE: Final = Unanswered("The stamping provider's answer could not be read.")
_NOT_STORED: Final = Unanswered("The stamped document could not be stored.")


class GlobalStampingCall(Call, frozen=True, kw_only=True):
    """Has a global invoice stamped, and stores its files. The invoice has the call as open."""

    invoice: GlobalInvoice

    stream: ClassVar[Stream[Any]] = GLOBAL_INVOICES

    @property
    def stream_id(self) -> UUID:
        return self.invoice.global_invoice_id

    @property
    def intent(self) -> StampingIntent:
        assert self.invoice.intent is not None, "its call has no outcome yet"
        return self.invoice.intent

    @property
    def deadline_at(self) -> datetime:
        return self.intent.deadline_at

    @property
    def key(self) -> str:
        return str(self.stream_id)

    @property
    def cause(self) -> UUID:
        return self.stream_id

    @property
    def about(self) -> Mapping[str, str]:
        return {"global_invoice_id": str(self.stream_id)}

    def log_recovered(self, outcome: StampingOutcome) -> None:
        _log.info("global_invoice_recovered", outcome=type(outcome).__name__, **self.about)

    async def prepare(self) -> bytes:
        """Returns the sealed CFDI. Raises ProviderUnavailable, IssuerMissing, a Fault, whatever building it raises."""
        invoicing = self.ledger.invoicing
        if invoicing is None or invoicing.provider is None:
            raise ProviderUnavailable("no stamping provider is configured")
        return await sealed_xml(invoicing, self.merchant_id, self.invoice.terms, self.intent)

    async def send(self, prepared: bytes, left_s: float) -> contract.Stamped | contract.Refused:  # noqa: ARG002
        invoicing = self.ledger.invoicing
        assert invoicing is not None, "the call was prepared"
        assert invoicing.provider is not None, "the call was prepared"
        request = contract.StampRequest(
            merchant_id=self.merchant_id, document_id=self.stream_id, deadline_at=self.deadline_at, xml=prepared
        )
        return await invoicing.provider.stamp(request)

    async def read(self, answer: contract.Stamped | contract.Refused) -> StampingOutcome:
        invoicing = self.ledger.invoicing
        assert invoicing is not None, "the call was prepared"
        return await self._outcome(invoicing, answer)

    def without_answer(self, failure: Failure) -> StampingOutcome:
        fault, reason = failure.fault, type(failure.fault).__name__
        match failure.ended:
            case Ended.NOT_SENT if fault is None or isinstance(fault, ProviderUnavailable | Fault | IssuerMissing):
                return NotSent()
            case Ended.NOT_SENT:
                _log.error("document_not_built", document_id=str(self.stream_id), reason=reason)
                return Refused(NOT_BUILT, f"The document could not be built: {fault}")
            case Ended.TIMED_OUT:
                return _SILENT
            case Ended.UNREADABLE:
                _log.error("stamping_provider_failed", provider=self.intent.provider, reason=reason)
                return _UNREADABLE

    def was_sent(self, outcome: StampingOutcome) -> bool:
        return not isinstance(outcome, NotSent)

    async def look_up(self, how: LookUp) -> StampingOutcome | None:
        """Returns the outcome; None while it is not known. Raises as the provider does, a Fault."""
        invoicing = self.ledger.invoicing
        if invoicing is None or invoicing.provider is None:
            return None
        provider = invoicing.provider
        can_fence, late_s = provider.capabilities.can_fence, provider.capabilities.late_arrival_s
        is_final = how.is_final(self.deadline_at, can_fence=can_fence, late_arrival_s=late_s)
        request = contract.LookUp(
            merchant_id=self.merchant_id,
            document_id=self.stream_id,
            deadline_at=datetime.now(UTC) + timedelta(seconds=how.timeout_s),
            xml=await sealed_xml(invoicing, self.merchant_id, self.invoice.terms, self.intent),
        )
        async with asyncio.timeout(how.timeout_s):
            found = await provider.look_up(request)
        if found is None:
            return NotFound() if is_final else None
        outcome = await self._outcome(invoicing, found)
        return None if isinstance(outcome, Unanswered) else outcome

    def record(self, state: GlobalInvoice, outcome: StampingOutcome, now: datetime) -> Sequence[GlobalInvoiceEvent]:
        """Returns the events of the outcome. Without a stamp it ends this call alone, and not one that began since."""
        current = state.intent
        if current is not None and current.deadline_at != self.deadline_at and not isinstance(outcome, Stamped):
            return []
        return decide_outcome(state, outcome, now)

    async def plan(self, uow: UnitOfWork, events: Sequence[GlobalInvoiceEvent]) -> Plan:
        """Returns the plan of the outcome's events, with the release of the orders of a refused document."""
        changes = [uow.change(GLOBAL_INVOICES, self.stream_id, events)]
        if any(isinstance(event, GlobalInvoiceRefused) for event in events):
            included = [each.order_id for each in self.invoice.orders]
            for n in range(0, len(included), LOADED_AT_ONCE):
                orders = await asyncio.gather(*[uow.order(each) for each in included[n : n + LOADED_AT_ONCE]])
                changes += [
                    uow.change_order(order.terms.order_id, released)
                    for order in orders
                    if (released := decide_release(order, self.invoice, uow.now))
                ]
        return Plan(changes=changes)

    async def _outcome(self, invoicing: Invoicing, answer: contract.Stamped | contract.Refused) -> StampingOutcome:
        if isinstance(answer, contract.Refused):
            STAMPS.labels("refused").inc()
            return Refused(answer.code, answer.message)
        try:
            logo = await invoicing.issuers.logo_of(self.merchant_id)
            pdf = await asyncio.to_thread(printed, answer.xml, "es", logo, Notes())
            files = await invoicing.files.put(self.merchant_id, self.stream_id, answer.fiscal_uuid, answer.xml, pdf)
        except Exception as fault:  # noqa: BLE001 - the stamp exists, and is looked up until its files are stored
            reason = str(fault) if isinstance(fault, FilesUnavailable) else type(fault).__name__
            _log.error("stamped_document_not_stored", document_id=str(self.stream_id), reason=reason)
            return _NOT_STORED
        STAMPS.labels("stamped").inc()
        return Stamped(
            fiscal_uuid=answer.fiscal_uuid,
            invoice_id=answer.invoice_id,
            stamped_at=answer.stamped_at,
            xml_key=files.xml_key,
            pdf_key=files.pdf_key,
            xml_sha256=files.sha256,
        )


def global_call(
    ledger: Ledger, merchant_id: UUID, invoice: GlobalInvoice, event: GlobalStampingRequested, _: object = None
) -> GlobalStampingCall | None:
    """Returns the call that an event of this global invoice announces; None if it has its outcome."""
    if invoice.intent is None or invoice.intent.deadline_at != event.deadline_at:
        return None
    return GlobalStampingCall(ledger=ledger, merchant_id=merchant_id, invoice=invoice)
