"""The published description is complete and valid, and agrees with the routes, the error codes and the answers."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from docs.generate import REFERENCE
from docs.generation.errors import known_codes
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.api.bodies import NOW, by_card, card, charge, line, order, paid_order
from tests.api.openapi.description import DESCRIBED, assert_described, operations, response_of
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import DECLINED_WHEN_SAVED, PLANS, SUBSCRIPTIONS, planned, saved

import api
from api.app import describe_interface, routes
from api.decoding.field_errors import FieldErrors
from api.description import as_json
from api.http.dependencies import DependencyHolder
from api.http.endpoint import Endpoint, ScopedOperation
from api.operation import OperationSpec
from api.orders import charge as charge_endpoint
from api.orders import create
from api.orders import list as list_orders
from api.pages.payer_return import PayerReturnPage
from api.pages.self_invoice import SelfInvoicePage
from api.products import bulk_import
from api.response import ERRORS_PAGE
from api.sandbox.payer_pages import PayerPage
from api.subscriptions.cancel import CANCEL_SUBSCRIPTION
from api.subscriptions.create import CREATE_SUBSCRIPTION
from api.subscriptions.plans.change import CHANGE_PLAN
from api.subscriptions.plans.create import CREATE_PLAN
from api.system import events_page
from api.system.account_messages import AccountMessages
from api.system.docs_page import ASSET, DESCRIPTION, PAGE
from api.system.file_links import FileLinks
from api.system.health import PROBES
from api.system.metrics import METRICS
from api.system.processor_messages import ProcessorMessages
from ledger.settings import Settings

SEEDS = Path(__file__).parents[3] / "seeds"
ONE = f"{ORDERS}/{{id}}"


def specs() -> list[OperationSpec]:
    """Returns every description that a module of the interface defines, routed or not."""
    found: dict[int, OperationSpec] = {}
    for module in pkgutil.walk_packages(api.__path__, "api."):
        for value in vars(importlib.import_module(module.name)).values():
            for each in value.values() if isinstance(value, Mapping) else [value]:
                spec = each.spec if isinstance(each, ScopedOperation) else each
                if isinstance(spec, OperationSpec):
                    found[id(spec)] = spec
    return list(found.values())


@pytest.mark.long  # takes as long as a hundred other tests
def test_the_description_is_openapi_3_1():
    assert DESCRIBED["openapi"] == "3.1.0"
    assert list(OpenAPIV31SpecValidator(DESCRIBED).iter_errors()) == []


def test_the_committed_description_is_not_stale():
    committed = (REFERENCE / "openapi.json").read_text(encoding="utf-8")
    assert committed == as_json(describe_interface(Settings())), "run `make docs`"


def test_generators_of_clients_find_what_they_accept():
    assert [name for name, link in DESCRIBED["components"]["links"].items() if "requestBody" in link] == []
    assert '"enum": [true]' not in json.dumps(DESCRIBED)
    tags = {tag["name"] for tag in DESCRIBED["tags"]}
    assert {tag for found in operations().values() for tag in found["tags"]} <= tags
    for found in operations().values():
        for status, response in found["responses"].items():
            if status >= "400" and found["operationId"] != "isReady":
                assert response.keys() == {"$ref"}, (
                    f"{found['operationId']} {status} is not one of components.responses"
                )


def test_other_names_of_a_field_are_left_out_and_what_has_to_be_sent_is_required():
    schemas = DESCRIBED["components"]["schemas"]
    texts = [one.get("description", "") for schema in schemas.values() for one in schema.get("properties", {}).values()]
    texts += [one.get("description", "") for found in operations().values() for one in found["parameters"]]
    assert [text for text in texts if text.startswith(("Alias of ", "Required. "))] == []
    created = schemas["CreatePaymentOrder"]
    assert created["required"] == ["amount", "currency", "externalId", "customer"]
    assert created["properties"]["customer"]["$ref"] == "#/components/schemas/Customer"
    assert "externalMerchantReference" not in created["properties"]
    assert schemas["PaymentMethod"]["properties"].keys() == {
        "type",
        "cardDetails",
        "cardTokens",
        "persist",
        "installments",
        "paymentMethodId",
        "cvc",
    }
    assert schemas["ProductToImport"]["additionalProperties"] is True


def test_every_route_is_described_and_every_description_is_routed():
    routed = set()
    for route in routes(Settings(), DependencyHolder()):
        if isinstance(route.endpoint, Endpoint):
            routed |= {(method.lower(), route.path_format) for method in route.endpoint.operations}
        elif isinstance(route.endpoint, ProcessorMessages | AccountMessages):
            routed.add(("post", route.path))
        elif route.path not in {"/", DESCRIPTION, PAGE, ASSET, ERRORS_PAGE, events_page.PATH} and not isinstance(
            route.endpoint, PayerPage | FileLinks | PayerReturnPage | SelfInvoicePage
        ):
            routed.add(("get", route.path))
    assert routed == operations().keys()
    names = [found["operationId"] for found in operations().values()]
    assert sorted(names) == sorted(spec.name for spec in specs()), "an operation is described twice or never routed"


def test_everything_says_what_it_means():
    silent = [
        f"{name}.{field}"
        for name, schema in DESCRIBED["components"]["schemas"].items()
        for field, found in schema.get("properties", {}).items()
        if "description" not in found and "$ref" not in found
    ]
    assert silent == []
    assert [name for name, schema in DESCRIBED["components"]["schemas"].items() if "description" not in schema] == []
    for found in operations().values():
        assert found["summary"]
        assert found["description"]
        assert all("$ref" in parameter or parameter["description"] for parameter in found["parameters"])


def test_the_list_is_described_with_the_parameters_that_it_reads(monkeypatch: pytest.MonkeyPatch):
    read = set()

    class Given(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            read.add(name)
            return default

        def __contains__(self, name: object) -> bool:
            read.add(name)
            return False

    monkeypatch.setattr(list_orders, "_parameters", lambda _: (Given(), FieldErrors({})))
    list_orders.parse_order_query(b"", NOW)
    assert read == list_orders.PARAMETERS.keys()


def test_every_code_that_can_be_answered_is_described_with_its_status():
    described = {(code, status) for found in specs() for status in found.codes for code in found.codes[status]}
    answered = {(code, status) for code, statuses in known_codes().items() for status in statuses}
    elsewhere = {
        ("BAD_REQUEST", 400),  # an invalid HTTP request reaches no operation
        ("FILE_MISSING", 503),  # a signed link to a file is no operation
        ("METHOD_NOT_ALLOWED", 405),  # described once for all operations, at the top
    }
    assert answered - described == elsewhere
    assert described <= answered


def test_the_example_of_a_new_order_is_the_first_order_of_the_tutorial():
    first = json.loads((SEEDS / "first_order.json").read_text(encoding="utf-8"))
    assert create.EXAMPLES["paidByCard"]["value"] == first


@pytest.mark.anyio
async def test_the_examples_work(merchant: Merchant):
    leads_to = {
        "paidByCard": "COMPLETED",
        "spei": "REFERENCE_GENERATED",
        "cash": "REFERENCE_GENERATED",
        "threeDSecure": "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED",
        "split": "PENDING",
    }
    assert create.EXAMPLES.keys() == leads_to.keys()
    for name, example in create.EXAMPLES.items():
        created = await merchant.create(example["value"])
        assert_described(created, "post", ORDERS)
        assert created.json()["status"] == leads_to[name]
    for number, example in enumerate(charge_endpoint.CHARGE.spec.examples.values()):
        waiting = await merchant.create(order(externalId=f"charged-{number}", allowPartials=True))
        charged = await merchant.post(f"{ORDERS}/{waiting.json()['id']}/charge", example["value"])
        assert charged.status_code == 200
        assert_described(charged, "post", f"{ONE}/charge")


@pytest.mark.anyio
async def test_the_example_of_an_import_works_and_products_are_answered_as_described(merchant: Merchant):
    products = Settings().lps_base_path + "/products"
    for example in bulk_import.EXAMPLES.values():
        done = await merchant.post(f"{products}/bulk-import", example["value"])
        assert done.json()["failed"] == 0
        assert_described(done, "post", f"{products}/bulk-import")
    failed = await merchant.post(f"{products}/bulk-import", {"products": [1, {"id": "a"}]})
    assert_described(failed, "post", f"{products}/bulk-import")
    assert_described(await merchant.post(f"{products}/bulk-import", {}), "post", f"{products}/bulk-import")
    assert_described(await merchant.get(products), "get", products)
    for product_id in ("cafe-coatepec-1kg", "molino-manual", "nothing"):
        assert_described(await merchant.get(f"{products}/{product_id}"), "get", f"{products}/{{id}}")


@pytest.mark.anyio
async def test_the_examples_of_plans_work_and_plans_are_answered_as_described(merchant: Merchant):
    for example in CREATE_PLAN.spec.examples.values():
        created = await merchant.post(PLANS, example["value"])
        assert created.status_code == 201
        assert_described(created, "post", PLANS)
    one, plan = f"{PLANS}/{{id}}", f"{PLANS}/cafe-del-mes"
    for example in CHANGE_PLAN.spec.examples.values():
        changed = await merchant.put(plan, example["value"])
        assert changed.status_code == 200
        assert_described(changed, "put", one)
    assert_described(await merchant.post(PLANS, {}), "post", PLANS)
    assert_described(await merchant.get(f"{PLANS}?limit=1"), "get", PLANS)
    assert_described(await merchant.get(plan), "get", one)
    assert_described(await merchant.delete(plan), "delete", one)
    assert_described(await merchant.delete(f"{PLANS}/nothing"), "delete", one)


@pytest.mark.anyio
async def test_subscriptions_are_answered_as_described(merchant: Merchant):
    one, plan = f"{SUBSCRIPTIONS}/{{id}}", (await planned(merchant))["id"]
    card_id, declined = [await saved(merchant, "ana", number) for number in ("4242424242424242", DECLINED_WHEN_SAVED)]
    for example in CREATE_SUBSCRIPTION.spec.examples.values():
        own = {"customerId": "ana", "planId": plan, "paymentMethodId": card_id, "externalId": str(len(example))}
        created = await merchant.post(SUBSCRIPTIONS, example["value"] | own)
        assert_described(created, "post", SUBSCRIPTIONS)
    created = await merchant.post(SUBSCRIPTIONS, own | {"externalId": "own"})
    assert created.status_code == 201
    assert_described(created, "post", SUBSCRIPTIONS)
    refused = await merchant.post(SUBSCRIPTIONS, own | {"externalId": "declined", "paymentMethodId": declined})
    assert refused.status_code == 422
    assert_described(refused, "post", SUBSCRIPTIONS)
    assert_described(await merchant.post(SUBSCRIPTIONS, {}), "post", SUBSCRIPTIONS)
    assert_described(await merchant.get(SUBSCRIPTIONS), "get", SUBSCRIPTIONS)
    path = f"{SUBSCRIPTIONS}/own"
    assert_described(await merchant.get(path), "get", one)
    assert_described(await merchant.put(path, {"metadata": {}}), "put", one)
    invoices = await merchant.get(f"{path}/invoices")
    assert_described(invoices, "get", f"{one}/invoices")
    for invoice_id in (invoices.json()["data"][0]["id"], "nothing"):
        address = "/api/v1/subscription-invoices"
        assert_described(await merchant.get(f"{address}/{invoice_id}"), "get", f"{address}/{{id}}")
    for action in ("retry", "cancel", "resume", "retry"):
        assert_described(await merchant.post(f"{path}/{action}", {}), "post", f"{one}/{action}")
    for example in CANCEL_SUBSCRIPTION.spec.examples.values():
        assert_described(await merchant.post(f"{path}/cancel", example["value"]), "post", f"{one}/cancel")
    assert_described(await merchant.put(path, {"metadata": {}}), "put", one)


def test_the_examples_of_answers_are_as_they_are_described():
    for (method, path), found in operations().items():
        for status in found["responses"]:
            for content in response_of(method, path, status)["content"].values():
                validator = Draft202012Validator({**content["schema"], "components": DESCRIBED["components"]})
                for example in content.get("examples", {}).values():
                    validator.validate(example["value"])


FISCAL = {"taxId": "XAXX010101000", "legalName": "Ana", "address": {"street": "Reforma"}}
TAXED = line(
    taxes=[{"type": "IVA", "rate": 0.16}, {"type": "IEPS", "factor": "Exento"}], discount=1.5, metadata={"a": 1}
)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (201, paid_order()),
        (201, order(metadata={"a": [1, None]}, dueDate="2026-01-31T12:00:00Z", customerFiscalData=FISCAL)),
        (201, order(lineItems=[TAXED])),
        (201, order(amount=0.0001)),
        (422, paid_order(paymentMethod=by_card(cardDetails=card(number="4000000000000002")))),
        (422, paid_order(paymentMethod=by_card(cardDetails=card(number="4100000000000019")))),
        (201, paid_order(paymentMethod=by_card(persist=True))),
        (201, paid_order(paymentMethod={"type": "spei"})),
        (201, paid_order(paymentMethod={"type": "paycash"})),
        (201, paid_order(paymentMethod={"type": "cie_cash_net"})),
        (201, paid_order(paymentMethod=by_card(cardDetails=card(number="4000000000003220")))),
        (201, paid_order(paymentMethod=by_card(cardDetails=card(number="4000000000007007")))),
        (404, order(customer={"id": "nobody"})),
        (400, {}),
    ],
)
async def test_what_is_answered_is_what_is_described(merchant: Merchant, status: int, body: Any):
    answer = await merchant.create(body)
    assert answer.status_code == status
    assert_described(answer, "post", ORDERS)
    if "id" in answer.json():
        assert_described(await merchant.get(f"{ORDERS}/{answer.json()['id']}"), "get", ONE)
    assert_described(await merchant.get(ORDERS), "get", ORDERS)


@pytest.mark.anyio
async def test_conflicts_are_described(merchant: Merchant):
    paid = (await merchant.create(paid_order())).json()
    conflict = await merchant.create(paid_order(amount=1))
    assert conflict.status_code == 409
    assert_described(conflict, "post", ORDERS)
    for body in (charge(), charge(amount=5)):
        assert_described(await merchant.post(f"{ORDERS}/{paid['id']}/charge", body), "post", f"{ONE}/charge")
    split = (await merchant.create(order(externalId="split", allowPartials=True))).json()
    over = await merchant.post(f"{ORDERS}/{split['id']}/charge", charge(amount=150001))
    assert over.status_code == 422
    assert_described(over, "post", f"{ONE}/charge")


@pytest.mark.anyio
async def test_a_replay_and_a_full_rate_are_described(store: Storefront):
    hasty = await store.register(requests_per_minute=2, requests_per_second=0)
    answers = [await hasty.create(order()) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 200, 429]
    assert answers[1].headers["idempotent-replayed"] == "true"
    for answer in answers:
        assert {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"} <= answer.headers.keys()
        assert_described(answer, "post", ORDERS)


@pytest.mark.anyio
async def test_the_service_serves_its_description(store: Storefront):
    answer = await store.client.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == DESCRIBED
    again = await store.client.get("/openapi.json", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in PROBES.keys() - {METRICS}:
        assert_described(await store.client.get(path), "get", path)
    figures = await store.client.get(METRICS)
    assert figures.status_code in (200, 404)
    described = response_of("get", METRICS, figures.status_code)["content"]
    assert figures.headers["content-type"].partition(";")[0] in described


def test_everything_that_changes_something_takes_an_idempotency_key() -> None:
    without = {
        f"{method} {path}"
        for path, methods in DESCRIBED["paths"].items()
        for method, operation in methods.items()
        if method in {"post", "put", "patch", "delete"}
        and not any("Idempotency" in str(parameter) for parameter in operation.get("parameters", ()))
    }
    assert without == {
        "post /api/processor-messages/{processor}",  # messages have ids of their own
        "post /api/processor-messages/{merchantId}/{account}",
        "post /api/v2/payment-orders/{id}/cfdi-url",  # changes nothing
        "post /api/v1/subscriptions/{id}/preview",  # changes nothing
        "post /api/v1/invoices/global",  # states no order twice, however often it is sent
        "put /api/v1/processor-accounts/{name}",  # changes nothing when it is sent again
        "delete /api/v1/processor-accounts/{name}",
        "post /api/v1/processor-accounts/{name}/check",  # changes nothing
        "post /api/v1/webhook-endpoints/{id}/test",  # posts a sample each time
        "post /api/v1/webhook-endpoints/{id}/replay",  # refused while what was asked for first is under way
        "post /api/v1/audits",  # refused while what was asked for first is under way
        "post /api/v1/events/{id}/redeliver",  # changes nothing while it waits
        "post /api/v1/invoices/global/{id}/cancel",  # a document is cancelled once
        "put /api/v1/merchant/fiscal-issuer",  # changes nothing when it is sent again
        "put /api/v1/merchant/fiscal-issuer/logo",
        "delete /api/v1/merchant/fiscal-issuer/logo",
    }
