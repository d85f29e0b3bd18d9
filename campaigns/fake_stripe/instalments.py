"""Meses sin intereses: the plans that a payment's card offers, and the plan that is chosen.

Source: https://docs.stripe.com/payments/meses-sin-intereses/accept-a-payment. Plans are offered once the payment has a card,
and `payment_method_options[card][installments][enabled]` is true.
"""

from __future__ import annotations

from typing import Any

from campaigns.fake_stripe.books import Book, Object
from campaigns.fake_stripe.cards import PLAN_MINIMUM
from campaigns.fake_stripe.errors import invalid
from campaigns.fake_stripe.payment_methods import card_of

_PARAM = "payment_method_options[card][installments]"


def set_options(intent: Object, options: Object, given: Any) -> None:
    """Takes over `installments` of a payment's options."""
    before = options["installments"] or {"available_plans": None, "enabled": False, "plan": None}
    changes = dict(given)
    if "plan" in changes:
        changes["plan"] = changes["plan"] or None
        if changes["plan"]:
            changes["enabled"] = True
    options["installments"] = {**before, **changes}


def offer(book: Book, intent: Object) -> None:
    """Shows the plans of the payment's card, `[]` where there is none."""
    installments = _of(intent)
    if installments and installments["enabled"] and intent["payment_method"]:
        installments["available_plans"] = _plans(book, intent)


def choose(book: Book, intent: Object, method: Object) -> None:
    """Checks the plan that is confirmed. Raises StripeError for one that the card does not offer."""
    offer(book, intent)
    plan = (_of(intent) or {}).get("plan")
    if plan and plan not in _plans(book, intent):
        raise invalid(
            "The selected installment plan is not available for this payment. Choose one of `available_plans`.",
            f"{_PARAM}[plan]",
        )


def _of(intent: Object) -> Object | None:
    found: Object | None = (intent["payment_method_options"].get("card") or {}).get("installments")
    return found


def _plans(book: Book, intent: Object) -> list[Object]:
    method = book.get("payment_method", intent["payment_method"], "payment_method")
    if method["type"] != "card" or intent["currency"] != "mxn" or book.country != "MX":
        return []
    months = card_of(book, method).plans
    return [
        {"count": each, "interval": "month", "type": "fixed_count"}
        for each in months
        if intent["amount"] >= PLAN_MINIMUM[each]
    ]
