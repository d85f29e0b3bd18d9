"""Charges: what a confirmed payment makes, how an authorisation is captured or released."""

from __future__ import annotations

from typing import Any, Final

from campaigns.fake_stripe import balance, cards
from campaigns.fake_stripe.books import Book, Object
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.cards import TestCard
from campaigns.fake_stripe.lists import page
from campaigns.fake_stripe.payment_methods import card_of

AUTHORISATION_S: Final = 7 * 86400
_SETTLES_AFTER_S: Final = 0.2
_NETWORK_CODES: Final = {
    "insufficient_funds": "51",
    "lost_card": "41",
    "stolen_card": "43",
    "expired_card": "54",
    "do_not_honor": "05",
}
_NETWORK_ADVICE: Final = {"do_not_try_again": "03", "try_again_later": "02", "confirm_card_data": "01"}


def retrieve(call: Call) -> Object:
    """Returns one: GET /v1/charges/{charge}."""
    return call.book.get("charge", call.path["charge"], "id", status=404)


def list_all(call: Call) -> Object:
    """Lists them: GET /v1/charges."""
    return page(call.book.all("charge"), call.parameters, "/v1/charges", "customer", "payment_intent")


def declined(book: Book, intent: Object, method: Object, card: TestCard) -> Object:
    """Adds the charge of a refused card."""
    charge = _new(book, intent, method, status="failed", paid=False, captured=False, amount_captured=0)
    code = card.decline or "generic_decline"
    charge["failure_code"] = code if code in cards.OWN_CODES else "card_declined"
    charge["failure_message"] = cards.message(code)
    charge["outcome"] |= {
        "advice_code": card.advice,
        "network_advice_code": _NETWORK_ADVICE.get(card.advice) if card.advice else None,
        "network_decline_code": None if card.blocked else _NETWORK_CODES.get(code, "01"),
        "network_status": "not_sent_to_network" if card.blocked else "declined_by_network",
        "reason": "highest_risk_level" if card.blocked else code,
        "risk_level": "highest" if card.blocked else "normal",
        "seller_message": "Stripe blocked this payment as too risky."
        if card.blocked
        else f"The bank returned the decline code `{code}`.",
        "type": "blocked" if card.blocked else "issuer_declined",
    }
    book.event("charge.failed", charge)
    return charge


def authorised(book: Book, intent: Object, method: Object, *, authenticated: bool) -> Object:
    """Adds the charge of a card that was authorised and not yet captured."""
    charge = _new(book, intent, method, status="succeeded", paid=True, captured=False, amount_captured=0)
    _show_card(book, charge, intent, method, authenticated=authenticated)
    before = book.clock.seconds() + AUTHORISATION_S
    charge["payment_method_details"]["card"]["capture_before"] = before
    book.moved("AUTHORIZED", charge, charge["amount"], of=intent["id"])
    book.event("charge.succeeded", charge)
    return charge


def paid(
    book: Book, intent: Object, method: Object, *, authenticated: bool = False, amount: int | None = None
) -> Object:
    """Adds the charge of a payment that was captured at once."""
    amount = intent["amount"] if amount is None else amount
    charge = _new(book, intent, method, status="succeeded", paid=True, captured=True, amount_captured=amount)
    if method["type"] == "card":
        _show_card(book, charge, intent, method, authenticated=authenticated)
    book.moved("CAPTURED", charge, amount, of=intent["id"])
    if intent["capture_method"] == "automatic" or method["type"] != "card":
        settle(book, charge)
        book.event("charge.succeeded", charge)
    else:  # the balance transaction of `automatic_async` comes after the answer
        book.event("charge.succeeded", charge)
        book.clock.after(_SETTLES_AFTER_S, lambda: _settle_later(book, charge))
    return charge


def capture(book: Book, intent: Object, charge: Object, amount: int) -> None:
    """Captures an authorisation. What is left of it is released, and shows nowhere but in the amounts."""
    charge["captured"] = True
    charge["amount_captured"] = amount
    settle(book, charge)
    book.moved("CAPTURED", charge, amount, of=intent["id"])
    if rest := charge["amount"] - amount:
        book.moved("RELEASED", charge, rest, of=intent["id"])
    book.event("charge.captured", charge)


def release(book: Book, intent: Object, charge: Object) -> None:
    """Releases a whole authorisation. The charge stays as it was, uncaptured, and there is no refund.

    Source: https://docs.stripe.com/changelog/basil/2025-03-31/remove-refund-from-partial-capture-and-payment-cancellation-flow.
    """
    book.moved("RELEASED", charge, charge["amount"], of=intent["id"])


