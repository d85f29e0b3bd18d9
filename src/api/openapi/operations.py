"""What each operation takes and answers, beyond what its types say.

The rule a stranger would break: an operation that is routed and not here fails a test, and so does one that is here and not
routed. Codes are listed where they can come; the test run sends thousands of requests and finds the missing ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from api import payment_orders
from api.metrics import METRICS
from api.openapi import bodies, examples
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID, list_parameters
from api.resource import Operation
from api.sandbox import clock, processor_mode
from api.schemas.payment_orders import ChargePaymentOrder, CreatePaymentOrder
from api.schemas.sandbox import MoveClock, SetProcessorMode
from projections.documents import OrderDocument

SANDBOX: Final = "Sandbox"
Json = dict[str, Any]
Codes = Mapping[int, tuple[str, ...]]


class Described(Struct, frozen=True, kw_only=True):
    """An operation for readers: what it is called, what goes in, what comes out with which status and codes.

    `text` says what is answered where that is not JSON.
    """

    name: str
    summary: str
    description: str
    parameters: tuple[Json, ...] = ()
    takes: type[Struct] | None = None
    examples: Mapping[str, Json] = {}
    answers: Mapping[int, tuple[str, type[Struct]]] = {}
    text: str | None = None
    codes: Codes
    tag: str = "Payment orders"
    replays: bool = False


_ANY: Final[Codes] = {
    400: ("VALIDATION_ERROR",),
    401: ("INVALID_API_KEY", "KEY_EXPIRED", "KEY_ENVIRONMENT_MISMATCH", "INSUFFICIENT_SCOPE"),
    404: ("MERCHANT_NOT_FOUND",),
    414: ("URI_TOO_LONG",),
    429: ("RATE_LIMIT_EXCEEDED",),
    431: ("HEADERS_TOO_LARGE",),
    500: ("INTERNAL_ERROR",),
    503: ("DATABASE_UNAVAILABLE", "REQUEST_TIMEOUT"),
}
_BODY: Final[Codes] = {
    400: ("CONFLICTING_FIELDS", "CARD_NUMBER_NOT_ALLOWED"),
    408: ("REQUEST_TIMEOUT",),
    413: ("BODY_TOO_LARGE",),
    415: ("UNSUPPORTED_MEDIA_TYPE",),
}
_PAYMENT: Final[Codes] = {
    404: ("PAYMENT_METHOD_NOT_FOUND",),
    409: ("IDEMPOTENCY_MISMATCH", "IDEMPOTENCY_KEY_REUSED", "REQUEST_IN_PROGRESS", "CONCURRENT_UPDATE"),
    422: ("METHOD_NOT_ENABLED", "PAYMENT_DECLINED", "RISK_REJECTED"),
    503: ("PROCESSOR_UNAVAILABLE",),
}
DECLINES: Final = frozenset({"PAYMENT_DECLINED", "RISK_REJECTED"})


def _codes(*tables: Codes) -> Codes:
    """Several tables as one."""
    merged: dict[int, tuple[str, ...]] = {}
    for table in tables:
        for status, codes in table.items():
            merged[status] = (*merged.get(status, ()), *codes)
    return dict(sorted(merged.items()))


OPERATIONS: Final[Mapping[Operation, Described]] = {
    payment_orders.create: Described(
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
        codes=_codes(_ANY, _BODY, _PAYMENT, {404: ("CUSTOMER_NOT_FOUND",), 409: ("DUPLICATE_EXTERNAL_ID",)}),
        replays=True,
    ),
    payment_orders.charge: Described(
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
        codes=_codes(
            _ANY,
            _BODY,
            _PAYMENT,
            {404: ("ORDER_NOT_FOUND",), 409: ("ORDER_NOT_PAYABLE",), 422: ("AMOUNT_EXCEEDS_PENDING",)},
        ),
        replays=True,
    ),
    payment_orders.show: Described(
        name="getPaymentOrder",
        summary="Get a payment order",
        description="The order with its customer as that is now, and all its payments with their history.",
        parameters=(ORDER_ID,),
        answers={200: ("The order.", OrderDocument)},
        codes=_codes(_ANY, {404: ("ORDER_NOT_FOUND",)}),
    ),
    payment_orders.show_list: Described(
        name="listPaymentOrders",
        summary="List payment orders",
        description="A page of the merchant's orders, without their payments, and how many there are in all.",
        parameters=tuple(list_parameters()),
        answers={200: ("A page of orders.", bodies.OrderPage)},
        codes=_codes(_ANY, {400: ("CONFLICTING_FIELDS",)}),
    ),
    clock.show: Described(
        name="getClock",
        summary="Read the merchant's clock",
        description="The merchant's present moment: real time, or ahead of it where the clock was moved. Sandbox only.",
        tag=SANDBOX,
        answers={200: ("The clock.", bodies.ClockReading)},
        codes=_ANY,
    ),
    clock.move: Described(
        name="moveClock",
        summary="Move the merchant's clock",
        description="""
Lets time pass for this merchant alone, up to a moment or by a duration. What becomes due on the way is done in the order of
time, each at its own moment, and what that makes due as well. The answer comes when all of it has run, and then holds for
every further request. The clock never goes back. Sandbox only.
""",
        tag=SANDBOX,
        takes=MoveClock,
        examples=examples.MOVE_CLOCK,
        answers={200: ("Where the clock stands now, and how many jobs were run.", bodies.ClockMoved)},
        codes=_codes(_ANY, _BODY, {409: ("CONCURRENT_UPDATE",)}),
    ),
    processor_mode.set_mode: Described(
        name="setProcessorMode",
        summary="Make the sandbox's processor fail or dawdle",
        description="""
For this merchant alone: `DOWN` answers the next payments 503 `PROCESSOR_UNAVAILABLE` before anything was sent, `SLOW` lets
them wait. Sandbox only.
""",
        tag=SANDBOX,
        takes=SetProcessorMode,
        examples=examples.SET_PROCESSOR_MODE,
        answers={200: ("The mode.", bodies.ProcessorMode)},
        codes=_codes(_ANY, _BODY, {503: ("PROCESSOR_UNAVAILABLE",)}),
    ),
}
"""The operations that need a key, by what carries them out."""

PROBES: Final[Mapping[str, Described]] = {
    "/health/live": Described(
        name="isLive",
        summary="Whether the process answers",
        description="For load balancers and operators. Needs no key.",
        answers={200: ("It does.", bodies.Live)},
        codes={414: _ANY[414], 431: _ANY[431]},
    ),
    "/health/ready": Described(
        name="isReady",
        summary="Whether the service can serve",
        description="Asks the database and the journal. Needs no key.",
        answers={
            200: ("It can.", bodies.Readiness),
            503: ("Not now: `checks` says what is in the way.", bodies.Readiness),
        },
        codes={414: _ANY[414], 431: _ANY[431]},
    ),
    METRICS: Described(
        name="getMetrics",
        summary="The service's figures",
        description="For operators, as Prometheus reads them. Needs no key: it answers whoever asks from the same machine, or "
        "with `LEDGER_METRICS_TOKEN` as a bearer token where that is set, and is not there for anybody else.",
        text="The figures of every process of the service.",
        codes={404: ("NOT_FOUND",), 414: _ANY[414], 431: _ANY[431]},
    ),
}
"""The operations without a key, by their address. All are GET."""
