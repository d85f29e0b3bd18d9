"""Setups, which save a card without a payment: /v1/setup_intents and what can be done with one.

Source: https://docs.stripe.com/api/setup_intents. The card is attached to the setup's customer once it succeeds.
"""

from __future__ import annotations

from typing import Any, Final

from campaigns.fake_stripe import cards
from campaigns.fake_stripe.books import Book, Object, merged
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.cards import TestCard
from campaigns.fake_stripe.errors import NotSupported, StripeError, invalid
from campaigns.fake_stripe.forms import Tree
from campaigns.fake_stripe.lists import page
from campaigns.fake_stripe.payment_methods import card_of, from_data, keep, of_confirmation_token, usable

_OPEN: Final = ("requires_payment_method", "requires_confirmation", "requires_action")
_LISTED: Final = ", ".join(_OPEN)


def create(call: Call) -> Object:
    """Creates a setup, and confirms it where `confirm` is true: POST /v1/setup_intents."""
    book, confirms = call.book, bool(call.get("confirm"))
    if customer := call.get("customer"):
        book.get("customer", customer, "customer")
    for name in ("return_url", "use_stripe_sdk", "confirmation_token"):
        if call.get(name) and not confirms:
            raise invalid(f"`{name}` can only be set when `confirm` is true.", name)
    types = call.get("payment_method_types") or ["card"]
    if types != ["card"] or call.get("automatic_payment_methods"):
        raise NotSupported("setups of anything but cards by payment_method_types")
    name = book.id("seti_")
    made = book.add(
        "setup_intent",
        named=name,
        allowed_payment_method_types=None,
        application=None,
        automatic_payment_methods=None,
        cancellation_reason=None,
        client_secret=f"{name}_secret_{book.id('', 25)}",
        customer=call.get("customer"),
        customer_account=None,
        description=call.get("description"),
        excluded_payment_method_types=None,
        flow_directions=None,
        last_setup_error=None,
        latest_attempt=None,
        managed_payments=None,
        mandate=None,
        metadata=merged({}, call.parameters.get("metadata")),
        next_action=None,
        on_behalf_of=None,
        payment_method=None,
        payment_method_configuration_details=None,
        payment_method_options={
            "card": {"mandate_options": None, "network": None, "request_three_d_secure": "automatic"}
        },
        payment_method_types=types,
        single_use_mandate=None,
        status="requires_payment_method",
        usage=call.get("usage", "off_session"),
    )
    book.details[name] = {}
    book.event("setup_intent.created", made)
    _choose_method(book, made, call.parameters)
    if confirms:
        _confirm(book, made, call.parameters, call.address)
    return made


def found(call: Call) -> Object:
    """Returns the setup of the path. Raises StripeError, 404."""
    return call.book.get("setup_intent", call.path["intent"], "intent", status=404)


def retrieve(call: Call) -> Object:
    """Returns one: GET /v1/setup_intents/{intent}. A publishable key reads it by its client secret."""
    intent = found(call)
    if (call.publishable or call.get("client_secret")) and call.get("client_secret") != intent["client_secret"]:
        raise invalid(
            "The client_secret provided does not match the client_secret associated with the SetupIntent.",
            "client_secret",
        )
    return intent


def list_all(call: Call) -> Object:
    """Lists them: GET /v1/setup_intents."""
    return page(call.book.all("setup_intent"), call.parameters, "/v1/setup_intents", "customer", "payment_method")


def update(call: Call) -> Object:
    """Changes one that has not ended: POST /v1/setup_intents/{intent}."""
    book, intent = call.book, found(call)
    rest = set(call.parameters) - {"metadata", "description", "expand"}
    if rest and intent["status"] not in _OPEN:
        raise _unexpected(
            f"You cannot update {min(rest)} of this SetupIntent because it has a status of {intent['status']}.", intent
        )
    if customer := call.get("customer"):
        book.get("customer", customer, "customer")
        intent["customer"] = customer
    if "description" in call.parameters:
        intent["description"] = call.get("description")
    intent["metadata"] = merged(intent["metadata"], call.parameters.get("metadata"))
    _choose_method(book, intent, call.parameters)
    return intent


def confirm_one(call: Call) -> Object:
    """Confirms one: POST /v1/setup_intents/{intent}/confirm."""
    intent = found(call)
    if intent["status"] not in _OPEN:
        raise _unexpected(
            f"You cannot confirm this SetupIntent because it has a status of {intent['status']}. Only a SetupIntent with one of the "
            f"following statuses may be confirmed: {_LISTED}.",
            intent,
        )
    _choose_method(call.book, intent, call.parameters)
    _confirm(call.book, intent, call.parameters, call.address)
    return intent


