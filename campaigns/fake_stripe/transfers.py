"""SPEI by `customer_balance`: a customer's CLABE, the money that arrives there, and the payments that it is applied to.

Sources: https://docs.stripe.com/payments/bank-transfers and https://docs.stripe.com/payments/customer-balance/reconciliation.
"""

from __future__ import annotations

from typing import Any, Final

from campaigns.fake_stripe import balance as balance_of_account
from campaigns.fake_stripe import charges
from campaigns.fake_stripe.books import Book, Object
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.errors import NotSupported, invalid, unexpected_state
from campaigns.fake_stripe.lists import page

_TRANSFER: Final = "mx_bank_transfer"
_ACTION: Final = "display_bank_transfer_instructions"
_ADDRESS: Final = {
    "city": "Ciudad de México",
    "country": "MX",
    "line1": "Paseo de la Reforma 1",
    "line2": None,
    "postal_code": "06600",
    "state": "CDMX",
}
_WEIGHTS: Final = (3, 7, 1)


def set_option(options: Object, name: str, value: Any) -> None:
    """Takes over an option of `customer_balance`."""
    if name == "bank_transfer":
        kind = value.get("type")
        if kind != _TRANSFER:
            raise NotSupported(f"bank transfers of type {kind}")
        options["bank_transfer"] = {
            "type": kind,
            "requested_address_types": value.get("requested_address_types", ["spei"]),
        }
    else:
        options[name] = value or None


def await_transfer(book: Book, intent: Object, method: Object, address: str) -> None:
    """Confirms a payment by transfer: what the customer has is applied, and the payer is shown where to send the rest."""
    if intent["customer"] is None:
        raise invalid(
            "You must provide a `customer` to confirm a PaymentIntent with a PaymentMethod of type customer_balance.",
            "customer",
        )
    options = intent["payment_method_options"]["customer_balance"]
    if options.get("funding_type") != "bank_transfer" or not options.get("bank_transfer"):
        raise invalid(
            "You must set `payment_method_options[customer_balance][funding_type]` to `bank_transfer`, and its `bank_transfer[type]`.",
            "payment_method_options[customer_balance][funding_type]",
        )
    if intent["currency"] != "mxn":
        raise invalid(
            f"The bank transfer type {_TRANSFER} needs the currency mxn, not {intent['currency']}.", "currency"
        )
    details = book.details[intent["id"]]
    details |= {
        "applied": details.get("applied", 0),
        "reference": details.get("reference") or f"{book.random.randrange(10**7):07}",
        "address": address,
    }
    intent["status"] = "requires_action"
    _show(book, intent)
    if _details(book, intent["customer"])["mode"] == "automatic":
        _apply(book, intent, _available(book, intent["customer"], "mxn"))
    if intent["status"] == "requires_action":
        book.event("payment_intent.requires_action", intent)


def _show(book: Book, intent: Object) -> None:
    details = book.details[intent["id"]]
    intent["next_action"] = {
        "type": _ACTION,
        _ACTION: {
            "amount_remaining": intent["amount"] - details["applied"],
            "currency": intent["currency"],
            "financial_addresses": [_financial_address(book, intent["customer"])],
            "hosted_instructions_url": f"{details['address']}/transfers/{book.account}/{intent['id']}",
            "reference": details["reference"],
            "type": _TRANSFER,
        },
    }


def _apply(book: Book, intent: Object, amount: int) -> None:
    """Applies money of the customer's balance to a payment, no more than it lacks. It is paid once it lacks nothing."""
    details = book.details[intent["id"]]
    amount = min(amount, intent["amount"] - details["applied"])
    if amount <= 0:
        return
    details["applied"] += amount
    _add(book, intent["customer"], "applied_to_payment", -amount, applied_to_payment={"payment_intent": intent["id"]})
    if details["applied"] < intent["amount"]:
        _show(book, intent)
        book.event("payment_intent.partially_funded", intent)
        return
    method = book.get("payment_method", intent["payment_method"], "payment_method")
    charges.paid(book, intent, method)
    intent |= {
        "status": "succeeded",
        "amount_received": intent["amount"],
        "next_action": None,
        "last_payment_error": None,
    }
    book.event("payment_intent.succeeded", intent)


