"""What confirming a payment does: the card is charged, or the payer is sent to 3-D Secure, a voucher or a transfer."""

from __future__ import annotations

from typing import Any, Final

from campaigns.fake_stripe import charges, disputes, instalments, transfers, vouchers
from campaigns.fake_stripe.books import Book, Object
from campaigns.fake_stripe.cards import TestCard
from campaigns.fake_stripe.errors import StripeError, invalid, unexpected_state
from campaigns.fake_stripe.forms import Tree
from campaigns.fake_stripe.payment_methods import card_of, from_data, keep, of_confirmation_token, usable

_CONFIRMABLE: Final = ("requires_payment_method", "requires_confirmation", "requires_action")
_SHOWN_ELSEWHERE: Final = {"type", "message", "code", "doc_url", "payment_method_type"}
_LISTED: Final = ", ".join(_CONFIRMABLE)


def choose_method(book: Book, intent: Object, parameters: Tree) -> None:
    """Puts the payment method that the parameters name on the payment. Raises StripeError."""
    given = [name for name in ("payment_method", "payment_method_data", "confirmation_token") if parameters.get(name)]
    if len(given) > 1:
        raise invalid(f"You cannot provide both `{given[0]}` and `{given[1]}`.", given[1])
    if name := parameters.get("confirmation_token"):
        token, method = of_confirmation_token(book, name, intent["id"])
        intent["setup_future_usage"] = token["setup_future_usage"] or intent["setup_future_usage"]
        _set_return_url(book, intent, token["return_url"])
    elif data := parameters.get("payment_method_data"):
        method = from_data(book, data, "payment_method_data")
    elif name := parameters.get("payment_method"):
        method = usable(book, name, "payment_method", intent["customer"])
    else:
        return
    if method["type"] not in intent["payment_method_types"]:
        raise invalid(
            f"The PaymentMethod provided ({method['type']}) is not allowed for this PaymentIntent. Please attach a PaymentMethod "
            f"of one of the following types: {', '.join(intent['payment_method_types'])}. Alternatively update the allowed "
            "payment_method_types for this PaymentIntent to include "
            f'"{method["type"]}".',
            "payment_method",
        )
    intent["payment_method"] = method["id"]
    if intent["status"] == "requires_payment_method":
        intent["status"] = "requires_confirmation"


def confirm(book: Book, intent: Object, parameters: Tree, address: str) -> None:
    """Confirms a payment. Raises StripeError: 402 where the card is declined, with the payment as it is then."""
    if intent["status"] not in _CONFIRMABLE:
        raise unexpected_state(_unconfirmable(intent["status"]), intent)
    if parameters.get("off_session") and parameters.get("setup_future_usage") == "on_session":
        raise invalid(
            "You cannot set `off_session` to `true` where `setup_future_usage` is `on_session`.", "off_session"
        )
    choose_method(book, intent, parameters)
    if intent["payment_method"] is None:
        raise unexpected_state(
            "You cannot confirm this PaymentIntent because it's missing a payment method. You can either update the PaymentIntent "
            "with a payment method and then confirm it again, or confirm it again directly with a payment method or "
            "ConfirmationToken.",
            intent,
        )
    _set_return_url(book, intent, parameters.get("return_url"))
    _need_return_url(book, intent, parameters)
    method = book.get("payment_method", intent["payment_method"], "payment_method")
    intent["next_action"] = None
    book.details[intent["id"]].pop("voucher", None)
    book.details[intent["id"]].pop("challenge", None)
    match method["type"]:
        case "card":
            instalments.choose(book, intent, method)
            _confirm_card(book, intent, method, parameters, address)
        case "oxxo":
            vouchers.issue(book, intent, method, address)
        case _:
            transfers.await_transfer(book, intent, method, address)


def _confirm_card(book: Book, intent: Object, method: Object, parameters: Tree, address: str) -> None:
    card = card_of(book, method)
    off_session = bool(parameters.get("off_session"))
    if not _needs_payer(book, intent, method, card, off_session=off_session):
        charge_card(book, intent, method, authenticated=False)
    elif off_session or parameters.get("error_on_requires_action"):
        refused = TestCard(number=card.number, decline="authentication_required")
        _decline(book, intent, method, refused)
    else:
        _ask_payer(book, intent, method, address, by_script=bool(parameters.get("use_stripe_sdk")))


def _needs_payer(book: Book, intent: Object, method: Object, card: TestCard, *, off_session: bool) -> bool:
    options = intent["payment_method_options"].get("card") or {}
    if options.get("request_three_d_secure") in {"any", "challenge"} and not off_session:
        return True
    match card.authentication:
        case "required":
            return True
        case "until_set_up":
            return not (off_session and book.details[method["id"]]["set_up"])
        case "never":
            return False


def _ask_payer(book: Book, intent: Object, method: Object, address: str, *, by_script: bool) -> None:
    """Sends the payer to the page of 3-D Secure: by an address to return from, or by Stripe's script."""
    details = book.details[intent["id"]]
    details["challenge"] = book.id("", 24)
    url = f"{address}/authenticate/{book.account}/{intent['id']}?challenge={details['challenge']}"
    back = details.get("return_url")
    if back and not by_script:
        intent["next_action"] = {"type": "redirect_to_url", "redirect_to_url": {"return_url": back, "url": url}}
    else:
        script = {"type": "three_d_secure_redirect", "stripe_js": url, "source": book.id("src_")}
        intent["next_action"] = {"type": "use_stripe_sdk", "use_stripe_sdk": script}
    intent["status"] = "requires_action"
    book.event("payment_intent.requires_action", intent)


