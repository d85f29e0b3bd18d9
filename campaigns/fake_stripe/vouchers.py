"""OXXO: a voucher that the payer pays in cash before it expires.

Source: https://docs.stripe.com/payments/oxxo/accept-a-payment. A voucher ends at 23:59 in Mexico City; the payment is `processing` then,
while the shops' reports are awaited, and fails a day later. In test mode the payer's e-mail decides: `…succeed_immediately@`,
`…expire_immediately@`, `…expire_with_delay@`, `…fill_never@`; any other pays after three minutes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from campaigns.fake_stripe import charges
from campaigns.fake_stripe.books import Book, Object
from campaigns.fake_stripe.errors import invalid

LEAST, MOST = 1_000, 1_000_000
"""From 10 to 10,000 pesos."""
_MEXICO_CITY: Final = timezone(timedelta(hours=-6))
_PAID_AFTER_S: Final = 180
_GRACE_S: Final = 86400


def issue(book: Book, intent: Object, method: Object, address: str) -> None:
    """Issues the voucher of a payment."""
    if intent["currency"] != "mxn":
        raise invalid(f"The payment method `oxxo` needs the currency mxn, not {intent['currency']}.", "currency")
    if not LEAST <= intent["amount"] <= MOST:
        code = "amount_too_small" if intent["amount"] < LEAST else "amount_too_large"
        raise invalid("Amount must be between $10.00 mxn and $10,000.00 mxn for OXXO.", "amount", code=code)
    for name in ("name", "email"):
        if not method["billing_details"][name]:
            param = f"payment_method_data[billing_details][{name}]"
            raise invalid(f"Missing required param: {param}.", param, code="parameter_missing")
    days = intent["payment_method_options"]["oxxo"]["expires_after_days"]
    last = datetime.fromtimestamp(book.clock.now(), UTC).astimezone(_MEXICO_CITY) + timedelta(days=days)
    ends = int(last.replace(hour=23, minute=59, second=59, microsecond=0).timestamp())
    number = f"{book.random.randrange(10**31, 10**32)}"
    intent |= {
        "status": "requires_action",
        "next_action": {
            "type": "oxxo_display_details",
            "oxxo_display_details": {
                "expires_after": ends,
                "hosted_voucher_url": f"{address}/vouchers/{book.account}/{intent['id']}",
                "number": number,
            },
        },
    }
    details = book.details[intent["id"]]
    details["voucher"] = number
    book.event("payment_intent.requires_action", intent)
    book.clock.at(ends, lambda: _end(book, intent, number))
    if not book.livemode:
        _follow_email(book, intent, number, str(method["billing_details"]["email"]))


def pay(book: Book, intent: Object) -> None:
    """Records that the voucher was paid in a shop. Raises StripeError where it cannot be any more."""
    if not _waits(book, intent, book.details[intent["id"]].get("voucher")):
        raise invalid(
            f"The payment {intent['id']} has no voucher that can be paid; its status is {intent['status']}.",
            "payment_intent",
        )
    method = book.get("payment_method", intent["payment_method"], "payment_method")
    charge = charges.paid(book, intent, method)
    charge["payment_method_details"]["oxxo"] = {"number": book.details[intent["id"]]["voucher"]}
    intent |= {
        "status": "succeeded",
        "amount_received": intent["amount"],
        "next_action": None,
        "last_payment_error": None,
    }
    book.event("payment_intent.succeeded", intent)


def expire(book: Book, intent: Object) -> None:
    """Ends the voucher now, and the payment with it."""
    number = book.details[intent["id"]].get("voucher")
    _end(book, intent, number)
    _fail(book, intent, number)


def _follow_email(book: Book, intent: Object, number: str, email: str) -> None:
    name = email.partition("@")[0]
    if name.endswith("succeed_immediately"):
        book.clock.after(0, lambda: _pay(book, intent, number))
    elif name.endswith("expire_immediately"):
        book.clock.after(0, lambda: expire(book, intent))
    elif name.endswith("expire_with_delay"):
        book.clock.after(_PAID_AFTER_S, lambda: expire(book, intent))
    elif not name.endswith("fill_never"):
        book.clock.after(_PAID_AFTER_S, lambda: _pay(book, intent, number))


def _pay(book: Book, intent: Object, number: str) -> None:
    if _waits(book, intent, number):
        pay(book, intent)


def _end(book: Book, intent: Object, number: str | None) -> None:
    """Lets no more payer pay; what was paid may still be reported."""
    if intent["status"] == "requires_action" and _waits(book, intent, number):
        intent |= {"status": "processing", "next_action": None}
        book.event("payment_intent.processing", intent)
        book.clock.after(_GRACE_S, lambda: _fail(book, intent, number))


def _fail(book: Book, intent: Object, number: str | None) -> None:
    if intent["status"] != "processing" or not _waits(book, intent, number):
        return
    method = book.get("payment_method", intent["payment_method"], "payment_method")
    error = {
        "type": "invalid_request_error",
        "code": "payment_intent_payment_attempt_expired",
        "doc_url": "https://stripe.com/docs/error-codes/payment-intent-payment-attempt-expired",
        "message": "The OXXO voucher expired before it was paid.",
        "payment_method": dict(method),
    }
    intent |= {
        "status": "requires_payment_method",
        "payment_method": None,
        "next_action": None,
        "last_payment_error": error,
    }
    book.event("payment_intent.payment_failed", intent)


def _waits(book: Book, intent: Object, number: str | None) -> bool:
    return (
        number is not None
        and intent["status"] in {"requires_action", "processing"}
        and book.details[intent["id"]].get("voucher") == number
    )
