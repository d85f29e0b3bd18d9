"""Stripe's OpenAPI description, pruned to the requests and objects of the adapter, and checks against it.

`description.json` is made from Stripe's own file (github.com/stripe/openapi, MIT), which has 8 MB:

    python -m tests.processors.stripe.description spec3.json

The checks are strict: a name that is not in the pruned description is an error.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")

_OBJECTS = {
    "payment_intent": "id object status created livemode amount amount_capturable amount_received capture_method currency "
    "customer canceled_at cancellation_reason metadata latest_charge last_payment_error next_action payment_method payment_method_options "
    "payment_method_types setup_future_usage",
    "setup_intent": "id object status created client_secret livemode customer metadata last_setup_error next_action payment_method "
    "payment_method_options payment_method_types usage",
    "api_errors": "type code decline_code advice_code message param payment_intent setup_intent",
    "payment_intent_next_action": "type redirect_to_url oxxo_display_details display_bank_transfer_instructions "
    "use_stripe_sdk",
    "payment_intent_next_action_redirect_to_url": "return_url url",
    "payment_intent_next_action_display_oxxo_details": "expires_after hosted_voucher_url number",
    "payment_intent_next_action_display_bank_transfer_instructions": "type financial_addresses hosted_instructions_url",
    "setup_intent_next_action": "type redirect_to_url use_stripe_sdk",
    "setup_intent_next_action_redirect_to_url": "return_url url",
    "funding_instructions_bank_transfer_financial_address": "type spei",
    "funding_instructions_bank_transfer_spei_record": "account_holder_address account_holder_name bank_address bank_code "
    "bank_name clabe",
    "payment_intent_payment_method_options": "card",
    "payment_intent_payment_method_options_card": "installments",
    "payment_method_options_card_installments": "available_plans enabled plan",
    "payment_method_details_card_installments_plan": "count interval type",
    "setup_intent_payment_method_options": "",
    "refund": "id object amount created currency status failure_reason charge payment_intent customer metadata",
    "charge": "id object status amount amount_captured amount_refunded created payment_intent metadata outcome "
    "payment_method_details",
    "charge_outcome": "type",
    "payment_method": "id object type card customer billing_details created livemode",
    "payment_method_card": "brand country exp_month exp_year fingerprint funding last4",
    "billing_details": "name",
    "confirmation_token": "id object created expires_at livemode payment_intent setup_intent payment_method_preview",
    "confirmation_tokens_resource_payment_method_preview": "type card customer billing_details",
    "payment_method_details": "type card oxxo",
    "payment_method_details_oxxo": "number",
    "customer_cash_balance_transaction": "id object type customer net_amount currency created",
    "funding_instructions": "object currency bank_transfer",
    "funding_instructions_bank_transfer": "country financial_addresses type",
    "dispute": "id object status amount created reason payment_intent",
    "payout": "id object status created automatic reconciliation_status",
    "fee": "type amount",
    "payment_method_details_card": "authorization_code capture_before network_transaction_id three_d_secure exp_month "
    "exp_year fingerprint",
    "three_d_secure_details_charge": "electronic_commerce_indicator version",
    "customer": "id object created livemode metadata name email",
    "balance_transaction": "id object type created fee fee_details currency amount source",
    "account": "id object country charges_enabled capabilities",
    "account_capabilities": "card_payments mx_bank_transfer_payments oxxo_payments",
    "event": "id object type created data",
    "notification_event_data": "object",
}
_INTENT = "payment_intents/{intent}"
_REQUESTS = {
    "POST payment_intents": "amount currency capture_method customer metadata payment_method_types",
    f"POST {_INTENT}": "customer metadata payment_method payment_method_options setup_future_usage",
    f"POST {_INTENT}/confirm": "confirmation_token payment_method return_url off_session payment_method_options "
    "payment_method_data expand",
    f"POST {_INTENT}/capture": "amount_to_capture metadata",
    f"POST {_INTENT}/cancel": "cancellation_reason",
    "POST setup_intents": "usage metadata payment_method_types",
    "POST setup_intents/{intent}": "customer metadata",
    "POST setup_intents/{intent}/confirm": "confirmation_token payment_method return_url expand",
    "POST payment_methods/{payment_method}/detach": "",
    "POST setup_intents/{intent}/cancel": "cancellation_reason",
    "POST refunds": "amount payment_intent customer origin currency metadata",
    "POST customers": "metadata",
    "POST customers/{customer}": "name email metadata",
    "GET payment_intents": "created limit starting_after",
    f"GET {_INTENT}": "expand",
    "GET setup_intents": "created limit starting_after",
    "GET setup_intents/{intent}": "client_secret expand",
    "GET refunds": "payment_intent created limit starting_after",
    "GET customers/{customer}": "",
    "GET payment_methods/{payment_method}": "",
    "GET confirmation_tokens/{confirmation_token}": "",
    "POST customers/{customer}/funding_instructions": "currency funding_type bank_transfer",
    "GET refunds/{refund}": "",
    "POST refunds/{refund}": "metadata",
    "GET disputes/{dispute}": "",
    "GET payouts/{payout}": "",
    "GET payouts": "created limit starting_after",
    "GET events/{id}": "",
    "GET balance_transactions": "created payout source type expand limit starting_after",
    "GET events": "created type limit starting_after",
    "GET account": "",
}
_METHODS = {
    "payment_method_options": {"card", "customer_balance", "oxxo"},
    "payment_method_data": {"type", "billing_details"},
    "card": {"installments"},
}
"""The parts of large parameters that are kept."""


# -------------------------------------------------------------------- pruning


def prune(whole: dict[str, Any]) -> dict[str, Any]:
    """Returns what the adapter uses of Stripe's description. Raises KeyError for a name that Stripe does not have."""
    schemas = whole["components"]["schemas"]
    objects = {}
    for name, fields in _OBJECTS.items():
        schema = schemas[name]
        kept = {field: _node(schema["properties"][field]) for field in fields.split()}
        objects[name] = {
            "properties": kept,
            "required": [field for field in schema.get("required", []) if field in kept],
        }
    requests = {}
    for name, parameters in _REQUESTS.items():
        method, path = name.split()
        operation = whole["paths"][f"/v1/{path}"][method.lower()]
        known = {p["name"]: p["schema"] for p in operation.get("parameters", []) if p["in"] == "query"}
        required: list[str] = []
        if method == "POST":
            [content] = operation["requestBody"]["content"].values()
            known, required = content["schema"].get("properties", {}), content["schema"].get("required", [])
        requests[name] = {"properties": {p: _parameter(known[p], p) for p in parameters.split()}, "required": required}
    return {"version": whole["info"]["version"], "objects": objects, "requests": requests}


