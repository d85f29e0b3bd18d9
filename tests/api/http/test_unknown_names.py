"""Names that are unknown at their place: misspelt ones are refused everywhere and move no money, others are ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.api.bodies import by_card, card, order, paid_order
from tests.api.openapi.description import DESCRIBED, assert_described, operations
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import PLANS, SUBSCRIPTIONS, monthly

from api.app import routes
from api.decoding.foreign_names import ADVICE
from api.decoding.query import parse_parameters, refuse_parameters
from api.decoding.unknown_names import UnknownNames, fields_of, known_name, spelling_of, structs_in
from api.errors import ApiError
from api.http.dependencies import DependencyHolder
from api.http.endpoint import Endpoint
from ledger.domain.merchants.settings import UnknownFields
from ledger.settings import Settings

IGNORED = "ledger-ignored-fields"
LETTERS_MIN = 4
IMPORT = "/lps/products/bulk-import"
PLAN = monthly(externalId="cafe")
PRODUCTS = {"products": [{"id": "1", "name": "Café", "price": 1}]}

pytestmark = pytest.mark.anyio

Place = tuple[str | int, ...]


def resolved(schema: Any) -> Iterator[dict[str, Any]]:
    """Yields the objects and lists that a value may be."""
    if "$ref" in schema:
        yield from resolved(DESCRIBED["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        return
    for each in schema.get("anyOf", []):
        yield from resolved(each)
    if "properties" in schema or "items" in schema:
        yield schema


def names(schema: Any, place: Place = ()) -> Iterator[tuple[Place, str, list[str]]]:
    """Yields every field below a schema: the place of its object, its name, and all names at that place."""
    for each in resolved(schema):
        if "items" in each:
            yield from names(each["items"], (*place, 0))
        for name, field in each.get("properties", {}).items():
            yield place, name, list(each["properties"])
            yield from names(field, (*place, name))


def edited(name: str, at: int) -> str:
    """Returns a name one edit away, of a kind that changes with `at`; a short name differs in case only."""
    if len(name) < LETTERS_MIN:
        return name.upper()
    middle = 1 + at % (len(name) - 2)
    other = "x" if name[middle] != "x" else "q"
    return [
        name[:middle] + name[middle + 1 :],
        name[:middle] + other + name[middle:],
        name[:middle] + other + name[middle + 1 :],
        name[: middle - 1] + name[middle] + name[middle - 1] + name[middle + 1 :],
        name[:middle] + "_" + name[middle:],
        name.upper(),
    ][at % 6]


def body_with(place: Place, name: str) -> Any:
    body: Any = {name: None}
    for step in reversed(place):
        body = [body] if step == 0 else {step: body}
    return body


def path_of(place: Place, name: str) -> str:
    return "".join("[0]" if step == 0 else f".{step}" for step in (*place, name)).removeprefix(".")


def merged(one: Any, other: Any) -> Any:
    if isinstance(one, list):
        return [merged(one[0], other[0])]
    if one is None or other is None:
        return one or other
    return one | {name: merged(one.get(name), value) for name, value in other.items()}


def misspelt_bodies(schema: Any) -> Iterator[tuple[list[str], Any]]:
    """Yields bodies with misspelt names, and their paths: one of the body itself, or up to ten of the objects in it."""
    inner: list[tuple[str, Any]] = []
    for at, (place, name, known) in enumerate(names(schema)):
        wrong = next(each for step in range(at, at + 60) if (each := edited(name, step)) not in known)
        if place:
            inner.append((path_of(place, wrong), body_with(place, wrong)))
        else:
            yield [wrong], {wrong: None}
    for start in range(0, len(inner), 10):
        paths, bodies = zip(*inner[start : start + 10], strict=True)
        yield list(paths), reduce(merged, bodies)


WITH_BODY = [
    (method, path)
    for (method, path), about in operations().items()
    if "requestBody" in about and about.get("security") != []
]
WITH_QUERY = [
    (method, path)
    for (method, path), about in operations().items()
    if any(each.get("in") == "query" for each in about["parameters"])
]
ANY_ID = str(UUID(int=7))


def address(path: str, order_id: str = ANY_ID) -> str:
    return "/".join(order_id if step.startswith("{") else step for step in path.split("/"))


@pytest.fixture(scope="module")
async def paid(store: Storefront) -> tuple[Merchant, bytes]:
    """A merchant with a paid order, and the order."""
    merchant = await store.register()
    created = await merchant.create(paid_order())
    return merchant, (await merchant.get(f"{ORDERS}/{created.json()['id']}")).content


def assert_names(answer: Any, *paths: str, code: str = "UNKNOWN_FIELD") -> None:
    assert answer.status_code == 400, (paths, answer.text)
    wrong = {each["field"]: each for each in answer.json()["errors"] if each["code"] == code}
    assert wrong.keys() == set(paths), answer.text
    assert all("did you mean" in each["message"] for each in wrong.values())


@pytest.mark.parametrize(("method", "path"), WITH_BODY)
async def test_every_misspelt_field_is_refused_and_moves_no_money(paid: tuple[Merchant, bytes], method: str, path: str):
    merchant, before = paid
    order_id = msgspec.json.decode(before)["id"]
    schema = DESCRIBED["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    for fields, body in misspelt_bodies(schema):
        if fields[0].startswith("products["):  # a product keeps further fields as its attributes
            continue
        answer = await merchant.client.request(
            method, address(path, order_id), content=msgspec.json.encode(body), headers=merchant.key | JSON
        )
        assert_names(answer, *fields)
    assert (await merchant.get(f"{ORDERS}/{order_id}")).content == before
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 1


@pytest.mark.parametrize(("method", "path"), WITH_QUERY)
async def test_every_misspelt_parameter_is_refused(paid: tuple[Merchant, bytes], method: str, path: str):
    merchant, _ = paid
    parameters = [each["name"] for each in operations()[method, path]["parameters"] if each.get("in") == "query"]
    for at, name in enumerate(parameters):
        wrong = edited(name, at)
        answer = await merchant.client.request(method, address(path), params={wrong: "1"}, headers=merchant.key)
        assert_names(answer, wrong, code="UNKNOWN_PARAMETER")


@pytest.mark.parametrize(
    ("method", "path"), [each for each in operations() if operations()[each].get("security") != []]
)
async def test_every_other_unknown_parameter_is_refused_too(paid: tuple[Merchant, bytes], method: str, path: str):
    merchant, before = paid
    answer = await merchant.client.request(
        method, address(path, msgspec.json.decode(before)["id"]), params={"colour": "red"}, headers=merchant.key
    )
    assert answer.status_code == 400, answer.text
    assert ("colour", "UNKNOWN_PARAMETER") in [(each["field"], each["code"]) for each in answer.json()["errors"]]


def test_of_many_unknown_parameters_twenty_are_named_and_no_card_number():
    for read in (refuse_parameters, lambda query: parse_parameters(query, ["status"])[1].refuse()):
        with pytest.raises(ApiError) as refused:
            read(b"4242424242424242=1&a%5Bb=1&" + b"&".join(b"unknown%d=1" % n for n in range(90)))
        assert refused.value.code == "UNKNOWN_PARAMETER"
        assert len(refused.value.errors) == 20
        assert "4242" not in f"{refused.value.message} {refused.value.errors}"


async def test_other_unknown_names_are_ignored_and_named_in_the_answer(store: Storefront):
    merchant = await store.register()
    body = order(
        loyaltyPoints=7,
        customer={"externalId": "ana", "shoeSize": 38},
        lineItems=[{"description": "Café", "quantity": 1, "unitPrice": 75000, "colour of it": "1"}] * 2,
        metadata={"captureMetod": 1},
    )
    created, again = [await merchant.post(ORDERS, body, **{"idempotency-key": "one"}) for _ in range(2)]
    assert created.status_code == 201
    assert created.headers[IGNORED] == "customer.shoeSize, loyaltyPoints, lineItems[].colour%20of%20it"
    assert created.json()["metadata"] == {"captureMetod": 1}
    assert created.json()["warnings"] == [
        {"field": field, "code": "UNKNOWN_FIELD", "message": f"{field} is unknown here and had no effect."}
        for field in ("customer.shoeSize", "loyaltyPoints", "lineItems[0].colour%20of%20it")
    ]
    assert again.content == created.content
    assert_described(created, "post", ORDERS)
    for read in (f"{ORDERS}/{created.json()['id']}", ORDERS):
        assert "warnings" not in (await merchant.get(read)).text
    plain = await merchant.create(order(externalId="without"))
    assert "warnings" not in plain.json()

    refused = await merchant.post(f"{ORDERS}/{ANY_ID}/refund", {"amount": 1, "loyaltyPoints": 7})
    assert (refused.status_code, refused.headers[IGNORED]) == (404, "loyaltyPoints")
    assert IGNORED not in (await merchant.get(ORDERS)).headers


async def test_every_write_with_a_body_warns_of_unknown_names(store: Storefront):
    merchant = await store.register()
    declined = paid_order(paymentMethod=by_card(cardDetails=card(number="4000000000000002")))
    for path, body in (
        (ORDERS, declined),
        ("/api/customers", {"externalId": "eva"}),
        (PLANS, PLAN),
        (IMPORT, PRODUCTS),
    ):
        answer = await merchant.post(path, body | {"loyaltyPoints": 7})
        assert [each["field"] for each in answer.json()["warnings"]] == ["loyaltyPoints"], answer.text
        assert_described(answer, "post", path)


async def test_a_merchant_may_refuse_every_unknown_name(store: Storefront):
    merchant = await store.register(unknown_fields=UnknownFields.REJECT)
    body = order(loyaltyPoints=7, customer={"externalId": "ana", "4242424242424242": 38})
    answer = await merchant.create(body)
    assert (answer.status_code, answer.json()["code"]) == (400, "UNKNOWN_FIELD")
    assert [each["field"] for each in answer.json()["errors"]] == ["loyaltyPoints", "..."]
    assert "unknownFields is REJECT" in answer.json()["message"]
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 0
    method = {"billingCity": "León", "colour": "red"}
    answer = await merchant.put(f"/api/payment-methods/{ANY_ID}", method)
    assert [(each["field"], each["code"]) for each in answer.json()["errors"]] == [("colour", "UNKNOWN_FIELD")]
    own = (await merchant.get("/api/v1/merchant")).json()
    answer = await merchant.put("/api/v1/merchant", own | {"settings": own["settings"] | {"colour": "red"}})
    assert [each["field"] for each in answer.json()["errors"]] == ["settings.colour"]
    accepted = await merchant.put("/api/v1/merchant", own | {"settings": {"unknownFields": "WARN"}})
    assert (accepted.status_code, "warnings" in accepted.json()) == (200, False)
    assert (await merchant.create(body)).status_code == 201


@pytest.mark.parametrize(
    ("place", "name", "advice"),
    [
        ("", "capture", "captureMethod"),
        ("", "amount_to_capture", "POST …/capture"),
        ("", "Coupon", "left to pay"),
        ("", "application_fee", "the whole amount is the merchant's"),
        ("paymentMethod", "meses_sin_intereses", "paymentMethod.installments"),
        ("", "installments", "paymentMethod.installments"),
        ("customer", "rfc", "customerFiscalData"),
        ("", "taxId", "customerFiscalData"),
        ("lineItems[0]", "tax", "lineItems[].taxes"),
        ("", "quantity", "lineItems[].quantity"),
        ("", "price", "send amount in minor units"),
    ],
)
async def test_a_field_that_moves_money_in_other_apis_is_refused_with_what_to_send(
    store: Storefront, place: str, name: str, advice: str
):
    merchant = await store.register()
    body = paid_order(lineItems=[{"description": "Café", "quantity": 1, "unitPrice": 150000}])
    {"": body, "lineItems[0]": body["lineItems"][0]}.get(place, body.get(place))[name] = True
    answer = await merchant.create(body)
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["code"], error["field"]) == (
        400,
        "UNKNOWN_FIELD",
        f"{place}.{name}" if place else name,
    )
    assert advice in error["message"]
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 0


BODIES = {
    f"{method} {route.path}": operation.spec.takes
    for route in routes(Settings(), DependencyHolder())
    if isinstance(route.endpoint, Endpoint)
    for method, operation in route.endpoint.operations.items()
    if operation.spec.takes is not None
}
SENT = re.compile(r"(?<!is )\b(?:send|set) (?:in )?([\w.\[\]]+)")


def places(kind: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the structs of a body, each with its place."""
    for struct in structs_in(kind):
        yield place, struct
        for field in msgspec.structs.fields(struct):
            yield from places(field.type, f"{place}{field.encode_name}.")


