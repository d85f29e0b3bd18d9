"""The messages that the service posts to a merchant's endpoints, one for each kind of public event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from api.openapi import components
from ledger.domain.public_events.kinds import KINDS, Kind, ResourceType
from projections.customers import CustomerDetailDocument
from projections.events.bodies import DisputeDocument, EventDocument
from projections.orders.documents import OrderDocument
from projections.orders.invoices import InvoiceComplementDocument, StampDocument
from projections.orders.payments import PaymentDocument
from projections.orders.refunds import RefundDocument
from projections.payment_methods import SavedPaymentMethod
from projections.products import ProductDocument
from projections.subscriptions.invoices import SubscriptionInvoiceDocument
from projections.subscriptions.plans import PlanDocument
from projections.subscriptions.subscriptions import SubscriptionDocument
from projections.webhook_endpoints import LoggedEndpointDocument

Json = dict[str, Any]

_SHOWN: Final[Mapping[ResourceType, type[Struct]]] = {
    ResourceType.PAYMENT_ORDER: OrderDocument,
    ResourceType.PAYMENT: PaymentDocument,
    ResourceType.INVOICE: StampDocument,
    ResourceType.COMPLEMENT: InvoiceComplementDocument,
    ResourceType.CREDIT_NOTE: InvoiceComplementDocument,
    ResourceType.CUSTOMER: CustomerDetailDocument,
    ResourceType.PAYMENT_METHOD: SavedPaymentMethod,
    ResourceType.PLAN: PlanDocument,
    ResourceType.PRODUCT: ProductDocument,
    ResourceType.SUBSCRIPTION: SubscriptionDocument,
    ResourceType.SUBSCRIPTION_INVOICE: SubscriptionInvoiceDocument,
    ResourceType.WEBHOOK_ENDPOINT: LoggedEndpointDocument,
}
"""What the events about a resource show of it."""

STRUCTS: Final = (EventDocument, DisputeDocument, RefundDocument, *dict.fromkeys(_SHOWN.values()))
"""The structs of messages."""

_OF_ORDER: Final[Json] = {
    "paymentOrderId": {"type": "string", "format": "uuid", "description": "The service's id of the order."},
    "paymentOrderExternalId": {"type": "string", "description": "The merchant's id of the order."},
}
_DELETED: Final[Json] = {
    "type": "object",
    "properties": {"id": {"type": "string", "format": "uuid"}, "deleted": {"type": "boolean", "const": True}},
    "required": ["id", "deleted"],
}
_HEADERS: Final = {
    "WebhookId": ("webhook-id", "The event's id, the same in every attempt."),
    "WebhookTimestamp": ("webhook-timestamp", "When the attempt was made: seconds of Unix time."),
    "WebhookSignature": (
        "webhook-signature",
        "`v1,` and a signature for each valid secret of the endpoint, with spaces between them.",
    ),
}
PARAMETERS: Final[Json] = {
    name: {"name": header, "in": "header", "required": True, "description": words, "schema": {"type": "string"}}
    for name, (header, words) in _HEADERS.items()
}
"""The headers of messages, for the components of the description."""


def webhooks() -> Json:
    """Returns the messages by the names of their kinds."""
    return {kind.name: {"post": _message(kind)} for kind in KINDS}


def _message(kind: Kind) -> Json:
    words = kind.name.replace(".", "_").split("_")
    own = {"properties": {"type": {"type": "string", "const": kind.name}, "data": _data(kind)}}
    content = {"application/json": {"schema": {"allOf": [components.reference(EventDocument), own]}}}
    return {
        "operationId": "on" + "".join(word.capitalize() for word in words),
        "summary": kind.name,
        "description": kind.description,
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in PARAMETERS],
        "requestBody": {"required": True, "content": content},
        "responses": {
            "2XX": {"description": "Accepted. With any other status the message is sent again."},
            "410": {"description": "The endpoint is disabled."},
        },
        "security": [],
    }


def _data(kind: Kind) -> Json:
    """Returns the schema of what an event of a kind shows."""
    if kind.name.endswith(".deleted"):
        return _DELETED
    shown = components.reference(_SHOWN[kind.resource_type])
    match kind.resource_type:
        case ResourceType.PAYMENT:
            members = _OF_ORDER | {
                "refund": components.reference(RefundDocument),
                "dispute": components.reference(DisputeDocument),
            }
        case ResourceType.COMPLEMENT | ResourceType.CREDIT_NOTE:
            members = _OF_ORDER
        case _:
            return shown
    return {"allOf": [shown, {"properties": members, "required": list(_OF_ORDER)}]}
