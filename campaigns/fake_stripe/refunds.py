"""Refunds of payments, and of what is left of a customer's transfers: /v1/refunds.

Sources: https://docs.stripe.com/refunds and https://docs.stripe.com/payments/customer-balance/refunding.
"""

from __future__ import annotations

from typing import Any, Final

from campaigns.fake_stripe import balance, transfers
from campaigns.fake_stripe.books import Book, Object, merged
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.errors import invalid, missing
from campaigns.fake_stripe.lists import page
from campaigns.fake_stripe.payment_intents import shown

_ENDS_AFTER_S: Final = 5.0
_TRANSFER: Final = "mx_bank_transfer"


def create(call: Call) -> Object:
    """Refunds a payment, or money of a customer's balance: POST /v1/refunds."""
    if call.get("origin") == "customer_balance":
        return _return_balance(call)
    book = call.book
    charge = _charge(call)
    if charge["disputed"] and not _inquiry(book, charge):
        raise invalid(f"Charge {charge['id']} has been charged back; cannot issue a refund.", code="charge_disputed")
    left = charge["amount_captured"] - charge["amount_refunded"]
    if left == 0:
        raise invalid(f"Charge {charge['id']} has already been refunded.", code="charge_already_refunded")
    amount = call.get("amount", left)
    _check(amount, left, charge["currency"])
    kind = charge["payment_method_details"]["type"]
    if kind == "oxxo":
        raise invalid(
            "Payments made with OXXO cannot be refunded.", "charge" if call.get("charge") else "payment_intent"
        )
    email = _email(book, call, charge["customer"]) if kind == "customer_balance" else ""
    refund = _add(book, call, charge["currency"], amount, charge=charge["id"], payment_intent=charge["payment_intent"])
    refund |= {"reason": call.get("reason"), "customer": charge["customer"], "payment_method": charge["payment_method"]}
    charge["amount_refunded"] += amount
    charge["refunded"] = charge["amount_refunded"] == charge["amount_captured"]
    if kind == "customer_balance":
        _send_back(refund, email)
    else:
        refund["destination_details"] = {
            "card": {"reference_status": "pending", "reference_type": "acquirer_reference_number", "type": "refund"},
            "type": "card",
        }
    source = "payment_refund" if kind == "customer_balance" else "refund"
    text = f"REFUND FOR CHARGE ({charge['description']})" if charge["description"] else "REFUND FOR CHARGE"
    refund["balance_transaction"] = balance.add_transaction(book, source, refund, -amount, description=text)["id"]
    _follow(book, refund, book.details[charge["id"]]["afterwards"])
    book.moved("REFUNDED", refund, amount, of=charge["payment_intent"])
    book.event("refund.created", refund)
    book.event("charge.refunded", charge, {"amount_refunded": charge["amount_refunded"] - amount})
    return refund


def _charge(call: Call) -> Object:
    """Returns the charge that the parameters name, by itself or by its payment."""
    book = call.book
    if name := call.get("charge"):
        charge = book.get("charge", name, "id", status=404)
    elif name := call.get("payment_intent"):
        intent = book.get("payment_intent", name, "payment_intent", status=404)
        found = book.find("charge", intent["latest_charge"] or "")
        if found is None or found["status"] != "succeeded":
            raise invalid(f"This PaymentIntent ({name}) does not have a successful charge to refund.")
        charge = found
    else:
        raise invalid("One of the following params should be provided for this request: payment_intent or charge.")
    if charge["status"] != "succeeded":
        raise invalid(f"This PaymentIntent ({charge['payment_intent']}) does not have a successful charge to refund.")
    if not charge["captured"]:
        raise invalid(
            f"This uncaptured Charge was created by a PaymentIntent ({charge['payment_intent']}). You must cancel the PaymentIntent to "
            "reverse the authorization instead of refunding the Charge directly. For more information, see "
            "https://stripe.com/docs/payments/place-a-hold-on-a-payment-method"
        )
    return charge


def _return_balance(call: Call) -> Object:
    """Sends money of a customer's balance back to the bank account that it came from."""
    book = call.book
    for name in ("customer", "amount", "currency"):
        if not call.get(name):
            raise invalid(f"Missing required param: {name}.", name, code="parameter_missing")
    customer = book.get("customer", call.get("customer"), "customer")["id"]
    amount, currency = call.parameters["amount"], call.parameters["currency"].lower()
    available = transfers.available(book, customer, currency)
    if amount < 1:
        raise invalid("This value must be greater than or equal to 1.", "amount", code="parameter_invalid_integer")
    if amount > available:
        raise invalid(
            f"The refund amount ({shown(amount, currency)}) is greater than the customer's available cash balance ({shown(available, currency)}).",
            "amount",
            code="balance_insufficient",
        )
    email = _email(book, call, customer)
    refund = _add(book, call, currency, amount, charge=None, payment_intent=None)
    refund["customer"] = customer
    _send_back(refund, email)
    transfers.returned(book, customer, amount, cancelled=False)
    _follow(book, refund, "")
    book.moved("REFUNDED", refund, amount, of=customer)
    book.event("refund.created", refund)
    return refund


