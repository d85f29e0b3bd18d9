"""Payments: /v1/payment_intents and what can be done with one."""

from __future__ import annotations

from typing import Any, Final

from campaigns.fake_stripe import charges, disputes, instalments, transfers
from campaigns.fake_stripe.books import Book, Object, merged
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.confirmation import choose_method, confirm
from campaigns.fake_stripe.errors import NotSupported, invalid, unexpected_state
from campaigns.fake_stripe.forms import Tree
from campaigns.fake_stripe.lists import page

CURRENCIES: Final = {"mxn": 1_000, "usd": 50, "eur": 50, "gbp": 30, "jpy": 50, "brl": 50, "cad": 50}
"""The least amount of each currency, in its smallest unit."""
WITHOUT_MINOR: Final = frozenset({"jpy"})
_AMOUNT_MAX: Final = 99_999_999
_TYPES: Final = ("card", "customer_balance", "oxxo")
_METHOD_PARAMETERS: Final = frozenset({"payment_method", "payment_method_data", "confirmation_token"})
_CANCELLABLE: Final = (
    "requires_payment_method",
    "requires_capture",
    "requires_confirmation",
    "requires_action",
    "processing",
)


def create(call: Call) -> Object:
    """Creates a payment, and confirms it where `confirm` is true: POST /v1/payment_intents."""
    book = call.book
    currency = call.parameters["currency"].lower()
    _check_amount(call.parameters["amount"], currency)
    if customer := call.get("customer"):
        book.get("customer", customer, "customer")
    confirms = bool(call.get("confirm"))
    for name in ("off_session", "return_url", "error_on_requires_action", "use_stripe_sdk", "confirmation_token"):
        if call.get(name) and not confirms:
            raise invalid(f"`{name}` can only be set when `confirm` is true.", name)
    intent = _new(book, call, currency)
    _set_options(book, intent, call.parameters)
    choose_method(book, intent, call.parameters)
    instalments.offer(book, intent)
    book.event("payment_intent.created", intent)
    if confirms:
        chosen = {key: value for key, value in call.parameters.items() if key not in _METHOD_PARAMETERS}
        confirm(book, intent, chosen, call.address)
    return intent


def _new(book: Book, call: Call, currency: str) -> Object:
    types = call.get("payment_method_types")
    automatic = call.get("automatic_payment_methods")
    if types and automatic and automatic["enabled"]:
        raise invalid("You may only specify one of these parameters: automatic_payment_methods, payment_method_types.")
    if types is None and automatic is None:
        automatic = {"enabled": True}
    if automatic and automatic["enabled"]:
        automatic = {"allow_redirects": "always", **automatic}
        types = ["card", "oxxo"] if currency == "mxn" else ["card"]
    types = types or ["card"]
    for index, name in enumerate(types):
        if name not in _TYPES:
            raise NotSupported(f"payment_method_types[{index}] {name}")
    name = book.id("pi_")
    made = book.add(
        "payment_intent",
        named=name,
        amount=call.parameters["amount"],
        amount_capturable=0,
        allowed_payment_method_types=None,
        amount_details={"tip": {}},
        amount_received=0,
        application=None,
        application_fee_amount=None,
        automatic_payment_methods=automatic,
        canceled_at=None,
        cancellation_reason=None,
        capture_method=call.get("capture_method", "automatic_async"),
        client_secret=f"{name}_secret_{book.id('', 25)}",
        confirmation_method=call.get("confirmation_method", "automatic"),
        currency=currency,
        customer=call.get("customer"),
        customer_account=None,
        description=call.get("description"),
        excluded_payment_method_types=None,
        last_payment_error=None,
        latest_charge=None,
        managed_payments=None,
        metadata=merged({}, call.parameters.get("metadata")),
        next_action=None,
        on_behalf_of=None,
        payment_method=None,
        payment_method_configuration_details=None,
        payment_method_options={each: _blank_options(each) for each in types},
        payment_method_types=types,
        processing=None,
        receipt_email=call.get("receipt_email"),
        review=None,
        setup_future_usage=call.get("setup_future_usage"),
        shipping=call.get("shipping"),
        statement_descriptor=call.get("statement_descriptor"),
        statement_descriptor_suffix=call.get("statement_descriptor_suffix"),
        status="requires_payment_method",
        transfer_data=None,
        transfer_group=None,
    )
    book.details[name] = {}
    return made


