"""Payouts: what Stripe pays to the merchant's bank. An automatic one has lines, the balance transactions that it settles."""

from __future__ import annotations

from typing import Any, Final

from campaigns.fake_stripe import balance
from campaigns.fake_stripe.books import Book, Object, merged
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.errors import invalid
from campaigns.fake_stripe.lists import page

_ARRIVES_AFTER_S: Final = 86400
_PAYABLE: Final = 1


def create(call: Call) -> Object:
    """Pays out by hand, without lines: POST /v1/payouts."""
    book, currency = call.book, call.parameters["currency"].lower()
    amount = call.parameters["amount"]
    if amount < _PAYABLE:
        raise invalid("This value must be greater than or equal to 1.", "amount", code="parameter_invalid_integer")
    available = sum(each["net"] for each in book.all("balance_transaction") if _is_available(book, each, currency))
    if amount > available:
        raise invalid(
            "You have insufficient funds in your Stripe account for this transfer. Your card balance is too low.",
            code="balance_insufficient",
        )
    metadata = merged({}, call.parameters.get("metadata"))
    return _new(book, currency, amount, automatic=False, metadata=metadata, description=call.get("description"))


def pay_out(book: Book, currency: str) -> Object | None:
    """Pays out everything that is available and in no payout yet; returns None where that is nothing, or less than nothing."""
    lines = [
        each
        for each in book.all("balance_transaction")
        if _is_available(book, each, currency) and each["type"] != "payout"
    ]
    lines = [each for each in lines if book.details[each["id"]]["payout"] is None]
    amount = sum(each["net"] for each in lines)
    if amount <= 0:
        return None
    payout = _new(book, currency, amount, automatic=True, metadata={}, description="STRIPE PAYOUT")
    for each in lines:
        book.details[each["id"]]["payout"] = payout["id"]
    return payout


def _new(book: Book, currency: str, amount: int, **fields: Any) -> Object:
    automatic = fields["automatic"]
    payout = book.add(
        "payout",
        amount=amount,
        application_fee=None,
        application_fee_amount=None,
        arrival_date=book.clock.seconds() + _ARRIVES_AFTER_S,
        balance_transaction=None,
        currency=currency,
        destination="ba_1FakeStripeBankAccount",
        failure_balance_transaction=None,
        failure_code=None,
        failure_message=None,
        method="standard",
        original_payout=None,
        payout_method=None,
        reconciliation_status="completed" if automatic else "not_applicable",
        reversed_by=None,
        source_type="card",
        statement_descriptor=None,
        status="pending",
        trace_id=None,
        type="bank_account",
        **fields,
    )
    transaction = balance.add_transaction(
        book, "payout", payout, -amount, available_on=book.clock.seconds(), status="available"
    )
    payout["balance_transaction"] = transaction["id"]
    book.details[transaction["id"]]["payout"] = payout["id"] if automatic else None
    book.moved("PAID_OUT", payout, amount)
    book.event("payout.created", payout)
    book.clock.at(payout["arrival_date"], lambda: end(book, payout, paid=True))
    return payout


def end(book: Book, payout: Object, *, paid: bool) -> None:
    """Ends a payout: the bank took it, or sent it back."""
    if payout["status"] in {"failed", "canceled"} or (paid and payout["status"] == "paid"):
        return
    if paid:
        payout |= {"status": "paid", "trace_id": {"status": "supported", "value": book.id("", 12).upper()}}
        book.event("payout.paid", payout)
        if payout["automatic"]:
            book.event("payout.reconciliation_completed", payout)
        return
    payout |= {
        "status": "failed",
        "failure_code": "account_closed",
        "failure_message": "The bank account has been closed.",
    }
    now = book.clock.seconds()
    returned = balance.add_transaction(
        book, "payout_failure", payout, payout["amount"], available_on=now, status="available"
    )
    payout["failure_balance_transaction"] = returned["id"]
    book.event("payout.failed", payout)


def retrieve(call: Call) -> Object:
    """Returns one: GET /v1/payouts/{payout}."""
    return call.book.get("payout", call.path["payout"], "payout", status=404)


def list_all(call: Call) -> Object:
    """Lists them: GET /v1/payouts."""
    return page(call.book.all("payout"), call.parameters, "/v1/payouts", "destination", "status")


def _is_available(book: Book, transaction: Object, currency: str) -> bool:
    return bool(transaction["currency"] == currency and transaction["available_on"] <= book.clock.now())
