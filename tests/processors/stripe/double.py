"""Stripe's answers in process: hand-written objects and a small state machine of intents, refunds and customers.

It serves HTTP on loopback and keeps idempotency keys as Stripe does: the answer of a request that began is stored with its
parameters, a 500 as well, and repeated with `Idempotent-Replayed`; a 409 or 429 is not. A fault is planned for the next
POST to a path. What the objects look like is checked against Stripe's description (`description.json`).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

CUT_BEFORE, CUT_AFTER, FAILS_BEFORE, FAILS_AFTER = "CUT_BEFORE", "CUT_AFTER", "FAILS_BEFORE", "FAILS_AFTER"
BUSY, IN_USE, HELD, REFUSED, REVOKED = "BUSY", "IN_USE", "HELD", "REFUSED", "REVOKED"

TURNED_AWAY = {
    REFUSED: (400, {"error": {"type": "invalid_request_error", "message": "This is not allowed."}}),
    REVOKED: (401, {"error": {"type": "invalid_request_error", "message": "Invalid API Key provided: sk_***"}}),
}

DECLINED = {"pm_insufficient": "insufficient_funds", "pm_fraudulent": "fraudulent"}


class Refusal(Exception):
    def __init__(self, status: int, **error: Any) -> None:
        self.status, self.error = status, error


USED_UP = {
    "pm_used": "The provided PaymentMethod was previously used with a PaymentIntent without Customer attachment, shared with a "
    "connected account without Customer attachment, or was detached from a Customer. It may not be used again. To use a "
    "PaymentMethod multiple times, you must attach it to a Customer first.",
    "pm_used_before": "This PaymentMethod was previously used without being attached to a Customer or was detached from a Customer, "
    "and may not be used again.",
}
"""What Stripe writes of used-up payment methods, and wrote before (github.com/stripe/stripe-php/issues/1221)."""
OWN_PUBLISHABLE = "pk_test_1"
PUBLISHABLE = {OWN_PUBLISHABLE, "pk_test_foreign"}
"""A key of the account that pages may have, and one of another account."""


class Double:
    """Planned faults are in `faults` by the end of a path, the requests that came in `requests`."""

    def __init__(self) -> None:
        self.intents: dict[str, dict[str, Any]] = {}
        self.refunds: dict[str, dict[str, Any]] = {}
        self.customers: dict[str, dict[str, Any]] = {}
        self.clabes: dict[str, dict[str, Any]] = {}
        self.disputes: dict[str, dict[str, Any]] = {}
        self.payouts: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.transactions: list[dict[str, Any]] = []
        self.balances: dict[str, int] = defaultdict(int)
        self.applied: dict[str, int] = {}  # to an intent that is not paid in full
        self.account: dict[str, Any] = {}
        self.plans: list[int] = [3, 6, 12]
        self.faults: dict[str, list[str]] = defaultdict(list)
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.headers: list[Any] = []
        self.held, self.gate = asyncio.Event(), asyncio.Event()  # a request waits, and goes on
        self.key = "sk_test_1"
        self.forbidden: tuple[str, ...] = ()
        self.now = int(time.time())
        self._stored: dict[str, tuple[tuple[str, str], int, Any]] = {}
        self._ids = itertools.count(1)

    def forget_keys(self) -> None:
        self._stored.clear()

    def posts(self, end: str) -> list[dict[str, str]]:
        return [form for method, path, form in self.requests if method == "POST" and path.endswith(end)]

    # ---------------------------------------------------------------- HTTP

    async def serve(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        form = dict(parse_qsl(text or request.query_string))
        self.requests.append((request.method, request.path, form))
        self.headers.append(request.headers)
        authorization = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if authorization in PUBLISHABLE:
            return self._to_browser(request, form, is_own=authorization == OWN_PUBLISHABLE)
        if authorization != self.key:
            return _json(*TURNED_AWAY[REVOKED])
        if any(part in request.path for part in self.forbidden):
            error = {
                "type": "invalid_request_error",
                "message": "The provided key does not have the required permissions.",
            }
            return _json(403, {"error": error})
        is_stored = request.headers.get("Idempotency-Key") in self._stored
        planned = (faults for end, faults in self.faults.items() if faults and request.path.endswith(end))
        planned = (faults for faults in planned if not (is_stored and faults[0] in {FAILS_BEFORE, FAILS_AFTER}))
        fault = next((faults.pop(0) for faults in planned if request.method == "POST"), None)
        match fault:
            case "BUSY":
                return _json(
                    429, {"error": {"type": "invalid_request_error", "code": "rate_limit"}}, {"Retry-After": "0"}
                )
            case "IN_USE":
                return _json(
                    409,
                    {"error": {"type": "idempotency_error", "code": "idempotency_key_in_use"}},
                    {"Retry-After": "0"},
                )
            case "REFUSED" | "REVOKED":
                return _json(*TURNED_AWAY[fault])
            case "CUT_BEFORE":
                return self._cut(request)
            case "HELD":
                self.held.set()
                await self.gate.wait()
        status, body, replayed = self._answer(request, form, text, fault)
        if fault == CUT_AFTER:
            return self._cut(request)
        return _json(status, body, {"Idempotent-Replayed": "true"} if replayed else {})

    def _to_browser(self, request: web.Request, form: dict[str, str], *, is_own: bool) -> web.Response:
        """Answers a publishable key: it reads a setup intent of its own account by the client secret."""
        intent = self.intents.get(request.path.rpartition("/")[2]) if is_own else None
        if intent is None or intent.get("client_secret") != form.get("client_secret"):
            error = {"type": "invalid_request_error", "code": "resource_missing", "message": "No such setupintent"}
            return _json(404, {"error": error})
        return _json(200, {name: intent[name] for name in ("id", "object", "status")})

    def _answer(
        self, request: web.Request, form: dict[str, str], text: str, fault: str | None
    ) -> tuple[int, Any, bool]:
        key = request.headers.get("Idempotency-Key") if request.method == "POST" else None
        if key is not None and key in self._stored:
            asked, status, body = self._stored[key]
            if asked != (request.path, text):
                return 400, {"error": {"type": "idempotency_error", "message": "Keys for idempotent requests …"}}, False
            return status, body, True
        failed = {"error": {"type": "api_error", "message": "Something went wrong on our end."}}
        try:
            status, body = (500, failed) if fault == FAILS_BEFORE else (200, self._carry_out(request, form))
        except Refusal as refusal:
            status, body = refusal.status, {"error": refusal.error}
        if fault == FAILS_AFTER:
            status, body = 500, failed
        if key is not None:
            self._stored[key] = ((request.path, text), status, json.loads(json.dumps(body)))
        return status, body, False

    @staticmethod
    def _cut(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    # ---------------------------------------------------------------- Stripe

    def _carry_out(self, request: web.Request, form: dict[str, str]) -> Any:
        parts = request.path.removeprefix("/v1/").split("/")
        routes: dict[tuple[str, str], Callable[..., Any]] = {
            ("POST", "payment_intents"): self._create,
            ("POST", "payment_intents/*/confirm"): self._confirm,
            ("POST", "payment_intents/*/capture"): self._capture,
            ("POST", "payment_intents/*/cancel"): self._cancel,
            ("POST", "payment_intents/*"): self._update,
            ("GET", "payment_intents/*"): lambda i, _: self._intent(i),
            ("GET", "payment_intents"): lambda f: self._page(self.intents.values(), f),
            ("GET", "setup_intents"): lambda f: self._page(self.intents.values(), f),
            ("POST", "setup_intents"): self._create,
            ("POST", "setup_intents/*"): self._update,
            ("POST", "setup_intents/*/confirm"): self._confirm,
            ("POST", "payment_methods/*/detach"): self._detach,
            ("POST", "setup_intents/*/cancel"): self._cancel,
            ("GET", "setup_intents/*"): lambda i, _: self._intent(i),
            ("GET", "payment_methods/*"): lambda i, _: self._token(i),
            ("GET", "confirmation_tokens/*"): lambda i, _: self._token(i),
            ("POST", "refunds"): self._refund,
            ("POST", "refunds/*"): self._mark,
            ("GET", "refunds/*"): lambda i, _: self._known(self.refunds, i),
            ("GET", "disputes/*"): lambda i, _: self.disputes[i],
            ("GET", "payouts/*"): lambda i, _: self._payout(i),
            ("GET", "payouts"): lambda f: self._page(self.payouts.values(), f),
            ("GET", "events/*"): lambda i, _: self._event(i),
            ("POST", "customers/*/funding_instructions"): self._funding,
            ("GET", "refunds"): lambda f: self._page(self.refunds.values(), f),
            ("POST", "customers"): self._customer,
            ("POST", "customers/*"): self._describe,
            ("GET", "customers/*"): lambda c, _: self.customers[c],
            ("GET", "balance_transactions"): lambda f: self._page(self.transactions, f),
            ("GET", "events"): lambda f: self._page(self.events, f),
            ("GET", "account"): lambda _: self.account,
        }  # fmt: skip
        ids = [part for part in parts if "_" in part and re.search(r"_\d+$", part)]
        route = "/".join("*" if part in ids else part for part in parts)
        return routes[request.method, route](*ids, form)

    @staticmethod
    def _known(objects: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
        if name not in objects:
            raise Refusal(404, type="invalid_request_error", code="resource_missing", message=f"No such {name}")
        return objects[name]

    def _token(self, token: str) -> dict[str, Any]:
        if token not in self.tokens:
            raise Refusal(404, type="invalid_request_error", code="resource_missing", message="No such token")
        return self.tokens[token]

    def happen(self, kind: str, value: dict[str, Any]) -> str:
        """Records an event with its object, and returns its id."""
        event = {"id": self._id("evt"), "object": "event", "type": kind, "created": self.now}
        self.events.append({**event, "data": {"object": json.loads(json.dumps(value))}})
        return str(event["id"])

    def _event(self, event_id: str) -> dict[str, Any]:
        for event in self.events:
            if event["id"] == event_id:
                return event
        raise Refusal(404, type="invalid_request_error", code="resource_missing", message="No such event")

    def _payout(self, payout_id: str) -> dict[str, Any]:
        if payout_id not in self.payouts:
            raise Refusal(404, type="invalid_request_error", code="resource_missing", message="No such payout")
        return self.payouts[payout_id]

    def _funding(self, customer: str, _form: dict[str, str]) -> dict[str, Any]:
        [intent] = [each for each in self.intents.values() if each["customer"] == customer]
        addresses = [{"type": "spei", "spei": self.clabes[intent["id"]]}]
        transfer = {"type": "mx_bank_transfer", "country": "MX", "financial_addresses": addresses}
        return {"object": "funding_instructions", "currency": "mxn", "bank_transfer": transfer}

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids)}"

    def _intent(self, intent_id: str) -> dict[str, Any]:
        return self.intents[intent_id]

    def _page(self, items: Any, form: dict[str, str]) -> dict[str, Any]:
        found = sorted(items, key=lambda item: -item["created"])
        bounds = {name[8:-1]: int(value) for name, value in form.items() if name.startswith("created[")}
        checks = {"gte": int.__ge__, "lte": int.__le__, "lt": int.__lt__}
        found = [i for i in found if all(checks[how](i["created"], at) for how, at in bounds.items())]
        found = [i for i in found if form.get("payment_intent") in {None, i.get("payment_intent")}]
        found = [i for i in found if form.get("payout") in {None, i.get("payout")}]
        found = [i for i in found if form.get("type") in {None, i.get("type")}]
        found = [i for i in found if "source" not in form or i["source"]["id"] == form["source"]]
        after = [i["id"] for i in found].index(form["starting_after"]) + 1 if "starting_after" in form else 0
        size = min(int(form.get("limit", "10")), 2)  # small pages, so that each list has several
        return {
            "object": "list",
            "url": "/v1",
            "data": found[after : after + size],
            "has_more": len(found) > after + size,
        }

    def _create(self, form: dict[str, str]) -> dict[str, Any]:
        is_setup = "amount" not in form
        intent: dict[str, Any] = {
            "id": self._id("seti" if is_setup else "pi"),
            "object": "setup_intent" if is_setup else "payment_intent",
            "created": self.now,
            "livemode": False,
            "status": "requires_payment_method",
            "customer": form.get("customer"),
            "metadata": _nested(form, "metadata"),
            "payment_method": None,
            "payment_method_types": [form["payment_method_types[0]"]],
            "next_action": None,
            "payment_method_options": {},
        }
        if is_setup:
            intent |= {"usage": form["usage"], "last_setup_error": None}
            intent |= {"client_secret": f"{intent['id']}_secret_1"}
        else:
            intent |= {
                "amount": int(form["amount"]),
                "amount_capturable": 0,
                "amount_received": 0,
                "currency": form["currency"],
                "capture_method": form.get("capture_method", "automatic"),
                "last_payment_error": None,
                "latest_charge": None,
                "canceled_at": None,
            }
        self.intents[intent["id"]] = intent
        return intent

    def _update(self, intent_id: str, form: dict[str, str]) -> dict[str, Any]:
        intent = self.intents[intent_id]
        if "payment_method" in form and intent["status"] == "canceled":
            raise _unexpected(intent)
        intent["metadata"] |= _nested(form, "metadata")
        intent["customer"] = form.get("customer", intent["customer"])
        if "setup_future_usage" in form:
            intent["setup_future_usage"] = form["setup_future_usage"]
        if "payment_method" in form:
            plans = [{"type": "fixed_count", "interval": "month", "count": count} for count in self.plans]
            installments = {"enabled": True, "available_plans": plans, "plan": None}
            intent |= {"payment_method": form["payment_method"], "status": "requires_confirmation"}
            intent["payment_method_options"] = {"card": {"installments": installments}}
        return intent

    def _confirm(self, intent_id: str, form: dict[str, str]) -> dict[str, Any]:
        intent = self.intents[intent_id]
        if intent["status"] not in {"requires_payment_method", "requires_confirmation", "requires_action"}:
            raise _unexpected(intent)
        method = intent["payment_method_types"][0]
        if method != "card":
            return self._instruct(intent, method)
        token = form.get("payment_method") or form["confirmation_token"]
        intent["payment_method"] = token.replace("ctoken", "pm")
        if token == "pm_unknown":
            unknown = {"code": "resource_missing", "param": "payment_method"}
            raise Refusal(400, type="invalid_request_error", message=f"No such PaymentMethod: '{token}'", **unknown)
        if token in USED_UP:
            raise Refusal(400, type="invalid_request_error", message=USED_UP[token])
        if token.startswith("pm_3ds") and "off_session" not in form:
            url = {"redirect_to_url": {"url": "https://hooks.stripe.test/3ds", "return_url": form.get("return_url")}}
            intent |= {"status": "requires_action", "next_action": {"type": "redirect_to_url", **url}}
            if "return_url" not in form:
                intent["next_action"] = {"type": "use_stripe_sdk", "use_stripe_sdk": {}}
            return intent
        declined = "authentication_required" if token.startswith("pm_3ds") else DECLINED.get(token)
        if declined is not None:
            self.decline(intent_id, code="card_declined", decline_code=declined, message="Your card was declined.")
            raise Refusal(402, **intent["last_payment_error"], payment_intent=intent)
        self.approve(intent_id)
        return intent

    def decline(self, intent_id: str, **error: str) -> None:
        intent = self.intents[intent_id]
        name = "last_setup_error" if intent["object"] == "setup_intent" else "last_payment_error"
        intent |= {"status": "requires_payment_method", "next_action": None, name: {"type": "card_error", **error}}

    def approve(self, intent_id: str) -> None:
        """Lets a confirmed intent succeed, as the payer's authentication does."""
        intent = self.intents[intent_id]
        intent |= {"status": "succeeded", "next_action": None}
        if intent["object"] == "setup_intent":
            self._show_card(intent)
            return
        card = {
            "fingerprint": "print-1",
            "exp_month": 12,
            "exp_year": 2030,
            "authorization_code": "123456",
            "network_transaction_id": "nti1",
        }
        card["three_d_secure"] = {"electronic_commerce_indicator": "05", "version": "2.2.0"}
        is_held = intent["capture_method"] == "manual"
        if is_held:
            card["capture_before"] = self.now + 600_000
        charge = {
            "id": self._id("ch"),
            "object": "charge",
            "status": "succeeded",
            "amount": intent["amount"],
            "amount_captured": 0 if is_held else intent["amount"],
            "amount_refunded": 0,
            "created": self.now,
            "payment_intent": intent["id"],
            "metadata": dict(intent["metadata"]),
            "outcome": {"type": "authorized"},
            "payment_method_details": {"type": "card", "card": card},
        }
        intent |= {"latest_charge": charge}
        intent |= {"status": "requires_capture", "amount_capturable": intent["amount"]} if is_held else {}
        if not is_held:
            self._receive(intent, intent["amount"])

    def _show_card(self, intent: dict[str, Any]) -> None:
        card = {"brand": "visa", "country": "MX", "exp_month": 4, "exp_year": 2031, "fingerprint": "print-1"}
        about = {"object": "payment_method", "created": self.now, "livemode": False, "type": "card"}
        about |= {"id": intent["payment_method"], "customer": intent["customer"], "billing_details": {"name": None}}
        intent["payment_method"] = {**about, "card": {**card, "funding": "credit", "last4": "4242"}}

    def _detach(self, token: str, _form: dict[str, str]) -> dict[str, Any]:
        method = self._token(token)
        if method["customer"] is None:
            raise Refusal(400, type="invalid_request_error", message="The payment method is not attached.")
        method["customer"] = None
        return method

    def _receive(self, intent: dict[str, Any], amount: int) -> None:
        intent |= {"status": "succeeded", "amount_capturable": 0, "amount_received": amount}
        charge = intent["latest_charge"]
        charge |= {"amount_captured": amount}
        self._move("charge", charge, amount)

    def _move(self, kind: str, source: dict[str, Any], amount: int) -> None:
        self.transactions.append(
            {
                "id": self._id("txn"),
                "object": "balance_transaction",
                "type": kind,
                "amount": amount,
                "created": self.now,
                "fee": 36,
                "fee_details": [{"type": "stripe_fee", "amount": 31}, {"type": "tax", "amount": 5}],
                "currency": "mxn",
                "source": source,
            }
        )

    def _capture(self, intent_id: str, form: dict[str, str]) -> dict[str, Any]:
        intent = self.intents[intent_id]
        if intent["status"] != "requires_capture":
            raise _unexpected(intent)
        intent["metadata"] |= _nested(form, "metadata")
        self._receive(intent, int(form["amount_to_capture"]))
        return intent

    def _cancel(self, intent_id: str, _form: dict[str, str]) -> dict[str, Any]:
        intent = self.intents[intent_id]
        if intent["status"] in {"succeeded", "canceled"}:
            raise _unexpected(intent)
        intent |= {"status": "canceled", "next_action": None}
        self.balances[str(intent.get("customer"))] += self.applied.pop(intent_id, 0)
        intent |= {"canceled_at": self.now} if intent["object"] == "payment_intent" else {}
        self.happen("payment_intent.canceled", intent)
        return intent

    def _refund(self, form: dict[str, str]) -> dict[str, Any]:
        amount = int(form["amount"])
        intent = self.intents.get(form.get("payment_intent", ""))
        if intent is not None and amount > intent["amount_received"] - self.given_back(intent["id"]):
            raise Refusal(400, type="invalid_request_error", message="Refund amount is greater than unrefunded amount")
        if intent is None:
            if amount > self.balances[form["customer"]]:
                raise Refusal(400, type="invalid_request_error", message="The customer's balance is too low.")
            self.balances[form["customer"]] -= amount
        refund = {
            "id": self._id("re"),
            "object": "refund",
            "amount": amount,
            "created": self.now,
            "currency": form.get("currency", "mxn"),
            "status": "succeeded" if intent is not None else "pending",
            "payment_intent": form.get("payment_intent"),
            "metadata": _nested(form, "metadata"),
        }
        self.refunds[refund["id"]] = refund
        self._move("refund", refund, -amount)
        return refund

    def _mark(self, refund_id: str, form: dict[str, str]) -> dict[str, Any]:
        self.refunds[refund_id]["metadata"] |= _nested(form, "metadata")
        return self.refunds[refund_id]

    def given_back(self, intent_id: str) -> int:
        return sum(refund["amount"] for refund in self.refunds.values() if refund["payment_intent"] == intent_id)

    def _customer(self, form: dict[str, str]) -> dict[str, Any]:
        customer = {"id": self._id("cus"), "object": "customer", "created": self.now, "livemode": False}
        self.customers[customer["id"]] = {**customer, "metadata": _nested(form, "metadata")}
        return self.customers[customer["id"]]

    def _describe(self, customer_id: str, form: dict[str, str]) -> dict[str, Any]:
        customer = self.customers[customer_id]
        customer["metadata"] |= _nested(form, "metadata")
        customer |= {name: form[name] for name in ("name", "email") if name in form}
        return customer

    def _instruct(self, intent: dict[str, Any], method: str) -> dict[str, Any]:
        if method == "oxxo":
            voucher = {
                "number": "98000000021234567890",
                "expires_after": self.now + 86_400,
                "hosted_voucher_url": "https://x",
            }
            action = {"type": "oxxo_display_details", "oxxo_display_details": voucher}
        else:
            spei = {"clabe": f"002180{next(self._ids):012}", "bank_code": "002", "bank_name": "BANAMEX"}
            spei |= {"account_holder_name": "Stripe", "account_holder_address": {}, "bank_address": {}}
            transfer = {"type": "mx_bank_transfer", "financial_addresses": [{"type": "spei", "spei": spei}]}
            action = {"type": "display_bank_transfer_instructions", "display_bank_transfer_instructions": transfer}
            self.clabes[intent["id"]] = spei
        intent |= {"status": "requires_action", "next_action": action}
        return intent


def _unexpected(intent: dict[str, Any]) -> Refusal:
    message = f"This PaymentIntent has a status of {intent['status']}."
    name = intent["object"]
    return Refusal(
        400, type="invalid_request_error", code=f"{name}_unexpected_state", message=message, **{name: intent}
    )


def _nested(form: dict[str, str], name: str) -> dict[str, str]:
    return {key[len(name) + 1 : -1]: value for key, value in form.items() if key.startswith(f"{name}[")}


def _json(status: int, body: Any, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response(body, status=status, headers=headers)
