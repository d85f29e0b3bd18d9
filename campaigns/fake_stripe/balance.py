"""The account's balance: a balance transaction for all money that moves, with Stripe's fee for it."""

from __future__ import annotations

from typing import Any, Final

from campaigns.fake_stripe.books import Book, Object
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.errors import invalid
from campaigns.fake_stripe.lists import page

PENDING_S: Final = 3 * 86400
DISPUTE_FEE: Final = {"mxn": 30_000, "usd": 1_500}
_CATEGORIES: Final = {
    "payment": "charge",
    "payment_refund": "refund",
    "refund_failure": "refund_failure",
    "adjustment": "dispute",
}


def retrieve_transaction(call: Call) -> Object:
    """Returns one: GET /v1/balance_transactions/{id}."""
    return _current(call.book, call.book.get("balance_transaction", call.path["id"], "id", status=404))


def list_transactions(call: Call) -> Object:
    """Lists them: GET /v1/balance_transactions. `payout` gives the lines of an automatic payout."""
    book = call.book
    every = [_current(book, each) for each in book.all("balance_transaction")]
    if (name := call.get("payout")) and not book.get("payout", name, "payout")["automatic"]:
        raise invalid("Balance transaction history can only be filtered on automatic transfers, not manual.", "payout")
    return page(
        every,
        call.parameters,
        "/v1/balance_transactions",
        "currency",
        "source",
        "type",
        payout=lambda each: book.details[each["id"]]["payout"],
    )


def retrieve(call: Call) -> Object:
    """Returns the balance: GET /v1/balance."""
    book = call.book
    sums: dict[str, dict[str, int]] = {"available": {book.currency: 0}, "pending": {book.currency: 0}}
    for each in book.all("balance_transaction"):
        of = sums[_current(book, each)["status"]]
        of[each["currency"]] = of.get(each["currency"], 0) + each["net"]
    shown = {
        name: [
            {"amount": amount, "currency": currency, "source_types": {"card": amount}}
            for currency, amount in sorted(of.items())
        ]
        for name, of in sums.items()
    }
    return {"object": "balance", "livemode": book.livemode, **shown}


def add_transaction(
    book: Book, kind: str, source: Object, amount: int, fee: int = 0, *, description: str | None = None, **changes: Any
) -> Object:
    """Adds a balance transaction. `amount` is negative where money leaves, in the smallest unit of the source's currency."""
    now = book.clock.seconds()
    currency = source["currency"]
    tax = round(fee * 16 / 116) if book.country == "MX" else 0
    parts = [("stripe_fee", "Stripe processing fees", fee - tax), ("tax", "IVA", tax)]
    fields = {
        "amount": amount,
        "available_on": now + PENDING_S,
        "balance_type": "payments",
        "currency": currency,
        "description": description or source.get("description"),
        "exchange_rate": None,
        "fee": fee,
        "fee_details": [
            {"amount": part, "application": None, "currency": currency, "description": text, "type": name}
            for name, text, part in parts
            if part
        ],
        "net": amount - fee,
        "reporting_category": _CATEGORIES.get(kind, kind),
        "source": source["id"],
        "status": "pending",
        "type": kind,
        **changes,
    }
    made = book.add("balance_transaction", **fields)
    book.details[made["id"]] = {"payout": None}
    return _current(book, made)


def processing_fee(book: Book, amount: int, currency: str, months: int | None = None) -> int:
    """Returns the fee of a payment: Mexico 3.6 % and 3 pesos with tax, and 5 to 15 % more for instalments; elsewhere 2.9 % and 30."""
    if book.country != "MX" or currency != "mxn":
        return round(amount * 0.029) + 30
    more = {3: 0.05, 6: 0.075, 9: 0.10, 12: 0.125, 18: 0.14, 24: 0.15}[months] if months else 0.0
    return round((amount * (0.036 + more) + 300) * 1.16)


def _current(book: Book, transaction: Object) -> Object:
    if transaction["available_on"] <= book.clock.now():
        transaction["status"] = "available"
    return transaction
