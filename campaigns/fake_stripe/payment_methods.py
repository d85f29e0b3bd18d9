"""Payment methods, tokens and confirmation tokens: how a card's number, or a name of a test card, becomes a `pm_…`."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from campaigns.fake_stripe import cards
from campaigns.fake_stripe.books import Book, Object, merged
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.cards import TestCard
from campaigns.fake_stripe.errors import NotSupported, StripeError, invalid, missing
from campaigns.fake_stripe.forms import Tree
from campaigns.fake_stripe.lists import page

_ADDRESS: Final = ("city", "country", "line1", "line2", "postal_code", "state")
_TOKEN_LIFE_S: Final = 12 * 3600.0


def create(call: Call) -> Object:
    """Creates a payment method: POST /v1/payment_methods."""
    if call.get("customer"):
        raise NotSupported("copying a payment method between accounts")
    return from_data(call.book, call.parameters, "", publishable=call.publishable)


def retrieve(call: Call) -> Object:
    """Returns one: GET /v1/payment_methods/{payment_method}."""
    return resolved(call.book, call.path["payment_method"], "payment_method", status=404)


def attach(call: Call) -> Object:
    """Attaches one to a customer, where its card can be charged again."""
    book = call.book
    method = resolved(book, call.path["payment_method"], "payment_method", status=404)
    customer = book.get("customer", call.get("customer") or _required("customer"), "customer")
    if method["customer"] not in {None, customer["id"]}:
        raise invalid("The payment method you provided has already been attached to a customer.", "payment_method")
    _refuse_used(book, method)
    _refuse_declining(book, method)
    if method["type"] == "card":
        method["card"]["checks"]["cvc_check"] = card_of(book, method).cvc_check
    keep(book, method, customer["id"])
    return method


def _refuse_declining(book: Book, method: Object) -> None:
    """Raises the 402 of a card that its bank declines already when it is attached. `chargeCustomerFail` is not."""
    card = book.details[method["id"]].get("card")
    if card and card.decline and card.authentication == "never" and card != cards.BY_NAME["chargeCustomerFail"]:
        code = card.decline if card.decline in cards.OWN_CODES else "card_declined"
        facts = {"decline_code": card.decline, "advice_code": card.advice}
        raise StripeError(402, "card_error", cards.message(card.decline), code=code, **facts)


def detach(call: Call) -> Object:
    """Detaches one from its customer; it may not be used again."""
    method = call.book.get("payment_method", call.path["payment_method"], "payment_method", status=404)
    if method["customer"] is None:
        raise invalid("The payment method you provided is not attached to a customer so detachment is impossible.")
    previous, method["customer"] = method["customer"], None
    call.book.details[method["id"]]["used"] = True
    call.book.event("payment_method.detached", method, {"customer": previous})
    return method


def of_customer(call: Call) -> Object:
    """Lists a customer's payment methods."""
    customer = call.book.get("customer", call.path["customer"], "customer", status=404)
    mine = [each for each in call.book.all("payment_method") if each["customer"] == customer["id"]]
    return page(mine, call.parameters, f"/v1/customers/{customer['id']}/payment_methods", "type")


def keep(book: Book, method: Object, customer: str) -> None:
    """Attaches a payment method to a customer, once."""
    if method["customer"] is None:
        method["customer"] = customer
        book.event("payment_method.attached", method)


def resolved(book: Book, name: str, param: str, *, status: int = 400) -> Object:
    """Returns the payment method of an id. The name of a test card makes a new one, in test mode."""
    if name.startswith("pm_card_") and not book.livemode:
        card = cards.named(name.removeprefix("pm_card_"))
        if card is not None:
            return of_card(book, card)
    return book.get("payment_method", name, param, status=status)


def usable(book: Book, name: str, param: str, customer: str | None) -> Object:
    """Returns the payment method for a payment. Raises StripeError where it was used up, or is another customer's."""
    method = resolved(book, name, param)
    if method["customer"] is not None and customer is None:
        raise invalid(
            f"The `payment_method` parameter supplied {method['id']} belongs to the Customer {method['customer']}. Please include the "
            "Customer in the `customer` parameter on the PaymentIntent.",
            "source",
            code="parameter_missing",
        )
    if method["customer"] not in {None, customer}:
        raise invalid(
            f"The PaymentMethod {method['id']} does not belong to the Customer you supplied {customer}. Please use this PaymentMethod "
            "with the Customer that it belongs to instead.",
            param,
        )
    _refuse_used(book, method)
    return method


