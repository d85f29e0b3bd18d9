"""The common part of all providers' adapters: their calls, and a document that satcfdi sends byte for byte."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from satcfdi.cfdi import CFDI
from satcfdi.create.cancela.cancelacion import Cancelacion, Folio

from ledger.invoicing.contract import (
    CancellationPending,
    Cancelled,
    CancelRequest,
    ProviderTimedOut,
    Refused,
    Stamped,
)
from ledger.invoicing.stamped_xml import XmlUnreadable, stamped


class Pac(Protocol):
    """The blocking calls of one provider. Each raises ProviderUnavailable or ProviderTimedOut, or any other exception
    if the answer is unreadable.
    """

    def stamp(self, xml: bytes, document_id: str, deadline_at: datetime) -> Stamped | Refused: ...

    def look_up(self, xml: bytes, document_id: str, deadline_at: datetime) -> Stamped | None: ...

    def cancel(self, request: CancelRequest) -> Cancelled | CancellationPending | Refused: ...


class VerbatimCfdi(CFDI):  # type: ignore[misc] # satcfdi has no types
    """A CFDI that is sent in the bytes it was sealed in. satcfdi writes every document anew."""

    verbatim: bytes = b""

    @classmethod
    def of(cls, xml: bytes) -> VerbatimCfdi:
        made: VerbatimCfdi = cls.from_string(xml)
        made.verbatim = xml
        return made

    def xml_bytes(self, *_: Any, **__: Any) -> bytes:
        return self.verbatim


def read_stamped(xml: bytes, *, invoice_id: str | None = None, seal: str | None = None) -> Stamped:
    """Returns the stamped document of an answer. Raises ProviderTimedOut if the answer holds none."""
    try:
        return stamped(xml, invoice_id=invoice_id, seal=seal)
    except XmlUnreadable as wrong:
        raise ProviderTimedOut(f"the provider's answer is unreadable: {wrong}") from None


def signed_cancellation(request: CancelRequest) -> Cancelacion:
    """Returns the request to SAT, signed by the issuer, at the time of central Mexico."""
    substitute = None if request.substituted_by is None else str(request.substituted_by).upper()
    folio = Folio(str(request.fiscal_uuid).upper(), request.motive, substitute)
    local = datetime.now(ZoneInfo("America/Mexico_City")).replace(tzinfo=None, microsecond=0)
    return Cancelacion(request.signer, folio, local)


def cancellation_of(code: str, words: str, receipt: bytes | None) -> Cancelled | CancellationPending | Refused:
    """Returns what SAT's code for one document (EstatusUUID) means, with its words (EstatusCancelacion).

    201: SAT has the request; without further words, whether the receiver must accept it is open. 202: cancelled before.
    """
    if code == "202" or (code == "201" and words.lower().startswith("cancelado")):
        return Cancelled(code=code, receipt=receipt)
    if code == "201":
        return CancellationPending(code=code, receipt=receipt)
    if code == "708":  # Finkok: SAT cannot be reached
        raise ProviderTimedOut("the provider cannot reach SAT (708)")
    return Refused(code=code, message=words or code)
