"""The pages that a payer's browser is sent to: the device check, the issuer's challenge, the redirect.

The issuer on these pages is a simulation and decides nothing in the ledger. The sandbox's processor stores the payer's
choice; the merchant's validate call asks for it, as it would ask a real issuer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from api.dependencies import Dependencies, DependencyHolder, not_started
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
_NOT_FOUND: Final = Html(
    status=404,
    title="Esta página no existe",
    content=paragraph("La dirección no corresponde a ningún pago. Vuelve a la tienda e inténtalo de nuevo."),
)
_ENDED: Final = Html(
    status=410,
    title="Esta sesión ya terminó",
    content=paragraph(
        "El pago ya terminó o la tienda inició otro paso. Vuelve a la tienda para ver el estado del pago."
    ),
)


class Visit(Struct, frozen=True):
    """A request of a payer's browser: the id in the path, the decision that its form sent (None for a plain GET), and
    the base path of the interface.
    """

    id: str
    decision: str | None
    base_path: str


Show = Callable[[Dependencies, Visit], Awaitable[Html]]
"""Returns the page for a visit."""


class PayerPage:
    """GET and POST of one page, without a key: only the payer and the merchant have its address."""

    def __init__(self, holder: DependencyHolder, base_path: str, show: Show) -> None:
        self._holder = holder
        self._base_path = base_path
        self._show = show

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers with a page. The middleware answers what the processor raises."""
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        method = scope["method"]
        if method not in {"GET", "HEAD", "POST"}:
            raise method_not_allowed("GET", "HEAD", "POST")
        session_id = request.path_id("id")
        decision = (await request.form(_FORM_BYTES_MAX)).get("decision", "") if method == "POST" else None
        page = _NOT_FOUND
        if session_id is not None:
            deps = self._holder.deps
            if deps is None:
                raise not_started()
            request.needs_database = True
            page = await self._show(deps, Visit(session_id, decision, self._base_path))
        await send_html(page, send, request.answer_headers)


async def device_data(deps: Dependencies, visit: Visit) -> Html:
    """{base}/sandbox/3ds/device-data/{referenceId}: collects the browser's device data, which its POST confirms."""
    session = await sandbox_processor(deps).pages.session(visit.id)
    if session is None or session.reference_id != visit.id:
        return _NOT_FOUND
    if session.stage is not NextAction.DEVICE_DATA:
        return _ENDED
    if visit.decision is None:
        content = paragraph("Revisamos tu navegador para proteger tu pago. Toma un instante.") + form(
            ("go", "Continuar")
        )
        return Html(title="Un momento, por favor", content=content, goes_on=True)
    await sandbox_processor(deps).pages.collect_device_data(visit.id)
    content = paragraph("La revisión de tu navegador terminó. Vuelve a la tienda, que continúa con el pago.")
    next_request = _next_request(visit, session, "device-data", referenceId=visit.id)
    return Html(
        title="Listo",
        content=content + for_developers("El siguiente paso es de tu servidor:", next_request),
        notice=_notice(session, NextAction.DEVICE_DATA, "COLLECTED"),
    )


async def challenge(deps: Dependencies, visit: Visit) -> Html:
    """{base}/sandbox/3ds/challenge/{authenticationTransactionId}: the issuer asks the payer."""
    return await _ask(deps, visit, NextAction.CHALLENGE)


async def redirect(deps: Dependencies, visit: Visit) -> Html:
    """{base}/sandbox/3ds/redirect/{authenticationTransactionId}: another site asks the payer."""
    return await _ask(deps, visit, NextAction.REDIRECT)


async def _ask(deps: Dependencies, visit: Visit, stage: NextAction) -> Html:
    session = await sandbox_processor(deps).pages.session(visit.id)
    if session is None or session.transaction_id != visit.id:
        return _NOT_FOUND
    if session.stage is not stage:
        return _ENDED
    # A merchant's page may open this one by a form without a decision.
    if visit.decision not in {_ACCEPT, _REFUSE}:
        return await _question(deps, session, stage)
    session = await sandbox_processor(deps).pages.conclude(visit.id, accepted=visit.decision == _ACCEPT)
    if session is None or session.accepted is None:
        return _ENDED
    return _outcome(visit, session, stage, accepted=session.accepted)


async def _question(deps: Dependencies, session: Session, stage: NextAction) -> Html:
    title, words = _INTRO[stage]
    merchant = await deps.ledger.merchant(session.merchant_id)
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
        "Vuelve a la tienda, que termina el pago. Ya puedes cerrar esta página."
        if accepted
        else "No se hará ningún cargo. Vuelve a la tienda si quieres pagar de otra forma."
    )
    answer = "y responde 200:" if accepted else "y responde 422 PAYER_AUTHENTICATION_FAILED:"
    next_request = _next_request(visit, session, "validate", authenticationTransactionId=session.transaction_id)
    return Html(
        title=title,
        content=paragraph(words) + for_developers(f"El siguiente paso es de tu servidor, {answer}", next_request),
        notice=_notice(session, stage, "ACCEPTED" if accepted else "REFUSED"),
    )


def _next_request(visit: Visit, session: Session, operation: str, **body: str) -> str:
    """Returns the merchant's next request, as its developer reads it."""
    order_id = session.order_id or "{id}"
    sent = msgspec.json.format(msgspec.json.encode(body), indent=1).decode().replace("\n", "")
    return f"POST {visit.base_path}/v2/payment-orders/{order_id}/payer-authentication/{operation} {sent}"


def _notice(session: Session, stage: NextAction, result: str) -> str:
    """Returns the message to the page around this one, as JSON."""
    message = {
        "type": "payer-authentication",
        "step": stage,
        "result": result,
        "paymentOrderId": session.order_id,
        "authenticationTransactionId": session.transaction_id,
        "referenceId": session.reference_id,
    }
    return msgspec.json.encode(message).decode()
