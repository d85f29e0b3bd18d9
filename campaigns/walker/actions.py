"""How often a walk does what, from its first request to its last, and what all walks together have to reach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from campaigns.walker import cards, customers, invoices, orders, subscriptions
from campaigns.walker.walk import CUSTOMERS, SANDBOX, Walk

ACTIONS: Final[Mapping[Callable[[Walk], Awaitable[None]], int]] = {
    orders.create: 12,
    orders.create_split: 6,
    orders.change: 4,
    orders.pay_part: 12,
    orders.charge: 5,
    orders.deposit: 6,
    orders.capture: 5,
    orders.release: 3,
    orders.refund: 12,
    orders.cancel: 3,
    orders.dispute: 2,
    cards.save_card: 2,
    cards.save_card_alone: 2,
    cards.delete_card: 1,
    customers.change: 1,
    customers.erase: 1,
    invoices.stamp: 8,
    invoices.cancel_documents: 3,
    invoices.provider: 1,
    invoices.self_invoice: 3,
    invoices.invoice_to_the_public: 1,
    invoices.cancel_global: 1,
    invoices.read: 4,
    subscriptions.subscribe: 3,
    subscriptions.change_subscription: 10,
    subscriptions.tick: 2,
}
_ORDER: Final = "/api/v2/payment-orders/{id}"
_SUBSCRIPTION: Final = f"{subscriptions.SUBSCRIPTIONS}/{{id}}"
_AUTHENTICATION: Final = "/api/payment-methods/{id}/payer-authentication"

OPERATIONS: Final = (
    "POST /api/v2/payment-orders",
    "GET /api/v2/payment-orders",
    f"GET {_ORDER}",
    f"PATCH {_ORDER}",
    *(f"POST {_ORDER}/{action}" for action in ("payments", "charge", "capture", "release", "refund", "cancel")),
    *(f"POST {_ORDER}/{action}" for action in ("stamp", "cfdi-url", "cfdi-cancel")),
    f"GET {_ORDER}/self-invoice-url",
    f"POST {_ORDER}/refunds/{{id}}/confirm",
    f"PUT {_ORDER}/refunds/{{id}}/destination",
    "GET /api/self-invoice/{id}",
    "POST /api/self-invoice/{id}",
    f"POST {invoices.GLOBAL}",
    f"GET {invoices.GLOBAL}",
    f"GET {invoices.GLOBAL}/{{id}}",
    f"POST {invoices.GLOBAL}/{{id}}/cancel",
    f"GET {invoices.MONTH_END}",
    "POST /api/customers/{id}/payment-methods",
    f"POST {_AUTHENTICATION}/validate",
    f"POST {subscriptions.SUBSCRIPTIONS}",
    f"GET {subscriptions.SUBSCRIPTIONS}",
    f"GET {_SUBSCRIPTION}",
    f"PUT {_SUBSCRIPTION}",
    *(f"POST {_SUBSCRIPTION}/{action}" for action in ("cancel", "resume", "retry", "preview")),
    f"GET {_SUBSCRIPTION}/invoices",
    *(f"POST {SANDBOX}/{action}" for action in ("clock", "deposits", "disputes", "stamping")),
    *(f"{method} /api/customers/{{id}}" for method in ("PUT", "DELETE")),
    "DELETE /api/customers/{id}/payment-methods/{id}",
    orders.FINAL_CAPTURE,
    orders.IN_CASH,
    orders.TO_ACCOUNT,
    orders.TO_PAYER,
    invoices.FURTHER_CANCELLED,
    invoices.SELF_INVOICED,
)
"""The operations, and ways to use them, that all walks of a run together carry out at least once."""


async def walk_to_the_end(walk: Walk, requests: int) -> None:
    """Sends so many requests of a new merchant, lets what is under way come to its end, and reads the months' reports."""
    await prepare(walk)
    await walk.move("PT1S")
    began = invoices.local_day(walk)
    await walk.run(requests, ACTIONS)
    await invoices.settle(walk)
    await invoices.read_months(walk, began)
    await walk.close()


async def prepare(walk: Walk) -> None:
    """Makes the customers and the plans of a walk, and sets what its merchant chooses."""
    for customer in CUSTOMERS:
        await customers.make(walk, customer, fiscal=customer != CUSTOMERS[-1])
    await subscriptions.make_plans(walk)
    await invoices.choose_settings(walk)
