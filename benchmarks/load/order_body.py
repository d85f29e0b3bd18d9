"""The payment order that the README shows and the benchmarks send: a shop in Guadalajara, four lines, every usual
field.

Never trim it to improve a figure: it has more than 1.5 KB, as real orders do.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from benchmarks.load.requests import ORDER, UNIQUE
from ledger.domain.orders.commands import CreateOrder
from ledger.domain.orders.terms import BillingAddress, LineItem, OrderTerms

Way = Literal["pending", "card", "split", "challenged", "saving"]
"""How an order is to be paid: not yet, by card, in parts, by a card whose bank asks its holder, or by a card that is
saved for a new customer.
"""

IVA: Final = [{"type": "IVA", "rate": 0.16, "factor": "Tasa"}]

BODY: Final[dict[str, Any]] = {
    "externalId": "pedido-2026-000184",
    "amount": 284870,
    "currency": "MXN",
    "description": "Pedido 184: café de especialidad y accesorios, envío a Guadalajara",
    "invoiceNumber": "A-000184",
    "customer": {
        "externalId": "cliente-5521",
        "firstName": "María Fernanda",
        "lastName": "Hernández Ochoa",
        "email": "maria.hernandez@example.com",
        "phoneNumber": "+523312345678",
    },
    "billingAddress": {
        "address": "Av. Chapultepec Sur 284, Int. 5",
        "city": "Guadalajara",
        "state": "Jalisco",
        "postalCode": "44140",
        "country": "MX",
    },
    "lineItems": [
        {
            "description": "Café de altura Coatepec, grano entero, 1 kg",
            "sku": "CAF-COA-1000",
            "productKey": "50201706",
            "unitKey": "H87",
            "unitName": "Pieza",
            "quantity": 3,
            "unitPrice": 38900,
            "taxes": [{"type": "IVA", "rate": 0, "factor": "Tasa"}],
        },
        {
            "description": "Cafetera de prensa francesa, acero, 800 ml",
            "sku": "PRE-FRA-0800",
            "productKey": "52151705",
            "unitKey": "H87",
            "unitName": "Pieza",
            "quantity": 1,
            "unitPrice": 89900,
            "taxes": IVA,
        },
        {
            "description": "Molino manual de muelas cónicas",
            "sku": "MOL-MAN-0001",
            "productKey": "52151706",
            "unitKey": "H87",
            "unitName": "Pieza",
            "quantity": 1,
            "unitPrice": 64900,
            "taxes": IVA,
        },
        {
            "description": "Envío estándar a domicilio",
            "sku": "ENV-EST",
            "productKey": "78102203",
            "unitKey": "E48",
            "unitName": "Servicio",
            "quantity": 1,
            "unitPrice": 13370,
            "taxes": IVA,
        },
    ],
    "metadata": {
        "channel": "web",
        "cartId": "b7e0f3a2-52c4-4b36-9f0a-6d8a2f1f4c11",
        "warehouse": "GDL-02",
        "coupon": None,
        "gift": False,
        "campaign": {"source": "newsletter", "name": "buen-fin-2026", "variant": "B"},
    },
}
"""The body of the README's order without a payment."""

CARD: Final[dict[str, Any]] = {
    "type": "card",
    "cardDetails": {
        "number": "4242424242424242",
        "expiryMonth": "12",
        "expiryYear": "2030",
        "cvc": "123",
        "cardholderName": "MARIA F HERNANDEZ",
    },
}


CHALLENGED: Final[dict[str, Any]] = {**CARD, "cardDetails": {**CARD["cardDetails"], "number": "4000000000003220"}}
"""The sandbox's card whose bank asks its holder."""

SHARE: Final = BODY["amount"] // 10
"""The amount of a part and of a refund, in minor units: a tenth of the order."""
SHARES: Final = 9
"""How many parts or refunds leave the order open for another one."""

_WAYS: Final[dict[str, dict[str, Any]]] = {
    "pending": {"pending": True},
    "card": {"paymentMethod": CARD},
    "split": {"pending": True, "allowPartials": True},
    "challenged": {"paymentMethod": CHALLENGED},
    "saving": {
        "paymentMethod": {**CARD, "persist": True},
        "customer": {**BODY["customer"], "externalId": f"cliente-{UNIQUE}"},
    },
}
_OF_SAVED_CUSTOMER: Final = {name: value for name, value in BODY.items() if name != "customer"}


def body(external_id: str, way: Way = "pending") -> str:
    """Returns the order as JSON. `card` is the sandbox's card that is approved."""
    return _json(BODY | {"externalId": external_id} | _WAYS[way])


def by_saved_card(external_id: str) -> str:
    """Returns the order as JSON, without its last fields: `saved_card` is what ORDER becomes."""
    return f"{_json({**_OF_SAVED_CUSTOMER, 'externalId': external_id})[:-1]},{ORDER}}}"


def saved_card(customer_id: UUID, payment_method_id: UUID) -> str:
    """Returns the fields of an order that name a customer and one of its saved cards."""
    method = {"type": "payment_method_id", "paymentMethodId": str(payment_method_id)}
    return _json({"customer": {"id": str(customer_id)}, "paymentMethod": method})[1:-1]


def by_token(external_id: str, account: str, token: str) -> str:
    """Returns the order as JSON, paid by a card whose token an account's processor has made."""
    method = {"type": "card", "cardTokens": [{"account": account, "token": token}]}
    return _json(BODY | {"externalId": external_id, "paymentMethod": method})


def part(external_id: str) -> str:
    """Returns the payment of a tenth of a split order by card, as JSON."""
    return _json(
        {
            "externalId": external_id,
            "amount": SHARE,
            "billingAddress": BODY["billingAddress"],
            "paymentMethod": CARD,
        }
    )


def refund(external_id: str) -> str:
    """Returns the refund of a tenth of a paid order, as JSON."""
    return _json({"externalId": external_id, "amount": SHARE, "reason": "Una bolsa de café llegó abierta"})


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def command(order_id: UUID, customer_id: UUID, external_id: str, order_number: str) -> CreateOrder:
    """Returns the command that creates the same order."""
    # With the interface's defaults for fields that a merchant leaves out.
    lines = [
        {"taxIncluded": True, **line, "taxes": [{"withholding": False, **tax} for tax in line["taxes"]]}
        for line in BODY["lineItems"]
    ]
    return CreateOrder(
        order_id=order_id,
        order_number=order_number,
        customer_id=customer_id,
        at=datetime.now(UTC),
        terms=OrderTerms(
            external_id=external_id,
            amount=Decimal(BODY["amount"]),
            currency=BODY["currency"],
            description=BODY["description"],
            invoice_number=BODY["invoiceNumber"],
            metadata=msgspec.Raw(msgspec.json.encode(BODY["metadata"])),
            billing_address=msgspec.convert(BODY["billingAddress"], type=BillingAddress),
            line_items=msgspec.json.decode(msgspec.json.encode(lines), type=tuple[LineItem, ...]),
        ),
    )
