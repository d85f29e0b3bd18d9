"""The account itself, its events and its webhook endpoints: GET /v1/account, /v1/events, /v1/webhook_endpoints."""

from __future__ import annotations

from typing import Final

from campaigns.fake_stripe.books import Book, Object, merged
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.lists import page

_CAPABILITIES: Final = ("card_payments", "mx_bank_transfer_payments", "oxxo_payments", "transfers")


def retrieve(call: Call) -> Object:
    """Returns the account of the key: GET /v1/account."""
    book = call.book
    return {
        "id": f"acct_{book.account}",
        "object": "account",
        "business_profile": None,
        "business_type": "company",
        "capabilities": dict.fromkeys(_CAPABILITIES, "active"),
        "charges_enabled": True,
        "country": book.country,
        "created": 1_700_000_000,
        "default_currency": book.currency,
        "details_submitted": True,
        "email": f"{book.account}@example.com",
        "metadata": {},
        "payouts_enabled": True,
        "type": "standard",
    }


def event(call: Call) -> Object:
    """Returns one: GET /v1/events/{id}."""
    return call.book.get("event", call.path["id"], "id", status=404)


def events(call: Call) -> Object:
    """Lists them, of one `type` or of some `types`, where `charge.*` is every type of that beginning: GET /v1/events."""
    wanted = call.get("types") or ([call.get("type")] if call.get("type") else None)
    every = call.book.all("event")
    found = [each for each in every if wanted is None or any(matches(each["type"], one) for one in wanted)]
    return page(found, call.parameters, "/v1/events")


def matches(kind: str, wanted: str) -> bool:
    """Returns whether a kind of event is among those that `wanted` names."""
    return wanted in {"*", kind} or (wanted.endswith(".*") and kind.startswith(wanted[:-1]))


def create_endpoint(call: Call) -> Object:
    """Creates a webhook endpoint; its secret is in this answer alone: POST /v1/webhook_endpoints."""
    book = call.book
    endpoint = book.add(
        "webhook_endpoint",
        api_version=call.get("api_version"),
        application=None,
        description=call.get("description"),
        enabled_events=call.parameters["enabled_events"],
        metadata=merged({}, call.parameters.get("metadata")),
        status="enabled",
        url=call.parameters["url"],
    )
    return {**endpoint, "secret": roll_secret(book, endpoint)}


def roll_secret(book: Book, endpoint: Object) -> str:
    """Returns a new secret of an endpoint. Its messages are signed by this one and by the one before."""
    secret = book.id("whsec_", 32)
    book.secrets[endpoint["id"]] = [secret, *book.secrets.get(endpoint["id"], [])[:1]]
    return secret


def retrieve_endpoint(call: Call) -> Object:
    """Returns one: GET /v1/webhook_endpoints/{webhook_endpoint}."""
    return call.book.get("webhook_endpoint", call.path["webhook_endpoint"], "webhook_endpoint", status=404)


def endpoints(call: Call) -> Object:
    """Lists them: GET /v1/webhook_endpoints."""
    return page(call.book.all("webhook_endpoint"), call.parameters, "/v1/webhook_endpoints")


def delete_endpoint(call: Call) -> Object:
    """Deletes one: DELETE /v1/webhook_endpoints/{webhook_endpoint}."""
    endpoint = retrieve_endpoint(call)
    call.book.remove("webhook_endpoint", endpoint["id"])
    return {"id": endpoint["id"], "object": "webhook_endpoint", "deleted": True}
