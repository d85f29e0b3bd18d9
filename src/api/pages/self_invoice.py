"""GET and POST {base}/self-invoice/{token}: the page on which the payer of an order requests its invoice.

The signed link replaces a key. The page shows of the order its merchant, number, date and amount, and of an invoice
nothing to a visitor who does not know its receiver's tax number. Whatever is sent twice gives one invoice.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from api.errors import TooManyRequests, method_not_allowed
from api.fields.payer_language import accepted_language
from api.http.dependencies import Dependencies, DependencyHolder, not_started
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest
from api.pages.html import Html, alert, facts, links, paragraph, send_html
from api.pages.self_invoice_form import WrongFields, known_form, receiver_in, receivers_form, sent_fields
from api.pages.self_invoice_texts import NAMES, TEXTS, SelfInvoiceTexts
from ledger.domain.invoices.self_invoicing import SelfInvoiceState, self_invoice_state
from ledger.domain.merchants.state import Merchant
from ledger.domain.money import plain
from ledger.domain.orders.invoices.state import DocumentStatus, Stamp
from ledger.domain.orders.state import Order
from ledger.domain.rejections import (
    AmountNotStampable,
    FiscalDataIncomplete,
    InvalidField,
    Rejected,
    SelfInvoiceUnavailable,
)
from ledger.domain.streams import CUSTOMERS
from ledger.invoicing.files import LINK_VALIDITY_S
from ledger.invoicing.self_invoice_links import LinkedOrder
from ledger.notifications.formats import one_line, short_day
from ledger.operations.orders.invoices.self_invoice import require_invoiceable, self_invoice
from ledger.operations.pipeline.unit_of_work import load_order
from projections.formats import for_people

_FORM_BYTES_MAX: Final = 16 << 10
_ANSWER_MAX: Final = 300
_FIELDS_OF: Final = {f"fiscalConfig.{name}": name for name in NAMES}
_STATUS_OF: Final = {SelfInvoiceState.BY_MERCHANT: 200}
"""The status of a page that shows why the payer cannot request the invoice, where it is not 409."""


class SelfInvoicePage:
    """The endpoint of the payers' links."""

    def __init__(self, holder: DependencyHolder) -> None:
        self._holder = holder

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers with a page. The middleware answers a form that cannot be read, and a Fault."""
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        method = scope["method"]
        if method not in {"GET", "HEAD", "POST"}:
            raise method_not_allowed("GET", "HEAD", "POST")
        deps = self._holder.deps
        if deps is None:
            raise not_started()
        language = accepted_language(request.headers)
        assert deps.ledger.invoicing is not None, "a process that serves has an access to stamping"
        linked = deps.ledger.invoicing.links.read(request.path_id("token") or "")
        if linked is None:
            texts = TEXTS[language or "es"]
            page = _message(deps, texts, *texts.not_found, status=404)
            await send_html(page, send, request.answer_headers)
            return
        form = await request.form(_FORM_BYTES_MAX) if method == "POST" else None
        request.needs_database = True
        headers = request.answer_headers
        try:
            deps.limiter.admit_visit(linked.order_id, is_sent=form is not None)
        except TooManyRequests as refused:
            texts = TEXTS[language or "es"]
            page = _message(deps, texts, *texts.too_many, status=429)
            headers = (*headers, (b"retry-after", b"%d" % refused.retry_after))
        else:
            page = await _answer(deps, linked, form, language, request.request_id)
        await send_html(page, send, headers)


class _Visit(Struct, frozen=True):
    """A visit of an order's page: the order as it was read, and the language of its texts."""

    deps: Dependencies
    linked: LinkedOrder
    merchant: Merchant
    order: Order
    texts: SelfInvoiceTexts

    def page(self, title: str, content: str, status: int = 200) -> Html:
        """Returns a page with the facts of the order above its content."""
        order, labels, language = self.order, self.texts.facts, self.texts.language
        received = [inflow.at for payment in order.payments for inflow in payment.inflows]
        paid_at = short_day(max(received), self.merchant.settings.time_zone, language) if received else None
        values = (
            one_line(self.merchant.name),
            order.terms.order_number,
            paid_at,
            for_people(plain(order.terms.amount), order.terms.currency),
        )
        shown = {label: value for label, value in zip(labels, values, strict=True) if value is not None}
        note = _note(self.deps, self.texts)
        return Html(language=language, title=title, content=facts(shown) + content, status=status, note=note)

    def state_page(self, state: SelfInvoiceState) -> Html:
        """Returns the page of an order whose invoice the payer cannot request now."""
        if state is SelfInvoiceState.BEING_STAMPED:
            return self.page(self.texts.pending[0], paragraph(self.texts.pending[1]), 202)
        title, words = self.texts.states[state]
        return self.page(title, paragraph(words), _STATUS_OF.get(state, 409))

    def form_page(self, fields: Mapping[str, str], wrong: WrongFields | None = None, error: str = "") -> Html:
        """Returns the page with the form for the receiver, and with what was wrong with the one that was sent."""
        texts = self.texts
        ends = short_day(self.linked.ends_at - timedelta(seconds=1), self.merchant.settings.time_zone, texts.language)
        error = error or (texts.correct if wrong else "")
        content = alert(error) if error else paragraph(texts.lead.format(day=ends))
        return self.page(texts.title, content + receivers_form(texts, fields, wrong), 422 if error else 200)

    def invoice_page(self, fields: Mapping[str, str] | None) -> Html:
        """Returns the page of an order with an invoice: with its files, if its receiver's tax number was sent."""
        texts, invoices = self.texts, self.order.invoices
        invoice = None if invoices is None else invoices.invoice
        assert invoice is not None, "the order has an invoice"
        assert invoice.stamp is not None, "the invoice is stamped"
        title, words = texts.known
        if fields is None:
            return self.page(title, paragraph(words) + known_form(texts))
        rfc = "".join(fields["taxId"].replace("-", " ").split())
        if not rfc or not hmac.compare_digest(rfc.encode(), invoice.terms.receiver.tax_id.encode()):
            return self.page(title, paragraph(words) + known_form(texts, texts.other_rfc), 409)
        title, words = texts.done
        return self.page(title, paragraph(words) + self._downloads(invoice.stamp) + paragraph(texts.mailed))

    def _downloads(self, stamp: Stamp) -> str:
        invoicing = self.deps.ledger.invoicing
        assert invoicing is not None, "a process that serves has an access to stamping"
        expires_at = datetime.now(UTC) + timedelta(seconds=LINK_VALIDITY_S)
        xml, pdf = self.texts.downloads
        sign = invoicing.files.sign_link
        return links({xml: sign(stamp.xml_key, expires_at), pdf: sign(stamp.pdf_key, expires_at)})


