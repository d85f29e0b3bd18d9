"""The body of a public event: the same bytes in every place and whenever it is rendered.

Render from the event's number and from streams as they were after its command, and from nothing else: no clock, no row
of a read model. After an erasure the same body lacks the person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ledger.domain.customers.state import Customer
from ledger.domain.invoices.movements import DueKind
from ledger.domain.money import plain
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.plans.state import Plan
from ledger.domain.products.state import Product
from ledger.domain.public_events.kinds import CUSTOMER_DELETED, ResourceType
from ledger.domain.subscriptions.state import Subscription
from ledger.domain.webhooks.state import WebhookEndpoint
from projections import customers, payment_methods, products, webhook_endpoints
from projections.events.numbered import NumberedEvent
from projections.events.states import Point, States
from projections.formats import AmountText, Moment, encode, moment
from projections.orders import documents
from projections.orders.invoices import InvoiceComplementDocument, complement_fields, complements, render_stamp
from projections.orders.payments import in_language, render_payment
from projections.orders.refunds import render_refund
from projections.subscriptions import invoices, plans, subscriptions

EventPayload = Literal["FULL", "THIN"]


class EventResourceDocument(Struct, frozen=True, kw_only=True, gc=False):
    """The resource that an event is about."""

    type: Annotated[ResourceType, Meta(description="What the resource is.")]
    id: Annotated[str, Meta(description="Its id, as its own document has it.")]
    url: Annotated[
        str,
        Meta(
            description="The path at which it can be read, of a document that of its order.",
            examples=["/v2/payment-orders/0190a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"],
        ),
    ]


class _EventHead(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    id: Annotated[UUID, Meta(description="The id of the event, the same in every attempt to deliver it.")]
    type: Annotated[str, Meta(description="The kind of the event.", examples=["payment.captured"])]
    timestamp: Annotated[Moment, Meta(description="When it happened, by the merchant's clock.")]
    sequence: Annotated[int, Meta(description="The number of the event among those of the merchant, in their order.")]
    stream_version: Annotated[
        int, Meta(description="The version of the resource's stream: a higher one is a later state of it.")
    ]
    merchant_id: Annotated[UUID, Meta(description="The merchant.")]
    environment: Annotated[Literal["sandbox", "production"], Meta(description="Where it happened.")]
    resource: EventResourceDocument
    previous_status: Annotated[
        str | UnsetType,
        Meta(description="The status before a change of status. Absent for a new resource, and for other kinds."),
    ] = UNSET


class EventDocument(_EventHead, frozen=True, kw_only=True, rename="camel", gc=False):
    """A public event."""

    data: Annotated[
        Annotated[Raw, Meta(extra_json_schema={"type": "object"})] | UnsetType,
        Meta(
            description="The resource as it was after the event, in the form in which GET answers it. Absent with "
            "payload=THIN."
        ),
    ] = UNSET


class DisputeDocument(Struct, frozen=True, kw_only=True, gc=False):
    """The dispute of a payment, in an event about it."""

    id: Annotated[str, Meta(description="The dispute, as its processor names it.")]
    status: Annotated[Literal["OPEN", "WON", "LOST"], Meta(description="WON: the money stays with the merchant.")]
    amount: Annotated[AmountText, Meta(description="What is contested; once decided, what the bank took.")]


class _Deleted(Struct, frozen=True):
    id: UUID
    deleted: bool = True


class _OfOrder(Struct, frozen=True, kw_only=True, rename="camel"):
    payment_order_id: UUID
    payment_order_external_id: str


class _DocumentToCome(Struct, frozen=True, kw_only=True, rename="camel"):
    """A document whose deadline is near and which could not be announced yet."""

    id: UUID
    kind: str
    payment_id: UUID | None
    status: str = "PENDING"


class BodyRenderer:
    """Renders the bodies of one installation's events. The paths are those under which its resources are."""

    def __init__(self, environment: Literal["sandbox", "production"], base_path: str, products_path: str) -> None:
        self._environment = environment
        self._base, self._products = base_path, products_path

    def render(self, merchant_id: UUID, event: NumberedEvent, states: States, *, is_thin: bool) -> bytes:
        """Returns the body of an event. `states` has what `own_points` names, and without `is_thin` `other_points`."""
        state = states.get((event.stream_id, event.until_position))
        kind = event.kind
        head = _EventHead(
            id=event.id,
            type=kind.name,
            timestamp=moment(event.at),
            sequence=event.sequence,
            stream_version=event.version,
            merchant_id=merchant_id,
            environment=self._environment,
            resource=self._resource(event, state),
            previous_status=event.previous_status if kind.is_status and event.previous_status is not None else UNSET,
        )
        rendered = encode(head)
        if is_thin:
            return rendered
        data = _DATA[kind.resource_type](merchant_id, event, state, states)
        return b'%b,"data":%b}' % (rendered[:-1], data)

    def _resource(self, event: NumberedEvent, state: Any) -> EventResourceDocument:
        resource_type, resource_id = event.kind.resource_type, str(event.resource_id)
        if isinstance(state, Product):
            resource_id = state.id
        return EventResourceDocument(
            type=resource_type, id=resource_id, url=self._url(resource_type, event.stream_id, resource_id)
        )

    def _url(self, resource_type: ResourceType, stream_id: UUID, resource_id: str) -> str:
        order = f"{self._base}/v2/payment-orders/{stream_id}"
        match resource_type:
            case ResourceType.PAYMENT:
                return f"{order}/payments/{resource_id}"
            case ResourceType.CUSTOMER:
                return f"{self._base}/customers/{resource_id}"
            case ResourceType.PAYMENT_METHOD:
                return f"{self._base}/payment-methods/{resource_id}"
            case ResourceType.PLAN:
                return f"{self._base}/v1/plans/{resource_id}"
            case ResourceType.PRODUCT:
                return f"{self._products}/products/{quote(resource_id, safe='')}"
            case ResourceType.SUBSCRIPTION:
                return f"{self._base}/v1/subscriptions/{resource_id}"
            case ResourceType.SUBSCRIPTION_INVOICE:
                return f"{self._base}/v1/subscription-invoices/{resource_id}"
            case ResourceType.WEBHOOK_ENDPOINT:
                return f"{self._base}/v1/webhook-endpoints/{resource_id}"
            case _:
                return order


