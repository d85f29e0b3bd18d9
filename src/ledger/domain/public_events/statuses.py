"""The table of statuses: the kind that announces a change to each, or why such a change has none of its own.

The statuses before and after a command count. One that a stream only passes through within it is not announced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ledger.domain.orders.invoices.state import DocumentStatus
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.public_events import kinds
from ledger.domain.public_events.kinds import Kind, ResourceType
from ledger.domain.public_events.topics import Line
from ledger.domain.subscriptions.state import InvoiceStatus, SubscriptionStatus

ORDER_STATUSES: Final[Mapping[OrderStatus, Kind]] = {
    OrderStatus.PENDING: kinds.ORDER_PENDING,
    OrderStatus.PROCESSING: kinds.ORDER_PROCESSING,
    OrderStatus.REFERENCE_GENERATED: kinds.ORDER_REFERENCE_GENERATED,
    OrderStatus.AUTHORIZED: kinds.ORDER_AUTHORIZED,
    OrderStatus.PARTIALLY_AUTHORIZED: kinds.ORDER_PARTIALLY_AUTHORIZED,
    OrderStatus.ACTION_REQUIRED: kinds.ORDER_ACTION_REQUIRED,
    OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: kinds.ORDER_ACTION_REQUIRED,
    OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED: kinds.ORDER_ACTION_REQUIRED,
    OrderStatus.COMPLETED: kinds.ORDER_COMPLETED,
    OrderStatus.PARTIALLY_PAID: kinds.ORDER_PARTIALLY_PAID,
    OrderStatus.CANCELLATION_REQUESTED: kinds.ORDER_CANCELLATION_REQUESTED,
    OrderStatus.CANCELLED: kinds.ORDER_CANCELLED,
    OrderStatus.FAILED: kinds.ORDER_FAILED,
    OrderStatus.REFUND_PROCESSING: kinds.ORDER_REFUND_PROCESSING,
    OrderStatus.PARTIALLY_REFUNDED: kinds.ORDER_PARTIALLY_REFUNDED,
    OrderStatus.REFUNDED: kinds.ORDER_REFUNDED,
}
"""Every status of an order has a kind. A further part that is captured while the order stays PARTIALLY_PAID is no
change of its status: payment.captured announces it."""

_CALL: Final = Line(why_none="A call is begun, and its outcome is announced.")
_ORDER: Final = Line(why_none="The order announces the request, and then its outcome.")
_GRANTED: Final = Line(
    why_none="payment.authorized announces each authorisation that was not captured at once. A capture or a void "
    "without effect leaves it as it was."
)
_MONEY: Final = Line(
    why_none="payment.captured announces the money, once for each receipt. After a refund, a dispute or a batch that "
    "came to nothing it is the same money."
)
_MONEY_BACK: Final = Line(why_none="payment.refunded announces the money, and payment.dispute_closed a chargeback.")

PAYMENT_STATUSES: Final[Mapping[PaymentStatus, Line]] = {
    PaymentStatus.CREATED: Line(why_none="payment.created announces the payment."),
    PaymentStatus.PENDING_AUTHORIZATION: _CALL,
    PaymentStatus.AUTHORIZED: _GRANTED,
    PaymentStatus.PARTIALLY_AUTHORIZED: _GRANTED,
    PaymentStatus.REQUIRES_ACTION: Line((kinds.PAYMENT_REQUIRES_ACTION,)),
    PaymentStatus.PENDING_CAPTURE: Line(why_none="The capture is due later: payment.captured announces the money."),
    PaymentStatus.CAPTURING: _CALL,
    PaymentStatus.CAPTURED: _MONEY,
    PaymentStatus.PARTIALLY_CAPTURED: _MONEY,
    PaymentStatus.PENDING_SETTLEMENT: Line(why_none="The batch is not paid out: payment.settled announces that it is."),
    PaymentStatus.SETTLED: Line(why_none="payment.settled announces the batch; after a dispute it is the same one."),
    PaymentStatus.PENDING_CANCELLATION: _ORDER,
    PaymentStatus.FAILED: Line((kinds.PAYMENT_FAILED,)),
    PaymentStatus.CANCELLED: Line((kinds.PAYMENT_CANCELLED,)),
    PaymentStatus.PENDING_REFUND: _ORDER,
    PaymentStatus.PARTIALLY_REFUNDED: _MONEY_BACK,
    PaymentStatus.REFUNDED: _MONEY_BACK,
    PaymentStatus.DISPUTED: Line(why_none="payment.disputed announces the dispute."),
    PaymentStatus.EXPIRED: Line((kinds.PAYMENT_EXPIRED,)),
}
"""Most statuses of a payment have no kind, because facts about its money are announced one by one."""

SUBSCRIPTION_STATUSES: Final[Mapping[SubscriptionStatus, Line]] = {
    SubscriptionStatus.TRIALING: Line(why_none="A subscription is TRIALING by its creation, which is announced."),
    SubscriptionStatus.ACTIVE: Line((kinds.SUBSCRIPTION_ACTIVATED,)),
    SubscriptionStatus.PAST_DUE: Line((kinds.SUBSCRIPTION_PAST_DUE,)),
    SubscriptionStatus.UNPAID: Line((kinds.SUBSCRIPTION_UNPAID,)),
    SubscriptionStatus.CANCELED: Line((kinds.SUBSCRIPTION_CANCELED,)),
}

INVOICE_STATUSES: Final[Mapping[InvoiceStatus, Line]] = {
    InvoiceStatus.DRAFT: Line(why_none="subscription_invoice.created announces the invoice."),
    InvoiceStatus.OPEN: Line(why_none="subscription_invoice.created announces the invoice; a draft's charge follows."),
    InvoiceStatus.PAID: Line((kinds.SUBSCRIPTION_INVOICE_PAID,)),
    InvoiceStatus.UNCOLLECTIBLE: Line((kinds.SUBSCRIPTION_INVOICE_UNCOLLECTIBLE,)),
    InvoiceStatus.VOID: Line((kinds.SUBSCRIPTION_INVOICE_VOIDED,)),
}
"""The statuses of a subscription's invoice."""

_PENDING: Final = Line(why_none="The document waits for its stamp: the outcome is announced.")

DOCUMENT_STATUSES: Final[Mapping[tuple[ResourceType, DocumentStatus], Line]] = {
    (ResourceType.INVOICE, DocumentStatus.PENDING): _PENDING,
    (ResourceType.INVOICE, DocumentStatus.EMITTED): Line((kinds.INVOICE_STAMPED,)),
    (ResourceType.INVOICE, DocumentStatus.FAILED): Line((kinds.INVOICE_FAILED,)),
    (ResourceType.COMPLEMENT, DocumentStatus.PENDING): _PENDING,
    (ResourceType.COMPLEMENT, DocumentStatus.EMITTED): Line((kinds.COMPLEMENT_EMITTED,)),
    (ResourceType.COMPLEMENT, DocumentStatus.FAILED): Line((kinds.COMPLEMENT_FAILED,)),
    (ResourceType.CREDIT_NOTE, DocumentStatus.PENDING): _PENDING,
    (ResourceType.CREDIT_NOTE, DocumentStatus.EMITTED): Line((kinds.CREDIT_NOTE_EMITTED,)),
    (ResourceType.CREDIT_NOTE, DocumentStatus.FAILED): Line((kinds.CREDIT_NOTE_FAILED,)),
}
"""The statuses of an order's documents. An order shows EMITTED of its invoice as INVOICED."""
