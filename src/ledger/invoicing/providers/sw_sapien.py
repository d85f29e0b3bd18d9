"""SW sapien over satcfdi: REST, with our document's id as `customid`.

The provider has no query by that id. A look-up sends the document again, which it answers with error 307 and the first
stamp: by the custom id for 72 hours, and by the seal for ever. Sign in with a token; satcfdi's sign-in by user and
password does not read the provider's answer.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

import msgspec
from lxml import etree
from satcfdi.pacs import Environment
from satcfdi.pacs.swsapien import SWSapien

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

_CODE: Final = re.compile(r"\s*((?:[A-Z]+)?[0-9]+)\b")
_REPEATED: Final = frozenset({"307", "CFDI3307"})
"""The seal was stamped before; the custom id was used before. Both answers have the first stamp."""


class _Refusal(Exception):
    """An error that the provider answered in its own words."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.code)
        self.refused = refused


class _SWSapien(SWSapien):  # type: ignore[misc] # satcfdi has no types
    """satcfdi's SW sapien for one call: its requests keep the deadline, and a repeated document is a stamped one."""

    def __init__(self, transport: Transport, token: str, environment: Environment, url: str) -> None:
        super().__init__(token=token, environment=environment)
        self._transport, self._url = transport, url

    def _host(self, service: str = "services") -> str:
        return self._url or str(super()._host(service))

    def _request(
        self, path: str, headers: Any = None, method: str = "post", files: Any = None, **_: Any
    ) -> dict[str, Any]:
        assert method == "post", "stamps and cancellations are posted"
        sent = {"Authorization": self.token_fn(), "Cache-Control": "no-cache", **(headers or {})}
        body = self._transport.post(f"{self._host()}/{path}", headers=sent, files=files).body
        try:
            answer: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.MsgspecError:
            raise ProviderTimedOut("the provider's answer is unreadable") from None
        if answer.get("status") == "success":
            return answer
        if answer.get("status") != "error" or not answer.get("message"):
            raise ProviderTimedOut("the provider's answer is neither a success nor an error")
        refused = _refused(answer)
        data = answer.get("data")
        if refused.code in _REPEATED and isinstance(data, dict) and data.get("cfdi"):
            return {"data": {"uuid": "", **data}}
        if refused.code in _REPEATED:
            raise ProviderTimedOut(f"stamped already, but the answer does not contain the stamp ({refused.code})")
        raise _Refusal(refused)


class SwSapienPac:
    """The blocking calls of SW sapien. `url` replaces the address of the environment if it is not empty."""

    def __init__(self, token: str, *, is_production: bool, url: str = "") -> None:
        self._token, self._url = token, url
        self._environment = Environment.PRODUCTION if is_production else Environment.TEST

    def stamp(self, xml: bytes, document_id: str, deadline_at: datetime) -> Stamped | Refused:
        try:
            document = self._call(deadline_at).stamp(VerbatimCfdi.of(xml), ref_id=document_id)
        except _Refusal as refusal:
            return refusal.refused
        return read_stamped(document.xml, invoice_id=document.document_id or None)

    def look_up(self, xml: bytes, document_id: str, deadline_at: datetime) -> Stamped | None:
        found = self.stamp(xml, document_id, deadline_at)
        return None if isinstance(found, Refused) else found

    def cancel(self, request: CancelRequest) -> Cancelled | CancellationPending | Refused:
        signed = etree.tostring(signed_cancellation(request).to_xml(), encoding="UTF-8")
        try:
            answer = self._call(request.deadline_at)._request(  # noqa: SLF001 - its own method drops the codes
                "cfdi33/cancel/xml", files=[("xml", ("xml", signed, "text/xml"))]
            )
        except _Refusal as refusal:
            return refusal.refused
        codes = {str(key).upper(): str(code) for key, code in answer["data"]["uuid"].items()}
        receipt = answer["data"].get("acuse")
        return cancellation_of(codes[str(request.fiscal_uuid).upper()], "", receipt.encode() if receipt else None)

    def _call(self, deadline_at: datetime) -> _SWSapien:
        return _SWSapien(Transport(deadline_at), self._token, self._environment, self._url)


def _refused(answer: dict[str, Any]) -> Refused:
    """Returns an error in the provider's words: its message, and the detail if it has one."""
    message, detail = str(answer.get("message") or ""), str(answer.get("messageDetail") or "")
    found = _CODE.match(message) or _CODE.match(detail)
    return Refused(code=found[1] if found else "ERROR", message=f"{message} {detail}".strip())
