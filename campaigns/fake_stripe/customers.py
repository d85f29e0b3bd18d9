"""Customers: /v1/customers."""

from __future__ import annotations

from typing import Final

from campaigns.fake_stripe.books import Object, merged
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.lists import page

_PLAIN: Final = ("description", "email", "name", "phone", "shipping", "address")


def create(call: Call) -> Object:
    """Creates a customer: POST /v1/customers."""
    book = call.book
    made = book.add(
        "customer",
        **{name: call.get(name) for name in _PLAIN if name != "shipping"},
        balance=0,
        shipping=None,
        customer_account=None,
        currency=None,
        default_source=None,
        delinquent=False,
        invoice_prefix=book.id("", 8).upper(),
        invoice_settings={
            "custom_fields": None,
            "default_payment_method": None,
            "footer": None,
            "rendering_options": None,
        },
        metadata=merged({}, call.parameters.get("metadata")),
        next_invoice_sequence=1,
        preferred_locales=[],
        tax_exempt="none",
        test_clock=None,
    )
    made["address"] = _whole(made["address"])
    settings = (call.get("cash_balance") or {}).get("settings") or {}
    book.details[made["id"]] = {
        "mode": _mode(settings),
        "by_default": _by_default(settings),
        "clabe": None,
        "available": {},
    }
    book.event("customer.created", made)
    return made


def retrieve(call: Call) -> Object:
    """Returns one: GET /v1/customers/{customer}."""
    return call.book.get("customer", call.path["customer"], "id", status=404)


def list_all(call: Call) -> Object:
    """Lists them: GET /v1/customers."""
    return page(call.book.all("customer"), call.parameters, "/v1/customers", "email")


def update(call: Call) -> Object:
    """Changes one: POST /v1/customers/{customer}."""
    made = retrieve(call)
    for name in _PLAIN:
        if name in call.parameters and name != "shipping":
            made[name] = _whole(call.get(name)) if name == "address" else call.get(name)
    made["metadata"] = merged(made["metadata"], call.parameters.get("metadata"))
    call.book.event("customer.updated", made)
    return made


def delete(call: Call) -> Object:
    """Deletes one: DELETE /v1/customers/{customer}."""
    made = retrieve(call)
    call.book.event("customer.deleted", made)
    call.book.remove("customer", made["id"])
    return {"id": made["id"], "object": "customer", "deleted": True}


def _whole(address: Object | None) -> Object | None:
    names = ("city", "country", "line1", "line2", "postal_code", "state")
    return {name: address.get(name) or None for name in names} if address else None


def _mode(settings: Object) -> str:
    chosen = settings.get("reconciliation_mode", "automatic")
    return "manual" if chosen == "manual" else "automatic"


def _by_default(settings: Object) -> bool:
    return bool(settings.get("reconciliation_mode", "merchant_default") == "merchant_default")
