"""PATCH /v2/payment-orders/{id}: changes the terms of an order after its creation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BODY, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_texts
from api.decoding.types import DayOrMoment, InvoiceNumber, LongText, Metadata, PositiveNumber, alias_of
from api.decoding.unknown_names import UNKNOWN_FIELD, shown
from api.errors import invalid
from api.fields.line_items import NO_PRODUCTS, LineItems, Products, line_items, product_ids
from api.fields.metadata import metadata
from api.fields.people import OrderReceiver, order_receiver
from api.fields.values import is_given, one_of_aliases, positive_amount, require_whole
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, KEYED, OperationSpec, codes_of
from api.operation import BODY as BODY_CODES
from api.orders.create import CreatePaymentOrder, parse_due_date
from api.orders.invoices.fields import ExchangeRate, exchange_rate
from api.orders.responses import merchant_now, order_json, warn_of_past_due_date
from api.response import REPLAYED, ApiResponse
from ledger.domain.orders import terms
from ledger.domain.orders.commands import OrderChanges
from ledger.operations.context.inputs import ChangeInput
from ledger.operations.orders.change import change_order
from projections.orders.documents import OrderDocument

T = TypeVar("T")


class ChangePaymentOrder(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The changes of an order. What is left out stays; `null` takes a value away."""

    amount: Annotated[
        PositiveNumber | UnsetType,
        Meta(
            description="Subtotal in minor units (cents). While the order is PENDING and has no payment.",
            examples=[150000],
        ),
    ] = UNSET
    description: Annotated[LongText | None | UnsetType, Meta(description="Free text.")] = UNSET
    invoice_number: Annotated[
        InvoiceNumber | None | UnsetType,
        Meta(description="Shown to the customer instead of orderNumber. Until the order is invoiced."),
    ] = UNSET
    metadata: Annotated[
        Metadata | UnsetType,
        Meta(
            description="Merged into the order's metadata (RFC 7396): members that are not named stay, and null takes one "
            "away. null in place of the object removes all of it."
        ),
    ] = UNSET
    due_date: Annotated[
        DayOrMoment | None | UnsetType,
        Meta(
            description="The due date, as at creation. While something is owed. Reminders follow it; references that were "
            "issued keep their end.",
            examples=["2026-01-31", "2026-01-31T12:00:00-06:00"],
        ),
    ] = UNSET
    line_items: Annotated[
        LineItems | None | UnsetType,
        Meta(description="All lines anew, until the order is invoiced. They add up to amount."),
    ] = UNSET
    items: Annotated[LineItems | None | UnsetType, alias_of("lineItems")] = UNSET
    customer_fiscal_data: Annotated[
        OrderReceiver | None | UnsetType,
        Meta(
            description="The whole receiver of the invoice anew, until the order is invoiced. CUSTOMER: the fiscalData of "
            "the customer, who must have some. An order without a receiver is invoiced from then on."
        ),
    ] = UNSET
    fiscal_data: Annotated[OrderReceiver | None | UnsetType, alias_of("customerFiscalData")] = UNSET
    fiscal_config: Annotated[OrderReceiver | None | UnsetType, alias_of("customerFiscalData")] = UNSET
    exchange_rate: ExchangeRate = UNSET


_decode: Final = BodyDecoder(ChangePaymentOrder)
_CHANGEABLE: Final = ChangePaymentOrder.__struct_encode_fields__
_FIXED: Final = frozenset(CreatePaymentOrder.__struct_encode_fields__).difference(_CHANGEABLE) | {"status"}
_NAMED: Final = ("amount", "description", "invoiceNumber", "metadata", "dueDate", "lineItems", "customerFiscalData")


def parse_change(body: bytes, now: datetime) -> ChangeInput:
    """Returns the changes that a body asks for, without the data of products. `now` is aware, in the merchant's time
    zone. Raises ApiError (400), with every wrong field.
    """
    sent, errors = _decode.gather(body)
    return _change_input(sent, body, now, None if errors else NO_PRODUCTS, errors)


