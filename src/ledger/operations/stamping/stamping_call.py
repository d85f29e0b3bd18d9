"""The call that has a document stamped.

Record a stamp only once its files are stored: a stamp whose files could not be stored counts as unknown, and the
recovery looks the document up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog
from msgspec import Struct

from ledger.domain.invoices.commands import NotFound, NotSent, Refused, Stamped, StampingOutcome, Unanswered
from ledger.domain.orders.invoices.state import StampingIntent
from ledger.domain.orders.invoices.terms import DocumentTerms
from ledger.invoicing import contract
from ledger.invoicing.contract import ProviderUnavailable
from ledger.invoicing.files import FilesUnavailable
from ledger.invoicing.invoicing import Invoicing
from ledger.invoicing.issuers import IssuerMissing
from ledger.invoicing.pdf.notes import Notes
from ledger.operations.pipeline.calls import Ended, Failure, LookUp
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.operations.stamping.building import printed, sealed_xml
from ledger.operations.stamping.provider_call import ProviderCall
from ledger.postgres.faults import Fault
from ledger.telemetry.metrics import STAMPS

if TYPE_CHECKING:
    from ledger.invoicing.pdf.words import Language

_log = structlog.get_logger()

_SILENT: Final = Unanswered("The stamping provider did not answer in time.")
_UNREADABLE: Final = Unanswered("The stamping provider's answer could not be read.")
_NOT_STORED: Final = Unanswered("The stamped document could not be stored.")
_NOT_BUILT: Final = "CFDI_NOT_BUILT"
"""The code of a document that could not be built or sealed: nothing was sent."""


class Printing(Struct, frozen=True):
    """How a stamped document is printed, and whether it is mailed then."""

    language: Language = "es"
    notes: Notes = Notes()
    mail: bool = False


class StampingCall(ProviderCall, frozen=True, kw_only=True):
    """Has a document stamped, and stores its files.

    The kinds of documents give `terms`, `printing`, and how their stream records the outcome: `intent_in`, `decide`.
    """

    @property
    def terms(self) -> DocumentTerms:
        """What the document states."""
        raise NotImplementedError

    async def printing(self) -> Printing:
        """Returns how the document is printed, once it is stamped. Raises a Fault."""
        raise NotImplementedError

    def intent_in(self, state: Any) -> StampingIntent | None:
        """Returns the document's open call to stamp it in the present state of its stream."""
        raise NotImplementedError

    def decide(self, state: Any, outcome: StampingOutcome, now: datetime) -> Sequence[Any]:
        """Returns the events of an outcome that the present state may record. Never refuses."""
        raise NotImplementedError

    async def prepare(self, uow: UnitOfWork) -> bytes:  # noqa: ARG002 - it reads nothing of the unit of work
        """Returns the sealed CFDI. Raises ProviderUnavailable, IssuerMissing, a Fault, whatever building it raises."""
        invoicing = self.ledger.invoicing
        if invoicing is None or invoicing.provider is None:
            raise ProviderUnavailable("no stamping provider is configured")
        return await sealed_xml(invoicing, self.merchant_id, self.terms, self.intent)

    async def send(self, prepared: bytes, left_s: float) -> contract.Stamped | contract.Refused:  # noqa: ARG002
        invoicing = self.ledger.invoicing
        assert invoicing is not None, "the call was prepared"
        assert invoicing.provider is not None, "the call was prepared"
        request = contract.StampRequest(
            merchant_id=self.merchant_id, document_id=self.document_id, deadline_at=self.deadline_at, xml=prepared
        )
        return await invoicing.provider.stamp(request)

    async def read(self, answer: contract.Stamped | contract.Refused) -> StampingOutcome:
        """Stores the files of a stamp, after the deadline too: the recovery would store the same ones."""
        invoicing = self.ledger.invoicing
        assert invoicing is not None, "the call was prepared"
        return await self._outcome(invoicing, answer)

    def without_answer(self, failure: Failure) -> StampingOutcome:
        fault, reason = failure.fault, type(failure.fault).__name__
        match failure.ended:
            case Ended.NOT_SENT if fault is None or isinstance(fault, ProviderUnavailable | Fault | IssuerMissing):
                return NotSent()
            case Ended.NOT_SENT:  # it is shown to the merchant, who can send other fiscal data
                _log.error("document_not_built", document_id=str(self.document_id), reason=reason)
                return Refused(_NOT_BUILT, f"The document could not be built: {fault}")
            case Ended.TIMED_OUT:
                return _SILENT
            case Ended.UNREADABLE:
                _log.error("stamping_provider_failed", provider=self.intent.provider, reason=reason)
                return _UNREADABLE

    def was_sent(self, outcome: StampingOutcome) -> bool:
        return not isinstance(outcome, NotSent)

    async def look_up(self, how: LookUp) -> StampingOutcome | None:
        """Returns the outcome; None also while a stamp's files cannot be stored. Raises as the provider does, a Fault.

        A provider that keeps a row for each document recognises a repeated one by its id: no late call can stamp it.
        """
        invoicing = self.ledger.invoicing
        if invoicing is None or invoicing.provider is None:
            return None
        if invoicing.files.are_silent:
            return None  # a stamp would be looked up and printed in vain
        provider, now = invoicing.provider, datetime.now(UTC)
        can_fence, late_s = provider.capabilities.can_fence, provider.capabilities.late_arrival_s
        is_final = how.is_final(self.deadline_at, can_fence=can_fence, late_arrival_s=late_s)
        request = contract.LookUp(
            merchant_id=self.merchant_id,
            document_id=self.document_id,
            deadline_at=now + timedelta(seconds=how.timeout_s),
            xml=await sealed_xml(invoicing, self.merchant_id, self.terms, self.intent),
            fence=False,  # the document is sent again under this id, which a fence would refuse for ever
        )
        async with asyncio.timeout(how.timeout_s):
            found = await provider.look_up(request)
        if found is None:
            return NotFound() if is_final else None
        outcome = await self._outcome(invoicing, found)
        return None if isinstance(outcome, Unanswered) else outcome

    def record(self, state: Any, outcome: StampingOutcome, now: datetime) -> Sequence[Any]:
        """Returns the events of the outcome. Without a stamp it ends this call alone, and not one that began since."""
        current = self.intent_in(state)
        if current is not None and current.deadline_at != self.deadline_at and not isinstance(outcome, Stamped):
            return []
        return self.decide(state, outcome, now)

    async def _outcome(self, invoicing: Invoicing, answer: contract.Stamped | contract.Refused) -> StampingOutcome:
        """Returns what an answer means, with the files of a stamp stored."""
        if isinstance(answer, contract.Refused):
            STAMPS.labels("refused").inc()
            return Refused(answer.code, answer.message)
        try:
            logo = await invoicing.issuers.logo_of(self.merchant_id)
            how = await self.printing()
            files = await invoicing.files.put(
                self.merchant_id,
                self.document_id,
                answer.fiscal_uuid,
                answer.xml,
                partial(asyncio.to_thread, printed, answer.xml, how.language, logo, how.notes),
            )
        except Exception as fault:  # noqa: BLE001 - the stamp exists, and is looked up until its files are stored
            reason = str(fault) if isinstance(fault, FilesUnavailable) else type(fault).__name__
            _log.error("stamped_document_not_stored", document_id=str(self.document_id), reason=reason)
            return _NOT_STORED
        STAMPS.labels("stamped").inc()
        return Stamped(
            fiscal_uuid=answer.fiscal_uuid,
            invoice_id=answer.invoice_id,
            stamped_at=answer.stamped_at,
            xml_key=files.xml_key,
            pdf_key=files.pdf_key,
            xml_sha256=files.sha256,
            mail=how.mail,
        )
