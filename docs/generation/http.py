"""`http.md`: the routes, what may be sent and what is answered, generated from the routes and the structs.

A new field or parameter needs no change here, nor does a new route: its body and its answer come at the page's end.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from docs.generation.markdown import block, code, table
from docs.generation.markdown import page as markdown_page
from docs.generation.shapes import anchor, fields, needed, parts, title
from msgspec import Struct

from api.app import routes
from api.customers.fields import ChangeCustomer, CreateCustomer
from api.customers.list import PARAMETERS as CUSTOMER_PARAMETERS
from api.decoding.body_notes import FieldWarning
from api.http.dependencies import DependencyHolder
from api.http.endpoint import Endpoint
from api.merchant.create_key import CreateApiKey
from api.merchant.documents import RotatedApiKeyDocument
from api.merchant.rotate_key import RotateApiKey
from api.merchant.settings import ChangeMerchant, MerchantDocument
from api.operation import SANDBOX, OperationSpec
from api.orders.add_payment import AddPayment
from api.orders.authenticate import SubmitDeviceData, ValidatePayerAuthentication
from api.orders.cancel import CancelPaymentOrder
from api.orders.capture import CapturePaymentOrder
from api.orders.charge import ChargePaymentOrder
from api.orders.create import CreatePaymentOrder
from api.orders.list import PARAMETERS
from api.orders.refund import OrderWithRefund, RefundPaymentOrder
from api.products.bulk_import import ImportProducts, ProductImport
from api.products.list import PARAMETERS as PRODUCT_PARAMETERS
from api.subscriptions.fields import CancelSubscription, ChangeSubscription, CreateSubscription
from api.subscriptions.list import PARAMETERS as SUBSCRIPTION_PARAMETERS
from api.subscriptions.plans.fields import ChangePlan, CreatePlan
from api.subscriptions.plans.list import PARAMETERS as PLAN_PARAMETERS
from ledger.settings import Settings
from projections.customers import CustomerWithRelatedDocument
from projections.lists.paging import Pagination
from projections.orders.authentication import ValidationDocument
from projections.orders.documents import OrderDocument
from projections.orders.refunds import RefundDocument
from projections.products import ProductDocument
from projections.subscriptions.invoices import SubscriptionInvoiceDocument
from projections.subscriptions.plans import PlanDocument
from projections.subscriptions.subscriptions import SubscriptionDocument

_HEADERS: Mapping[str, str] = {
    "x-api-key": "The merchant's key. Required.",
    "x-merchant-id": "Optional; must be the key's merchant. A merchant may require it, but not of products.",
    "content-type": "`application/json`, with a body.",
    "idempotency-key": "Optional, with POST, PUT, PATCH and DELETE where [the description](openapi.json) has it: 1 to 255 printable characters. The same key and body again get the same answer.",
    "x-request-id": "Optional: your own id of the request, up to 64 letters, digits and `._:-`. It is returned and logged.",
}

_ACTIONS: Mapping[str, type[Struct]] = {
    "Add a payment to a split order": AddPayment,
    "Refund a payment order": RefundPaymentOrder,
    "Cancel a payment order": CancelPaymentOrder,
    "Capture an authorisation": CapturePaymentOrder,
    "Continue after the device data of the payer": SubmitDeviceData,
    "Continue after the payer's challenge": ValidatePayerAuthentication,
    "Create an API key": CreateApiKey,
    "Rotate an API key": RotateApiKey,
    "Change the merchant's settings": ChangeMerchant,
}

_BODIES: Final = (
    CreatePaymentOrder, ChargePaymentOrder, CreateCustomer, ChangeCustomer, ImportProducts, CreatePlan, ChangePlan,
    CreateSubscription, ChangeSubscription, CancelSubscription,
)  # fmt: skip
"""The bodies that a section of their own describes."""

_ANSWERS: Final = (
    OrderDocument, CustomerWithRelatedDocument, RefundDocument, OrderWithRefund, ValidationDocument, RotatedApiKeyDocument,
    MerchantDocument, ProductImport, ProductDocument, PlanDocument, SubscriptionDocument, SubscriptionInvoiceDocument,
)  # fmt: skip
"""The answers that a section of their own describes."""

_ANSWER_HEADERS: Mapping[str, str] = {
    "x-request-id": "The request's id. Quote it when you ask for help.",
    "ratelimit-limit, ratelimit-remaining, ratelimit-reset": "The tighter of the key's two limits, and in how many seconds it "
    "is full again.",
    "idempotent-replayed: true": "The request had been answered before, or the order existed; nothing changed.",
    "retry-after": "With 429 and 503: after how many seconds to send the request again.",
}

_INTRO = """
The address of the API is the service's address followed by `LEDGER_BASE_PATH`: `http://127.0.0.1:8000/api`. Health checks are
outside that path and need no key. Products have a path of their own, `LEDGER_LPS_BASE_PATH`. Bodies are JSON. Order amounts are JSON numbers in minor units (centavos, cents);
amounts of payments are decimal strings in the same unit. Times are `2026-01-31T12:00:00.000Z`.

