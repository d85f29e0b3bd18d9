"""`statuses.md`: every status with its meaning, and both tables of moves.

The rule a stranger would break: the moves come from the edge tables of the core. Only the meanings are written here, and a
status without one stops the generation.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from docs.generation.markdown import codes, table
from docs.generation.markdown import page as markdown_page

from ledger.orders.status import LIVE, ORDER_EDGES, PAYMENT_EDGES, NextAction, OrderStatus, PaymentStatus

S = TypeVar("S", bound=StrEnum)

ORDER_MEANINGS: Mapping[OrderStatus, str] = {
    OrderStatus.PENDING: "Created and not paid; nothing is in flight.",
    OrderStatus.PROCESSING: "A payment was announced to the processor and has no outcome yet. Usually seen only inside a "
    "request, for longer after a time-out.",
    OrderStatus.REFERENCE_GENERATED: "A CLABE or cash reference was issued and the deposit is awaited.",
    OrderStatus.AUTHORIZED: "The issuer granted all that was asked for; nothing was captured.",
    OrderStatus.PARTIALLY_AUTHORIZED: "The issuer granted less than was asked for; nothing was captured.",
    OrderStatus.ACTION_REQUIRED: "The payer has to do something that is not 3-D Secure, such as following a redirect.",
    OrderStatus.COMPLETED: "The money that is held covers the order.",
    OrderStatus.PARTIALLY_PAID: "Money came in that does not cover the order.",
    OrderStatus.CANCELLATION_REQUESTED: "A void or a refund that ends the order was asked for and has no outcome yet.",
    OrderStatus.CANCELLED: "Ended without money.",
    OrderStatus.FAILED: "The only payment failed. The same `externalId`, or a charge, tries again.",
    OrderStatus.REFUND_PROCESSING: "A refund was accepted and is not confirmed.",
    OrderStatus.PARTIALLY_REFUNDED: "Part of the money went back.",
    OrderStatus.REFUNDED: "All of the money went back.",
    OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: "3-D Secure waits for the browser's device data.",
    OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED: "3-D Secure waits for the payer's answer to a challenge.",
}

PAYMENT_MEANINGS: Mapping[PaymentStatus, str] = {
    PaymentStatus.CREATED: "Opened on the order; nobody was asked yet. Lasts less than a commit.",
    PaymentStatus.PENDING_AUTHORIZATION: "The intent is in the log; the processor's answer is not.",
    PaymentStatus.AUTHORIZED: "Granted in full.",
    PaymentStatus.PARTIALLY_AUTHORIZED: "Granted for less than was asked.",
    PaymentStatus.REQUIRES_ACTION: "The payer has to act; `nextAction` says how.",
    PaymentStatus.PENDING_CAPTURE: "The capture is accepted and due.",
    PaymentStatus.CAPTURING: "The capture was asked for and has no outcome yet.",
    PaymentStatus.CAPTURED: "All that was asked for was taken.",
    PaymentStatus.PARTIALLY_CAPTURED: "Less than was asked for was taken.",
    PaymentStatus.PENDING_SETTLEMENT: "Listed in a batch that the acquirer will pay out.",
    PaymentStatus.SETTLED: "Paid out to the merchant.",
    PaymentStatus.PENDING_CANCELLATION: "A void was asked for and has no outcome yet.",
    PaymentStatus.FAILED: "Refused, or given up. Final; money that is reported late counts all the same.",
    PaymentStatus.CANCELLED: "Voided or withdrawn before money moved.",
    PaymentStatus.PENDING_REFUND: "A refund was asked for and has no outcome yet.",
    PaymentStatus.PARTIALLY_REFUNDED: "Part of it went back.",
    PaymentStatus.REFUNDED: "All of it went back. Final.",
    PaymentStatus.DISPUTED: "The payer's bank has opened a chargeback.",
    PaymentStatus.EXPIRED: "The reference, the 3-D Secure session or the authorisation ended by itself.",
}

ACTION_MEANINGS: Mapping[NextAction, str] = {
    NextAction.DEVICE_DATA: "Send the browser's device data.",
    NextAction.CHALLENGE: "Let the payer answer the issuer's challenge.",
    NextAction.REDIRECT: "Send the payer to the processor's page.",
    NextAction.DISPLAY_REFERENCE: "Show the payer the reference to deposit to.",
}

ORDERS_NOW = frozenset(
    {
        OrderStatus.PENDING,
        OrderStatus.PROCESSING,
        OrderStatus.AUTHORIZED,
        OrderStatus.PARTIALLY_AUTHORIZED,
        OrderStatus.COMPLETED,
        OrderStatus.PARTIALLY_PAID,
        OrderStatus.FAILED,
    }
)
"""What an order can stand in with the operations that exist."""

PAYMENTS_NOW = frozenset(
    {
        PaymentStatus.CREATED,
        PaymentStatus.PENDING_AUTHORIZATION,
        PaymentStatus.AUTHORIZED,
        PaymentStatus.PARTIALLY_AUTHORIZED,
        PaymentStatus.PENDING_CAPTURE,
        PaymentStatus.CAPTURING,
        PaymentStatus.CAPTURED,
        PaymentStatus.PARTIALLY_CAPTURED,
        PaymentStatus.FAILED,
    }
)

_INTRO = """
An order's status is never set. It follows from the order's payments, by `derive_status` in `src/ledger/orders/status.py`;
the rules in words are in [the contract, section 2](contract.md#2-statuses). The moves below are what the tests hold every
stream of events against.

*Now* marks what the operations that exist can reach. The others belong to operations that come later.
"""


def page() -> str:
    """The page as it should stand."""
    return markdown_page(
        "Statuses",
        _INTRO,
        "## Payment orders",
        _meanings(OrderStatus, ORDER_MEANINGS, ORDERS_NOW),
        "### Moves of an order",
        _moves(OrderStatus, ORDER_EDGES),
        "## Payments",
        _meanings(PaymentStatus, PAYMENT_MEANINGS, PAYMENTS_NOW),
        "### Moves of a payment",
        _moves(PaymentStatus, PAYMENT_EDGES),
        f"A payment is *live* in {codes(sorted(LIVE))}: it may still bring money and has brought none.",
        "### What a payment in REQUIRES_ACTION waits for",
        table(("nextAction", "what to do"), [(codes([action]), ACTION_MEANINGS[action]) for action in NextAction]),
    )


def _meanings(statuses: type[S], meanings: Mapping[S, str], now: Iterable[S]) -> str:
    rows = [(codes([status]), "now" if status in now else "later", meanings[status]) for status in statuses]
    return table(("status", "", "meaning"), rows)


def _moves(statuses: type[S], edges: Iterable[tuple[S | None, S]]) -> str:
    rows = []
    for origin in (None, *statuses):
        targets = [target for target in statuses if (origin, target) in edges]
        rows.append((codes([origin]) if origin else "(new)", codes(targets) or "final"))
    return table(("from", "to"), rows)
