"""Finkok over satcfdi: SOAP, and a look-up (`stamped`) that recognises a document by its seal.

A repeated stamp is answered with incidence 307 and the first stamp. For some seconds the stamp may be missing there,
and the look-up may answer 603, that it has none. So "not found" is final only after the time for late arrivals in the
provider's capabilities.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from lxml import etree
from satcfdi.pacs import Environment
from satcfdi.pacs.finkok import Finkok

from ledger.invoicing.contract import (
    CancellationPending,
    Cancelled,
    CancelRequest,
    ProviderTimedOut,
    Refused,
    Stamped,
)
from ledger.invoicing.providers.pac import (
    VerbatimCfdi,
    cancellation_of,
    read_stamped,
    signed_cancellation,
)
from ledger.invoicing.providers.transport import Transport
from ledger.invoicing.stamped_xml import parse, parse_cfdi

_STAMPED_BEFORE: Final = "307"
_NOT_STAMPED: Final = "603"


class _Incidence(Exception):
    """The first incidence of an answer without a stamp."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code)
        self.code, self.message = code, message


class _Finkok(Finkok):  # type: ignore[misc] # satcfdi has no types
    """satcfdi's Finkok for one call: its requests keep the deadline, and its incidences keep their codes."""

    def __init__(self, transport: Transport, user: str, password: str, environment: Environment, url: str) -> None:
        super().__init__(user, password, environment)
        self._transport, self._url = transport, url
        self.answer: Any = None

    @property
    def host(self) -> str:
        return self._url or str(super().host)

    def _perform_request(self, url: str, envelope: Any) -> Any:
        headers = {"content-type": "text/xml; charset=utf-8"}
        self.answer = parse(self._transport.post(url, headers=headers, data=etree.tostring(envelope)).body)
        return self.answer

    def _validate_stamp_response(self, root: Any) -> None:
        xml = root.find(".//apps:xml", self.namespaces)
        if xml is not None and xml.text:
            return
        found = root.find(".//apps:Incidencias/apps:Incidencia", self.namespaces)
        if found is None:
            raise ProviderTimedOut("the provider answered with neither a stamp nor an incidence")
        raise _Incidence(
            found.findtext("apps:CodigoError", "", self.namespaces),
            found.findtext("apps:MensajeIncidencia", "", self.namespaces),
        )


class FinkokPac:
    """The blocking calls of Finkok. `url` replaces the address of the environment if it is not empty."""

    def __init__(self, user: str, password: str, *, is_production: bool, url: str = "") -> None:
        self._user, self._password, self._url = user, password, url
        self._environment = Environment.PRODUCTION if is_production else Environment.TEST

    def stamp(self, xml: bytes, document_id: str, deadline_at: datetime) -> Stamped | Refused:  # noqa: ARG002 - the seal is its key
        try:
            document = self._call(deadline_at).stamp(VerbatimCfdi.of(xml))
        except _Incidence as incidence:
            if incidence.code == _STAMPED_BEFORE:
                raise ProviderTimedOut("stamped already, but the stamp cannot be read yet (307)") from None
            return Refused(code=incidence.code, message=incidence.message)
        return self._stamped(document, xml)

    def look_up(self, xml: bytes, document_id: str, deadline_at: datetime) -> Stamped | None:  # noqa: ARG002 - the same
        try:
            document = self._call(deadline_at).stamped(VerbatimCfdi.of(xml))
        except _Incidence as incidence:
            if incidence.code == _NOT_STAMPED:
                return None
            raise ProviderTimedOut(f"the look-up was refused: {incidence.code}") from None
        return self._stamped(document, xml)

    def cancel(self, request: CancelRequest) -> Cancelled | CancellationPending | Refused:
        from satcfdi.exceptions import ResponseError

        call = self._call(request.deadline_at)
        try:
            done = call.cancel_comprobante(signed_cancellation(request))
        except ResponseError as refusal:
            words = str(refusal.response)
            return Refused(code=words.partition(" ")[0], message=words)
        words = call.answer.findtext(".//apps:EstatusCancelacion", "", call.namespaces)
        return cancellation_of(str(done.code), words, done.acuse)

    def _call(self, deadline_at: datetime) -> _Finkok:
        return _Finkok(Transport(deadline_at), self._user, self._password, self._environment, self._url)

    def _stamped(self, document: Any, xml: bytes) -> Stamped:
        return read_stamped(document.xml, invoice_id=document.document_id, seal=parse_cfdi(xml).get("Sello"))
