"""The contract of a stamping provider (PAC): the requests of an operation, and the provider's possible answers.

Raise `ProviderUnavailable` only if it is certain that nothing left this process. Every other failure is
`ProviderTimedOut`: the outcome is unknown, and the caller looks the document up before it stamps again.

`document_id` is unique within its merchant and the idempotency key of every call about a document. Repeat a call with
the same XML, byte for byte: a provider may recognise a document by its seal. `deadline_at` is real time.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol
from uuid import UUID

from msgspec import Struct

from ledger.call_failures import TimedOut, Unavailable

if TYPE_CHECKING:
    from satcfdi.models import Signer

CancellationMotive = Literal["01", "02", "03", "04"]
"""SAT's c_MotivoCancelacion: errors with a substitute, errors without one, no operation, part of a global invoice."""


class ProviderRequest(Struct, frozen=True, kw_only=True):
    """The fields of every request to a provider."""

    merchant_id: UUID
    document_id: UUID
    deadline_at: datetime


class StampRequest(ProviderRequest, frozen=True, kw_only=True):
    """A request to stamp the sealed CFDI 4.0 in `xml`."""

    xml: bytes


class LookUp(ProviderRequest, frozen=True, kw_only=True):
    """A query for the document of an earlier request to stamp; `xml` is the XML of that request.

    With `fence`, a provider whose capabilities allow it refuses the document from then on: None is final.
    """

    xml: bytes
    fence: bool = False


class Stamped(Struct, frozen=True, kw_only=True):
    """A stamped document. `xml` has the TimbreFiscalDigital; `invoice_id` is the provider's own id of the document."""

    fiscal_uuid: UUID
    invoice_id: str
    xml: bytes
    stamped_at: datetime


class Refused(Struct, frozen=True, kw_only=True):
    """A final refusal. `code` and `message` are the provider's own words, unchanged."""

    code: str
    message: str


class CancelRequest(ProviderRequest, frozen=True, kw_only=True):
    """A request to cancel the stamped document in `xml`. `substituted_by` is given with motive 01, and only with it.

    `signer` seals the request: SAT takes a cancellation only from the document's issuer.
    """

    fiscal_uuid: UUID
    xml: bytes
    motive: CancellationMotive
    substituted_by: UUID | None = None
    signer: Signer


class Cancelled(Struct, frozen=True, kw_only=True):
    """A document that is cancelled. `receipt` is SAT's acknowledgement, if the provider hands it on."""

    code: str
    receipt: bytes | None = None


class CancellationPending(Struct, frozen=True, kw_only=True):
    """A cancellation that the receiver has to accept within three days (CFF 29-A); `status` reports its outcome."""

    code: str
    receipt: bytes | None = None


class StatusRequest(ProviderRequest, frozen=True, kw_only=True):
    """A query for SAT's report about the stamped document in `xml`."""

    fiscal_uuid: UUID
    xml: bytes


class DocumentStatus(Struct, frozen=True, kw_only=True):
    """SAT's report about a document. `detail` holds the report's own words.

    A document is NOT_FOUND until the provider has handed it to SAT, which may take a day. It is ACTIVE also while SAT
    does not know of a cancellation yet; CANCELLATION_REFUSED if its receiver has refused one.
    """

    state: Literal["ACTIVE", "CANCELLATION_PENDING", "CANCELLATION_REFUSED", "CANCELLED", "NOT_FOUND"]
    detail: str = ""


class ProviderTimedOut(TimedOut):
    """The outcome is unknown: the answer did not arrive before the deadline, or is unreadable."""


class ProviderUnavailable(Unavailable):
    """The request has no effect: it was never sent."""


class ProviderCapabilities(Struct, frozen=True, kw_only=True):
    """What a provider can do, and how long its windows are, in seconds."""

    name: str
    late_arrival_s: float
    """How long after a call the provider may still apply it. Until then, "not found" may change."""
    is_simulated: bool = False
    """Whether it is simulated: its stamps are worth nothing to SAT."""
    can_fence: bool = False
    """Whether it can refuse a document that it does not know, so that a late call stamps nothing."""


class StampingProvider(Protocol):
    """A provider of stamps. Every call raises `ProviderTimedOut` or `ProviderUnavailable`; any other exception counts
    as a time-out.
    """

    capabilities: ProviderCapabilities

    async def stamp(self, request: StampRequest) -> Stamped | Refused:
        """Stamps a document. A repeated request returns the stamp of the first one."""
        ...

    async def look_up(self, request: LookUp) -> Stamped | None:
        """Returns the stamp of an earlier request, or None if the provider certainly has no such document."""
        ...

    async def cancel(self, request: CancelRequest) -> Cancelled | CancellationPending | Refused:
        """Cancels a stamped document. A repeated request returns the state of the first one."""
        ...

    async def status(self, request: StatusRequest) -> DocumentStatus: ...
