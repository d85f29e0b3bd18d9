"""`statuses.md`: every status with its meaning, and both tables of moves.

The rule a stranger would break: the moves come from the edge tables of the core. Only the meanings are written here and the
takers in `moves`; a status or a move without one stops the generation.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from docs.generation.markdown import codes, table
from docs.generation.markdown import page as markdown_page
from docs.generation.moves import ORDER_TAKERS, PAYMENT_TAKERS, TAKERS

from ledger.domain.orders.state import LIVE
from ledger.domain.orders.statuses import REPORTED_EDGES, NextAction, OrderStatus, PaymentStatus

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

_INTRO = """
An order's status is never set. It follows from the order's payments, by `derive_status` in `src/ledger/orders/status.py`;
the rules in words are in [the contract, section 2](contract.md#2-statuses). The moves below are what the tests hold every
stream of events against; `tests/edges` takes each of them over HTTP, by everybody who is named beside it.

A move is taken by one of the operations beside it, and only by those; what a request began may come to its end while another
one is at work on the order, in a later request, or in the background.
"""


def page() -> str:
    """The page as it should stand."""
    return markdown_page(
        "Statuses",
        _INTRO,
        "## Payment orders",
        _meanings(OrderStatus, ORDER_MEANINGS),
        "### Moves of an order",
        _moves(OrderStatus, ORDER_TAKERS),
        "REFUNDED is final for whoever asks something of an order. Money is real, though: what a processor or a bank tells after "
        f"all is recorded, and may take an order {_reported()}. On a split order, the status shows the newest part that is still "
        "alive: when that one ends, an older one shows, which may be any status that waits for something.",
        "## Payments",
        _meanings(PaymentStatus, PAYMENT_MEANINGS),
        "### Moves of a payment",
        _moves(PaymentStatus, PAYMENT_TAKERS),
        f"A payment is *live* in {codes(sorted(LIVE))}: it may still bring money and has brought none.",
        "### What a payment in REQUIRES_ACTION waits for",
        table(("nextAction", "what to do"), [(codes([action]), ACTION_MEANINGS[action]) for action in NextAction]),
    )


def _meanings(statuses: type[S], meanings: Mapping[S, str]) -> str:
    return table(("status", "meaning"), [(codes([status]), meanings[status]) for status in statuses])


def _moves(statuses: type[S], taken: Mapping[tuple[S | None, S], Sequence[str]]) -> str:
    rows = []
    for origin in (None, *statuses):
        shown = codes([origin]) if origin else "(new)"
        moves = [(target, taken[origin, target]) for target in statuses if (origin, target) in taken]
        for target, takers in moves:
            rows.append((shown, codes([target]), "; ".join(TAKERS[taker] for taker in takers)))
        if not moves:
            rows.append((shown, "final", ""))
    return table(("from", "to", "taken by"), rows)


def _reported() -> str:
    """The moves that only money reported late takes, in words."""
    origins = sorted({origin for origin, _ in REPORTED_EDGES if origin is not None})
    return "; ".join(
        f"from {codes([origin])} to {codes(sorted(target for start, target in REPORTED_EDGES if start == origin))}"
        for origin in origins
    )
