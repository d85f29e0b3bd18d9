"""Every wrong field of a body on orders is named in one 400. The bodies are generated from the published shapes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Struct, inspect
from tests.api.bodies import ABSENT, APPROVED, NOW, by_card, card, charge, encoded, line, order, paid_order, refusal_of
from tests.api.http.malformed_actions import CLABE, PAYMENT_ID

from api.errors import ApiError
from api.orders import add_payment, authenticate, cancel, capture, create, refund
from api.orders import charge as charging
from api.orders import list as orders
from api.products import list as products

# The fields that a body has under another name, as expressions; and the name by which an error may call them.
CANONICAL = {
    r"externalMerchantReference": "externalId",
    r"isVirtualTerminal": "virtualTerminal",
    r"items(?=\[)": "lineItems",
    r"fiscal(Data|Config)(?=\.)": "customerFiscalData",
    r"customerId": "customer.id",
    r"customer\.customerId": "customer.id",
    r"paymentMethod\.options\.card(?=\.)": "paymentMethod.cardDetails",
    r"paymentMethod\.options\.persist": "paymentMethod.persist",
    r"paymentMethod\.cardDetails\.persist": "paymentMethod.persist",
    r"paymentMethod\.cardDetails\.exp(?=Month|Year)": "paymentMethod.cardDetails.expiry",
}


class Operation(Struct, frozen=True, kw_only=True):
    """An operation's shape, its parser, and a right body; `under_other_names` where it has the aliases only.

    `excludes` is a pattern of the fields that the body's own exclude: a card comes by its number or by tokens.
    """

    shape: type[Struct]
    reads: Callable[[bytes], Any]
    body: dict[str, Any]
    under_other_names: bool = False
    excludes: str = r"paymentMethod\.cardTokens"


def lines() -> list[dict[str, Any]]:
    return [line(taxes=[{"type": "IVA", "rate": 0.16} for _ in range(2)]) for _ in range(2)]


def read_create(body: bytes) -> Any:
    return create.parse_create(body, NOW)


OPERATIONS = {
    "create": Operation(
        shape=create.CreatePaymentOrder, reads=read_create, body=paid_order(amount=300000, lineItems=lines())
    ),
    "create under other names": Operation(
        shape=create.CreatePaymentOrder,
        reads=read_create,
        body=paid_order(
            amount=300000,
            items=lines(),
            externalId=ABSENT,
            externalMerchantReference="order-1",
            customer=ABSENT,
            customerId="ana",
            paymentMethod={
                "type": "card",
                "options": {"card": card(expiryMonth=ABSENT, expiryYear=ABSENT, expMonth=12, expYear=34)},
            },
        ),
        under_other_names=True,
    ),
    "charge": Operation(
        shape=charging.ChargePaymentOrder, reads=lambda body: charging.parse_charge(body, NOW), body=charge()
    ),
    "charge by tokens": Operation(
        shape=charging.ChargePaymentOrder,
        reads=lambda body: charging.parse_charge(body, NOW),
        body=charge(
            paymentMethod={"type": "card", "cardTokens": [{"account": each, "token": "tok_1"} for each in ("a", "b")]}
        ),
        excludes=r"paymentMethod\.(cardDetails|options|persist)",
    ),
    "payments": Operation(
        shape=add_payment.AddPayment, reads=lambda body: add_payment.parse_payment(body, NOW), body=charge()
    ),
    "refund": Operation(
        shape=refund.RefundPaymentOrder,
        reads=refund.parse_refund,
        body={
            "amount": 2,
            "allocations": [{"paymentId": PAYMENT_ID, "amount": 1} for _ in range(2)],
            "destination": {"clabe": CLABE},
        },
    ),
    "cancel": Operation(shape=cancel.CancelPaymentOrder, reads=cancel.parse_cancel, body={}),
    "capture": Operation(shape=capture.CapturePaymentOrder, reads=capture.parse_capture, body={}),
    "device-data": Operation(shape=authenticate.SubmitDeviceData, reads=authenticate.parse_device_data, body={}),
    "validate": Operation(
        shape=authenticate.ValidatePayerAuthentication,
        reads=authenticate.parse_validate,
        body={"authenticationTransactionId": "t"},
    ),
}

# What a field of the right type must not contain, by its name. Every other text must not contain a card number.
CONTENTS = {
    "number": "1", "cvc": "1", "expiryMonth": "13", "expMonth": "0", "expiryYear": "1", "expYear": "1999",
    "email": "x", "taxId": "x", "clabe": "1", "dueDate": "tomorrow", "metadata": 5,
    "quantity": 0, "rate": -1, "amount": 0, "unitPrice": "1", "discount": -1, "country": "MEX",
}  # fmt: skip


def options(kind: inspect.Type) -> Iterator[inspect.Type]:
    """Yields what a value may be."""
    if isinstance(kind, inspect.Metadata):
        yield from options(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from options(each)
    else:
        yield kind


def leaves(shape: type[Struct], place: str = "") -> Iterator[tuple[str, list[inspect.Type]]]:
    """Yields the path of every single value of a body, with its types; a list has two entries."""
    for field in msgspec.structs.fields(shape):
        path, kinds = f"{place}{field.encode_name}", list(options(inspect.type_info(field.type)))
        inner = [f"{path}."]
        for listed in [kind for kind in kinds if isinstance(kind, inspect.ListType)]:
            kinds, inner = list(options(listed.item_type)), [f"{path}[0].", f"{path}[1]."]
        structs = [kind.cls for kind in kinds if isinstance(kind, inspect.StructType)]
        for struct in structs:
            for each in inner:
                yield from leaves(struct, each)
        if not structs:
            yield path, kinds


def of_wrong_type(path: str, kinds: list[inspect.Type]) -> Any:
    takes_lists = any(isinstance(kind, inspect.BoolType | inspect.UUIDType | inspect.RawType) for kind in kinds)
    return "wrong" if takes_lists else []


def of_wrong_content(path: str, kinds: list[inspect.Type]) -> Any:
    if any(isinstance(kind, inspect.BoolType | inspect.UUIDType | inspect.LiteralType) for kind in kinds):
        return of_wrong_type(path, kinds)
    if path == "paymentMethod.paymentMethodId":  # a payment by card does not use it
        return []
    name = path.rpartition(".")[2]
    return APPROVED if path.endswith(".address.country") else CONTENTS.get(name, APPROVED)


def changed(body: Any, path: str, value: Any) -> Any:
    """Returns the body with another value at a path, whose objects are made where they are absent."""
    body = copy.deepcopy(body)
    *steps, last = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", path)]
    at = body
    for step in steps:
        at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
    at[last] = value
    return body


def canonical(path: str) -> str:
    for alias, name in CANONICAL.items():
        path = re.sub(rf"\A{alias}", name, path)
    return path


def wrong_values(operation: Operation, wrong: Callable[[str, list[inspect.Type]], Any]) -> dict[str, Any]:
    """Returns a wrong value of each field that the body has or may have, by its path."""
    chosen: dict[str, tuple[str, Any]] = {}
    for path, kinds in leaves(operation.shape):
        if re.match(operation.excludes, path):
            continue
        has_alias = path != canonical(path)
        if canonical(path) not in chosen or has_alias == operation.under_other_names:
            chosen[canonical(path)] = (path, wrong(path, kinds))
    return dict(chosen.values())


@pytest.mark.parametrize("wrong", [of_wrong_type, of_wrong_content])
@pytest.mark.parametrize("name", OPERATIONS)
def test_wrong_fields_are_named_together(name: str, wrong: Callable[[str, list[inspect.Type]], Any]):
    operation = OPERATIONS[name]
    operation.reads(encoded(operation.body))
    values = wrong_values(operation, wrong)
    paths = list(values)
    neighbours = [paths[at : at + 5] for at in range(0, len(paths), 5)]
    strangers = [paths[at :: -(-len(paths) // 5)] for at in range(-(-len(paths) // 5))]
    for some in neighbours + strangers:
        body = operation.body
        for path in some:
            body = changed(body, path, values[path])
        named = [canonical(each.field) for each in refusal_of(encoded(body), operation.reads).errors]
        assert sorted(named) == sorted(map(canonical, some))


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (paid_order(amount=0, billingAddress=ABSENT), ["amount", "billingAddress"]),
        (paid_order(amount=0, billingAddress={}), ["amount", "billingAddress"]),
        (order(pending=False, externalId=ABSENT), ["externalId", "paymentMethod"]),
        (order(customer={"firstName": 1}, currency="MX"), ["currency", "customer.firstName", "customer"]),
        (order(customer=ABSENT, metadata=1), ["metadata", "customer"]),
        (order(customer={"email": "x"}, customerId="c", due="x"), ["customer.email"]),
        (order(virtualTerminal=True, isVirtualTerminal=False, amount=-1), ["amount", "virtualTerminal", "isVirtualTerminal"]),
        (order(amount=1, lineItems=[line()], invoiceNumber="x" * 65), ["lineItems", "invoiceNumber"]),
        (order(lineItems=[line(productId="p", description=ABSENT)], currency=1), ["currency"]),
        (order(metadata={"a": 5}, lineItems=[line(metadata={"cvc": "123"})], currency=1), [
            "lineItems[0].metadata", "currency"
        ]),
        (paid_order(paymentMethod=ABSENT, billingAddress={"country": "MEX"}), ["billingAddress.country", "paymentMethod"]),
        (paid_order(paymentMethod=by_card(options={"card": card(cvc="999", number="5555555555554444")})), [
            f"paymentMethod.{place}.{name}" for place in ("cardDetails", "options.card") for name in ("cvc", "number")
        ]),
        (order(paymentMethod={"type": "spei", "paymentMethodId": APPROVED}, pending=False, amount=0), ["amount"]),
        (paid_order(metadata={"a": {"b": "x" * 40_000, "c": APPROVED}}, amount=0), ["amount", "metadata"]),
        (order(amount=0, lineItems=[line()], invoiceNumber="x" * 65), ["amount", "invoiceNumber"]),
        (order(lineItems=[1, {"name": 1}, line(quantity=-1)]), [
            "lineItems[0]", "lineItems[1].name", "lineItems[1].quantity", "lineItems[1].unitPrice", "lineItems[2].quantity"
        ]),
        (order(lineItems=[{"productId": "p", "quantity": 0}], currency=1), [
            "lineItems[0].quantity", "lineItems[0].unitPrice", "currency"
        ]),
        (order(lineItems=[line(taxes=[1, {"type": "IVA"}, {"factor": "?"}])]), [
            "lineItems[0].taxes[0]", "lineItems[0].taxes[1].rate", "lineItems[0].taxes[2].factor",
            "lineItems[0].taxes[2].type", "lineItems[0].taxes[2].rate",
        ]),
        (paid_order(paymentMethod={"type": "payment_method_id", "cvc": "1", "cardDetails": {"number": "2"}}), [
            "paymentMethod.cvc", "paymentMethod.cardDetails.number", "paymentMethod.paymentMethodId"
        ]),
        (paid_order(paymentMethod={"type": "card"}, amount="1"), ["amount", "paymentMethod.cardTokens"]),
        (paid_order(paymentMethod=by_card(cardDetails=card(expiryMonth="13", expiryYear="12"))), [
            "paymentMethod.cardDetails.expiryMonth", "paymentMethod.cardDetails.expiryYear"
        ]),
        (paid_order(paymentMethod={"type": "?", "cardDetails": {"cvc": "x"}}), [
            "paymentMethod.type", "paymentMethod.cardDetails.cvc"
        ]),
        (paid_order(paymentMethod={"type": "card", "cardDetails": {"number": APPROVED, "expYear": 2026, "expMonth": 2}}), [
            "paymentMethod.cardDetails.expiryMonth", "paymentMethod.cardDetails.cvc"
        ]),
    ],
)  # fmt: skip
def test_rules_about_several_fields_are_named_beside_other_errors(body: dict[str, Any], fields: list[str]):
    assert sorted(each.field for each in refusal_of(body).errors) == sorted(fields)


def test_twenty_errors_are_named_and_no_more_lines_are_read():
    many = [{"quantity": 0, "taxes": [{"type": 1}]} for _ in range(1000)]
    refused = refusal_of(order(lineItems=many, currency=1))
    assert len(refused.errors) == 20
    assert refused.errors[0].field == "currency"
    assert {each.field for each in refused.errors} >= {f"lineItems[{at}].taxes[0].type" for at in range(19)}


def test_one_wrong_field_is_answered_as_if_only_it_were_looked_for():
    refused = refusal_of(order(amount=0))
    assert (refused.message, [each.field for each in refused.errors]) == ("amount must be greater than 0.", ["amount"])


def test_every_wrong_parameter_of_a_list_is_named():
    with pytest.raises(ApiError) as refused:
        orders.parse_order_query(
            b"status=x&status=PENDING&page=0&limit=0&sortField=x&sortOrder=x&excludeOverdue=1&dateFrom=x&dateTo=x"
            b"&includeRelatedCustomers=1&search=a&search=b&customerId=" + b"c" * 256,
            NOW,
        )
    assert [each.field for each in refused.value.errors] == [
        "status", "page", "limit", "sortField", "sortOrder", "excludeOverdue", "dateFrom", "dateTo",
        "includeRelatedCustomers", "search", "customerId",
    ]  # fmt: skip
    with pytest.raises(ApiError) as refused:
        products.parse_product_query(b"limit=101&search=" + b"s" * 256)
    assert [each.field for each in refused.value.errors] == ["limit", "search"]
