"""For every operation and every id that it takes, whose id it is: the one table of the test of isolation.

A new operation, and a new field or parameter with the name of an id, fails the test until it is entered here: under its
method and path, each place with the kind of object that it names (`KINDS` in `objects.py`), or with `NOTHING` and why.
A place is `path.id`, `query.customerId`, `body.customer.id`, `body.paymentIds[]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tests.api.bodies import by_card, charge, order
from tests.api.isolation.objects import CUSTOMERS, PLANS, PRODUCTS, SUBSCRIPTIONS
from tests.invoicing.documents import LOGO_BASE64, issuer_body
from uuid_utils.compat import uuid7


class NOTHING(NamedTuple):
    """The place has the name of an id and names no object of a merchant."""

    why: str


class Case(NamedTuple):
    """The places of an operation with the kinds of objects that they name.

    `body` is a valid request; without one, the first example of the operation's description. `own` has the kind of the
    sender's own object in the path, where that is another than the place's kind.
    """

    places: Mapping[str, str | NOTHING] = {}
    body: Any = None
    own: Mapping[str, str] = {}


_ORDERS: Final = "/api/v2/payment-orders"
_ORDER: Final = {"path.id": "order"}
_CUSTOMER: Final = f"{CUSTOMERS}/{{id}}"
_METHODS: Final = f"{CUSTOMERS}/{{customerId}}/payment-methods"
_METHOD: Final = "/api/payment-methods/{id}"
_SUBSCRIPTION: Final = f"{SUBSCRIPTIONS}/{{id}}"
_ACCOUNTS: Final = "/api/v1/processor-accounts"
_ENDPOINTS: Final = "/api/v1/webhook-endpoints"
_TAX_ID: Final = NOTHING("the tax authority's number of a person")
_PAYMENT: Final = {
    "body.externalId": "payment",
    "body.externalMerchantReference": "payment",
    "body.paymentMethod.paymentMethodId": "method",
}

CASES: Final[Mapping[tuple[str, str], Case]] = {
    ("GET", _ORDERS): Case(
        {
            "query.customerId": "customer",
            "query.externalId": "order",
            "query.search": "search",
            "query.cursor": NOTHING("a position in the list, see the test of cursors"),
        }
    ),
    ("POST", _ORDERS): Case(
        {
            "body.externalId": "order",
            "body.externalMerchantReference": "order",
            "body.customer.id": "customer",
            "body.customer.customerId": "customer",
            "body.customer.externalId": "customer",
            "body.customerId": "customer",
            "body.paymentMethod.paymentMethodId": "method",
            "body.lineItems[].productId": "product",
            "body.items[].productId": "product",
            "body.customerFiscalData.taxId": _TAX_ID,
            "body.fiscalData.taxId": _TAX_ID,
            "body.fiscalConfig.taxId": _TAX_ID,
        },
        body=order(externalId="new-order", customer={"email": "ana@example.com"}),
    ),
    ("GET", f"{_ORDERS}/{{id}}"): Case(_ORDER),
    ("GET", f"{_ORDERS}/{{id}}/events"): Case(_ORDER),
    ("GET", f"{_ORDERS}/{{id}}/explain"): Case(_ORDER),
    ("GET", f"{_CUSTOMER}/events"): Case({"path.id": "customer"}),
    ("GET", f"{_SUBSCRIPTION}/events"): Case({"path.id": "subscription"}),
    ("PATCH", f"{_ORDERS}/{{id}}"): Case(
        _ORDER
        | {
            "body.lineItems[].productId": "product",
            "body.items[].productId": "product",
            "body.customerFiscalData.taxId": _TAX_ID,
            "body.fiscalData.taxId": _TAX_ID,
            "body.fiscalConfig.taxId": _TAX_ID,
        },
        body={"description": "Otra"},
    ),
    ("POST", f"{_ORDERS}/{{id}}/charge"): Case(_ORDER | _PAYMENT, body=charge(amount=100)),
    ("GET", f"{_ORDERS}/{{id}}/payments"): Case(
        _ORDER | {"query.cursor": NOTHING("a position in the list of this order")}
    ),
    ("POST", f"{_ORDERS}/{{id}}/payments"): Case(
        _ORDER | _PAYMENT, body=charge(amount=100, paymentMethod=by_card(), externalId="new-part")
    ),
    ("GET", f"{_ORDERS}/{{id}}/payments/{{paymentId}}"): Case(_ORDER | {"path.paymentId": "payment"}),
    ("POST", f"{_ORDERS}/{{id}}/refund"): Case(
        _ORDER
        | {
            "body.externalId": "refund",
            "body.externalMerchantReference": "refund",
            "body.paymentId": "payment id",
            "body.allocations[].paymentId": "payment id",
            "body.destination.clabe": NOTHING("a payer's bank account"),
        },
        body={"amount": 100},
    ),
    ("GET", f"{_ORDERS}/{{id}}/refunds"): Case(
        _ORDER | {"query.cursor": NOTHING("a position in the list of this order")}
    ),
    ("GET", f"{_ORDERS}/{{id}}/refunds/{{refundId}}"): Case(_ORDER | {"path.refundId": "refund"}),
    ("POST", f"{_ORDERS}/{{id}}/refunds/{{refundId}}/confirm"): Case(
        _ORDER | {"path.refundId": "refund", "body.reference": NOTHING("the merchant's own name of a payment")}, body={}
    ),
    ("PUT", f"{_ORDERS}/{{id}}/refunds/{{refundId}}/destination"): Case(
        _ORDER | {"path.refundId": "refund", "body.clabe": NOTHING("a payer's bank account")},
        body={"clabe": "032180000118359719"},
    ),
    ("POST", f"{_ORDERS}/{{id}}/cancel"): Case(_ORDER | {"body.paymentId": "payment id"}, body={}),
    ("POST", f"{_ORDERS}/{{id}}/capture"): Case(_ORDER | {"body.paymentId": "payment id"}, body={}),
    ("POST", f"{_ORDERS}/{{id}}/release"): Case(_ORDER | {"body.paymentId": "payment id"}, body={}),
    ("POST", f"{_ORDERS}/{{id}}/stamp"): Case(
        _ORDER
        | {
            "body.complementIds[]": "document",
            "body.fiscalConfig.taxId": _TAX_ID,
            "body.customerFiscalData.taxId": _TAX_ID,
            "body.fiscalData.taxId": _TAX_ID,
        },
        body={},
        own={"path.id": "document's order"},
    ),
    ("GET", f"{_ORDERS}/{{id}}/cfdi-url"): Case(
        _ORDER | {"query.complementId": "document", "query.documentId": "document"}, own={"path.id": "document's order"}
    ),
    ("GET", f"{_ORDERS}/{{id}}/self-invoice-url"): Case(_ORDER),
    ("POST", f"{_ORDERS}/{{id}}/cfdi-url"): Case(
        _ORDER | {"body.complementId": "document", "body.documentId": "document"},
        body={},
        own={"path.id": "document's order"},
    ),
    ("POST", f"{_ORDERS}/{{id}}/cfdi-cancel"): Case(
        _ORDER | {"body.documentId": "document", "body.complementId": "document"},
        body={"motive": "02"},
        own={"path.id": "document's order"},
    ),
    ("POST", f"{_ORDERS}/{{id}}/payer-authentication/device-data"): Case(
        _ORDER | {"body.referenceId": "device session"}, body={}, own={"path.id": "device session's order"}
    ),
    ("POST", f"{_ORDERS}/{{id}}/payer-authentication/validate"): Case(
        _ORDER | {"body.authenticationTransactionId": "session"},
        body={"authenticationTransactionId": "x"},
        own={"path.id": "session's order"},
    ),
    ("GET", CUSTOMERS): Case(
        {
            "query.externalId": "customer",
            "query.search": "search",
            "query.cursor": NOTHING("a position in the list, see the test of cursors"),
        }
    ),
    ("POST", CUSTOMERS): Case(
        {"body.externalId": "customer", "body.sourceId": "customer", "body.fiscalData.taxId": _TAX_ID},
        body={"externalId": "new-customer", "firstName": "Ana"},
    ),
    ("GET", _CUSTOMER): Case({"path.id": "customer"}),
    ("PUT", _CUSTOMER): Case(
        {
            "path.id": "customer",
            "body.externalId": "customer",
            "body.sourceId": "customer",
            "body.fiscalData.taxId": _TAX_ID,
        },
        body={"firstName": "Ana"},
    ),
    ("DELETE", _CUSTOMER): Case({"path.id": "erasable customer"}),
    ("GET", _METHODS): Case(
        {"path.customerId": "customer", "query.cursor": NOTHING("a position in the list of this customer")}
    ),
    ("POST", _METHODS): Case(
        {
            "path.customerId": "customer",
            "body.paymentMethod.paymentMethodId": NOTHING("a card is sent with its number, so it names none"),
        },
        body={"paymentMethod": by_card()},
    ),
    ("POST", f"{_METHOD}/payer-authentication/device-data"): Case(
        {"path.id": "card device session's method", "body.referenceId": "card device session"}, body={}
    ),
    ("POST", f"{_METHOD}/payer-authentication/validate"): Case(
        {"path.id": "card session's method", "body.authenticationTransactionId": "card session"},
        body={"authenticationTransactionId": "x"},
    ),
    ("DELETE", f"{_METHODS}/{{paymentMethodId}}"): Case(
        {"path.customerId": "customer", "path.paymentMethodId": "method"}
    ),
    ("GET", _METHOD): Case({"path.id": "method"}),
    ("PUT", _METHOD): Case({"path.id": "method"}, body={"billingCity": "Puebla"}),
    ("GET", "/api/v1/api-keys"): Case({"query.cursor": NOTHING("a position in the merchant's own list")}),
    ("POST", "/api/v1/api-keys"): Case(body={"name": "new"}),
    ("GET", "/api/v1/api-keys/{id}"): Case({"path.id": "api key"}),
    ("DELETE", "/api/v1/api-keys/{id}"): Case({"path.id": "api key"}),
    ("POST", "/api/v1/api-keys/{id}/rotate"): Case({"path.id": "api key"}, body={"overlapSeconds": 3600}),
    ("GET", "/api/v1/merchant"): Case(),
    ("PUT", "/api/v1/merchant"): Case(body={"settings": {"captureDelaySeconds": 5}}),
    ("GET", "/api/v1/merchant/fiscal-issuer"): Case(),
    ("PUT", "/api/v1/merchant/fiscal-issuer"): Case(body=issuer_body()),
    ("GET", "/api/v1/merchant/fiscal-issuer/logo"): Case(),
    ("PUT", "/api/v1/merchant/fiscal-issuer/logo"): Case(body={"image": LOGO_BASE64}),
    ("DELETE", "/api/v1/merchant/fiscal-issuer/logo"): Case(),
    ("GET", "/api/v1/invoices/month-end"): Case(),
    ("GET", "/api/v1/meta"): Case(),
    ("GET", PRODUCTS): Case(
        {"query.search": "search", "query.cursor": NOTHING("a position in the list, see the test of cursors")}
    ),
    ("GET", f"{PRODUCTS}/{{id}}"): Case({"path.id": "product"}),
    ("POST", f"{PRODUCTS}/bulk-import"): Case(
        {
            "body.products[].id": "product",
            "body.products[].externalId": NOTHING("a text of the product, by which none is found"),
        },
        body={"products": [{"id": "new-product", "name": "New", "price": 100}]},
    ),
    ("GET", PLANS): Case({"query.cursor": NOTHING("a position in the list, see the test of cursors")}),
    ("POST", PLANS): Case(
        {"body.externalId": "plan"}, body={"name": "Plan", "amount": "100", "currency": "MXN", "interval": "MONTH"}
    ),
    ("GET", f"{PLANS}/{{id}}"): Case({"path.id": "plan"}),
    ("PUT", f"{PLANS}/{{id}}"): Case({"path.id": "plan", "body.externalId": "plan"}, body={"name": "Other"}),
    ("DELETE", f"{PLANS}/{{id}}"): Case({"path.id": "plan"}),
    ("GET", SUBSCRIPTIONS): Case(
        {
            "query.customerId": "customer",
            "query.planId": "plan",
            "query.cursor": NOTHING("a position in the list, see the test of cursors"),
        }
    ),
    ("POST", SUBSCRIPTIONS): Case(
        {
            "body.customerId": "customer",
            "body.planId": "plan",
            "body.paymentMethodId": "method",
            "body.externalId": "subscription",
        },
        body={"customerId": "mine-customer", "planId": "mine-plan", "paymentMethodId": str(uuid7())},
    ),
    ("GET", _SUBSCRIPTION): Case({"path.id": "subscription"}),
    ("PUT", _SUBSCRIPTION): Case(
        {"path.id": "subscription", "body.planId": "plan", "body.paymentMethodId": "method"},
        body={"metadata": {"a": 1}},
    ),
    ("POST", f"{_SUBSCRIPTION}/cancel"): Case({"path.id": "subscription"}, body={}),
    ("POST", f"{_SUBSCRIPTION}/resume"): Case({"path.id": "subscription"}),
    ("POST", f"{_SUBSCRIPTION}/retry"): Case({"path.id": "subscription"}),
    ("POST", f"{_SUBSCRIPTION}/preview"): Case({"path.id": "subscription"}),
    ("GET", f"{_SUBSCRIPTION}/invoices"): Case(
        {"path.id": "subscription", "query.cursor": NOTHING("a position in the list of this subscription")}
    ),
    ("GET", "/api/v1/subscription-invoices/{id}"): Case({"path.id": "subscription invoice"}),
    ("GET", "/api/v1/invoices/global"): Case(
        {"query.cursor": NOTHING("a position in the list, see the test of cursors")}
    ),
    ("POST", "/api/v1/invoices/global"): Case(body={"month": "2026-01"}),
    ("GET", "/api/v1/invoices/global/{id}"): Case({"path.id": "global invoice"}),
    ("GET", "/api/v1/summary"): Case(),
    ("GET", "/api/v1/events"): Case({"query.paymentOrderId": "order", "query.subscriptionId": "subscription"}),
    ("GET", "/api/v1/events/{id}"): Case({"path.id": "event"}),
    ("GET", _ENDPOINTS): Case({"query.cursor": NOTHING("a position in the merchant's own list")}),
    ("POST", _ENDPOINTS): Case(body={"url": "http://127.0.0.1:9/new"}),
    ("GET", f"{_ENDPOINTS}/{{id}}"): Case({"path.id": "webhook endpoint"}),
    ("PUT", f"{_ENDPOINTS}/{{id}}"): Case({"path.id": "webhook endpoint"}, body={"description": "Other"}),
    ("DELETE", f"{_ENDPOINTS}/{{id}}"): Case({"path.id": "webhook endpoint"}),
    ("POST", f"{_ENDPOINTS}/{{id}}/test"): Case({"path.id": "webhook endpoint"}),
    ("POST", f"{_ENDPOINTS}/{{id}}/rotate-secret"): Case({"path.id": "webhook endpoint"}),
    ("POST", f"{_ENDPOINTS}/{{id}}/replay"): Case({"path.id": "webhook endpoint"}, body={"fromSequence": 1}),
    ("GET", f"{_ENDPOINTS}/{{id}}/deliveries"): Case(
        {
            "path.id": "webhook endpoint",
            "query.paymentOrderId": "order",
            "query.cursor": NOTHING("a delivery behind which the page begins: none of it is shown"),
        }
    ),
    ("GET", "/api/v1/audits"): Case({"query.cursor": NOTHING("a position in the list, see the test of cursors")}),
    ("POST", "/api/v1/audits"): Case(),
    ("GET", "/api/v1/audits/{id}"): Case({"path.id": "audit"}),
    ("GET", "/api/v1/log/key"): Case(),
    ("GET", "/api/v1/log/checkpoint"): Case(),
    ("GET", "/api/v1/log/tile/{tile}"): Case(),
    ("GET", "/api/v1/log/entries/{position}/proof"): Case(),
    ("GET", "/api/v1/log/consistency"): Case(),
    ("POST", "/api/v1/events/{id}/redeliver"): Case({"path.id": "event", "body.endpointId": "webhook endpoint"}),
    ("GET", _ACCOUNTS): Case(),
    ("GET", f"{_ACCOUNTS}/{{name}}"): Case({"path.name": "processor account"}),
    ("PUT", f"{_ACCOUNTS}/{{name}}"): Case({"path.name": "processor account"}, body={"processor": "sandbox"}),
    ("DELETE", f"{_ACCOUNTS}/{{name}}"): Case({"path.name": "processor account"}),
    ("POST", f"{_ACCOUNTS}/{{name}}/check"): Case({"path.name": "processor account"}),
    ("POST", "/api/v1/invoices/global/{id}/cancel"): Case({"path.id": "global invoice"}, body={"motive": "02"}),
    ("GET", "/api/sandbox/clock"): Case(),
    ("POST", "/api/sandbox/clock"): Case(body={"advanceBy": "PT0S"}),
    ("POST", "/api/sandbox/deposits"): Case(
        {"body.clabe": "clabe", "body.reference": "cash reference", "body.messageId": "deposit"},
        body={"amount": 100},
    ),
    ("POST", "/api/sandbox/disputes"): Case({"body.paymentId": "payment id"}, body={"outcome": "OPENED"}),
    ("POST", "/api/sandbox/settlements"): Case({"body.paymentIds[]": "payment id"}, body={}),
    ("POST", "/api/sandbox/processor"): Case(body={"mode": "OK"}),
    ("POST", "/api/sandbox/stamping"): Case(body={"mode": "OK"}),
}

WITHOUT_A_MERCHANT: Final[Mapping[str, str]] = {
    "/api/files/{key:path}": "a signed link: its address is the permission",
    "/api/self-invoice/{token}": "a payer's page: its signed address is the permission",
    "/api/payer-returns/{token}": "a payer's page: its signed address is the permission",
    "/api/processor-messages/{processor}": "signed by a processor, which names the merchant itself",
    "/api/processor-messages/{merchantId}/{account}": "signed with a secret of this merchant's account",
    "/api/sandbox/3ds/device-data/{id}": "a payer's page: its address is the permission",
    "/api/sandbox/3ds/challenge/{id}": "a payer's page: its address is the permission",
    "/api/sandbox/3ds/redirect/{id}": "a payer's page: its address is the permission",
    "/health/live": "no data of a merchant",
    "/health/ready": "no data of a merchant",
    "/metrics": "counts over all merchants",
    "/openapi.json": "no data of a merchant",
    "/": "no data of a merchant",
    "/docs": "no data of a merchant",
    "/docs/errors": "no data of a merchant",
    "/docs/events": "no data of a merchant",
    "/docs/{name}": "no data of a merchant",
}