def unapply(book: Book, intent: Object) -> None:
    """Returns what a cancelled payment held to its customer's balance."""
    details = book.details[intent["id"]]
    if applied := details.get("applied"):
        details["applied"] = 0
        _add(
            book,
            intent["customer"],
            "unapplied_from_payment",
            applied,
            unapplied_from_payment={"payment_intent": intent["id"]},
        )


def apply_balance(call: Call) -> Object:
    """Applies the customer's balance by hand: POST /v1/payment_intents/{intent}/apply_customer_balance."""
    book = call.book
    intent = book.get("payment_intent", call.path["intent"], "intent", status=404)
    if not _waits(intent):
        raise unexpected_state(
            f"This PaymentIntent's customer balance could not be applied because it has a status of {intent['status']}.",
            intent,
        )
    available = _available(book, intent["customer"], intent["currency"])
    amount = call.get("amount", available)
    if amount > available:
        raise invalid("The customer's cash balance is less than the amount.", "amount", code="balance_insufficient")
    _apply(book, intent, amount)
    return intent


# The customer's balance


def balance(call: Call) -> Object:
    """Returns it: GET /v1/customers/{customer}/cash_balance."""
    return shown_balance(call.book, call.book.get("customer", call.path["customer"], "customer", status=404)["id"])


def update_balance(call: Call) -> Object:
    """Changes how money is applied: POST /v1/customers/{customer}/cash_balance."""
    customer = call.book.get("customer", call.path["customer"], "customer", status=404)["id"]
    if mode := (call.get("settings") or {}).get("reconciliation_mode"):
        details = _details(call.book, customer)
        details |= {"mode": "manual" if mode == "manual" else "automatic", "by_default": mode == "merchant_default"}
    return shown_balance(call.book, customer)


def funding_instructions(call: Call) -> Object:
    """Returns where a customer sends money, always the same: POST /v1/customers/{customer}/funding_instructions."""
    customer = call.book.get("customer", call.path["customer"], "customer", status=404)["id"]
    kind = call.parameters["bank_transfer"]["type"]
    if kind != _TRANSFER:
        raise NotSupported(f"bank transfers of type {kind}")
    if call.parameters["currency"].lower() != "mxn":
        raise invalid(f"The bank transfer type {kind} needs the currency mxn.", "currency")
    return {
        "object": "funding_instructions",
        "bank_transfer": {
            "country": "MX",
            "financial_addresses": [_financial_address(call.book, customer)],
            "type": kind,
        },
        "currency": "mxn",
        "funding_type": "bank_transfer",
        "livemode": call.book.livemode,
    }


def transactions(call: Call) -> Object:
    """Lists them: GET /v1/customers/{customer}/cash_balance_transactions."""
    customer = call.book.get("customer", call.path["customer"], "customer", status=404)["id"]
    mine = [each for each in call.book.all("customer_cash_balance_transaction") if each["customer"] == customer]
    return page(mine, call.parameters, f"/v1/customers/{customer}/cash_balance_transactions")


def transaction(call: Call) -> Object:
    """Returns one: GET /v1/customers/{customer}/cash_balance_transactions/{transaction}."""
    return call.book.get("customer_cash_balance_transaction", call.path["transaction"], "transaction", status=404)


def fund(call: Call) -> Object:
    """Lets a transfer arrive: POST /v1/test_helpers/customers/{customer}/fund_cash_balance."""
    customer = call.book.get("customer", call.path["customer"], "customer", status=404)["id"]
    amount, currency = call.parameters["amount"], call.parameters["currency"].lower()
    if amount < 1:
        raise invalid("This value must be greater than or equal to 1.", "amount", code="parameter_invalid_integer")
    if currency != "mxn":
        raise NotSupported(f"transfers in {currency}")
    return arrived(call.book, customer, amount, call.get("reference"))


def arrived(book: Book, customer: str, amount: int, reference: str | None = None) -> Object:
    """Records a transfer to a customer's CLABE and applies it to what the customer has to pay. Returns its transaction."""
    _clabe(book, customer)
    funded = _add(
        book, customer, "funded", amount, funded={"bank_transfer": {"reference": reference, "type": _TRANSFER}}
    )
    book.moved("FUNDED", funded, amount, of=customer)
    if _details(book, customer)["mode"] == "automatic":
        for intent in _open(book, customer, amount, reference):
            _apply(book, intent, _available(book, customer, "mxn"))
    if _available(book, customer, "mxn"):
        book.event("cash_balance.funds_available", shown_balance(book, customer))
    return funded


