"""What happens to orders after they are created, as walks of the load generator: a part, a refund, 3-D Secure.

A walk is measured from its first request to its last answer. 3-D Secure includes the payer's request to the bank's
page, because the payment does not continue without it.
"""

from __future__ import annotations

from typing import Final

from benchmarks.load import order_body
from benchmarks.load.requests import FORM, ORDER, UNIQUE, Step

_STEP_UP: Final = "{stepUpUrl}"
_TRANSACTION: Final = "{transaction}"


def part(orders: str) -> list[Step]:
    """Returns the payment of a tenth of a split order by card, captured at once.

    `orders` is the path of all orders, here and below.
    """
    return [
        Step(
            name="part",
            path=f"{orders}/{ORDER}/payments",
            body=order_body.part(f"parte-{UNIQUE}"),
            expect=201,
            values={"status": "PARTIALLY_PAID", "payment.status": "CAPTURED"},
        )
    ]


def refund(orders: str) -> list[Step]:
    """Returns the refund of a tenth of a captured payment."""
    return [
        Step(
            name="refund",
            path=f"{orders}/{ORDER}/refund",
            body=order_body.refund(f"devolucion-{UNIQUE}"),
            expect=200,
            values={"status": "PARTIALLY_REFUNDED", "refund.status": "SUCCEEDED"},
        )
    ]


def authentication(orders: str) -> list[Step]:
    """Returns an order by a card whose bank asks its holder, who accepts on the bank's page: three requests."""
    return [
        Step(
            name="create",
            path=orders,
            body=order_body.body(f"reto-{UNIQUE}", "challenged"),
            expect=201,
            values={"status": "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED", "payment.nextAction": "CHALLENGE"},
            saves={
                ORDER: "id",
                _STEP_UP: "payerAuthentication.stepUpUrl",
                _TRANSACTION: "payerAuthentication.authenticationTransactionId",
            },
        ),
        Step(name="accept", path=_STEP_UP, body="decision=accept", content_type=FORM, text="Confirmaste el pago"),
        Step(
            name="validate",
            path=f"{orders}/{ORDER}/payer-authentication/validate",
            body=f'{{"authenticationTransactionId":"{_TRANSACTION}"}}',
            values={"status": "AUTHORIZED", "payment.status": "PENDING_CAPTURE"},
        ),
    ]
