"""The published shapes of requests."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import Meta, Struct
from tests.api.bodies import APPROVED, card

from api.fields import payment_method, people
from api.fields.payment_method import CardDetails, PaymentMethod
from api.orders import action_schemas, order_schemas
from api.orders.order_schemas import ChargePaymentOrder, CreatePaymentOrder
from api.sandbox import schemas as sandbox_schemas

MODULES = (people, payment_method, order_schemas, action_schemas, sandbox_schemas)


def structs() -> list[type[Struct]]:
    found = set()
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == module.__name__:
                found.add(value)
    found.discard(payment_method.Method)  # what the parser returns
    return sorted(found, key=lambda struct: struct.__name__)


@pytest.mark.parametrize("struct", structs())
def test_every_field_is_described(struct: type[Struct]):
    assert struct.__doc__
    for name, kind in get_type_hints(struct, include_extras=True).items():
        metas = [part for part in get_args(kind) if isinstance(part, Meta)] if get_origin(kind) is Annotated else []
        assert any(meta.description for meta in metas), f"{struct.__name__}.{name}"


@pytest.mark.parametrize("struct", [CreatePaymentOrder, ChargePaymentOrder])
def test_money_is_published_as_a_number(struct: type[Struct]):
    properties: dict[str, Any] = msgspec.json.schema(struct)["$defs"][struct.__name__]["properties"]
    assert properties["amount"]["type"] == "number"
    assert "object" in properties["metadata"]["type"]


def test_what_holds_a_card_prints_as_stars():
    details = msgspec.convert(card(), CardDetails)
    method = PaymentMethod(type="card", card_details=details)
    request = ChargePaymentOrder(payment_method=method)
    for shown in (repr(details), str(details), repr(method), repr(request), f"{request}"):
        assert APPROVED not in shown
        assert "123" not in shown
