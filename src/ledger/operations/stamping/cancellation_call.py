"""The call that has a stamped document cancelled with SAT.

A cancellation can be repeated: the provider answers a repeated one with the state of the first. So one without an
answer counts as pending; its state is asked for later, and it is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from ledger.domain.invoices.commands import (
    CancellationOutcome,
    CancellationPending,
    Cancelled,
    Refused,
    StillValid,
)
from ledger.domain.orders.invoices.state import DocumentCancellation, Stamp
from ledger.invoicing import contract
from ledger.invoicing.contract import CancelRequest, ProviderTimedOut, ProviderUnavailable, StatusRequest
from ledger.operations.pipeline.calls import Ended, Failure, LookUp
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.operations.stamping.provider_call import ProviderCall

_log = structlog.get_logger()

_SILENT: Final = CancellationPending("The provider did not answer in time.", unanswered=True)
_NOT_REPEATED: Final = CancellationPending("The stamping provider could not be reached again.", unanswered=True)
_NOT_CANCELLED: Final = Refused("NOT_SENT", "The stamping provider could not be reached; nothing was cancelled.")


class CancellationCall(ProviderCall, frozen=True, kw_only=True):
    """Has a stamped document cancelled.

    The kinds of documents give `stamp`, `cancellation`, and how their stream records the outcome: `cancellation_in`,
    `decide`.
    """

    @property
    def stamp(self) -> Stamp:
        """The document's stamp."""
        raise NotImplementedError

    @property
    def cancellation(self) -> DocumentCancellation:
        """The cancellation as the document has it."""
        raise NotImplementedError

    def cancellation_in(self, state: Any) -> DocumentCancellation | None:
        """Returns the document's latest cancellation in the present state of its stream."""
        raise NotImplementedError

    def decide(self, state: Any, outcome: CancellationOutcome, now: datetime) -> Sequence[Any]:
        """Returns the events of an outcome that the present state may record. Never refuses."""
        raise NotImplementedError

    async def prepare(self, uow: UnitOfWork) -> tuple[bytes, Any]:  # noqa: ARG002 - it reads nothing of the unit of work
        """Returns the stamped document and the issuer's signer. Raises ProviderUnavailable, a Fault."""
        invoicing = self.ledger.invoicing
        assert invoicing is not None, "a process that cancels has an access to stamping"
        xml = await invoicing.files.read(self.stamp.xml_key)
        _, signer = await invoicing.issuers.signer_of(self.merchant_id)
        if xml is None or invoicing.provider is None:
            raise ProviderUnavailable("the document's file is missing")
        return xml, signer

    async def send(self, prepared: tuple[bytes, Any], left_s: float) -> CancellationOutcome:  # noqa: ARG002
        invoicing = self.ledger.invoicing
        assert invoicing is not None, "the call was prepared"
        assert invoicing.provider is not None, "the call was prepared"
        xml, signer = prepared
        request = CancelRequest(
            merchant_id=self.merchant_id,
            document_id=self.document_id,
            deadline_at=self.deadline_at,
            fiscal_uuid=self.stamp.fiscal_uuid,
            xml=xml,
            motive=self.cancellation.motive.value,
            substituted_by=self.cancellation.substituted_by,
            signer=signer,
        )
        match await invoicing.provider.cancel(request):
            case contract.Refused(code=code, message=message):
                return Refused(code, message)
            case contract.CancellationPending():
                return CancellationPending()
            case contract.Cancelled():
                return Cancelled()

    def without_answer(self, failure: Failure) -> CancellationOutcome:
        about = {"reason": type(failure.fault).__name__, "document_id": str(self.document_id)}
        if failure.ended is Ended.NOT_SENT:
            if failure.fault is not None and not isinstance(failure.fault, ProviderUnavailable):
                _log.error("cancellation_not_sent", **about)
            return _NOT_REPEATED if self.cancellation.requests > 1 else _NOT_CANCELLED
        _log.warning("cancellation_unanswered", **about)
        return _SILENT

    def was_sent(self, outcome: CancellationOutcome) -> bool:
        return outcome not in {_NOT_CANCELLED, _NOT_REPEATED}

    async def look_up(self, how: LookUp | None = None) -> CancellationOutcome:  # noqa: ARG002
        """Returns what SAT reports now: PENDING if it reports nothing else. Raises a Fault."""
        invoicing, cancellation = self.ledger.invoicing, self.cancellation
        is_unknown = cancellation.intent is not None or cancellation.unanswered > 0
        unknown = CancellationPending(unanswered=is_unknown)
        if invoicing is None or invoicing.provider is None:
            return unknown
        xml = await invoicing.files.read(self.stamp.xml_key)
        if xml is None:
            return unknown
        request = StatusRequest(
            merchant_id=self.merchant_id,
            document_id=self.document_id,
            deadline_at=datetime.now(UTC) + timedelta(seconds=invoicing.timeout_s),
            fiscal_uuid=self.stamp.fiscal_uuid,
            xml=xml,
        )
        try:
            async with asyncio.timeout(invoicing.timeout_s):
                reported = await invoicing.provider.status(request)
        except (ProviderTimedOut, ProviderUnavailable, TimeoutError):
            return unknown
        match reported.state:
            case "CANCELLED":
                return Cancelled()
            case "CANCELLATION_REFUSED" if not is_unknown:
                return Refused("CANCELLATION_REFUSED", reported.detail or "The receiver refused the cancellation.")
            case "ACTIVE" | "CANCELLATION_REFUSED":  # the refusal may be that of an earlier request
                return StillValid(reported.detail or "SAT reports the document as valid.")
            case "CANCELLATION_PENDING":
                return CancellationPending()
            case "NOT_FOUND":
                return unknown

    def record(self, state: Any, outcome: CancellationOutcome, now: datetime) -> Sequence[Any]:
        """Returns the events of the outcome. It ends this call alone, and not one that began since, unless the document
        is cancelled.
        """
        present, own = self.cancellation_in(state), self.cancellation.intent
        current = None if present is None else present.intent
        is_own = current is None or (own is not None and own.deadline_at == current.deadline_at)
        if not is_own and not isinstance(outcome, Cancelled):
            return []
        return self.decide(state, outcome, now)