def own_points(events: Sequence[NumberedEvent], *, is_thin: bool) -> set[Point]:
    """Returns where the streams of the events themselves are needed: for thin bodies only those of products, whose id
    is the merchant's.
    """
    shown = [each for each in events if not is_thin or each.kind.resource_type is ResourceType.PRODUCT]
    return {(event.stream_id, event.until_position) for event in shown}


def other_points(events: Sequence[NumberedEvent], states: States) -> set[Point]:
    """Returns where other streams are needed that the bodies show: an order's customer, a subscription's plan."""
    points: set[Point] = set()
    for event in events:
        state = states[event.stream_id, event.until_position]
        if isinstance(state, Order):
            points.add((state.terms.customer_id, event.until_position))
        elif isinstance(state, Subscription):
            points.add((state.plan_id, event.until_position))
    return points


def _order_data(_: UUID, event: NumberedEvent, order: Order, states: States) -> bytes:
    customer = _customer_of(event, order, states)
    return documents.answer(order, customer, None, event.at, _language(customer))


def _payment_data(_: UUID, event: NumberedEvent, order: Order, states: States) -> bytes:
    assert event.payment_id is not None, "an event of a payment names it"
    payment = order.payment(event.payment_id)
    language = _language(_customer_of(event, order, states))
    rendered = in_language(b"[%b]" % render_payment(order, payment), language)[1:-1]
    members = _with_order(rendered, order)
    refund = None if event.refund_id is None else order.refund(event.refund_id)
    if refund is not None:
        members = b'%b,"refund":%b}' % (members[:-1], render_refund(order, refund))
    dispute = None if event.dispute_id is None else _dispute(payment, event.dispute_id)
    return members if dispute is None else b'%b,"dispute":%b}' % (members[:-1], encode(dispute))


def _dispute(payment: Payment, dispute_id: str) -> DisputeDocument | None:
    closed = payment.decided(dispute_id)
    if closed is not None:
        return DisputeDocument(id=dispute_id, status="LOST" if closed.lost else "WON", amount=plain(closed.lost))
    dispute = payment.dispute
    return None if dispute is None else DisputeDocument(id=dispute_id, status="OPEN", amount=plain(dispute.amount))


