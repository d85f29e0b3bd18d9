"""The bodies of create and charge, as drafts.

The rule a stranger would break: `read_…` is the only way in. It decodes, drafts and then looks through every text that
would be stored; a draft made past it may hold a card number.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from api.fields.line_items import line_items
from api.fields.payment_method import Method, payment_method, sent_pan
from api.fields.people import billing_address, billing_address_required, customer_input, device_information, fiscal_data
from api.fields.stored_text import check_stored_text
from api.fields.values import is_given, metadata, moment, one_of_aliases, positive_amount, printable
from api.http.decoding import BodyDecoder, bad_input_as_400
from api.http.errors import required
from api.orders.order_schemas import ChargePaymentOrder, CreatePaymentOrder
from ledger.domain.orders.terms import CaptureMethod, MethodType, OrderTerms
from ledger.operations.inputs import OrderInput, PaymentInput

_decode_create: Final = BodyDecoder(CreatePaymentOrder)
_decode_charge: Final = BodyDecoder(ChargePaymentOrder)


def parse_create(body: bytes, now: datetime) -> OrderInput:
    """The order that a body asks for. `now` is aware, in the merchant's time zone. Raises ApiError (400)."""
    request = _decode_create(body)
    with bad_input_as_400():
        draft = _order_draft(request, now)
        check_stored_text(draft, "", body, sent_pan(request.payment_method))
    return draft


def parse_charge(body: bytes, now: datetime) -> PaymentInput:
    """The payment that a body asks for. `now` is aware, in the merchant's time zone. Raises ApiError (400)."""
    request = _decode_charge(body)
    with bad_input_as_400():
        draft = payment_input(request, now)
        check_stored_text(draft, "payment", body, sent_pan(request.payment_method))
    return draft


def _order_draft(request: CreatePaymentOrder, now: datetime) -> OrderInput:
    amount = positive_amount(request.amount, "amount")
    external_id = one_of_aliases(
        "externalId", request.external_id, "externalMerchantReference", request.external_merchant_reference
    )
    if external_id is None:
        raise required("externalId")
    virtual = one_of_aliases(
        "virtualTerminal", request.virtual_terminal, "isVirtualTerminal", request.is_virtual_terminal
    )
    billing = billing_address(request.billing_address)
    method = _method(request, now)
    pending = bool(request.pending)
    if not pending and method is None:
        raise required("paymentMethod")
    if not pending and billing is None and method is not None and method.card is not None:
        raise billing_address_required(request.billing_address)
    lines = one_of_aliases("lineItems", request.line_items, "items", request.items)
    terms = OrderTerms(
        external_id=printable(external_id, "externalId"),
        amount=amount,
        currency=request.currency,
        allow_partials=pending and bool(request.allow_partials),
        capture_method=CaptureMethod(request.capture_method or CaptureMethod.AUTOMATIC),
        virtual_terminal=bool(virtual),
        description=request.description,
        invoice_number=request.invoice_number,
        due_date=None if request.due_date is None else moment(request.due_date, "dueDate", now),
        metadata=metadata(request.metadata),
        billing_address=billing,
        device_information=device_information(request.device_information),
        fiscal=fiscal_data(request.customer_fiscal_data, request.fiscal_data, request.fiscal_config),
        line_items=line_items(lines, amount),
    )
    return OrderInput(
        terms=terms,
        customer=customer_input(request.customer, request.customer_id),
        payment=None if pending or method is None else _payment(method, virtual_terminal=bool(virtual)),
    )


def _method(request: CreatePaymentOrder, now: datetime) -> Method | None:
    """The method, checked even where the order is created pending and will not use it."""
    return None if request.payment_method is None else payment_method(request.payment_method, now.date())


def _payment(method: Method, *, virtual_terminal: bool) -> PaymentInput:
    """The payment of a new order. Where it is billed and the payer's device stand on the order, once."""
    return PaymentInput(
        type=method.type,
        card=method.card,
        card_summary=method.card_summary,
        saved_method_id=method.saved_method_id,
        persist=method.persist,
        virtual_terminal=virtual_terminal,
    )


def payment_input(request: ChargePaymentOrder, now: datetime) -> PaymentInput:
    """The payment of an order that stands, before its texts were looked through. Raises ApiError (400)."""
    method = payment_method(request.payment_method, now.date())
    external_id = one_of_aliases(
        "externalId", request.external_id, "externalMerchantReference", request.external_merchant_reference
    )
    virtual = one_of_aliases(
        "virtualTerminal", request.virtual_terminal, "isVirtualTerminal", request.is_virtual_terminal
    )
    billing = billing_address(request.billing_address)
    if method.type is MethodType.CARD and method.card is not None and billing is None:
        raise billing_address_required(request.billing_address)
    return PaymentInput(
        type=method.type,
        card=method.card,
        card_summary=method.card_summary,
        saved_method_id=method.saved_method_id,
        persist=method.persist,
        amount=positive_amount(request.amount, "amount") if is_given(request.amount) else None,
        external_id=printable(external_id, "externalId"),
        virtual_terminal=bool(virtual),
        billing_address=billing,
        device_information=device_information(request.device_information),
        metadata=metadata(request.metadata),
    )