def authenticated(book: Book, intent: Object, *, passed: bool) -> None:
    """Ends 3-D Secure: the card is charged, or the payment needs another method."""
    method = book.get("payment_method", intent["payment_method"], "payment_method")
    intent["next_action"] = None
    if not passed:
        error = {
            "type": "invalid_request_error",
            "code": "payment_intent_authentication_failure",
            "doc_url": "https://stripe.com/docs/error-codes/payment-intent-authentication-failure",
            "message": "We are unable to authenticate your payment method. Please choose a different payment method and try again.",
            "payment_method": dict(method),
        }
        _fail(book, intent, error)
    elif intent["confirmation_method"] == "manual":
        intent["status"] = "requires_confirmation"
        book.details[method["id"]]["authenticated"] = intent["id"]
    else:
        try:
            charge_card(book, intent, method, authenticated=True)
        except StripeError:
            return  # the payment shows it


def charge_card(book: Book, intent: Object, method: Object, *, authenticated: bool) -> None:
    """Charges the card, or raises its decline."""
    card = card_of(book, method)
    if card.decline:
        _decline(book, intent, method, card)
    if intent["capture_method"] == "manual" or _manual_for_card(intent):
        charge = charges.authorised(book, intent, method, authenticated=authenticated)
        intent |= {"status": "requires_capture", "amount_capturable": intent["amount"], "last_payment_error": None}
        book.event("payment_intent.amount_capturable_updated", intent)
        book.clock.after(charges.AUTHORISATION_S, lambda: _lapse(book, intent, charge))
    else:
        charge = charges.paid(book, intent, method, authenticated=authenticated)
        succeed(book, intent)
    book.details[method["id"]]["used"] = True
    if intent["setup_future_usage"] and intent["customer"]:
        book.details[method["id"]]["set_up"] = True
        keep(book, method, intent["customer"])
    disputes.follow(book, charge)


def succeed(book: Book, intent: Object) -> None:
    """Ends a payment that was paid."""
    intent |= {
        "status": "succeeded",
        "amount_received": intent["amount"],
        "amount_capturable": 0,
        "next_action": None,
        "last_payment_error": None,
    }
    book.event("payment_intent.succeeded", intent)


def _decline(book: Book, intent: Object, method: Object, card: TestCard) -> None:
    """Raises the 402 of a declined card, after the payment shows it."""
    charge = charges.declined(book, intent, method, card)
    outcome = charge["outcome"]
    checks = charge["payment_method_details"]["card"]["checks"]
    error: dict[str, Any] = {
        "advice_code": outcome["advice_code"],
        "charge": charge["id"],
        "code": charge["failure_code"],
        "decline_code": card.decline,
        "doc_url": f"https://stripe.com/docs/error-codes/{charge['failure_code'].replace('_', '-')}",
        "message": charge["failure_message"],
        "network_advice_code": outcome["network_advice_code"],
        "network_decline_code": outcome["network_decline_code"],
        "payment_method": {**method, "card": {**method["card"], "checks": dict(checks)}},
        "payment_method_type": "card",
        "type": "card_error",
    }
    error = {key: value for key, value in error.items() if value is not None}
    _fail(book, intent, error)
    facts = {key: value for key, value in error.items() if key not in _SHOWN_ELSEWHERE}
    raise StripeError(402, "card_error", error["message"], code=error["code"], payment_intent=intent, **facts)


def _fail(book: Book, intent: Object, error: Object) -> None:
    intent |= {
        "status": "requires_payment_method",
        "payment_method": None,
        "next_action": None,
        "last_payment_error": error,
    }
    book.event("payment_intent.payment_failed", intent)


def _lapse(book: Book, intent: Object, charge: Object) -> None:
    """Cancels an authorisation that was not captured within its days."""
    if intent["status"] == "requires_capture" and intent["latest_charge"] == charge["id"]:
        charges.release(book, intent, charge)
        book.event("charge.expired", charge)
        now = book.clock.seconds()
        intent |= {"status": "canceled", "amount_capturable": 0, "canceled_at": now, "cancellation_reason": "expired"}
        book.event("payment_intent.canceled", intent)


def _manual_for_card(intent: Object) -> bool:
    return (intent["payment_method_options"].get("card") or {}).get("capture_method") == "manual"


def _set_return_url(book: Book, intent: Object, url: str | None) -> None:
    if url:
        book.details[intent["id"]]["return_url"] = url


def _need_return_url(book: Book, intent: Object, parameters: Tree) -> None:
    automatic = intent["automatic_payment_methods"] or {}
    redirects = automatic.get("enabled") and automatic.get("allow_redirects") != "never"
    if redirects and not book.details[intent["id"]].get("return_url") and not parameters.get("use_stripe_sdk"):
        raise invalid(
            "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because some of these payment "
            "methods might redirect your customer off of your page, you must provide a `return_url`. If you don't want to accept "
            "redirect-based payment methods, set `automatic_payment_methods[enabled]` to `true` and "
            "`automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and Payment Intents.",
        )


def _unconfirmable(status: str) -> str:
    if status == "succeeded":
        return (
            "You cannot confirm this PaymentIntent because it has already succeeded after being previously confirmed."
        )
    return (
        f"This PaymentIntent could not be confirmed because it has a status of {status}. Only a PaymentIntent with one of "
        f"the following statuses may be confirmed: {_LISTED}."
    )