def _invoice_data(_: UUID, __: NumberedEvent, order: Order, ___: States) -> bytes:
    return render_stamp(order)


def _document_data(_: UUID, event: NumberedEvent, order: Order, ___: States) -> bytes:
    """Returns a receipt or a credit note, which may wait for what is missing or for its turn."""
    issued = order.invoices
    assert issued is not None, "an order with documents has electronic invoices"
    document = issued.document(event.resource_id)
    if document is not None:
        return _with_order(encode(InvoiceComplementDocument(**complement_fields(order, document))), order)
    waiting = [each for kind in DueKind for each in complements(order, (), kind) if each.id == event.resource_id]
    if waiting:
        return _with_order(encode(waiting[0]), order)
    is_receipt = event.kind.resource_type is ResourceType.COMPLEMENT
    to_come = _DocumentToCome(
        id=event.resource_id, kind="REP" if is_receipt else "CREDIT_NOTE", payment_id=event.payment_id
    )
    return _with_order(encode(to_come), order)


def _customer_data(_: UUID, event: NumberedEvent, customer: Customer, __: States) -> bytes:
    if event.kind is CUSTOMER_DELETED:
        return _deleted(event)
    return customers.render_detail(customer)


def _method_data(_: UUID, event: NumberedEvent, methods: Any, __: States) -> bytes:
    return payment_methods.render(methods, event.resource_id) or _deleted(event)


def _plan_data(_: UUID, __: NumberedEvent, plan: Plan, ___: States) -> bytes:
    return plans.render_plan(plan)


def _product_data(_: UUID, __: NumberedEvent, product: Product, ___: States) -> bytes:
    return products.render_product(product)


def _subscription_data(merchant_id: UUID, event: NumberedEvent, subscription: Subscription, states: States) -> bytes:
    plan = states[subscription.plan_id, event.until_position]
    return subscriptions.answer(merchant_id, subscription, plans.render_plan(plan))


def _subscription_invoice_data(_: UUID, event: NumberedEvent, subscription: Subscription, __: States) -> bytes:
    invoice = next(each for each in subscription.invoices if each.invoice_id == event.resource_id)
    return invoices.render_invoice(subscription, invoice)


def _endpoint_data(_: UUID, __: NumberedEvent, endpoint: WebhookEndpoint, ___: States) -> bytes:
    return webhook_endpoints.render_logged(endpoint)


_DATA: Final[Mapping[ResourceType, Callable[[UUID, NumberedEvent, Any, States], bytes]]] = {
    ResourceType.PAYMENT_ORDER: _order_data,
    ResourceType.PAYMENT: _payment_data,
    ResourceType.INVOICE: _invoice_data,
    ResourceType.COMPLEMENT: _document_data,
    ResourceType.CREDIT_NOTE: _document_data,
    ResourceType.CUSTOMER: _customer_data,
    ResourceType.PAYMENT_METHOD: _method_data,
    ResourceType.PLAN: _plan_data,
    ResourceType.PRODUCT: _product_data,
    ResourceType.SUBSCRIPTION: _subscription_data,
    ResourceType.SUBSCRIPTION_INVOICE: _subscription_invoice_data,
    ResourceType.WEBHOOK_ENDPOINT: _endpoint_data,
}


def _customer_of(event: NumberedEvent, order: Order, states: States) -> Customer:
    customer: Customer = states[order.terms.customer_id, event.until_position]
    return customer


def _language(customer: Customer) -> str:
    """Returns the language of texts for the payer, as GET chooses it for a request that names none."""
    return "es" if customer.erased else customer.preferences.language


def _with_order(document: bytes, order: Order) -> bytes:
    """Returns a document with both ids of its order as further members."""
    ids = _OfOrder(payment_order_id=order.terms.order_id, payment_order_external_id=order.terms.external_id)
    return b"%b,%b" % (document[:-1], msgspec.json.encode(ids)[1:])


def _deleted(event: NumberedEvent) -> bytes:
    return msgspec.json.encode(_Deleted(event.resource_id))