@pytest.mark.parametrize("operation", BODIES)
def test_the_advice_on_a_foreign_field_names_fields_of_the_same_request(operation: str):
    body = BODIES[operation]
    paths = {f"{place}{field.encode_name}" for place, struct in places(body) for field in fields_of(struct)}
    for place, struct in places(body):
        known = [field.encode_name for field in fields_of(struct)]
        for name in ADVICE:
            found = UnknownNames(body)
            found.add(place, name, known, struct)
            advised = {
                each.replace("[]", "") for error in found.errors for each in SENT.findall(error.errors[0].message)
            }
            assert advised <= paths | set(known), (place, name, found.errors)


CHOOSING = (
    "documentId", "complement_id", "receiptId", "cfdiId", "paymentIds", "payment_id", "captureId", "transactionId",
    "refundId", "invoiceId", "cardId", "paymentMethodId", "refundAmount",
)  # fmt: skip
ACTING = [(method, path) for method, path in WITH_BODY if "{id}" in path and path.startswith((ORDERS, SUBSCRIPTIONS))]


@pytest.mark.parametrize(("method", "path"), ACTING)
async def test_a_choosing_name_widens_no_request(paid: tuple[Merchant, bytes], method: str, path: str):
    """Ignored, it would have the invoice cancelled in place of a receipt, and the newest payment captured."""
    merchant, before = paid
    schema = DESCRIBED["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    known = {spelling_of(name) for each in resolved(schema) for name in each["properties"]}
    if path.endswith(("/cfdi-cancel", "/cfdi-url")):
        known |= {spelling_of("complementId"), spelling_of("documentId")}  # two names of the same
    in_path = {spelling_of(step[1:-1]) for step in path.split("/") if step.startswith("{")}
    unknown = [name for name in CHOOSING if spelling_of(name) not in known | in_path]
    answer = await merchant.client.request(
        method,
        address(path, msgspec.json.decode(before)["id"]),
        content=msgspec.json.encode(dict.fromkeys(unknown)),
        headers=merchant.key | JSON,
    )
    refused = {each["field"] for each in answer.json()["errors"] if each["code"] == "UNKNOWN_FIELD"}
    assert (answer.status_code, refused) == (400, set(unknown)), answer.text
    assert (await merchant.get(f"{ORDERS}/{msgspec.json.decode(before)['id']}")).content == before


async def test_a_name_that_chooses_is_refused_with_the_one_to_send(paid: tuple[Merchant, bytes]):
    merchant, before = paid
    one = f"{ORDERS}/{msgspec.json.decode(before)['id']}"
    for path, name, problem in (
        (f"{one}/capture", "captureId", "is unknown: did you mean paymentId?"),
        (f"{one}/capture", "total", "is unknown: did you mean amount?"),
        (f"{one}/cfdi-url", "receiptId", "is unknown: did you mean complementId?"),
        (f"{one}/cfdi-cancel", "invoiceId", "is unknown: did you mean documentId?"),
        (f"{one}/cancel", "amount", "this operation has no such choice, so leave it out"),
        (f"{one}/release", "amount", "this operation has no such choice, so leave it out"),
        (f"{one}/refunds/{ANY_ID}/confirm", "amount", "this operation has no such choice, so leave it out"),
        (f"{SUBSCRIPTIONS}/{ANY_ID}/retry", "invoiceId", "this operation has no such choice, so leave it out"),
    ):
        answer = (await merchant.post(path, {name: ANY_ID})).json()
        assert answer["code"] == "UNKNOWN_FIELD"
        assert problem in answer["errors"][0]["message"]
    asked = (await merchant.get(f"{one}/cfdi-url?receiptId={ANY_ID}")).json()["errors"]
    assert asked[0]["message"] == "is unknown: did you mean complementId?"
    new = await merchant.create(order(externalId="own-id", transactionId="7", total=7))  # creates what it is about
    assert (new.status_code, [each["field"] for each in new.json()["warnings"]]) == (201, ["transactionId", "total"])


async def test_the_header_is_short_and_repeats_no_card_number(store: Storefront):
    merchant = await store.register()
    unknown = {"4242424242424242": 1, "línea\r\nx: y": 1, "z" * 9000: 1} | {f"unknown{n}": n for n in range(300)}
    created = await merchant.create(order() | unknown)
    assert created.status_code == 201
    names = created.headers[IGNORED].split(", ")
    assert names[:4] == ["...", "l%C3%ADnea%0D%0Ax%3A%20y", "z" * 77 + "...", "unknown0"]
    assert (len(names), names[-1]) == (21, "...")


async def test_all_misspelt_names_are_named_beside_the_other_wrong_fields(store: Storefront):
    merchant = await store.register()
    body = order(amount="x", capture_method="MANUAL", customer={"externalId": "ana", "e_mail": "x"}, pendign=True)
    answer = (await merchant.create(body)).json()
    found = [(each["field"], each["code"]) for each in answer["errors"]]
    assert found == [
        ("amount", "INVALID_TYPE"),
        ("customer.e_mail", "UNKNOWN_FIELD"),
        ("capture_method", "UNKNOWN_FIELD"),
        ("pendign", "UNKNOWN_FIELD"),
    ]
    alone = (await merchant.create(order(capture_method="MANUAL"))).json()
    assert alone["code"] == "UNKNOWN_FIELD"
    assert alone["message"] == "capture_method is unknown: did you mean captureMethod?"


async def test_what_was_read_can_be_sent_back(store: Storefront):
    merchant = await store.register(unknown_fields=UnknownFields.REJECT)
    await merchant.post("/api/customers", {"externalId": "ana", "metadata": {"a": 1}})
    await merchant.post(PLANS, PLAN)
    for path in ("/api/customers/ana", f"{PLANS}/{PLAN['externalId']}", "/api/v1/merchant"):
        read = (await merchant.get(path)).json()
        answer = await merchant.put(path, read)
        assert (answer.status_code, "warnings" in answer.json()) == (200, False), answer.text


async def test_a_product_keeps_other_names_but_not_another_spelling_of_its_own(store: Storefront):
    merchant = await store.register()
    products = [
        {"id": "1", "name": "Café", "price": 1, "tags": ["x"], "taxes": []},
        {"id": "2", "name": "Café", "price": 1, "tax_included": True},
        {"id": "3", "name": "Café", "price": 1, "taxes": [{"type": "IVA", "raet": 0.16}]},
    ]
    imported = (await merchant.post("/lps/products/bulk-import", {"products": products})).json()
    assert imported["imported"] == 1
    assert [(each["index"], each["field"], each["code"]) for each in imported["errors"]] == [
        (1, "tax_included", "UNKNOWN_FIELD"),
        (2, "taxes[0].raet", "UNKNOWN_FIELD"),
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("capture_method", "captureMethod"), ("CaptureMethod", "captureMethod"), ("capture-metod", "captureMethod"),
        ("captureMthd", "captureMethod"), ("cpatureMethdo", "captureMethod"), ("captMethod", None),
        ("CVC", "cvc"), ("cvv", None), ("typ", "type"), ("tp", None), ("typed", "type"), ("colour", None),
    ],
)  # fmt: skip
def test_a_known_name_is_meant_within_two_edits(name: str, meant: str | None):
    assert known_name(name, ["amount", "captureMethod", "cvc", "type"]) == meant
