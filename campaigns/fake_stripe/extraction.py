"""`python -m campaigns.fake_stripe.extraction SPEC3.JSON`: takes out of Stripe's OpenAPI description what the fake needs.

The description is Stripe's (https://github.com/stripe/openapi, MIT licence); the package `seahaven-stripe-world` 0.3.0 carries it at
version 2026-08-26.dahlia. What is written is `specification.json.gz` beside this module: the operations of `OPERATIONS`, their
parameters, and the schemas that their answers reach. Left out are descriptions, other payment methods, and objects that the
fake never expands. A property that is left out stays refused in answers; in requests its name is kept, so that the fake
can say that it does not support it.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

Schema = dict[str, Any]

TARGET: Final = Path(__file__).with_name("specification.json.gz")

OPERATIONS: Final = (
    "GET /v1/account",
    "GET /v1/balance",
    "GET /v1/balance_transactions",
    "GET /v1/balance_transactions/{id}",
    "GET /v1/charges",
    "GET /v1/charges/{charge}",
    "GET /v1/confirmation_tokens/{confirmation_token}",
    "POST /v1/customers",
    "GET /v1/customers",
    "GET /v1/customers/{customer}",
    "POST /v1/customers/{customer}",
    "DELETE /v1/customers/{customer}",
    "GET /v1/customers/{customer}/cash_balance",
    "POST /v1/customers/{customer}/cash_balance",
    "GET /v1/customers/{customer}/cash_balance_transactions",
    "GET /v1/customers/{customer}/cash_balance_transactions/{transaction}",
    "POST /v1/customers/{customer}/funding_instructions",
    "GET /v1/customers/{customer}/payment_methods",
    "GET /v1/disputes",
    "GET /v1/disputes/{dispute}",
    "POST /v1/disputes/{dispute}",
    "POST /v1/disputes/{dispute}/close",
    "GET /v1/events",
    "GET /v1/events/{id}",
    "GET /v1/payment_intents",
    "POST /v1/payment_intents",
    "GET /v1/payment_intents/{intent}",
    "POST /v1/payment_intents/{intent}",
    "POST /v1/payment_intents/{intent}/apply_customer_balance",
    "POST /v1/payment_intents/{intent}/cancel",
    "POST /v1/payment_intents/{intent}/capture",
    "POST /v1/payment_intents/{intent}/confirm",
    "POST /v1/payment_methods",
    "GET /v1/payment_methods/{payment_method}",
    "POST /v1/payment_methods/{payment_method}/attach",
    "POST /v1/payment_methods/{payment_method}/detach",
    "GET /v1/payouts",
    "POST /v1/payouts",
    "GET /v1/payouts/{payout}",
    "GET /v1/refunds",
    "POST /v1/refunds",
    "GET /v1/refunds/{refund}",
    "POST /v1/refunds/{refund}",
    "POST /v1/refunds/{refund}/cancel",
    "GET /v1/setup_intents",
    "POST /v1/setup_intents",
    "GET /v1/setup_intents/{intent}",
    "POST /v1/setup_intents/{intent}",
    "POST /v1/setup_intents/{intent}/cancel",
    "POST /v1/setup_intents/{intent}/confirm",
    "POST /v1/test_helpers/confirmation_tokens",
    "POST /v1/test_helpers/customers/{customer}/fund_cash_balance",
    "POST /v1/tokens",
    "GET /v1/tokens/{token}",
    "GET /v1/webhook_endpoints",
    "POST /v1/webhook_endpoints",
    "GET /v1/webhook_endpoints/{webhook_endpoint}",
    "DELETE /v1/webhook_endpoints/{webhook_endpoint}",
)
OBJECTS: Final = frozenset(
    {
        "account",
        "balance_transaction",
        "charge",
        "customer",
        "customer_cash_balance_transaction",
        "deleted_customer",
        "dispute",
        "payment_intent",
        "payment_method",
        "payout",
        "refund",
        "setup_intent",
    }
)
"""What an answer may have in place of an id."""
METHODS: Final = frozenset({"card", "customer_balance", "oxxo"})
TRANSFERS: Final = frozenset({"mx_bank_transfer"})
KEPT: Final = (
    "type",
    "enum",
    "maxLength",
    "items",
    "required",
    "format",
    "pattern",
    "nullable",
    "additionalProperties",
)
_OTHER_METHODS_OF_CHARGES: Final = frozenset(
    {"ach_credit_transfer", "ach_debit", "card_present", "interac_present", "stripe_account", "wechat", "paypal"}
)
_LEFT_OUT: Final = {
    "account": {"company", "individual", "external_accounts", "controller", "tos_acceptance", "groups"},
    "customer": {"sources", "subscriptions", "tax_ids", "discount", "tax"},
    "payment_intent": {"hooks", "payment_details"},
    "error": {"source"},
    "payment_intent_next_action": {"verify_with_microdeposits", "card_await_notification"},
    "api_errors": {"source"},
    "setup_intent_next_action": {"verify_with_microdeposits"},
    "charge": {"presentment_details"},
}


def main(arguments: list[str]) -> None:
    """Writes the extract of the description that the first argument names."""
    whole = json.loads(Path(arguments[0]).read_text())
    extract = Extraction(whole["components"]["schemas"]).of(whole)
    text = json.dumps(extract, sort_keys=True, separators=(",", ":")).encode()
    with TARGET.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.write(text)
    sys.stdout.write(
        f"{len(extract['operations'])} operations, {len(extract['schemas'])} schemas, {len(text)} bytes, {TARGET.stat().st_size} packed\n"
    )


class Extraction:
    """Walks from the operations to the schemas that they reach."""

    def __init__(self, schemas: dict[str, Schema]) -> None:
        self._schemas = schemas
        kept: set[str] = set()
        for name in ("payment_method", "payment_intent_payment_method_options"):
            kept |= {key for key, value in schemas[name]["properties"].items() if next(_references(value), None)}
        self._other_methods = (
            (kept | _OTHER_METHODS_OF_CHARGES) - METHODS - {"billing_details", "customer", "radar_options"}
        )
        self._found: dict[str, Schema] = {}

    def of(self, whole: Schema) -> Schema:
        """Returns the version, the operations and the schemas."""
        operations = {name: self._operation(whole, name) for name in OPERATIONS}
        self._answer_reference("error")
        return {
            "version": whole["info"]["version"],
            "source": "https://github.com/stripe/openapi, MIT licence, Copyright (c) 2011- Stripe, Inc.",
            "operations": operations,
            "schemas": self._found,
        }

    def _operation(self, whole: Schema, name: str) -> Schema:
        method, path = name.split(" ")
        described = whole["paths"][path][method.lower()]
        query = {
            each["name"]: self._request(each["schema"])
            for each in described.get("parameters", [])
            if each["in"] == "query"
        }
        required = [
            each["name"] for each in described.get("parameters", []) if each["in"] == "query" and each.get("required")
        ]
        body = (
            described.get("requestBody", {})
            .get("content", {})
            .get("application/x-www-form-urlencoded", {})
            .get("schema")
        )
        parameters = (
            self._request(body)
            if method == "POST"
            else {"type": "object", "properties": query, "required": required, "additionalProperties": False}
        )
        answer = described["responses"]["200"]["content"]["application/json"]["schema"]
        return {"parameters": parameters, "answer": self._answer(answer, name)}

    def _request(self, schema: Schema) -> Schema:
        """Returns a schema of parameters, with the names of those that the fake does not take."""
        found: Schema = {key: schema[key] for key in KEPT if key in schema and key != "items"}
        if "items" in schema:
            found["items"] = self._request(schema["items"])
        if "anyOf" in schema:
            found["anyOf"] = [self._request(each) for each in schema["anyOf"]]
        if isinstance(schema.get("additionalProperties"), dict):
            found["additionalProperties"] = self._request(schema["additionalProperties"])
        if "properties" in schema:
            kept, others = self._split(schema["properties"])
            found["properties"] = {key: self._request(value) for key, value in kept.items()}
            if others:
                found["unsupported"] = sorted(others)
        return found

    def _split(self, properties: dict[str, Schema]) -> tuple[dict[str, Schema], set[str]]:
        others = {
            key
            for key in properties
            if key in self._other_methods or (key.endswith("_bank_transfer") and key not in TRANSFERS)
        }
        return {key: value for key, value in properties.items() if key not in others}, others

    def _answer(self, schema: Schema, place: str) -> Schema:
        """Returns a schema of an answer. An object has the properties that are described and no others."""
        if "$ref" in schema:
            return self._answer_reference(schema["$ref"].rsplit("/", 1)[1])
        found: Schema = {
            key: schema[key] for key in KEPT if key in schema and key not in {"items", "additionalProperties"}
        }
        if schema.get("x-stripeBypassValidation"):
            found.pop("enum", None)
        if "items" in schema:
            found["items"] = self._answer(schema["items"], place)
        if "anyOf" in schema:
            found["anyOf"] = [self._answer(each, place) for each in self._alternatives(schema)]
        if isinstance(schema.get("additionalProperties"), dict):
            found["additionalProperties"] = self._answer(schema["additionalProperties"], place)
        if "properties" in schema:
            kept, _ = self._split(schema["properties"])
            left_out = _LEFT_OUT.get(place, set())
            found["properties"] = {
                key: self._answer(value, f"{place}.{key}") for key, value in kept.items() if key not in left_out
            }
            found["additionalProperties"] = False
        return found

    def _alternatives(self, schema: Schema) -> list[Schema]:
        if "x-expansionResources" not in schema:
            return list(schema["anyOf"])
        return [each for each in schema["anyOf"] if "$ref" not in each or each["$ref"].rsplit("/", 1)[1] in OBJECTS]

    def _answer_reference(self, name: str) -> Schema:
        if name not in self._found:
            self._found[name] = {}
            self._found[name] = self._answer(self._schemas[name], name)
        return {"$ref": f"#/$defs/{name}"}


def _references(schema: Schema) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"]
    for each in schema.get("anyOf", []):
        yield from _references(each)


if __name__ == "__main__":
    main(sys.argv[1:])