def _node(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the type of a field of an object: what it may be, with references to the objects that are kept."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {"ref": name} if name in _OBJECTS else {"type": "object"}
    if "anyOf" in schema:
        kinds = [_node(part) for part in schema["anyOf"]]
        return {"any": kinds, **({"nullable": True} if schema.get("nullable") else {})}
    kept = {name: schema[name] for name in ("type", "enum", "nullable") if name in schema}
    return {**kept, "items": _node(schema["items"])} if "items" in schema else kept


def _parameter(schema: dict[str, Any], name: str = "") -> dict[str, Any]:
    """Returns the type of a parameter. Of several forms that it may have, the one with fields is kept."""
    if "anyOf" in schema:
        forms = schema["anyOf"]
        return _parameter(next((form for form in forms if "properties" in form), forms[0]), name)
    kept: dict[str, Any] = {key: schema[key] for key in ("type", "enum", "required") if key in schema}
    if "properties" in schema:
        parts = _METHODS.get(name) or set(schema["properties"])
        kept["properties"] = {key: _parameter(part, key) for key, part in schema["properties"].items() if key in parts}
    if "items" in schema:
        kept["items"] = _parameter(schema["items"])
    return kept


# -------------------------------------------------------------------- checks


@cache
def description() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def wrong_with_request(method: str, path: str, form: dict[str, str]) -> list[str]:
    """Returns what Stripe's description forbids in a request."""
    route = re.sub(r"(?<=intents/)\w+_\d+", "{intent}", path.removeprefix("/v1/"))
    route = re.sub(r"(?<=customers/)\w+_\d+", "{customer}", route)
    for name in ("refund", "dispute", "payout"):
        route = re.sub(rf"(?<={name}s/)\w+", f"{{{name}}}", route)
    route = re.sub(r"(?<=events/)\w+", "{id}", route)
    route = re.sub(r"(?<=payment_methods/)\w+", "{payment_method}", route)
    route = re.sub(r"(?<=confirmation_tokens/)\w+", "{confirmation_token}", route)
    schema = description()["requests"].get(f"{method} {route}")
    if schema is None:
        return [f"{method} {route} is not in the description"]
    missing = [f"{route}: {name} is missing" for name in schema["required"] if not any(_begins(name, f) for f in form)]
    return missing + [
        f"{route}: {reason}" for name, value in form.items() for reason in _wrong_pair(schema, name, value)
    ]


def _begins(name: str, key: str) -> bool:
    return key == name or key.startswith(f"{name}[")


def _wrong_pair(schema: dict[str, Any], name: str, value: str) -> Iterator[str]:
    for part in re.findall(r"[^\[\]]+", name):
        if schema.get("type") == "array":
            schema = schema["items"]
        elif part in schema.get("properties", {}):
            schema = schema["properties"][part]
        elif schema.get("type") == "object" and "properties" not in schema:
            return  # metadata takes any name
        else:
            yield f"{name} is no parameter"
            return
    if schema.get("type") == "integer" and not value.isdecimal():
        yield f"{name} is no integer"
    if schema.get("type") == "boolean" and value not in {"true", "false"}:
        yield f"{name} is no boolean"
    if value not in schema.get("enum", [value]):
        yield f"{name} cannot be {value}"


def wrong_with_object(value: dict[str, Any], name: str) -> list[str]:
    """Returns in what an object differs from Stripe's description."""
    schema = description()["objects"][name]
    missing = [f"{name}.{field} is missing" for field in schema["required"] if field not in value]
    fields = schema["properties"]
    unknown = [f"{name}.{field} is no field" for field in value if field not in fields]
    known = [(field, part) for field, part in value.items() if field in fields]
    return missing + unknown + [f"{name}.{field}: {w}" for field, part in known for w in _wrong(part, fields[field])]


def _wrong(value: Any, schema: dict[str, Any]) -> list[str]:
    if value is None:
        return [] if schema.get("nullable") else ["cannot be null"]
    if "any" in schema:
        reasons = [_wrong(value, kind) for kind in schema["any"]]
        return [] if [] in reasons else max(reasons, key=len)
    if "ref" in schema:
        return wrong_with_object(value, schema["ref"]) if isinstance(value, dict) else ["is no object"]
    kinds = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict, "number": float}
    if not isinstance(value, kinds[schema["type"]]):
        return [f"{value!r} is no {schema['type']}"]
    if value not in schema.get("enum", [value]):
        return [f"cannot be {value}"]
    return [reason for item in value for reason in _wrong(item, schema["items"])] if "items" in schema else []


if __name__ == "__main__":
    pruned = prune(json.loads(Path(sys.argv[1]).read_text()))
    parts = [f'"version":"{pruned["version"]}"']
    for title in ("objects", "requests"):
        lines = [f"{json.dumps(n)}:{json.dumps(s, separators=(',', ':'))}" for n, s in pruned[title].items()]
        parts.append(f'"{title}":{{\n' + ",\n".join(lines) + "\n}")
    FILE.write_text("{" + ",\n".join(parts) + "}\n")