def settle(book: Book, charge: Object) -> None:
    """Adds the balance transaction of a captured charge."""
    card = charge["payment_method_details"].get("card") or {}
    plan = (card.get("installments") or {}).get("plan") or {}
    fee = balance.processing_fee(book, charge["amount_captured"], charge["currency"], plan.get("count"))
    kind = "charge" if charge["payment_method_details"]["type"] == "card" else "payment"
    transaction = balance.add_transaction(book, kind, charge, charge["amount_captured"], fee)
    if (book.details[charge["id"]].get("afterwards")) == "available":
        transaction |= {"available_on": book.clock.seconds(), "status": "available"}
    charge["balance_transaction"] = transaction["id"]


def _settle_later(book: Book, charge: Object) -> None:
    if charge["balance_transaction"] is None:
        settle(book, charge)
        book.event("charge.updated", charge, {"balance_transaction": None})


def _new(book: Book, intent: Object, method: Object, **fields: Any) -> Object:
    kind = method["type"]
    charge = book.add(
        "charge",
        amount=intent["amount"],
        amount_refunded=0,
        application=None,
        application_fee=None,
        application_fee_amount=None,
        balance_transaction=None,
        billing_details=dict(method["billing_details"]),
        calculated_statement_descriptor="FAKE STRIPE",
        currency=intent["currency"],
        customer=intent["customer"],
        description=intent["description"],
        disputed=False,
        failure_balance_transaction=None,
        failure_code=None,
        failure_message=None,
        fraud_details={},
        metadata=dict(intent["metadata"]),
        on_behalf_of=None,
        outcome={
            "advice_code": None,
            "network_advice_code": None,
            "network_decline_code": None,
            "network_status": "approved_by_network",
            "reason": None,
            "risk_level": "normal",
            "seller_message": "Payment complete.",
            "type": "authorized",
        },
        payment_intent=intent["id"],
        payment_method=method["id"],
        payment_method_details={
            "type": kind,
            kind: _details(method, intent["amount"], card_of(book, method).cvc_check) if kind == "card" else {},
        },
        radar_options={},
        receipt_email=intent["receipt_email"],
        receipt_number=None,
        receipt_url=None,
        refunded=False,
        review=None,
        shipping=None,
        source_transfer=None,
        statement_descriptor=intent["statement_descriptor"],
        statement_descriptor_suffix=intent["statement_descriptor_suffix"],
        transfer_data=None,
        transfer_group=None,
        **fields,
    )
    book.details[charge["id"]] = {"afterwards": card_of(book, method).afterwards if kind == "card" else ""}
    intent["latest_charge"] = charge["id"]
    return charge


def _details(method: Object, amount: int, cvc_check: str) -> Object:
    card = method["card"]
    same = {key: card[key] for key in ("brand", "country", "exp_month", "exp_year", "fingerprint", "funding", "last4")}
    return {
        **same,
        "checks": {**card["checks"], "cvc_check": cvc_check},
        "amount_authorized": None,
        "authorization_code": None,
        "extended_authorization": {"status": "disabled"},
        "incremental_authorization": {"status": "unavailable"},
        "installments": None,
        "mandate": None,
        "multicapture": {"status": "unavailable"},
        "network": card["brand"],
        "network_token": {"used": False},
        "network_transaction_id": None,
        "overcapture": {"maximum_amount_capturable": amount, "status": "unavailable"},
        "regulated_status": "unregulated",
        "three_d_secure": None,
        "transaction_link_id": None,
        "wallet": None,
    }


def _show_card(book: Book, charge: Object, intent: Object, method: Object, *, authenticated: bool) -> None:
    """Adds to a charge what the network answered."""
    card = charge["payment_method_details"]["card"]
    card["amount_authorized"] = charge["amount"]
    card["authorization_code"] = f"{book.random.randrange(10**6):06}"
    card["network_transaction_id"] = str(book.random.randrange(10**14, 10**15))
    chosen = ((intent["payment_method_options"].get("card") or {}).get("installments") or {}).get("plan")
    card["installments"] = {"plan": chosen} if chosen else None
    if authenticated:
        card["three_d_secure"] = {
            "authentication_flow": "challenge",
            "electronic_commerce_indicator": "05",
            "exemption_indicator": None,
            "result": "authenticated",
            "result_reason": None,
            "transaction_id": book.id("", 36),
            "version": "2.2.0",
        }
