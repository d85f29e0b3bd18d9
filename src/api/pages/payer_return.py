"""GET {base}/payer-returns/{token}: the page to which a processor sends a payer back from the bank.

It asks the processor what has become of the payment, shows it, and sends the payer on to the merchant's address. The
signed address replaces a key. What the processor adds to the query is not read: a payer can write it too.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs
from uuid import UUID

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from api.errors import TooManyRequests, method_not_allowed
from api.fields.payer_language import accepted_language
from api.http.dependencies import Dependencies, DependencyHolder, not_started
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest
from api.orders.responses import customers_language
from api.pages.html import Html, link, paragraph, send_html
from api.pages.return_address import with_id
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.operations.orders.payer_return import payer_returned
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.processors.payer_returns import ON_TO, PayerReturn

_QUERY_MAX: Final = 16 << 10
_UNPAID: Final = frozenset({PaymentStatus.FAILED, PaymentStatus.EXPIRED, PaymentStatus.CANCELLED})


class ReturnTexts(Struct, frozen=True, kw_only=True):
    """The texts of the page in one language. A pair is a title and its paragraph."""

    language: str
    sandbox: str
    not_found: tuple[str, str]
    paid: tuple[str, str]
    unpaid: tuple[str, str]
    waiting: tuple[str, str]
    back: str


TEXTS: Final = {
    "es": ReturnTexts(
        language="es",
        sandbox="Entorno de pruebas: aquí no se mueve dinero.",
        not_found=(
            "Esta página no existe",
            "La dirección no corresponde a ningún pago. Vuelve a la tienda e inténtalo de nuevo.",
        ),
        paid=("Tu banco autorizó el pago", "Vuelve a la tienda. Ya puedes cerrar esta página."),
        unpaid=("El pago no se hizo", "No se hizo ningún cargo. Vuelve a la tienda si quieres pagar de otra forma."),
        waiting=(
            "Tu banco aún no confirma el pago",
            "Vuelve a la tienda para ver el estado del pago. No pagues otra vez antes de verlo.",
        ),
        back="Volver a la tienda",
    ),
    "en": ReturnTexts(
        language="en",
        sandbox="Test environment: no money moves here.",
        not_found=(
            "This page does not exist",
            "The address belongs to no payment. Go back to the shop and try again.",
        ),
        paid=("Your bank has authorised the payment", "Go back to the shop. You can close this page now."),
        unpaid=("The payment was not made", "Nothing was charged. Go back to the shop if you want to pay otherwise."),
        waiting=(
            "Your bank has not confirmed the payment yet",
            "Go back to the shop to see how the payment stands. Do not pay again before you have seen it.",
        ),
        back="Back to the shop",
    ),
}


class PayerReturnPage:
    """The endpoint to which payers come back."""

    def __init__(self, holder: DependencyHolder) -> None:
        self._holder = holder

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers with a page. The middleware answers a Fault."""
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        if scope["method"] not in {"GET", "HEAD"}:
            raise method_not_allowed("GET", "HEAD")
        deps = self._holder.deps
        if deps is None:
            raise not_started()
        language = accepted_language(request.headers)
        returns = deps.ledger.payer_returns
        back = None if returns is None else returns.read(request.path_id("token") or "", _on_to(request.query))
        if back is None:
            page = _not_found(deps, TEXTS[language or "es"])
        else:
            request.needs_database = True
            order = await _order(deps, back, asks=scope["method"] == "GET")
            page = _page(deps, await _texts(deps, back, language), back, order.payment(back.payment_id))
        await send_html(page, send, request.answer_headers)


async def _order(deps: Dependencies, back: PayerReturn, *, asks: bool) -> Order:
    """Returns the order, after the processor was asked about it. A payer who comes back all the time asks no more."""
    try:
        deps.limiter.admit_visit(back.payment_id, is_sent=False)
    except TooManyRequests:
        asks = False
    if asks:
        return await payer_returned(deps.ledger, back)
    return await load_order(deps.ledger, back.merchant_id, back.order_id)


def _on_to(query: bytes) -> str | None:
    """Returns the merchant's address in a query, None if it has none or more than one."""
    if len(query) > _QUERY_MAX:
        return None
    found = parse_qs(query.decode("latin-1"), encoding="utf-8").get(ON_TO, [])
    return found[0] if len(found) == 1 else None


async def _texts(deps: Dependencies, back: PayerReturn, language: str | None) -> ReturnTexts:
    """Returns the texts in the browser's language, else in that of the customer."""
    if language is None:
        row = await deps.queries.order(back.merchant_id, str(back.order_id))
        language = "es" if row is None else await customers_language(deps, back.merchant_id, row)
    return TEXTS[language]


def _page(deps: Dependencies, texts: ReturnTexts, back: PayerReturn, payment: Payment) -> Html:
    (title, words), result = texts.waiting, "PENDING"
    if payment.status in _UNPAID:
        (title, words), result = texts.unpaid, "REFUSED"
    elif payment.authorized > 0:
        (title, words), result = texts.paid, "ACCEPTED"
    on_to = None if back.on_to is None else with_id(back.on_to, "paymentOrderId", back.order_id)
    return Html(
        language=texts.language,
        note=_note(deps, texts),
        title=title,
        content=paragraph(words) + (link(on_to, texts.back) if on_to else ""),
        is_framed=True,
        notice=_notice(back.order_id, payment, result),
        returns_to=on_to,
    )


def _notice(order_id: UUID, payment: Payment, result: str) -> str:
    """Returns the message to the page around this one, as JSON, in the form of the sandbox's pages."""
    session = payment.session
    message = {
        "type": "payer-authentication",
        "step": "CHALLENGE",
        "result": result,
        "paymentOrderId": order_id,
        "paymentMethodId": None,
        "authenticationTransactionId": None if session is None else session.transaction_id,
        "referenceId": None if session is None else session.reference_id,
    }
    return msgspec.json.encode(message).decode()


def _not_found(deps: Dependencies, texts: ReturnTexts) -> Html:
    title, words = texts.not_found
    return Html(
        language=texts.language,
        note=_note(deps, texts),
        status=404,
        title=title,
        content=paragraph(words),
        is_framed=True,
    )


def _note(deps: Dependencies, texts: ReturnTexts) -> str | None:
    return texts.sandbox if deps.environment == "sandbox" else None
