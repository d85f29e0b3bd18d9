"""The pages that a payer's browser is sent to: the device check, the issuer's challenge, the redirect.

The rule a stranger would break: the issuer that speaks here is a simulation, and it decides nothing in the ledger. A choice
is kept in the sandbox processor's book; the merchant's validate call asks for it, as it would ask a real issuer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from api.dependencies import Dependencies, DependencyHolder
from api.http.errors import method_not_allowed
from api.http.middleware import REQUEST_SCOPE_KEY
from api.http.request import ApiRequest
from api.sandbox.html import Html, facts, for_developers, form, paragraph, send_html
from api.sandbox.processor import sandbox_processor
from ledger.domain.orders.statuses import NextAction
from ledger.processors.sandbox.authentications import Session
from projections.orders.formats import for_people

_FORM_BYTES_MAX: Final = 16 << 10
_ACCEPT, _REFUSE = "accept", "refuse"
_INTRO: Final = {
    NextAction.CHALLENGE: ("Confirma tu compra", "Tu banco te pide confirmar este pago con tarjeta."),
    NextAction.REDIRECT: ("Autoriza tu pago", "La tienda te envió aquí para autorizar este pago."),
}
_NOT_THERE: Final = Html(
    status=404,
    title="Esta página no existe",
    content=paragraph("La dirección no corresponde a ningún pago. Vuelve a la tienda e inténtalo de nuevo."),
)
_ENDED: Final = Html(
    status=410,
    title="Esta sesión ya terminó",
    content=paragraph("El pago ya se resolvió o la tienda pidió otra cosa. Vuelve a la tienda para ver cómo quedó."),
)


class Visit(Struct, frozen=True):
    """What a payer's browser asks for: the id in the path, the decision that its form sent, None where the page was only
    asked for, and the path that all of the interface lies below.
    """

    id: str
    decision: str | None
    base_path: str


Show = Callable[[Dependencies, Visit], Awaitable[Html]]
"""Makes a page."""


class PayerPage:
    """GET and POST of one page, without a key: its address is known to nobody but the payer and the merchant."""

    def __init__(self, house: DependencyHolder, base_path: str, show: Show) -> None:
        self._house = house
        self._base_path = base_path
        self._show = show

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer with a page; what the processor raises is answered at the edge."""
        call: ApiRequest = scope[REQUEST_SCOPE_KEY]
        method = scope["method"]
        if method not in {"GET", "HEAD", "POST"}:
            raise method_not_allowed("GET", "HEAD", "POST")
        name = call.path_id("id")
        sent = (await call.form(_FORM_BYTES_MAX)).get("decision", "") if method == "POST" else None
        page = _NOT_THERE
        if name is not None:
            page = await self._show(self._house.opened(), Visit(name, sent, self._base_path))
        await send_html(page, send, call.answer_headers)


async def device_data(rooms: Dependencies, visit: Visit) -> Html:
    """{base}/sandbox/3ds/device-data/{referenceId}: looks at the browser; a POST, as from a hidden frame, says it was."""
    session = await sandbox_processor(rooms).pages.session(visit.id)
    if session is None or session.reference_id != visit.id:
        return _NOT_THERE
    if session.stage is not NextAction.DEVICE_DATA:
        return _ENDED
    if visit.decision is None:
        content = paragraph("Revisamos tu navegador para proteger tu pago. Toma un instante.") + form(
            ("go", "Continuar")
        )
        return Html(title="Un momento, por favor", content=content, goes_on=True)
    await sandbox_processor(rooms).pages.collect_device_data(visit.id)
    content = paragraph("Tu navegador quedó revisado. Vuelve a la tienda: ella continúa con el pago.")
    next_call = _call(visit, session, "device-data", referenceId=visit.id)
    return Html(
        title="Listo",
        content=content + for_developers("El siguiente paso es de tu servidor:", next_call),
        tells=_told(session, NextAction.DEVICE_DATA, "COLLECTED"),
    )


async def challenge(rooms: Dependencies, visit: Visit) -> Html:
    """{base}/sandbox/3ds/challenge/{authenticationTransactionId}: the issuer asks the payer."""
    return await _asked(rooms, visit, NextAction.CHALLENGE)


async def redirect(rooms: Dependencies, visit: Visit) -> Html:
    """{base}/sandbox/3ds/redirect/{authenticationTransactionId}: another site asks the payer."""
    return await _asked(rooms, visit, NextAction.REDIRECT)


async def _asked(rooms: Dependencies, visit: Visit, stage: NextAction) -> Html:
    session = await sandbox_processor(rooms).pages.session(visit.id)
    if session is None or session.transaction_id != visit.id:
        return _NOT_THERE
    if session.stage is not stage:
        return _ENDED
    # A form without a choice, as a merchant's page sends it, opens the page.
    if visit.decision not in {_ACCEPT, _REFUSE}:
        return await _question(rooms, session, stage)
    session = await sandbox_processor(rooms).pages.conclude(visit.id, accepted=visit.decision == _ACCEPT)
    if session is None or session.accepted is None:
        return _ENDED
    return _outcome(visit, session, stage, accepted=session.accepted)


async def _question(rooms: Dependencies, session: Session, stage: NextAction) -> Html:
    title, words = _INTRO[stage]
    merchant = await rooms.ledger.merchant(session.merchant_id)
    shown = {
        "Comercio": merchant.name,
        "Importe": for_people(f"{session.amount:f}", session.currency),
        "Tarjeta": f"•••• {session.card_last4}",
    }
    choices = form((_ACCEPT, "Confirmar el pago"), (_REFUSE, "Rechazar el pago"))
    return Html(title=title, content=paragraph(words) + facts(shown) + choices)


def _outcome(visit: Visit, session: Session, stage: NextAction, *, accepted: bool) -> Html:
    title = "Confirmaste el pago" if accepted else "Rechazaste el pago"
    words = (
        "Vuelve a la tienda: ella termina el pago. Ya puedes cerrar esta página."
        if accepted
        else "No se hará ningún cargo. Vuelve a la tienda si quieres pagar de otra forma."
    )
    answer = "y responde 200:" if accepted else "y responde 422 PAYER_AUTHENTICATION_FAILED:"
    next_call = _call(visit, session, "validate", authenticationTransactionId=session.transaction_id)
    return Html(
        title=title,
        content=paragraph(words) + for_developers(f"El siguiente paso es de tu servidor, {answer}", next_call),
        tells=_told(session, stage, "ACCEPTED" if accepted else "REFUSED"),
    )


def _call(visit: Visit, session: Session, operation: str, **body: str) -> str:
    """The merchant's next request, as its developer reads it."""
    order = session.order_id or "{id}"
    sent = msgspec.json.format(msgspec.json.encode(body), indent=1).decode().replace("\n", "")
    return f"POST {visit.base_path}/v2/payment-orders/{order}/payer-authentication/{operation} {sent}"


def _told(session: Session, stage: NextAction, result: str) -> str:
    """What the page around this one is told, as JSON."""
    message = {
        "type": "payer-authentication",
        "step": stage,
        "result": result,
        "paymentOrderId": session.order_id,
        "authenticationTransactionId": session.transaction_id,
        "referenceId": session.reference_id,
    }
    return msgspec.json.encode(message).decode()
