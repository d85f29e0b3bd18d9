"""The pages that a payer's browser is sent to: the device check, the issuer's challenge, the redirect.

The issuer on these pages is a simulation and decides nothing in the ledger. The sandbox's processor stores the payer's
choice; the merchant's validate call asks for it, as it would ask a real issuer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from api.errors import method_not_allowed
from api.fields.payer_language import accepted_language
from api.http.dependencies import Dependencies, DependencyHolder, not_started
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest
from api.orders.responses import customers_language
from api.pages.html import Html, facts, for_developers, form, link, paragraph, send_html
from api.pages.return_address import with_id
from api.sandbox.payer_texts import TEXTS, PayerTexts
from api.sandbox.processor import sandbox_processor
from ledger.domain.orders.statuses import NextAction
from ledger.processors.sandbox.authentications import Session
from projections.customers import language_of
from projections.formats import for_people

_FORM_BYTES_MAX: Final = 16 << 10
_ACCEPT, _REFUSE = "accept", "refuse"


class Visit(Struct, frozen=True):
    """A request of a payer's browser: the id in the path, the decision that its form sent (None for a plain GET), the
    base path of the interface, and the language that the browser prefers, None for neither of the two.
    """

    id: str
    decision: str | None
    base_path: str
    language: str | None

    async def texts(self, deps: Dependencies, session: Session | None) -> PayerTexts:
        """Returns the texts in the browser's language, else in that of the session's customer, else in Spanish."""
        if self.language is not None:
            return TEXTS[self.language]
        if session is not None and session.payment_method_id is not None:
            return TEXTS[await _cardholders_language(deps, session.merchant_id, session.payment_method_id)]
        order_id = None if session is None else session.order_id
        row = order_id and session and await deps.queries.order(session.merchant_id, str(order_id))
        if not row or session is None:
            return TEXTS["es"]
        return TEXTS[await customers_language(deps, session.merchant_id, row)]


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
        session_id, language = request.path_id("id"), accepted_language(request.headers)
        decision = (await request.form(_FORM_BYTES_MAX)).get("decision", "") if method == "POST" else None
        page = _not_found(TEXTS[language or "es"])
        if session_id is not None:
            deps = self._holder.deps
            if deps is None:
                raise not_started()
            request.needs_database = True
            page = await self._show(deps, Visit(session_id, decision, self._base_path, language))
        await send_html(page, send, request.answer_headers)


class _Owner(Struct, rename="camel"):
    customer_id: str


async def _cardholders_language(deps: Dependencies, merchant_id: UUID, payment_method_id: UUID) -> str:
    """Returns the language of the customer whose card is verified, Spanish if it is shown no more."""
    document = await deps.queries.payment_method(merchant_id, payment_method_id)
    if document is None:
        return "es"
    customer_id = msgspec.json.decode(document, type=_Owner).customer_id
    customer = await deps.queries.customer_detail(merchant_id, customer_id)
    return "es" if customer is None else language_of(customer)


async def device_data(deps: Dependencies, visit: Visit) -> Html:
    """{base}/sandbox/3ds/device-data/{referenceId}: collects the browser's device data, which its POST confirms."""
    session = await sandbox_processor(deps).pages.session(visit.id)
    texts = await visit.texts(deps, session)
    if session is None or session.reference_id != visit.id:
        return _not_found(texts)
    if session.stage is not NextAction.DEVICE_DATA:
        return _ended(texts)
    if visit.decision is None:
        title, words = texts.device_check
        content = paragraph(words) + form(("go", texts.proceed))
        return _page(texts, title=title, content=content, goes_on=True)
    await sandbox_processor(deps).pages.collect_device_data(visit.id)
    title, words = texts.device_checked
    next_request = _next_request(visit, session, "device-data", referenceId=visit.id)
    return _page(
        texts,
        title=title,
        content=paragraph(words) + for_developers(texts.for_developers, texts.next_step, next_request),
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
    texts = await visit.texts(deps, session)
    if session is None or session.transaction_id != visit.id:
        return _not_found(texts)
    if session.stage is not stage:
        return _ended(texts)
    # A merchant's page may open this one by a form without a decision.
    if visit.decision not in {_ACCEPT, _REFUSE}:
        return await _question(deps, session, stage, texts)
    session = await sandbox_processor(deps).pages.conclude(visit.id, accepted=visit.decision == _ACCEPT)
    if session is None or session.accepted is None:
        return _ended(texts)
    return _outcome(visit, session, stage, texts, accepted=session.accepted)


async def _question(deps: Dependencies, session: Session, stage: NextAction, texts: PayerTexts) -> Html:
    merchant = await deps.ledger.merchant(session.merchant_id)
    shown = {texts.merchant: merchant.name}
    if session.payment_method_id is None:
        title, words = texts.questions[stage]
        shown[texts.amount] = for_people(f"{session.amount:f}", session.currency)
        choices = form((_ACCEPT, texts.accept), (_REFUSE, texts.refuse))
    else:
        title, words = texts.saving
        choices = form((_ACCEPT, texts.accept_card), (_REFUSE, texts.refuse_card))
    shown[texts.card] = f"•••• {session.card_last4}"
    return _page(texts, title=title, content=paragraph(words) + facts(shown) + choices)


def _outcome(visit: Visit, session: Session, stage: NextAction, texts: PayerTexts, *, accepted: bool) -> Html:
    if session.payment_method_id is None:
        title, words = texts.accepted if accepted else texts.refused
    else:
        title, words = texts.card_confirmed if accepted else texts.card_refused
    next_step = texts.next_step_accepted if accepted else texts.next_step_refused
    next_request = _next_request(visit, session, "validate", authenticationTransactionId=session.transaction_id)
    back = _return_address(session)
    return _page(
        texts,
        title=title,
        content=paragraph(words)
        + (link(back, texts.back) if back else "")
        + for_developers(texts.for_developers, next_step, next_request),
        notice=_notice(session, stage, "ACCEPTED" if accepted else "REFUSED"),
        returns_to=back,
    )


def _return_address(session: Session) -> str | None:
    """Returns the merchant's address with the id of the order, or of the payment method, or None without one."""
    if session.return_url is None:
        return None
    if session.payment_method_id is None:
        return with_id(session.return_url, "paymentOrderId", session.order_id)
    return with_id(session.return_url, "paymentMethodId", session.payment_method_id)


def _page(texts: PayerTexts, **parts: Any) -> Html:
    """Returns a page of the sandbox, which a merchant's page may show in a frame."""
    return Html(language=texts.language, note=texts.sandbox, is_framed=True, **parts)


def _not_found(texts: PayerTexts) -> Html:
    title, words = texts.not_found
    return _page(texts, status=404, title=title, content=paragraph(words))


def _ended(texts: PayerTexts) -> Html:
    title, words = texts.ended
    return _page(texts, status=410, title=title, content=paragraph(words))


def _next_request(visit: Visit, session: Session, operation: str, **body: str) -> str:
    """Returns the merchant's next request, as its developer reads it."""
    place = f"v2/payment-orders/{session.order_id or '{id}'}"
    if session.payment_method_id is not None:
        place = f"payment-methods/{session.payment_method_id}"
    sent = msgspec.json.format(msgspec.json.encode(body), indent=1).decode().replace("\n", "")
    return f"POST {visit.base_path}/{place}/payer-authentication/{operation} {sent}"


def _notice(session: Session, stage: NextAction, result: str) -> str:
    """Returns the message to the page around this one, as JSON."""
    message = {
        "type": "payer-authentication",
        "step": stage,
        "result": result,
        "paymentOrderId": session.order_id,
        "paymentMethodId": session.payment_method_id,
        "authenticationTransactionId": session.transaction_id,
        "referenceId": session.reference_id,
    }
    return msgspec.json.encode(message).decode()
