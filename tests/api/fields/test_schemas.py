"""The published shapes of requests."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from docs.generation.shapes import parts
from msgspec import Meta, Struct
from tests.api.bodies import APPROVED, card
from tests.api.openapi.test_document import specs

from api.fields.payment_method import CardDetails, PaymentMethod
from api.orders.charge import ChargePaymentOrder
from api.orders.create import CreatePaymentOrder


def structs() -> list[type[Struct]]:
    """Returns the bodies of all operations, with the structs inside them."""
    bodies = [spec.takes for spec in specs() if spec.takes is not None]
    found = {struct for body in bodies for struct in (body, *parts(body))}
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
