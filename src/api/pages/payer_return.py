"""GET {base}/payer-returns/{token}: the page to which a processor sends a payer back from the bank.

It asks the processor what has become of the payment, or of the card that is saved without one, shows it, and sends the
payer on to the merchant's address. The signed address replaces a key. What the processor adds to the query is not read:
a payer can write it too.
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
from ledger.domain.orders.terms import AuthenticationSession
from ledger.domain.payment_methods.state import SavedMethods
from ledger.domain.payment_methods.terms import VerificationEnd
from ledger.operations.orders.payer_return import payer_returned
from ledger.operations.payment_methods.payer_return import cardholder_returned, saved_methods
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.processors.payer_returns import ON_TO, CardReturn, PayerReturn
from projections.customers import language_of

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
    card_saved: tuple[str, str]
    card_not_saved: tuple[str, str]
    card_waiting: tuple[str, str]
    back: str


TEXTS: Final = {
    "es": ReturnTexts(
        language="es",
        sandbox="Entorno de pruebas: aquí no se mueve dinero.",
        not_found=(
            "Esta página no existe",
            "La dirección no corresponde a ningún pago ni a ninguna tarjeta. Vuelve a la tienda e inténtalo de nuevo.",
        ),
        paid=("Tu banco autorizó el pago", "Vuelve a la tienda. Ya puedes cerrar esta página."),
        unpaid=("El pago no se hizo", "No se hizo ningún cargo. Vuelve a la tienda si quieres pagar de otra forma."),
        waiting=(
            "Tu banco aún no confirma el pago",
            "Vuelve a la tienda para ver el estado del pago. No pagues otra vez antes de verlo.",
        ),
        card_saved=(
            "Tu tarjeta se guardó",
            "No se hizo ningún cargo. Vuelve a la tienda. Ya puedes cerrar esta página.",
        ),
        card_not_saved=(
            "Tu tarjeta no se guardó",
            "No se hizo ningún cargo. Vuelve a la tienda si quieres usar otra tarjeta.",
        ),
        card_waiting=("Tu banco aún no confirma la tarjeta", "Vuelve a la tienda para ver si se guardó."),
        back="Volver a la tienda",
    ),
    "en": ReturnTexts(
        language="en",
        sandbox="Test environment: no money moves here.",
        not_found=(
            "This page does not exist",
            "The address belongs to no payment and to no card. Go back to the shop and try again.",
        ),
        paid=("Your bank has authorised the payment", "Go back to the shop. You can close this page now."),
        unpaid=("The payment was not made", "Nothing was charged. Go back to the shop if you want to pay otherwise."),
        waiting=(
            "Your bank has not confirmed the payment yet",
            "Go back to the shop to see how the payment stands. Do not pay again before you have seen it.",
        ),
        card_saved=("Your card is saved", "Nothing was charged. Go back to the shop. You can close this page now."),
        card_not_saved=(
            "Your card was not saved",
            "Nothing was charged. Go back to the shop if you want to use another card.",
        ),
        card_waiting=("Your bank has not confirmed the card yet", "Go back to the shop to see whether it is saved."),
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
        page = _not_found(deps, TEXTS[language or "es"])
        if back is not None:
            request.needs_database = True
            asks = scope["method"] == "GET"
            if isinstance(back, PayerReturn):
                order = await _order(deps, back, asks=asks)
                page = _page(deps, await _texts(deps, back, language), back, order.payment(back.payment_id))
            elif methods := await _methods(deps, back, asks=asks):
                page = _card_page(deps, await _texts(deps, back, language), back, methods)
        await send_html(page, send, request.answer_headers)


async def _order(deps: Dependencies, back: PayerReturn, *, asks: bool) -> Order:
    """Returns the order, after the processor was asked about it."""
    if asks and _may_ask(deps, back.payment_id):
        return await payer_returned(deps.ledger, back)
    return await load_order(deps.ledger, back.merchant_id, back.order_id)


async def _methods(deps: Dependencies, back: CardReturn, *, asks: bool) -> SavedMethods | None:
    """Returns the customer's cards, after the processor was asked about this one."""
    if asks and _may_ask(deps, back.payment_method_id):
        return await cardholder_returned(deps.ledger, back)
    return await saved_methods(deps.ledger, back)


def _may_ask(deps: Dependencies, about: UUID) -> bool:
    """Returns whether the processor may be asked again: not for a payer who comes back all the time."""
    try:
        deps.limiter.admit_visit(about, is_sent=False)
    except TooManyRequests:
        return False
    return True


def _on_to(query: bytes) -> str | None:
    """Returns the merchant's address in a query, None if it has none or more than one."""
    if len(query) > _QUERY_MAX:
        return None
    found = parse_qs(query.decode("latin-1"), encoding="utf-8").get(ON_TO, [])
    return found[0] if len(found) == 1 else None


async def _texts(deps: Dependencies, back: PayerReturn | CardReturn, language: str | None) -> ReturnTexts:
    """Returns the texts in the browser's language, else in that of the customer."""
    if language is None and isinstance(back, CardReturn):
        customer = await deps.queries.customer_detail(back.merchant_id, str(back.customer_id))
        language = "es" if customer is None else language_of(customer)
    elif language is None and isinstance(back, PayerReturn):
        row = await deps.queries.order(back.merchant_id, str(back.order_id))
        language = "es" if row is None else await customers_language(deps, back.merchant_id, row)
    return TEXTS[language or "es"]


def _page(deps: Dependencies, texts: ReturnTexts, back: PayerReturn, payment: Payment) -> Html:
    shown, result = texts.waiting, "PENDING"
    if payment.status in _UNPAID:
        shown, result = texts.unpaid, "REFUSED"
    elif payment.authorized > 0:
        shown, result = texts.paid, "ACCEPTED"
    on_to = None if back.on_to is None else with_id(back.on_to, "paymentOrderId", back.order_id)
    notice = _notice(payment.session, result, paymentOrderId=back.order_id)
    return _returned(deps, texts, shown, on_to, notice)


def _card_page(deps: Dependencies, texts: ReturnTexts, back: CardReturn, methods: SavedMethods) -> Html:
    card = methods.latest_verification(back.payment_method_id)
    shown, result = texts.card_not_saved, "REFUSED"
    if card is not None and card.ended is None:
        shown, result = texts.card_waiting, "PENDING"
    elif card is not None and card.ended is VerificationEnd.VERIFIED and methods.method(back.payment_method_id):
        shown, result = texts.card_saved, "ACCEPTED"
    on_to = None if back.on_to is None else with_id(back.on_to, "paymentMethodId", back.payment_method_id)
    notice = _notice(None if card is None else card.session, result, paymentMethodId=back.payment_method_id)
    return _returned(deps, texts, shown, on_to, notice)


def _returned(deps: Dependencies, texts: ReturnTexts, shown: tuple[str, str], on_to: str | None, notice: str) -> Html:
    title, words = shown
    return Html(
        language=texts.language,
        note=_note(deps, texts),
        title=title,
        content=paragraph(words) + (link(on_to, texts.back) if on_to else ""),
        is_framed=True,
        notice=notice,
        returns_to=on_to,
    )


def _notice(session: AuthenticationSession | None, result: str, **about: UUID) -> str:
    """Returns the message to the page around this one, as JSON, in the form of the sandbox's pages."""
    message = {
        "type": "payer-authentication",
        "step": "CHALLENGE",
        "result": result,
        "paymentOrderId": about.get("paymentOrderId"),
        "paymentMethodId": about.get("paymentMethodId"),
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