def _change_input(
    sent: ChangePaymentOrder, body: bytes, now: datetime, products: Products | None, errors: FieldErrors
) -> ChangeInput:
    """Returns the changes that were sent. `products` is None if they were not read, because the body is wrong already.

    Raises ApiError (400), with every wrong field.
    """
    with BAD_INPUT_AS_400:
        _require_changes(msgspec.json.decode(body, type=dict[str, Raw]), errors)
        amount = errors.check(positive_amount, sent.amount, "amount") if is_given(sent.amount) else None
        given = sent.due_date
        due_date = errors.check(parse_due_date, given, now) if isinstance(given, str) else given
        rate = errors.check(exchange_rate, sent.exchange_rate)
        receivers = (sent.customer_fiscal_data, sent.fiscal_data, sent.fiscal_config)
        canonical, data, config = map(_or_none, receivers)
        fiscal, takes_customers = order_receiver(canonical, data, config, errors)
        lines = _lines(sent, amount, products, errors, invoiced=fiscal is not None)
        patch = errors.check(metadata, sent.metadata)
        check_texts(sent, body, errors)
    errors.refuse()
    takes_receiver_away = None in receivers and fiscal is None and not takes_customers
    return ChangeInput(
        changes=OrderChanges(
            amount=UNSET if amount is None else amount,
            description=sent.description,
            invoice_number=sent.invoice_number,
            metadata=None if sent.metadata is not UNSET and not is_given(sent.metadata) else patch,
            due_date=due_date,
            line_items=lines,
            fiscal=None if takes_receiver_away else fiscal or UNSET,
        ),
        exchange_rate=rate,
        takes_customers_fiscal=takes_customers,
    )


def _require_changes(members: Mapping[str, Raw], errors: FieldErrors) -> None:
    """Adds what cannot be changed, and an error if nothing is to be changed."""
    for name in _FIXED.intersection(members):
        if is_given(members[name]):
            errors.add(invalid(name, "cannot be changed by this operation: leave it out", "READ_ONLY"))
    if "amount" in members and not is_given(members["amount"]):
        errors.add(invalid("amount", "cannot be taken away: send a number, or leave it out"))
    if not errors and members.keys().isdisjoint(_CHANGEABLE):
        errors.add(invalid(BODY, f"must have a field to change: {', '.join(_NAMED)}", "REQUIRED"))
        for name in members.keys() - _FIXED:
            errors.add(invalid(shown(name), "is unknown here and changes nothing", UNKNOWN_FIELD))


def _lines(
    sent: ChangePaymentOrder, amount: Decimal | None, products: Products | None, errors: FieldErrors, *, invoiced: bool
) -> tuple[terms.LineItem, ...] | UnsetType:
    """Returns the lines; UNSET if none were sent. Adds their errors."""
    given, other = _or_none(sent.line_items), _or_none(sent.items)
    if given is not None and other is not None and not errors.has("lineItems", "items"):
        errors.check(one_of_aliases, "lineItems", given, "items", other)
    lines = line_items(given or other, amount, products, errors, is_invoiced=invoiced)
    return UNSET if sent.line_items is UNSET and sent.items is UNSET else lines


def _or_none(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


async def change(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PATCH /v2/payment-orders/{id}: 200 with the order."""
    body = await request.body(deps.body_limit)
    now = merchant_now(deps, request)
    sent, errors = _decode.gather(body)
    products = None if errors else NO_PRODUCTS
    if not errors and (named := product_ids(_or_none(sent.line_items) or _or_none(sent.items))):
        products = await deps.queries.products_by_id(request.principal.merchant_id, named)
    parsed = _change_input(sent, body, now, products, errors)
    settings, amount = request.principal.settings, _or_none(parsed.changes.amount)
    if not settings.fractional_amounts:
        require_whole(settings, ("amount", amount))
    reference = request.order_reference()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await change_order(deps.ledger, request.actor, reference, parsed, key)
    require_whole(settings, ("amount", amount), currency=result.order.terms.currency)
    if parsed.changes.due_date is not UNSET:
        warn_of_past_due_date(result.order)
    return ApiResponse(200, order_json(result, deps, request), REPLAYED if result.repeated else ())


CHANGE: Final = ScopedOperation(
    change,
    WRITE,
    OperationSpec(
        name="changePaymentOrder",
        summary="Change a payment order",
        description="""
Changes terms of an order; what is left out stays, and null takes a value away. `description` and `metadata` change in
every status, `dueDate` while something is owed, `lineItems`, `customerFiscalData` and `invoiceNumber` until the invoice
is stamped, and `amount` while the order is PENDING and never had a payment. A request that changes nothing is answered with the order.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=ChangePaymentOrder,
        examples={
            "text": {
                "summary": "A text, and a key of the metadata taken away",
                "value": {"description": "Café de olla, 2 kg", "metadata": {"table": None}},
            },
            "amount": {
                "summary": "Another amount and due date, before anything is paid",
                "value": {"amount": 175000, "dueDate": "2026-12-31"},
            },
        },
        answers={200: ("The order as it is now.", OrderDocument)},
        codes=codes_of(
            ANY, BODY_CODES, KEYED, {409: ("INVALID_ORDER_STATE", "ORDER_INVOICED"), 422: ("AMOUNT_NOT_CHARGEABLE",)}
        ),
        replays=True,
    ),
)
