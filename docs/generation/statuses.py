"""`statuses.md`: every status with its meaning, and both tables of transitions.

The transitions come from the edge tables of the core. This module has only the meanings, and `moves` the operations that take
each transition. A status or a transition without them stops the generation.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from docs.generation.markdown import codes, table
from docs.generation.markdown import page as markdown_page
from docs.generation.moves import ORDER_TAKERS, PAYMENT_TAKERS, TAKERS

from ledger.domain.orders.state import LIVE
from ledger.domain.orders.statuses import REPORTED_EDGES, NextAction, OrderStatus, PaymentStatus
from ledger.domain.subscriptions.state import SUBSCRIPTION_EDGES, SubscriptionStatus

S = TypeVar("S", bound=StrEnum)

ORDER_MEANINGS: Mapping[OrderStatus, str] = {
    OrderStatus.PENDING: "Created and not paid; nothing is in flight.",
    OrderStatus.PROCESSING: "The intent of a payment is committed and has no outcome yet. Usually visible only during a "
    "request, and longer after a time-out.",
    OrderStatus.REFERENCE_GENERATED: "A CLABE or cash reference was issued; the order waits for the deposit.",
    OrderStatus.AUTHORIZED: "The issuer granted the full amount; nothing was captured.",
    OrderStatus.PARTIALLY_AUTHORIZED: "The issuer granted less than the amount; nothing was captured.",
    OrderStatus.ACTION_REQUIRED: "The payer has to do something other than 3-D Secure, such as following a redirect.",
    OrderStatus.COMPLETED: "The money held covers the order.",
    OrderStatus.PARTIALLY_PAID: "Money came in that does not cover the order.",
    OrderStatus.CANCELLATION_REQUESTED: "A void or a refund that ends the order was requested and has no outcome yet.",
    OrderStatus.CANCELLED: "Ended without money.",
    OrderStatus.FAILED: "The only payment failed. The same `externalId`, or a charge, tries again.",
    OrderStatus.REFUND_PROCESSING: "A refund was accepted and is not confirmed.",
    OrderStatus.PARTIALLY_REFUNDED: "Part of the money was refunded.",
    OrderStatus.REFUNDED: "All of the money was refunded.",
    OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED: "3-D Secure waits for the browser's device data.",
    OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED: "3-D Secure waits for the payer's answer to a challenge.",
}

PAYMENT_MEANINGS: Mapping[PaymentStatus, str] = {
    PaymentStatus.CREATED: "Opened on the order; no processor was called yet. It ends within the same commit.",
    PaymentStatus.PENDING_AUTHORIZATION: "The intent is in the log; the processor's answer is not.",
    PaymentStatus.AUTHORIZED: "Granted in full.",
    PaymentStatus.PARTIALLY_AUTHORIZED: "Granted for less than the amount.",
    PaymentStatus.REQUIRES_ACTION: "The payer has to act; `nextAction` names the action.",
    PaymentStatus.PENDING_CAPTURE: "The capture is accepted and due.",
    PaymentStatus.CAPTURING: "The capture was requested and has no outcome yet.",
    PaymentStatus.CAPTURED: "The full requested amount was captured.",
    PaymentStatus.PARTIALLY_CAPTURED: "Less than the requested amount was captured.",
    PaymentStatus.PENDING_SETTLEMENT: "Listed in a batch that the acquirer will pay out.",
    PaymentStatus.SETTLED: "Paid out to the merchant.",
    PaymentStatus.PENDING_CANCELLATION: "A void was requested and has no outcome yet.",
    PaymentStatus.FAILED: "Refused, or abandoned. Final; money that is reported late still counts.",
    PaymentStatus.CANCELLED: "Voided or withdrawn before money moved.",
    PaymentStatus.PENDING_REFUND: "A refund was requested and has no outcome yet.",
    PaymentStatus.PARTIALLY_REFUNDED: "Part of it was refunded.",
    PaymentStatus.REFUNDED: "All of it was refunded. Final.",
    PaymentStatus.DISPUTED: "The payer's bank has opened a chargeback.",
    PaymentStatus.EXPIRED: "The reference, the 3-D Secure session or the authorisation expired.",
}

ACTION_MEANINGS: Mapping[NextAction, str] = {
    NextAction.DEVICE_DATA: "Send the browser's device data.",
    NextAction.CHALLENGE: "Let the payer answer the issuer's challenge.",
    NextAction.REDIRECT: "Send the payer to the processor's page.",
    NextAction.DISPLAY_REFERENCE: "Show the payer the reference to deposit to.",
}

SUBSCRIPTION_MEANINGS: Mapping[SubscriptionStatus, str] = {
    SubscriptionStatus.TRIALING: "Nothing was charged yet: a trial, or a start in the future.",
    SubscriptionStatus.ACTIVE: "Everything that was due is paid.",
    SubscriptionStatus.PAST_DUE: "A charge failed, and the plan's retries go on.",
    SubscriptionStatus.UNPAID: "The retries are used up, or the card was declined for good.",
    SubscriptionStatus.CANCELED: "It has ended. Final.",
}

_CREATED, _PAID = "`createSubscription`", "a charge that is approved: at the end of the trial, as a retry, or requested"
_FAILED, _ENDED = "a charge that fails", "`cancelSubscription`, the end of a period, or the erasure of the customer"
SUBSCRIPTION_TAKERS: Mapping[tuple[SubscriptionStatus | None, SubscriptionStatus], str] = {
    (None, SubscriptionStatus.TRIALING): f"{_CREATED} with a trial or a start in the future",
    (None, SubscriptionStatus.ACTIVE): f"{_CREATED} whose first charge is approved",
    (SubscriptionStatus.TRIALING, SubscriptionStatus.ACTIVE): _PAID,
    (SubscriptionStatus.TRIALING, SubscriptionStatus.PAST_DUE): _FAILED,
    (SubscriptionStatus.TRIALING, SubscriptionStatus.CANCELED): _ENDED,
    (SubscriptionStatus.ACTIVE, SubscriptionStatus.PAST_DUE): _FAILED,
    (SubscriptionStatus.ACTIVE, SubscriptionStatus.CANCELED): _ENDED,
    (SubscriptionStatus.PAST_DUE, SubscriptionStatus.ACTIVE): _PAID,
    (
        SubscriptionStatus.PAST_DUE,
        SubscriptionStatus.UNPAID,
    ): "the last retry, or a decline for good, with UNPAID in the plan",
    (SubscriptionStatus.PAST_DUE, SubscriptionStatus.CANCELED): f"the same with CANCEL in the plan; {_ENDED}",
    (SubscriptionStatus.UNPAID, SubscriptionStatus.ACTIVE): "`retrySubscription` or another card, approved",
    (SubscriptionStatus.UNPAID, SubscriptionStatus.CANCELED): f"`LEDGER_SUBSCRIPTION_UNPAID_DAYS`; {_ENDED}",
}

_INTRO = """
No code sets an order's status. `derive_status` in `src/ledger/domain/orders/state.py` computes it from the order's payments;
the rules in words are in [the contract, section 2](contract.md#2-statuses). The tests check every stream of events against the
transitions below; `tests/transitions` takes each of them over HTTP, by every operation named beside it.

Only the operations beside a transition take it. A call that one request began may end while another request works on the order,
in a later request, or in the background.
"""


def page() -> str:
    """Returns the page as it should be."""
    return markdown_page(
        "Statuses",
        _INTRO,
        "## Payment orders",
        _meanings(OrderStatus, ORDER_MEANINGS),
        "### Transitions of an order",
        _moves(OrderStatus, ORDER_TAKERS),
        "For requests on an order REFUNDED is final. The ledger still records money and voids that a processor or a bank reports later, "
        f"which may take an order {_reported()}. On a split order, the newest live payment determines the status: when it ends, "
        "an older one does, which may give any status that waits for something.",
        "## Payments",
        "A refund that is reported late may end a PARTIALLY_REFUNDED payment as REFUNDED. "
        "A refund that comes back after it had succeeded takes a payment out of REFUNDED or PARTIALLY_REFUNDED: to "
        "PARTIALLY_REFUNDED, or to the status that it had before its refunds. While another refund or a dispute is open, it is "
        "PENDING_REFUND or DISPUTED.",
        _meanings(PaymentStatus, PAYMENT_MEANINGS),
        "### Transitions of a payment",
        _moves(PaymentStatus, PAYMENT_TAKERS),
        f"A payment is *live* in {codes(sorted(LIVE))}: it may still bring money and has brought none.",
        "### What a payment in REQUIRES_ACTION waits for",
        table(("nextAction", "what to do"), [(codes([action]), ACTION_MEANINGS[action]) for action in NextAction]),
        "## Subscriptions",
        "[How subscriptions are billed](../explanation/subscriptions.md) has the reasons.",
        _meanings(SubscriptionStatus, SUBSCRIPTION_MEANINGS),
        "### Transitions of a subscription",
        _subscription_moves(),
    )


def _subscription_moves() -> str:
    assert SUBSCRIPTION_TAKERS.keys() == SUBSCRIPTION_EDGES, "each transition has what takes it"
    rows = [
        (codes([origin]) if origin else "(new)", codes([target]), SUBSCRIPTION_TAKERS[origin, target])
        for origin in (None, *SubscriptionStatus)
        for target in SubscriptionStatus
        if (origin, target) in SUBSCRIPTION_EDGES
    ]
    return table(("from", "to", "taken by"), rows)


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
    """Returns the transitions that only money reported late takes, in words."""
    origins = sorted({origin for origin, _ in REPORTED_EDGES if origin is not None})
    return "; ".join(
        f"from {codes([origin])} to {codes(sorted(target for start, target in REPORTED_EDGES if start == origin))}"
        for origin in origins
    )
