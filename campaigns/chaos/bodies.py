"""The requests that the clients of these tests send, like those of a merchant's program."""

from __future__ import annotations

import json
from typing import Any

from campaigns.chaos.witness import Asked

ORDERS = "/api/v2/payment-orders"
CUSTOMERS, METHODS = "/api/customers", "/api/payment-methods"

CARDS = {
    "approved": "4242424242424242",
    "declined": "4000000000000002",
    "silent": "4000000000000119",
    "half": "4000000000000010",
}
"""Cards by their behaviour in the sandbox (contract 5.3): `silent` is a time-out that turns out approved."""

_ADDRESS = {"address": "Av. Insurgentes Sur 1602", "city": "Ciudad de México", "postalCode": "03940", "country": "MX"}


def create(external_id: str, amount: int, card: str | None = None, customer: str = "ana") -> bytes:
    """Returns an order over `amount` minor units: paid at once by the card of this name, or pending without one."""
    body: dict[str, Any] = {
        "externalId": external_id,
        "amount": amount,
        "currency": "MXN",
        "description": "Café de altura",
        "customer": {"externalId": customer, "firstName": "Ana", "email": f"{customer}@example.com"},
        "lineItems": [{"description": "Café de altura, 1 kg", "quantity": 1, "unitPrice": amount, "sku": "CAF-1"}],
        "metadata": {"channel": "tienda", "cart": external_id},
    }
    return json.dumps(body | ({"pending": True} if card is None else _payment(card))).encode()


def charge(card: str, external_id: str | None = None) -> bytes:
    """Returns a payment of all that is unpaid by the card of this name, with the merchant's own id for it if given."""
    return json.dumps(_payment(card) | ({} if external_id is None else {"externalId": external_id})).encode()


def refund(amount: int, external_id: str | None = None) -> bytes:
    """Returns a refund of so many minor units, with the merchant's own id for it if given."""
    return json.dumps(
        {"amount": amount, "reason": "Taza rota"} | ({} if external_id is None else {"externalId": external_id})
    ).encode()


def by_saved_card(asked: Asked) -> bytes:
    """Returns an order that saves the card with its number, or pays by its saved method."""
    method: dict[str, Any] = {"type": "payment_method_id", "paymentMethodId": str(asked.method)}
    if asked.number is not None:
        details = {"number": asked.number, "expiryMonth": "12", "expiryYear": "2034", "cvc": "123"}
        method = {"type": "card", "persist": True, "cardDetails": details}
    return json.dumps(
        {
            "externalId": asked.external_id,
            "amount": asked.amount,
            "currency": "MXN",
            "customer": {"externalId": asked.customer},
            "billingAddress": _ADDRESS,
            "paymentMethod": method,
        }
    ).encode()


def _payment(card: str) -> dict[str, Any]:
    details = {"number": CARDS[card], "expiryMonth": "12", "expiryYear": "2034", "cvc": "123"}
    return {"paymentMethod": {"type": "card", "cardDetails": details}, "billingAddress": _ADDRESS}