def _blank_options(kind: str) -> Object:
    match kind:
        case "card":
            return {
                "installments": None,
                "mandate_options": None,
                "network": None,
                "request_three_d_secure": "automatic",
            }
        case "oxxo":
            return {"expires_after_days": 3}
        case _:
            return {"funding_type": None}


def _set_options(book: Book, intent: Object, parameters: Tree) -> None:
    """Takes over `payment_method_options`. Raises StripeError for a method that the payment does not allow."""
    for kind, given in (parameters.get("payment_method_options") or {}).items():
        options = intent["payment_method_options"].get(kind)
        if options is None or not given:
            continue  # Stripe keeps options of other methods for later; here nothing reads them
        for name, value in given.items():
            if kind == "card" and name == "installments":
                instalments.set_options(intent, options, value)
            elif kind == "customer_balance":
                transfers.set_option(options, name, value)
            elif kind == "oxxo" and name == "expires_after_days" and not 1 <= value <= 7:
                raise invalid(
                    "`expires_after_days` must be between 1 and 7.", "payment_method_options[oxxo][expires_after_days]"
                )
            else:
                options[name] = value or None


def _check_amount(amount: int, currency: str) -> None:
    if currency not in CURRENCIES:
        raise invalid(
            f"Invalid currency: {currency}. Stripe currently supports these currencies: {', '.join(sorted(CURRENCIES))}",
            "currency",
        )
    if amount < 1:
        raise invalid(
            "The amount must be greater than or equal to the minimum charge amount allowed for your account and the currency set "
            "(https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts).  If you want to save a Payment Method for future "
            "use without an immediate payment, use a Setup Intent instead: https://docs.stripe.com/payments/setup-intents",
            "amount",
            code="parameter_invalid_integer",
        )
    if amount < CURRENCIES[currency]:
        raise invalid(
            f"Amount must be at least {shown(CURRENCIES[currency], currency)} {currency}",
            "amount",
            code="amount_too_small",
        )
    if amount > _AMOUNT_MAX:
        raise invalid(f"Amount must be no more than {shown(_AMOUNT_MAX, currency)}", "amount", code="amount_too_large")


def shown(amount: int, currency: str) -> str:
    """Returns an amount as Stripe's messages show it."""
    return f"¥{amount:,}" if currency in WITHOUT_MINOR else f"${amount / 100:,.2f}"


def found(call: Call) -> Object:
    """Returns the payment of the path. Raises StripeError, 404."""
    return call.book.get("payment_intent", call.path["intent"], "intent", status=404)


def retrieve(call: Call) -> Object:
    """Returns one: GET /v1/payment_intents/{intent}."""
    intent = found(call)
    if (call.publishable or call.get("client_secret")) and call.get("client_secret") != intent["client_secret"]:
        raise invalid(
            "The client_secret provided does not match the client_secret associated with the PaymentIntent.",
            "client_secret",
        )
    return intent


def list_all(call: Call) -> Object:
    """Lists them: GET /v1/payment_intents."""
    return page(call.book.all("payment_intent"), call.parameters, "/v1/payment_intents", "customer")


def update(call: Call) -> Object:
    """Changes one that is not confirmed yet; its metadata and description always: POST /v1/payment_intents/{intent}."""
    book, intent = call.book, found(call)
    always = {
        "metadata",
        "description",
        "receipt_email",
        "shipping",
        "statement_descriptor",
        "statement_descriptor_suffix",
        "expand",
    }
    rest = set(call.parameters) - always
    if rest and intent["status"] in {"succeeded", "canceled", "processing", "requires_capture"}:
        raise unexpected_state(
            f"This PaymentIntent's {min(rest)} could not be updated because it has a status of {intent['status']}. You may only "
            "update the amount of a PaymentIntent with one of the following statuses: requires_payment_method, "
            "requires_confirmation, requires_action.",
            intent,
            min(rest),
        )
    if "amount" in call.parameters or "currency" in call.parameters:
        amount, currency = call.get("amount", intent["amount"]), call.get("currency", intent["currency"]).lower()
        _check_amount(amount, currency)
        intent |= {"amount": amount, "currency": currency}
    if customer := call.get("customer"):
        book.get("customer", customer, "customer")
    for name in (
        "customer",
        "description",
        "receipt_email",
        "setup_future_usage",
        "statement_descriptor",
        "statement_descriptor_suffix",
    ):
        if name in call.parameters:
            intent[name] = call.get(name)
    intent["metadata"] = merged(intent["metadata"], call.parameters.get("metadata"))
    _set_options(book, intent, call.parameters)
    choose_method(book, intent, call.parameters)
    instalments.offer(book, intent)
    return intent


