"""Bodies as a merchant's program sends them. A test changes what it is about."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from api.errors import ApiError
from api.orders.charge import parse_charge
from api.orders.create import parse_create
from ledger.operations.context.inputs import OrderInput, PaymentInput

NOW = datetime(2026, 3, 15, 12, 0, tzinfo=ZoneInfo("America/Mexico_City"))
APPROVED, DECLINED = "4242424242424242", "4000000000000002"
ABSENT = object()


def card(**changes: Any) -> dict[str, Any]:
    return _changed({"number": APPROVED, "expiryMonth": "12", "expiryYear": "34", "cvc": "123"}, changes)


def by_card(**changes: Any) -> dict[str, Any]:
    return _changed({"type": "card", "cardDetails": card()}, changes)


def order(**changes: Any) -> dict[str, Any]:
    """A pending order over 1,500 pesos."""
    body = {
        "amount": 150000,
        "currency": "MXN",
        "externalId": "order-1",
        "customer": {"externalId": "ana", "firstName": "Ana", "email": "ana@example.com"},
        "pending": True,
    }
    return _changed(body, changes)


def paid_order(**changes: Any) -> dict[str, Any]:
    """An order over 1,500 pesos, paid by card at once."""
    body = order(pending=ABSENT, paymentMethod=by_card(), billingAddress={"city": "Puebla", "country": "MX"})
    return _changed(body, changes)


def charge(**changes: Any) -> dict[str, Any]:
    return _changed({"paymentMethod": by_card(), "billingAddress": {"city": "Puebla"}}, changes)


def line(**changes: Any) -> dict[str, Any]:
    return _changed({"description": "Café", "quantity": 2, "unitPrice": 75000}, changes)


def encoded(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def drafted(body: Any) -> OrderInput:
    return parse_create(body if isinstance(body, bytes) else encoded(body), NOW)


def drafted_charge(body: Any) -> PaymentInput:
    return parse_charge(body if isinstance(body, bytes) else encoded(body), NOW)


def refusal_of(body: Any, read: Any = drafted) -> ApiError:
    """Returns the error about a body; the test fails where the body is accepted."""
    with pytest.raises(ApiError) as caught:
        read(body)
    assert caught.value.status == 400
    assert caught.value.errors, "a 400 names its fields"
    return caught.value


def field_of(body: Any, read: Any = drafted) -> str:
    """Returns the field that a body is refused for."""
    return refusal_of(body, read).errors[0].field


def _changed(body: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**body, **changes}.items() if value is not ABSENT}