def cancel(call: Call) -> Object:
    """Cancels one that has not ended: POST /v1/setup_intents/{intent}/cancel."""
    intent = found(call)
    if intent["status"] not in _OPEN:
        raise _unexpected(
            f"You cannot cancel this SetupIntent because it has a status of {intent['status']}. Only a SetupIntent with one of the "
            f"following statuses may be canceled: {_LISTED}.",
            intent,
        )
    intent |= {"status": "canceled", "next_action": None, "cancellation_reason": call.get("cancellation_reason")}
    call.book.event("setup_intent.canceled", intent)
    return intent


def _choose_method(book: Book, intent: Object, parameters: Tree) -> None:
    given = [name for name in ("payment_method", "payment_method_data", "confirmation_token") if parameters.get(name)]
    if len(given) > 1:
        raise invalid(f"You cannot provide both `{given[0]}` and `{given[1]}`.", given[1])
    if name := parameters.get("confirmation_token"):
        token, method = of_confirmation_token(book, name, intent["id"], "setup_intent")
        book.details[intent["id"]]["return_url"] = token["return_url"]
    elif data := parameters.get("payment_method_data"):
        method = from_data(book, data, "payment_method_data")
    elif name := parameters.get("payment_method"):
        method = usable(book, name, "payment_method", intent["customer"])
    else:
        return
    if method["type"] != "card":
        raise invalid(
            f"The PaymentMethod provided ({method['type']}) is not allowed for this SetupIntent.", "payment_method"
        )
    intent["payment_method"] = method["id"]
    if intent["status"] == "requires_payment_method":
        intent["status"] = "requires_confirmation"


def _confirm(book: Book, intent: Object, parameters: Tree, address: str) -> None:
    if intent["payment_method"] is None:
        raise _unexpected("You cannot confirm this SetupIntent because it's missing a payment method.", intent)
    if url := parameters.get("return_url"):
        book.details[intent["id"]]["return_url"] = url
    method = book.get("payment_method", intent["payment_method"], "payment_method")
    card = card_of(book, method)
    intent["next_action"] = None
    book.details[intent["id"]].pop("challenge", None)
    if card.authentication != "never":
        _ask_payer(book, intent, address, by_script=bool(parameters.get("use_stripe_sdk")))
    else:
        _set_up(book, intent, method, card)


def _ask_payer(book: Book, intent: Object, address: str, *, by_script: bool) -> None:
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
    book.event("setup_intent.requires_action", intent)


def authenticated(book: Book, intent: Object, *, passed: bool) -> None:
    """Ends 3-D Secure: the card is set up, or the setup needs another one."""
    method = book.get("payment_method", intent["payment_method"], "payment_method")
    if not passed:
        error = {
            "type": "invalid_request_error",
            "code": "setup_intent_authentication_failure",
            "doc_url": "https://stripe.com/docs/error-codes/setup-intent-authentication-failure",
            "message": "The latest attempt to set up the payment method has failed because authentication failed.",
            "payment_method": dict(method),
        }
        _fail(book, intent, error)
        return
    try:
        _set_up(book, intent, method, card_of(book, method))
    except StripeError:
        return  # the setup shows it


def _set_up(book: Book, intent: Object, method: Object, card: TestCard) -> None:
    """Attaches the card to the customer, or raises the 402 of one that its bank declines."""
    if card.decline and card != cards.BY_NAME["chargeCustomerFail"]:
        code = card.decline if card.decline in cards.OWN_CODES else "card_declined"
        error: dict[str, Any] = {
            "advice_code": card.advice,
            "code": code,
            "decline_code": card.decline,
            "doc_url": f"https://stripe.com/docs/error-codes/{code.replace('_', '-')}",
            "message": cards.message(card.decline),
            "payment_method": dict(method),
            "payment_method_type": "card",
            "type": "card_error",
        }
        error = {key: value for key, value in error.items() if value is not None}
        _fail(book, intent, error)
        facts = {key: error[key] for key in ("advice_code", "decline_code", "payment_method") if key in error}
        raise StripeError(402, "card_error", error["message"], code=code, setup_intent=intent, **facts)
    intent |= {"status": "succeeded", "next_action": None, "last_setup_error": None}
    if intent["customer"]:
        book.details[method["id"]]["set_up"] = True
        keep(book, method, intent["customer"])
    book.event("setup_intent.succeeded", intent)


def _fail(book: Book, intent: Object, error: Object) -> None:
    failed = {"status": "requires_payment_method", "payment_method": None, "next_action": None}
    intent |= {**failed, "last_setup_error": error}
    book.event("setup_intent.setup_failed", intent)


def _unexpected(message: str, intent: Object) -> StripeError:
    return invalid(message, code="setup_intent_unexpected_state", setup_intent=intent)