def confirm_one(call: Call) -> Object:
    """Confirms one: POST /v1/payment_intents/{intent}/confirm."""
    intent = found(call)
    if call.publishable and call.get("client_secret") != intent["client_secret"]:
        raise invalid(
            "The client_secret provided does not match the client_secret associated with the PaymentIntent.",
            "client_secret",
        )
    if intent["status"] in {"requires_payment_method", "requires_confirmation", "requires_action"}:
        _set_options(call.book, intent, call.parameters)
        for name in ("receipt_email", "setup_future_usage", "capture_method", "shipping"):
            if call.get(name):
                intent[name] = call.get(name)
    confirm(call.book, intent, call.parameters, call.address)
    return intent


def capture(call: Call) -> Object:
    """Captures one, wholly or in part; the rest is released: POST /v1/payment_intents/{intent}/capture."""
    book, intent = call.book, found(call)
    if intent["status"] == "succeeded":
        raise unexpected_state(
            "The remaining amount on this PaymentIntent could not be captured because the remainder of the authorized amount has been "
            "released.",
            intent,
        )
    if intent["status"] != "requires_capture":
        raise unexpected_state(
            f"This PaymentIntent could not be captured because it has a status of {intent['status']}. Only a PaymentIntent with one of "
            "the following statuses may be captured: requires_capture.",
            intent,
        )
    if call.get("final_capture") is False:
        raise invalid(
            "`final_capture` can only be false where multicapture is available; this payment's card does not have it.",
            "final_capture",
        )
    amount = call.get("amount_to_capture", intent["amount_capturable"])
    if amount < 0:
        raise invalid("Invalid non-negative integer", "amount_to_capture", payment_intent=intent)
    if amount == 0:
        raise invalid(
            "This value must be greater than or equal to 1.",
            "amount",
            code="parameter_invalid_integer",
            payment_intent=intent,
        )
    if amount > intent["amount_capturable"]:
        raise invalid(
            "The payment could not be captured because the requested capture amount is greater than the amount you can capture for "
            "this charge. Contact us via https://support.stripe.com/contact/ for help.",
            code="amount_too_large",
            payment_intent=intent,
        )
    intent["metadata"] = merged(intent["metadata"], call.parameters.get("metadata"))
    charge = book.get("charge", intent["latest_charge"], "charge")
    charges.capture(book, intent, charge, amount)
    intent |= {"status": "succeeded", "amount_received": amount, "amount_capturable": 0}
    disputes.follow(book, charge)
    book.event("payment_intent.succeeded", intent)
    return intent


def cancel(call: Call) -> Object:
    """Cancels one that is not paid, and releases its authorisation: POST /v1/payment_intents/{intent}/cancel."""
    book, intent = call.book, found(call)
    if intent["status"] not in _CANCELLABLE:
        raise unexpected_state(
            f"You cannot cancel this PaymentIntent because it has a status of {intent['status']}. Only a PaymentIntent with one of the "
            "following statuses may be canceled: requires_payment_method, requires_capture, requires_reauthorization, "
            "requires_confirmation, requires_action, expired, processing.",
            intent,
        )
    cancel_now(book, intent, call.get("cancellation_reason"))
    return intent


def cancel_now(book: Book, intent: Object, reason: str | None) -> None:
    """Cancels a payment, and releases its authorisation or the money of transfers that it held.

    The charge of a released authorisation stays as it was, and the payment keeps its `amount_capturable`.
    """
    if intent["status"] == "requires_capture":
        charges.release(book, intent, book.get("charge", intent["latest_charge"], "charge"))
    transfers.unapply(book, intent)
    changes: dict[str, Any] = {
        "status": "canceled",
        "next_action": None,
        "canceled_at": book.clock.seconds(),
        "cancellation_reason": reason,
    }
    intent |= changes
    book.event("payment_intent.canceled", intent)