def _email(book: Book, call: Call, customer: str | None) -> str:
    """Returns the address that Stripe asks for bank details. Raises StripeError where there is none."""
    email = call.get("instructions_email") or (
        book.get("customer", customer, "customer")["email"] if customer else None
    )
    if not email:
        raise invalid(
            "The customer has no email address. Stripe needs one to ask for the bank account that the refund goes to: update the "
            "customer, or provide `instructions_email`.",
            "instructions_email",
        )
    return str(email)


def _send_back(refund: Object, email: str) -> None:
    """Shows a refund that goes to a bank account: the transfer that came told which."""
    refund |= {
        "status": "pending",
        "instructions_email": email,
        "destination_details": {_TRANSFER: {"reference": None, "reference_status": "pending"}, "type": _TRANSFER},
    }


def _add(book: Book, call: Call, currency: str, amount: int, **fields: Any) -> Object:
    return book.add(
        "refund",
        amount=amount,
        balance_transaction=None,
        currency=currency,
        customer=None,
        customer_account=None,
        metadata=merged({}, call.parameters.get("metadata")),
        payment_method=None,
        reason=None,
        receipt_number=None,
        source_transfer_reversal=None,
        status="succeeded",
        transfer_reversal=None,
        **fields,
    )


def _check(amount: int, left: int, currency: str) -> None:
    if amount < 1:
        raise invalid("This value must be greater than or equal to 1.", "amount", code="parameter_invalid_integer")
    if amount > left:
        raise invalid(
            f"Refund amount ({shown(amount, currency)}) is greater than unrefunded amount on charge ({shown(left, currency)})",
            "amount",
        )


def _follow(book: Book, refund: Object, afterwards: str) -> None:
    """Lets a refund end later: transfers always, cards where the test card does so."""
    if afterwards == "refund_pending":
        refund["status"] = "pending"
    if refund["status"] == "pending":
        book.clock.after(_ENDS_AFTER_S, lambda: succeed(book, refund))
    elif afterwards == "refund_fails":
        book.clock.after(_ENDS_AFTER_S, lambda: fail(book, refund, "unknown"))


def succeed(book: Book, refund: Object) -> None:
    """Ends a pending refund well."""
    if refund["status"] in {"pending", "requires_action"}:
        previous = refund["status"]
        refund |= {"status": "succeeded"}
        refund.pop("next_action", None)
        _updated(book, refund, {"status": previous})


def fail(book: Book, refund: Object, reason: str) -> None:
    """Ends a refund badly, even one that had succeeded: the money is back on the account's or the customer's balance."""
    if refund["status"] in {"failed", "canceled"}:
        return
    previous = refund["status"]
    refund |= {"status": "failed", "failure_reason": reason}
    _take_back(book, refund)
    book.event("refund.failed", refund, {"status": previous})
    _updated(book, refund, {"status": previous})


def cancel(call: Call) -> Object:
    """Cancels one that waits for the payer: POST /v1/refunds/{refund}/cancel."""
    book = call.book
    refund = retrieve(call)
    if refund["status"] != "requires_action":
        raise invalid("Canceling this refund is unsupported.")
    refund |= {"status": "canceled"}
    refund.pop("next_action", None)
    _take_back(book, refund)
    _updated(book, refund, {"status": "requires_action"})
    return refund


def ask_payer(book: Book, refund: Object) -> None:
    """Has a pending refund wait for the bank details that Stripe asks the payer for."""
    if refund["status"] == "pending":
        sent = {"email_sent_at": book.clock.seconds(), "email_sent_to": refund["instructions_email"]}
        expires = book.clock.seconds() + 45 * 86400
        action = {"display_details": {"email_sent": sent, "expires_at": expires}, "type": "display_details"}
        refund |= {"status": "requires_action", "next_action": action}
        _updated(book, refund, {"status": "pending"})


def _take_back(book: Book, refund: Object) -> None:
    if name := refund["charge"]:
        charge = book.get("charge", name, "charge")
        charge["amount_refunded"] -= refund["amount"]
        charge["refunded"] = False
        refund["failure_balance_transaction"] = balance.add_transaction(
            book, "refund_failure", refund, refund["amount"]
        )["id"]
    else:
        transfers.returned(book, refund["customer"], refund["amount"], cancelled=True)
    book.moved("REFUND_FAILED", refund, refund["amount"], of=refund["payment_intent"] or refund["customer"] or "")


def _updated(book: Book, refund: Object, previous: Object) -> None:
    book.event("refund.updated", refund, previous)
    if refund["charge"]:
        book.event("charge.refund.updated", refund, previous)


def retrieve(call: Call) -> Object:
    """Returns one: GET /v1/refunds/{refund}."""
    return call.book.get("refund", call.path["refund"], "refund", status=404)


def list_all(call: Call) -> Object:
    """Lists them: GET /v1/refunds."""
    for name in ("charge", "payment_intent"):
        if (given := call.get(name)) and call.book.find(name, given) is None:
            raise missing(name, given, name, status=404)
    return page(call.book.all("refund"), call.parameters, "/v1/refunds", "charge", "payment_intent")


def update(call: Call) -> Object:
    """Changes one's metadata: POST /v1/refunds/{refund}."""
    refund = retrieve(call)
    previous = dict(refund["metadata"])
    refund["metadata"] = merged(previous, call.parameters.get("metadata"))
    _updated(call.book, refund, {"metadata": previous})
    return refund


def _inquiry(book: Book, charge: Object) -> bool:
    return any(each["charge"] == charge["id"] and each["is_charge_refundable"] for each in book.all("dispute"))