def _refuse_used(book: Book, method: Object) -> None:
    if method["customer"] is None and book.details[method["id"]]["used"]:
        raise invalid(
            "The provided PaymentMethod was previously used with a PaymentIntent without Customer attachment, shared with a "
            "connected account without Customer attachment, or was detached from a Customer. It may not be used again. To use "
            "a PaymentMethod multiple times, you must attach it to a Customer first.",
            "payment_method",
        )


def card_of(book: Book, method: Object) -> TestCard:
    """Returns the test card behind a payment method."""
    found: TestCard = book.details[method["id"]]["card"]
    return found


def from_data(book: Book, data: Tree, param: str, *, publishable: bool = False) -> Object:
    """Creates the payment method that `payment_method_data` or the parameters of a creation describe."""
    kind = data.get("type") or _required(f"{param}[type]" if param else "type")
    if kind == "card":
        method = _from_card(book, data.get("card"), f"{param}[card]" if param else "card", publishable=publishable)
    elif kind in {"oxxo", "customer_balance"}:
        method = _new(book, kind, {kind: {}})
    else:
        raise NotSupported(f"payment methods of type {kind}")
    given = data.get("billing_details") or {}
    address = given.get("address") or {}
    method["billing_details"].update({key: value or None for key, value in given.items() if key != "address"})
    method["billing_details"]["address"] = (
        {key: address.get(key) or None for key in _ADDRESS} if address else _no_address()
    )
    method["metadata"] = merged({}, data.get("metadata"))
    method["allow_redisplay"] = data.get("allow_redisplay", "unspecified")
    return method


def _from_card(book: Book, data: Any, param: str, *, publishable: bool) -> Object:
    if not isinstance(data, dict):
        raise invalid(f"Missing required param: {param}.", param, code="parameter_missing")
    if name := data.get("token"):
        return of_card(book, *_of_token(book, name, f"{param}[token]"))
    if not publishable:
        raise StripeError(
            402,
            "invalid_request_error",
            "Sending credit card numbers directly to the Stripe API is generally unsafe. We suggest you use test tokens that map to "
            "the test card you are using, see https://stripe.com/docs/testing.",
        )
    return of_card(book, numbered(data, param), data["exp_month"], data["exp_year"])


def numbered(data: Tree, param: str) -> TestCard:
    """Returns the card of a number. Raises StripeError as Stripe does for a wrong number or date."""
    card = cards.numbered(str(data.get("number", "")).replace(" ", ""))
    if card is None:
        raise StripeError(
            402, "card_error", "Your card number is incorrect.", code="incorrect_number", param=f"{param}[number]"
        )
    if not 1 <= data.get("exp_month", 0) <= 12:
        raise StripeError(
            402,
            "card_error",
            "Your card's expiration month is invalid.",
            code="invalid_expiry_month",
            param=f"{param}[exp_month]",
        )
    return card


def of_card(book: Book, card: TestCard, month: int = 11, year: int = 2031) -> Object:
    """Creates the payment method of a card."""
    method = _new(book, "card", {"card": described(card, month, year)})
    book.details[method["id"]]["card"] = card
    return method


def described(card: TestCard, month: int, year: int) -> Object:
    """Returns what Stripe shows of a card."""
    return {
        "brand": card.brand,
        "checks": {"address_line1_check": None, "address_postal_code_check": None, "cvc_check": "unchecked"},
        "country": card.country,
        "display_brand": card.brand,
        "exp_month": month,
        "exp_year": year,
        "fingerprint": hashlib.sha256(card.number.encode()).hexdigest()[:16],
        "funding": card.funding,
        "generated_from": None,
        "last4": card.number[-4:],
        "networks": {"available": [card.brand], "preferred": None},
        "regulated_status": "unregulated",
        "three_d_secure_usage": {"supported": True},
        "wallet": None,
    }


def _new(book: Book, kind: str, fields: Object) -> Object:
    blank = {"address": _no_address(), "email": None, "name": None, "phone": None, "tax_id": None}
    method = book.add(
        "payment_method",
        type=kind,
        allow_redisplay="unspecified",
        billing_details=blank,
        customer=None,
        customer_account=None,
        metadata={},
        **fields,
    )
    book.details[method["id"]] = {"used": False, "set_up": False}
    return method