A misspelt name in a body is 400 `UNKNOWN_FIELD`, and so is one that moves money in other payment APIs. Other unknown names
in it are ignored, and named in [`warnings`](#warnings) and in the header `Ledger-Ignored-Fields`; a product keeps them ([decision 0009](../decisions/0009-unknown-body-fields-ignored.md)). Any unknown parameter of a query is 400
`UNKNOWN_PARAMETER` ([decision 0054](../decisions/0054-unknown-parameters-are-refused.md)). `null` is the same as absent,
except in the details of a customer, of a product and of a plan, and in a change of an order or of a webhook endpoint, where it clears them. Errors are on [their own page](errors.md); [the contract](contract.md) gives the reasons.
"""

_LIST = '{ "data": [ … orders, with "payments": [] … ], "pagination": { … } }'
_CUSTOMERS = '{ "data": [ … customers … ], "pagination": { … } }'


def page() -> str:
    """Returns the page as it should be."""
    routes = [(method, code(path), _about_operation(doc)) for method, path, doc in _operations()]
    return markdown_page(
        "HTTP interface",
        _INTRO,
        table(("method", "path", "answers"), [*routes, *_around()]),
        "`{id}` is the service's id or your own external id, of a product your own id of it, percent-encoded. HEAD works wherever GET does.",
        "## Headers",
        table(("sent", "meaning"), [(code(name), words) for name, words in _HEADERS.items()]),
        table(("answered", "meaning"), [(code(name), words) for name, words in _ANSWER_HEADERS.items()]),
        "## Warnings",
        "The answer to a request with a body that was carried out may have `warnings`, a list of these, as its last member. It is "
        "absent if there are none. [The codes](errors.md#codes-of-warnings)",
        _answered(FieldWarning),
        "## Create a payment order: the body",
        *_body(CreatePaymentOrder),
        "## Charge a payment order: the body",
        *_body(ChargePaymentOrder, CreatePaymentOrder),
        *_actions(),
        "## Helpers of the sandbox",
        "Their bodies and answers are on [the sandbox's page](sandbox.md#helpers).",
        "## List payment orders: the query",
        table(("parameter", "meaning"), [(code(name), meaning) for name, (meaning, _) in PARAMETERS.items()]),
        block(_LIST, "text"),
        _answered(Pagination),
        '<a id="answered-order"></a>',
        "## A payment order, as it is answered",
        *_document(),
        "## Create or change a customer: the body",
        "A new customer needs `externalId` or `email`.",
        *_body(ChangeCustomer, CreatePaymentOrder),
        "## List customers: the query",
        table(("parameter", "meaning"), [(code(name), meaning) for name, (meaning, _) in CUSTOMER_PARAMETERS.items()]),
        block(_CUSTOMERS, "text"),
        "## A customer, as it is answered",
        "The answer of a write and each entry of the list are without the last two fields.",
        *_answered_whole(CustomerWithRelatedDocument, OrderDocument),
        "## The answer of a refund",
        "The order as above, and `refund`:",
        *_answered_whole(RefundDocument, OrderDocument),
        "## The answer of a validated payer",
        *_answered_whole(ValidationDocument, OrderDocument),
        "## An API key, as a rotation answers it",
        "`secret` is in the answers that issue a key only, `replaced` in that of a rotation only; `DELETE` adds "
        "`deleted: true`. `GET /v1/api-keys` lists keys as `data` and `pagination`.",
        *_answered_whole(RotatedApiKeyDocument),
        "## The merchant, as it is answered",
        *_answered_whole(MerchantDocument),
        "## Payments and refunds of an order, one by one",
        "A payment is answered as [above](#answered-payment), a refund as it is under [the answer of a refund]"
        '(#the-answer-of-a-refund). Lists of them are `{ "data": [ … ], "pagination": { … } }` on one page, the oldest first.',
        "## Import products: the body",
        *_body(ImportProducts, CreatePaymentOrder),
        "## The answer of an import",
        *_answered_whole(ProductImport),
        "## List products: the query",
        table(("parameter", "meaning"), [(code(name), meaning) for name, (meaning, _) in PRODUCT_PARAMETERS.items()]),
        'Answered as `{ "data": [ … products ], "pagination": { … } }`, as [the list of orders](#list-payment-orders-the-query).',
        "## A product, as it is answered",
        _answered(ProductDocument),
        "## Create or change a plan: the body",
        "A new plan needs `name`, `amount`, `currency` and `interval`.",
        *_body(ChangePlan, CreatePaymentOrder),
        "## List plans: the query",
        table(("parameter", "meaning"), [(code(name), meaning) for name, (meaning, _) in PLAN_PARAMETERS.items()]),
        'Answered as `{ "data": [ … plans ], "pagination": { … } }`, as [the list of orders](#list-payment-orders-the-query).',
        "## A plan, as it is answered",
        _answered(PlanDocument),
        "## Create a subscription: the body",
        *_body(CreateSubscription),
        "## Change a subscription: the body",
        *_body(ChangeSubscription),
        "## Cancel a subscription: the body",
        *_body(CancelSubscription),
        "## List subscriptions: the query",
        table(
            ("parameter", "meaning"), [(code(name), meaning) for name, (meaning, _) in SUBSCRIPTION_PARAMETERS.items()]
        ),
        'Answered as `{ "data": [ … subscriptions ], "pagination": { … } }`, as [the list of orders](#list-payment-orders-the-query).',
        "## A subscription, as it is answered",
        *_answered_whole(SubscriptionDocument),
        "## A subscription invoice, as it is answered",
        *_answered_whole(SubscriptionInvoiceDocument),
        *_further_bodies(),
        *_further_answers(),
    )


def _further_bodies() -> Iterator[str]:
    """Yields the bodies of the operations that no section above has, without the objects that were described before."""
    described = [*_BODIES, *_ACTIONS.values()]
    for spec in _specs():
        if spec.takes is not None and spec.takes not in described:
            yield from (f"## {spec.summary}: the body", _about(spec.takes), *_body(spec.takes, *described))
            described.append(spec.takes)


def _further_answers() -> Iterator[str]:
    """Yields the answers that no section above has, without pages and the objects that were described before."""
    described = [*_ANSWERS]
    yield "## Further answers"
    yield "A deletion answers `id` and `deleted`, which is true."
    for struct in dict.fromkeys(answer for spec in _specs() for _, answer in spec.answers.values()):
        names = set(struct.__struct_encode_fields__)
        known = {part for each in described for part in (each, *parts(each))}
        if names & {"data", "deleted"} or any(names <= set(each.__struct_encode_fields__) for each in known):
            continue
        yield from (f"### {title(struct)}, as it is answered", _about(struct), *_answered_whole(struct, *described))
        described.append(struct)


def _specs() -> list[OperationSpec]:
    """Returns what the description has of each operation outside the sandbox, whose page is another one."""
    found = [
        operation.spec
        for route in routes(Settings(), DependencyHolder())
        if isinstance(route.endpoint, Endpoint)
        for operation in route.endpoint.operations.values()
    ]
    return [spec for spec in found if spec.tag != SANDBOX]


def _actions() -> Iterator[str]:
    """Yields the bodies of the actions on an order, without the objects that were described before."""
    described: list[type[Struct]] = [CreatePaymentOrder, ChargePaymentOrder]
    for heading, struct in _ACTIONS.items():
        yield from (f"## {heading}: the body", _about(struct), *_body(struct, *described))
        described.append(struct)


def _operations() -> Iterator[tuple[str, str, str]]:
    for route in routes(Settings(), DependencyHolder()):
        if isinstance(route.endpoint, Endpoint):
            for method, operation in route.endpoint.operations.items():
                yield method, route.path_format, operation.handler.__doc__ or ""


def _about_operation(doc: str) -> str:
    _, _, words = doc.strip().partition(": ")
    return words


def _around() -> list[tuple[str, str, str]]:
    """Returns the routes outside the merchants' interface, which need no key or another one."""
    messages = f"{Settings().base_path}/processor-messages"
    page = "../how-to/connect-a-processor.md"
    return [
        ("POST", code(f"{messages}/{{processor}}"), f"202 once a [processor's signed message]({page}) is on disk"),
        (
            "POST",
            code(f"{messages}/{{merchantId}}/{{account}}"),
            f"200 once a [message of an account's processor]({page}#receive-the-messages-of-an-account) is on disk",
        ),
        ("GET", "`/health/live`", "200 while the process answers"),
        (
            "GET",
            "`/health/ready`",
            "200 when the database answers, the journal writes and reactions are not behind; else 503 with the check that fails",
        ),
        ("GET", "`/metrics`", "[metrics](metrics.md) of all processes, in Prometheus' text format"),
        ("GET", "`/openapi.json`", "this interface as OpenAPI 3.1"),
        ("GET", "`/docs`", "the same as a page for people"),
    ]


def _body(struct: type[Struct], *described: type[Struct]) -> Iterator[str]:
    """Yields a body and the objects in it, without those that the page has already."""
    yield _sent(struct)
    known = {part for each in described for part in parts(each)}
    for part in parts(struct):
        if part not in known:
            yield from (f'<a id="{anchor(part)}"></a>', f"### {title(part)}", _about(part), _sent(part))


def _document() -> Iterator[str]:
    yield _answered(OrderDocument)
    for part in parts(OrderDocument):
        yield from (f'<a id="answered-{anchor(part)}"></a>', f"### {title(part)}, as it is answered", _about(part))
        yield _answered(part)


def _answered_whole(struct: type[Struct], *described: type[Struct]) -> Iterator[str]:
    """Yields an answer and the objects in it, without those that the page has already."""
    yield _answered(struct)
    known = {part for each in described for part in parts(each)}
    for part in parts(struct):
        if part not in known:
            yield from (f'<a id="answered-{anchor(part)}"></a>', f"### {title(part)}, as it is answered", _about(part))
            yield _answered(part)


def _sent(struct: type[Struct]) -> str:
    rows = [(code(row.name), _or_absent(row.kind), needed(row)) for row in fields(struct)]
    return table(("field", "value", "meaning"), rows) if rows else "No field."


def _answered(struct: type[Struct]) -> str:
    rows = [(code(row.name), row.kind.replace("](#", "](#answered-"), row.meaning) for row in fields(struct)]
    return table(("field", "value", "meaning"), rows)


def _or_absent(kind: str) -> str:
    """Returns a kind without "or null": every field of a body may be null, which is the same as absent."""
    return kind.removesuffix(" or null")


def _about(struct: type[Struct]) -> str:
    return " ".join((struct.__doc__ or "").split())
