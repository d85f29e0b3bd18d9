"""Every kind of stream: its events, its fold, its claims, and the refusal of a reference that names none.

The codec, the journal, the rebuild of the read models, the unit of work, the page of events and the tests read these
values. A new kind of stream is one more value here, in `STREAMS`; `docs/how-to/add-a-resource.md` has the other places.
Names of claim kinds and their numbers are stored: they are permanent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from ledger.domain.customers import events as customer_events
from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.customers.state import Customer
from ledger.domain.idempotency import events as request_events
from ledger.domain.idempotency.evolve import evolve as evolve_request
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.merchants import events as merchant_events
from ledger.domain.merchants import messages
from ledger.domain.merchants.evolve import evolve as evolve_merchant
from ledger.domain.merchants.state import Merchant
from ledger.domain.orders import events as order_events
from ledger.domain.orders.evolve.order import evolve as evolve_order
from ledger.domain.orders.global_invoices import events as global_invoice_events
from ledger.domain.orders.global_invoices.evolve import evolve as evolve_global_invoice
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.state import Order
from ledger.domain.payment_methods import events as payment_method_events
from ledger.domain.payment_methods.evolve import evolve as evolve_payment_methods
from ledger.domain.payment_methods.state import SavedMethods
from ledger.domain.plans import events as plan_events
from ledger.domain.plans.evolve import evolve as evolve_plan
from ledger.domain.plans.state import Plan
from ledger.domain.processor_accounts import events as processor_account_events
from ledger.domain.processor_accounts.evolve import evolve as evolve_processor_account
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.products import events as product_events
from ledger.domain.products.evolve import evolve as evolve_product
from ledger.domain.products.state import Product
from ledger.domain.rejections import (
    CustomerNotFound,
    GlobalInvoiceNotFound,
    OrderNotFound,
    PaymentMethodNotFound,
    PlanNotFound,
    ProcessorAccountNotFound,
    ProductNotFound,
    Rejected,
    SubscriptionNotFound,
    WebhookEndpointNotFound,
)
from ledger.domain.subscriptions import events as subscription_events
from ledger.domain.subscriptions.evolve import evolve as evolve_subscription
from ledger.domain.subscriptions.state import Subscription
from ledger.domain.webhooks import events as webhook_events
from ledger.domain.webhooks.evolve import evolve as evolve_webhook_endpoint
from ledger.domain.webhooks.state import WebhookEndpoint

S_co = TypeVar("S_co", covariant=True)


class ClaimKind(IntEnum):
    """The kinds of keys. A key is unique within its kind and merchant, and is never given to another stream."""

    ORDER_EXTERNAL_ID = 1
    CUSTOMER_EXTERNAL_ID = 2
    PRODUCT_ID = 3
    PLAN_EXTERNAL_ID = 4
    SUBSCRIPTION_EXTERNAL_ID = 5
    WEBHOOK_ENDPOINT_NUMBER = 6


class Stream(Struct, Generic[S_co], frozen=True, kw_only=True, eq=False):
    """One kind of stream. `S_co` is the state that `evolve` folds from its events.

    `name` and `about` (how the stream's id is made) head its section on the page of events. `topics` maps each topic to
    its event type. `first` are the types with which a stream of this kind begins: events of other applications lie in
    the same log. `personal` maps an event type to the paths of its fields that are stored sealed, under the data key of
    the customer that `customer_of` returns for a state. `claim` is the kind of the merchant's own id of the stream.
    `not_found` and `not_found_text` refuse a reference that names no stream of this kind, or one in a state that
    `is_hidden` takes for absent.
    """

    name: str
    about: str
    state: type[S_co]
    evolve: Callable[[S_co | None, Any], S_co]
    topics: Mapping[str, type[Struct]]
    first: tuple[type[Struct], ...]
    personal: Mapping[type[Struct], tuple[str, ...]] = {}
    customer_of: Callable[[S_co], UUID] | None = None
    claim: ClaimKind | None = None
    not_found: type[Rejected] | None = None
    not_found_text: str = ""
    is_hidden: Callable[[S_co], bool] | None = None

    def missing(self) -> Rejected:
        """Returns the rejection of a reference under which the merchant has no stream of this kind."""
        assert self.not_found is not None, f"no request names a stream of the kind {self.name!r}"
        return self.not_found(self.not_found_text)

    def missing_then(self) -> Rejected:
        """Returns the rejection of a reference under which the merchant had no stream of this kind at a past time."""
        assert self.not_found is not None, f"no request names a stream of the kind {self.name!r}"
        return self.not_found(f"{self.not_found_text.replace(' has ', ' had ', 1).removesuffix('.')} at that time.")


ORDERS: Final = Stream(
    name="Payment order",
    about="The stream's id is the order's id.",
    state=Order,
    evolve=evolve_order,
    topics=order_events.TOPICS,
    first=(order_events.OrderCreated,),
    personal=order_events.PERSONAL,
    customer_of=lambda order: order.terms.customer_id,
    claim=ClaimKind.ORDER_EXTERNAL_ID,
    not_found=OrderNotFound,
    not_found_text="The merchant has no payment order with this id or external id.",
)

CUSTOMERS: Final = Stream(
    name="Customer",
    about="The stream's id is the customer's id. All of it is personal data except the ids.",
    state=Customer,
    evolve=evolve_customer,
    topics=customer_events.TOPICS,
    first=(customer_events.CustomerCreated,),
    personal=customer_events.PERSONAL,
    customer_of=lambda customer: customer.customer_id,
    claim=ClaimKind.CUSTOMER_EXTERNAL_ID,
    not_found=CustomerNotFound,
    not_found_text="The merchant has no customer with this id or external id.",
    is_hidden=lambda customer: customer.erased,
)

PAYMENT_METHODS: Final = Stream(
    name="Saved payment methods",
    about="One stream for all methods of a customer; its id follows from the customer's. No event has a card number.",
    state=SavedMethods,
    evolve=evolve_payment_methods,
    topics=payment_method_events.TOPICS,
    first=(payment_method_events.PaymentMethodSaved, payment_method_events.CardVerificationRequested),
    personal=payment_method_events.PERSONAL,
    customer_of=lambda methods: methods.customer_id,
    not_found=PaymentMethodNotFound,
    not_found_text="The merchant has no saved payment method with this id.",
)

MERCHANTS: Final = Stream(
    name="Merchant",
    about="The stream's id is the merchant's id.",
    state=Merchant,
    evolve=evolve_merchant,
    topics=merchant_events.TOPICS,
    first=(merchant_events.MerchantRegistered,),
)

PRODUCTS: Final = Stream(
    name="Product",
    about="The stream's id is generated; the merchant's id of the product is a claim.",
    state=Product,
    evolve=evolve_product,
    topics=product_events.TOPICS,
    first=(product_events.ProductImported,),
    claim=ClaimKind.PRODUCT_ID,
    not_found=ProductNotFound,
    not_found_text="The merchant has no product with this id.",
)

PLANS: Final = Stream(
    name="Plan",
    about="The stream's id is the plan's id. The merchant's id of the plan is a claim.",
    state=Plan,
    evolve=evolve_plan,
    topics=plan_events.TOPICS,
    first=(plan_events.PlanCreated,),
    claim=ClaimKind.PLAN_EXTERNAL_ID,
    not_found=PlanNotFound,
    not_found_text="The merchant has no plan with this id or external id.",
)

SUBSCRIPTIONS: Final = Stream(
    name="Subscription",
    about="The stream's id is the subscription's id. Its invoices are in it.",
    state=Subscription,
    evolve=evolve_subscription,
    topics=subscription_events.TOPICS,
    first=(subscription_events.SubscriptionRequested,),
    personal=subscription_events.PERSONAL,
    customer_of=lambda subscription: subscription.customer_id,
    claim=ClaimKind.SUBSCRIPTION_EXTERNAL_ID,
    not_found=SubscriptionNotFound,
    not_found_text="The merchant has no subscription with this id or external id.",
    is_hidden=lambda subscription: not subscription.is_shown,
)

GLOBAL_INVOICES: Final = Stream(
    name="Global invoice",
    about="The stream's id is the global invoice's id. Each of its orders has an event of its own.",
    state=GlobalInvoice,
    evolve=evolve_global_invoice,
    topics=global_invoice_events.TOPICS,
    first=(global_invoice_events.GlobalInvoiceAnnounced,),
    not_found=GlobalInvoiceNotFound,
    not_found_text="The merchant has no global invoice with this id.",
)

PROCESSOR_ACCOUNTS: Final = Stream(
    name="Processor account",
    about="The stream's id follows from the merchant and the account's name. No event has a secret key.",
    state=ProcessorAccount,
    evolve=evolve_processor_account,
    topics=processor_account_events.TOPICS,
    first=(processor_account_events.ProcessorAccountConnected,),
    not_found=ProcessorAccountNotFound,
    not_found_text="The merchant has no account with a processor under this name.",
)

WEBHOOK_ENDPOINTS: Final = Stream(
    name="Webhook endpoint",
    about="The stream's id is the endpoint's id. No event has a secret.",
    state=WebhookEndpoint,
    evolve=evolve_webhook_endpoint,
    topics=webhook_events.TOPICS,
    first=(webhook_events.WebhookEndpointCreated,),
    not_found=WebhookEndpointNotFound,
    not_found_text="The merchant has no webhook endpoint with this id.",
    is_hidden=lambda endpoint: endpoint.is_deleted,
)

DISMISSED_MESSAGES: Final = Stream(
    name="Dismissed message",
    about="The stream's id follows from the processor, the merchant and the message's id.",
    state=messages.ProcessorMessageDismissed,
    evolve=messages.evolve,
    topics=messages.TOPICS,
    first=(messages.ProcessorMessageDismissed,),
)

IDEMPOTENCY_RECORDS: Final = Stream(
    name="Request under a key",
    about="The stream's id follows from the merchant and the `Idempotency-Key`.",
    state=IdempotencyRecord,
    evolve=evolve_request,
    topics=request_events.TOPICS,
    first=(request_events.RequestAccepted, request_events.RequestRefused, request_events.RequestCompleted),
)

STREAMS: Final[tuple[Stream[Any], ...]] = (
    ORDERS,
    CUSTOMERS,
    PAYMENT_METHODS,
    MERCHANTS,
    PRODUCTS,
    PLANS,
    SUBSCRIPTIONS,
    GLOBAL_INVOICES,
    PROCESSOR_ACCOUNTS,
    WEBHOOK_ENDPOINTS,
    DISMISSED_MESSAGES,
    IDEMPOTENCY_RECORDS,
)
"""Every kind of stream that the ledger writes."""

STREAM_OF: Final[Mapping[type, Stream[Any]]] = {stream.state: stream for stream in STREAMS}
"""The kind of stream of each state's type."""

TOPICS: Final[Mapping[str, type[Struct]]] = {topic: kind for stream in STREAMS for topic, kind in stream.topics.items()}
"""Every topic that the ledger writes to the log, with its event type."""