def _no_address() -> Object:
    return dict.fromkeys(_ADDRESS)


def _required(name: str) -> Any:
    raise invalid(f"Missing required param: {name}.", name, code="parameter_missing")


# Tokens


def create_token(call: Call) -> Object:
    """Creates a token of a card's number, as Stripe's script does: POST /v1/tokens."""
    data = call.get("card")
    if not isinstance(data, dict):
        raise NotSupported("tokens of anything but a card")
    if not call.publishable:
        raise StripeError(
            402, "invalid_request_error", "Sending credit card numbers directly to the Stripe API is generally unsafe."
        )
    data = {**data, "exp_month": int(data.get("exp_month", 0)), "exp_year": int(data.get("exp_year", 0))}
    card = numbered(data, "card")
    shown = described(card, data["exp_month"], data["exp_year"])
    fields = {
        key: shown[key] for key in ("brand", "country", "exp_month", "exp_year", "fingerprint", "funding", "last4")
    }
    token = call.book.add(
        "token",
        type="card",
        used=False,
        client_ip=None,
        card={
            "id": call.book.id("card_"),
            "object": "card",
            "cvc_check": "unchecked",
            "metadata": {},
            "name": None,
            **fields,
        },
    )
    call.book.details[token["id"]] = {"card": card}
    return token


def retrieve_token(call: Call) -> Object:
    """Returns one: GET /v1/tokens/{token}."""
    return call.book.get("token", call.path["token"], "token", status=404)


def _of_token(book: Book, name: str, param: str) -> tuple[TestCard, int, int]:
    """Returns the card of `tok_visa` and its like, or of a token that was created here and is used once."""
    known = cards.named(name.removeprefix("tok_")) if name.startswith("tok_") and not book.livemode else None
    if known is not None:
        return known, 11, 2031
    token = book.get("token", name, param)
    if token["used"]:
        raise invalid(f"You cannot use a Stripe token more than once: {name}.", param, code="token_already_used")
    token["used"] = True
    return book.details[name]["card"], token["card"]["exp_month"], token["card"]["exp_year"]


# Confirmation tokens


def create_confirmation_token(call: Call) -> Object:
    """Creates one as Stripe's script does: POST /v1/test_helpers/confirmation_tokens."""
    book = call.book
    if name := call.get("payment_method"):
        method = resolved(book, name, "payment_method")
    else:
        data = call.get("payment_method_data") or _required("payment_method_data")
        method = from_data(book, data, "payment_method_data", publishable=call.publishable)
    shown = ("billing_details", "customer", "type", "allow_redisplay", "card", "oxxo", "customer_balance")
    token = book.add(
        "confirmation_token",
        expires_at=int(book.clock.now() + _TOKEN_LIFE_S),
        payment_intent=None,
        payment_method_options=None,
        payment_method_preview={key: method[key] for key in shown if key in method},
        return_url=call.get("return_url"),
        setup_future_usage=call.get("setup_future_usage"),
        setup_intent=None,
        shipping=None,
        use_stripe_sdk=False,
    )
    book.details[token["id"]] = {"method": method}
    return token


def retrieve_confirmation_token(call: Call) -> Object:
    """Returns one: GET /v1/confirmation_tokens/{confirmation_token}."""
    return call.book.get("confirmation_token", call.path["confirmation_token"], "confirmation_token", status=404)


def of_confirmation_token(book: Book, name: str, intent: str, kind: str = "payment_intent") -> tuple[Object, Object]:
    """Returns the token and its payment method, and notes the intent that it is used for. It is used once."""
    token = book.get("confirmation_token", name, "confirmation_token")
    if {token["payment_intent"], token["setup_intent"]} - {None, intent}:
        raise invalid(
            f"The provided ConfirmationToken {name} was already used for another intent.", "confirmation_token"
        )
    if token["expires_at"] <= book.clock.now():
        raise missing("ConfirmationToken", name, "confirmation_token", status=400, hint="; it has expired.")
    if token[kind] is None:
        book.when_undone(lambda: token.update({kind: None}))
    token[kind] = intent
    return token, book.details[name]["method"]
