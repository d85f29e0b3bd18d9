"""What each operation takes and answers, beyond what its types say.

The rule a stranger would break: an operation that is routed and not here fails a test, and so does one that is here and not
routed. Codes are listed where they can come; the test run sends thousands of requests and finds the missing ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.http.endpoint import Operation
from api.openapi import examples, response_schemas
from api.openapi.operation import ANY, BODY, PAYMENT, OperationSpec, codes_of
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID, list_parameters
from api.orders import action_descriptions, endpoints
from api.orders.order_schemas import ChargePaymentOrder, CreatePaymentOrder
from api.sandbox import descriptions
from api.system.metrics import METRICS
from projections.orders.documents import OrderDocument

OPERATIONS: Final[Mapping[Operation, OperationSpec]] = {
    endpoints.create: OperationSpec(
        name="createPaymentOrder",
        summary="Create a payment order",
        description="""
Asks for money, and takes it at once where a payment method is given. `externalId` names the order: sent again, the same
order is answered and nothing is paid twice. An order that FAILED gets a new payment.

With `pending: true` nothing is paid yet; the order waits for its charge.
""",
        parameters=(IDEMPOTENCY_KEY,),
        takes=CreatePaymentOrder,
        examples=examples.CREATE,
        answers={
            201: ("The order is new, or has a new payment.", OrderDocument),
            200: ("An order with this `externalId` was there and is shown as it stands.", OrderDocument),
        },
        codes=codes_of(ANY, BODY, PAYMENT, {404: ("CUSTOMER_NOT_FOUND",), 409: ("DUPLICATE_EXTERNAL_ID",)}),
        replays=True,
    ),
    endpoints.charge: OperationSpec(
        name="chargePaymentOrder",
        summary="Charge a payment order",
        description="""
Pays an order that is PENDING, PARTIALLY_PAID, FAILED or REFERENCE_GENERATED. `externalId` names the payment within the
order: sent again, the order is answered as it stands.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=ChargePaymentOrder,
        examples=examples.CHARGE,
        answers={200: ("The order with its new payment, or with the one that was there.", OrderDocument)},
        codes=codes_of(
            ANY,
            BODY,
            PAYMENT,
            {404: ("ORDER_NOT_FOUND",), 409: ("ORDER_NOT_PAYABLE",), 422: ("AMOUNT_EXCEEDS_PENDING",)},
        ),
        replays=True,
    ),
    endpoints.show: OperationSpec(
        name="getPaymentOrder",
        summary="Get a payment order",
        description="The order with its customer as that is now, and all its payments with their history.",
        parameters=(ORDER_ID,),
        answers={200: ("The order.", OrderDocument)},
        codes=codes_of(ANY, {404: ("ORDER_NOT_FOUND",)}),
    ),
    endpoints.show_list: OperationSpec(
        name="listPaymentOrders",
        summary="List payment orders",
        description="A page of the merchant's orders, without their payments, and how many there are in all.",
        parameters=tuple(list_parameters()),
        answers={200: ("A page of orders.", response_schemas.OrderPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",)}),
    ),
    **action_descriptions.OPERATIONS,
    **descriptions.OPERATIONS,
}
"""The operations that need a key, by what carries them out."""

PROCESSOR_MESSAGES: Final = OperationSpec(
    name="tellProcessorMessage",
    summary="Tell what happened at a processor",
    description="""
For payment processors, not for merchants: deposits, refunds and payouts that ended, disputes, settlement. The message is kept
once for its id and taken to its order as soon as that knows what it follows, however often and in whatever order messages
come. `message-signature` is `v1,` and the base64 of the HMAC-SHA256 over timestamp, a dot and the body, under the
processor's key; several signatures stand apart by spaces.
""",
    parameters=(
        {
            "name": "processor",
            "in": "path",
            "required": True,
            "description": "The processor's name, as its keys are set and its messages say.",
            "schema": {"type": "string"},
        },
        {
            "name": "message-timestamp",
            "in": "header",
            "required": True,
            "description": "When it was signed, in seconds of Unix time: at most five minutes from now.",
            "schema": {"type": "string"},
        },
        {
            "name": "message-signature",
            "in": "header",
            "required": True,
            "description": "One signature, or one for each of two keys.",
            "schema": {"type": "string"},
        },
    ),
    takes=response_schemas.ProcessorMessage,
    examples=examples.PROCESSOR_MESSAGES,
    answers={
        202: ("The message is new, and on disk.", response_schemas.MessageKept),
        200: ("The message was known.", response_schemas.MessageKept),
    },
    codes={
        400: ("VALIDATION_ERROR",),
        401: ("INVALID_SIGNATURE",),
        408: ("REQUEST_TIMEOUT",),
        413: ("BODY_TOO_LARGE",),
        414: ANY[414],
        415: ("UNSUPPORTED_MEDIA_TYPE",),
        431: ANY[431],
        500: ANY[500],
        503: ANY[503],
    },
)
"""The one operation that a signature opens instead of a key."""

PROBES: Final[Mapping[str, OperationSpec]] = {
    "/health/live": OperationSpec(
        name="isLive",
        summary="Whether the process answers",
        description="For load balancers and operators. Needs no key.",
        answers={200: ("It does.", response_schemas.Live)},
        codes={414: ANY[414], 431: ANY[431]},
    ),
    "/health/ready": OperationSpec(
        name="isReady",
        summary="Whether the service can serve",
        description="Asks the database and the journal. Needs no key.",
        answers={
            200: ("It can.", response_schemas.Readiness),
            503: ("Not now: `checks` says what is in the way.", response_schemas.Readiness),
        },
        codes={414: ANY[414], 431: ANY[431]},
    ),
    METRICS: OperationSpec(
        name="getMetrics",
        summary="The service's figures",
        description="For operators, as Prometheus reads them. Needs no key: it answers whoever asks from the same machine, or "
        "with `LEDGER_METRICS_TOKEN` as a bearer token where that is set, and is not there for anybody else.",
        text="The figures of every process of the service.",
        codes={404: ("NOT_FOUND",), 414: ANY[414], 431: ANY[431]},
    ),
}
"""The operations without a key, by their address. All are GET."""