async def _answer(
    deps: Dependencies, linked: LinkedOrder, form: Mapping[str, str] | None, language: str | None, request_id: str
) -> Html:
    ledger, merchant_id = deps.ledger, linked.merchant_id
    now = await ledger.clock.refresh(merchant_id)
    merchant = await ledger.merchant(merchant_id)
    order = await load_order(ledger, merchant_id, linked.order_id)
    texts = TEXTS[language or await _customers_language(deps, merchant_id, order)]
    visit = _Visit(deps, linked, merchant, order, texts)
    fields = None if form is None else sent_fields(form)
    state = self_invoice_state(order)
    if now >= linked.ends_at or merchant.closed_at is not None:
        return _message(deps, texts, *texts.ended, status=410)
    if state is SelfInvoiceState.INVOICED:
        return visit.invoice_page(fields)
    if fields is not None and state in {SelfInvoiceState.OPEN, SelfInvoiceState.BEING_STAMPED}:
        return await _requested(visit, fields, request_id)
    if state is not SelfInvoiceState.OPEN:
        return visit.state_page(state)
    try:
        await require_invoiceable(ledger, merchant_id, order)
    except FiscalDataIncomplete:
        return _cannot(visit)
    return visit.form_page({})


async def _requested(visit: _Visit, fields: Mapping[str, str], request_id: str) -> Html:
    """Returns the page after a request for the invoice: with the files, or with what is wrong."""
    texts = visit.texts
    try:
        order = await self_invoice(visit.deps.ledger, visit.linked, receiver_in(fields), request_id)
    except WrongFields as wrong:
        return visit.form_page(fields, wrong)
    except InvalidField as refused:
        names = {_FIELDS_OF[each.field] for each in (refused, *refused.others) if each.field in _FIELDS_OF}
        return visit.form_page(fields, WrongFields(names)) if names else _cannot(visit)
    except SelfInvoiceUnavailable as unavailable:
        return visit.state_page(SelfInvoiceState(unavailable.state))
    except (FiscalDataIncomplete, AmountNotStampable):
        return _cannot(visit)
    except Rejected:  # too many requests change the order at once
        return visit.page(texts.unavailable[0], paragraph(texts.unavailable[1]), 503)
    return _outcome(_Visit(visit.deps, visit.linked, visit.merchant, order, texts), fields)


def _outcome(visit: _Visit, fields: Mapping[str, str]) -> Html:
    texts, invoices = visit.texts, visit.order.invoices
    state = self_invoice_state(visit.order)
    if state is SelfInvoiceState.INVOICED:
        return visit.invoice_page(fields)
    invoice = None if invoices is None else invoices.invoice
    if state is not SelfInvoiceState.OPEN:
        return visit.state_page(state)
    if invoice is None:
        return visit.page(texts.unavailable[0], paragraph(texts.unavailable[1]), 503)
    if invoice.status is DocumentStatus.FAILED and invoice.failure is not None:
        answer = one_line(f"{invoice.failure.code} {invoice.failure.message}", _ANSWER_MAX)
        return visit.form_page(fields, error=texts.refused.format(answer=answer))
    return visit.state_page(SelfInvoiceState.BEING_STAMPED)  # the worker sends it as soon as the provider is back


def _cannot(visit: _Visit) -> Html:
    return visit.page(visit.texts.title, alert(visit.texts.cannot), 422)


def _message(deps: Dependencies, texts: SelfInvoiceTexts, title: str, words: str, *, status: int) -> Html:
    """Returns a page that shows nothing of an order."""
    return Html(language=texts.language, title=title, content=paragraph(words), status=status, note=_note(deps, texts))


def _note(deps: Dependencies, texts: SelfInvoiceTexts) -> str | None:
    return texts.sandbox if deps.environment == "sandbox" else None


async def _customers_language(deps: Dependencies, merchant_id: UUID, order: Order) -> str:
    customer, _ = await deps.ledger.journal.load(merchant_id, CUSTOMERS, order.terms.customer_id)
    return "en" if customer is not None and customer.preferences.language == "en" else "es"