def taken_back(book: Book, funded: Object) -> Object:
    """Lets a bank take a transfer back that had arrived. What the balance lacks then comes out of the account's.

    What was applied to a payment stays so. Source: https://docs.stripe.com/payments/customer-balance, "Types".
    """
    customer, amount = funded["customer"], funded["net_amount"]
    reversal = _add(book, customer, "funding_reversed", -amount)
    book.moved("FUNDING_REVERSED", reversal, amount, of=customer)
    lacking = -_available(book, customer, "mxn")
    if lacking > 0:
        taken = balance_of_account.add_transaction(book, "adjustment", reversal, -lacking)
        linked = {"balance_transaction": taken["id"], "linked_transaction": reversal["id"]}
        _add(book, customer, "adjusted_for_overdraft", lacking, adjusted_for_overdraft=linked)
    return reversal


def customer_of(book: Book, clabe: str) -> str | None:
    """Returns the customer that a CLABE belongs to."""
    return next((each["id"] for each in book.all("customer") if _details(book, each["id"])["clabe"] == clabe), None)


def _open(book: Book, customer: str, amount: int, reference: str | None) -> list[Object]:
    """Returns the customer's payments that wait for money: by reference first, then by amount, then the oldest."""
    waiting = [each for each in book.all("payment_intent") if each["customer"] == customer and _waits(each)]

    def rank(intent: Object) -> tuple[bool, bool]:
        details = book.details[intent["id"]]
        return reference is None or details["reference"] not in reference, intent["amount"] - details[
            "applied"
        ] != amount

    return sorted(waiting, key=rank)


def _waits(intent: Object) -> bool:
    """Returns whether a payment waits for a transfer, and not for another method that it was confirmed with since."""
    return intent["status"] == "requires_action" and (intent["next_action"] or {}).get("type") == _ACTION


def returned(book: Book, customer: str, amount: int, *, cancelled: bool) -> None:
    """Takes money out of a customer's balance to send it back, or puts it there again where that failed."""
    _add(book, customer, "return_canceled" if cancelled else "return_initiated", amount if cancelled else -amount)


def available(book: Book, customer: str, currency: str) -> int:
    """Returns the amount that a customer has."""
    return _available(book, customer, currency)


def _add(book: Book, customer: str, kind: str, amount: int, **fields: Any) -> Object:
    details = _details(book, customer)
    details["available"]["mxn"] = details["available"].get("mxn", 0) + amount
    made = book.add(
        "customer_cash_balance_transaction",
        currency="mxn",
        customer=customer,
        customer_account=None,
        ending_balance=details["available"]["mxn"],
        net_amount=amount,
        type=kind,
        **fields,
    )
    book.event("customer_cash_balance_transaction.created", made)
    return made


def shown_balance(book: Book, customer: str) -> Object:
    details = _details(book, customer)
    return {
        "object": "cash_balance",
        "available": dict(details["available"]) or None,
        "customer": customer,
        "customer_account": None,
        "livemode": book.livemode,
        "settings": {"reconciliation_mode": details["mode"], "using_merchant_default": details["by_default"]},
    }


def _available(book: Book, customer: str, currency: str) -> int:
    found: int = _details(book, customer)["available"].get(currency, 0)
    return found


def _details(book: Book, customer: str) -> Object:
    return book.details[customer]


def _financial_address(book: Book, customer: str) -> Object:
    clabe = _clabe(book, customer)
    record = {
        "account_holder_address": dict(_ADDRESS),
        "account_holder_name": "Fake Stripe",
        "bank_address": dict(_ADDRESS),
        "bank_code": clabe[:3],
        "bank_name": "STP",
        "clabe": clabe,
    }
    return {"spei": record, "supported_networks": ["spei"], "type": "spei"}


def _clabe(book: Book, customer: str) -> str:
    """Returns a customer's CLABE: bank, place, account and check digit (Banxico's rule)."""
    details = _details(book, customer)
    if details["clabe"] is None:
        digits = f"646180{book.random.randrange(10**11):011}"
        total = sum(int(digit) * _WEIGHTS[index % 3] % 10 for index, digit in enumerate(digits))
        details["clabe"] = f"{digits}{-total % 10}"
    return str(details["clabe"])
