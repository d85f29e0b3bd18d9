"""What tests may do to the fake: JSON to `/_test/…`, without a key. None of it exists at Stripe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from campaigns.fake_stripe import cards, disputes, payouts, refunds, setup_intents, transfers, vouchers
from campaigns.fake_stripe.account import roll_secret
from campaigns.fake_stripe.accounts import Accounts, Mode
from campaigns.fake_stripe.books import Book, Object
from campaigns.fake_stripe.clock import Clock
from campaigns.fake_stripe.confirmation import authenticated
from campaigns.fake_stripe.errors import StripeError, invalid
from campaigns.fake_stripe.faults import Faults, Plan, Trouble
from campaigns.fake_stripe.record import Record
from campaigns.fake_stripe.requests import Requests
from campaigns.fake_stripe.webhooks import Deliveries, Sender

T = TypeVar("T")


class _Given(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a control."""


class NewAccount(_Given, frozen=True, kw_only=True):
    name: str
    country: str = "MX"
    currency: str = "mxn"


class Advance(_Given, frozen=True, kw_only=True):
    seconds: float


class Transfer(_Given, frozen=True, kw_only=True):
    """A transfer that arrives at a CLABE, in centavos."""

    clabe: str
    amount: int
    reference: str | None = None


class Reversal(_Given, frozen=True, kw_only=True):
    """The bank takes back a transfer that had arrived, by the transaction of its arrival."""

    transaction: str


class Voucher(_Given, frozen=True, kw_only=True):
    payment_intent: str
    action: Literal["pay", "expire"] = "pay"


class Authentication(_Given, frozen=True, kw_only=True):
    """The end of the payer's 3-D Secure, for a payment or for a setup."""

    payment_intent: str = ""
    setup_intent: str = ""
    passed: bool = True


class RefundEnd(_Given, frozen=True, kw_only=True):
    refund: str
    action: Literal["succeed", "fail", "ask_payer"]
    reason: str = "unknown"


class NewDispute(_Given, frozen=True, kw_only=True):
    charge: str | None = None
    payment_intent: str | None = None
    reason: str = "fraudulent"
    amount: int | None = None
    inquiry: bool = False


class DisputeEnd(_Given, frozen=True, kw_only=True):
    dispute: str
    won: bool


class NewPayout(_Given, frozen=True, kw_only=True):
    account: str
    mode: Mode = "test"
    currency: str = "mxn"


class PayoutEnd(_Given, frozen=True, kw_only=True):
    payout: str
    paid: bool = True


class Alteration(_Given, frozen=True, kw_only=True):
    """Fields that an object gets, as if Stripe had another truth than it answered; `payout` is a line's, "" for none."""

    id: str
    set: dict[str, Any] = {}
    payout: str | None = None


class Removal(_Given, frozen=True, kw_only=True):
    id: str


class Endpoint(_Given, frozen=True, kw_only=True):
    webhook_endpoint: str


class Controls:
    """The controls, by their names."""

    def __init__(
        self, accounts: Accounts, clock: Clock, record: Record, faults: Faults, sender: Sender, requests: Requests
    ) -> None:
        self._accounts = accounts
        self._clock = clock
        self._record = record
        self._faults = faults
        self._sender = sender
        self._requests = requests
        self._controls: Final[dict[str, Callable[[bytes], Any]]] = {
            "POST accounts": self._open,
            "POST clock": self._advance,
            "POST faults": self._plan,
            "DELETE faults": self._clear,
            "POST trouble": self._trouble,
            "POST transfers": self._transfer,
            "POST reversals": self._take_back,
            "POST vouchers": self._voucher,
            "POST authentications": self._authenticate,
            "POST refunds": self._refund,
            "POST disputes": self._dispute,
            "POST dispute_ends": self._end_dispute,
            "POST payouts": self._pay_out,
            "POST payout_ends": self._end_payout,
            "POST alterations": self._alter,
            "POST removals": self._remove,
            "POST deliveries": self._deliver,
            "POST release": self._release,
            "POST secrets": self._roll,
            "GET state": self._state,
            "GET cards": self._cards,
        }

    async def serve(self, request: Request) -> Response:
        """Answers a control."""
        self._clock.run_due()
        control = self._controls.get(f"{request.method} {request.path_params['control']}")
        if control is None:
            return JSONResponse({"error": f"There is no such control; there are {', '.join(self._controls)}."}, 404)
        try:
            return JSONResponse(control(await request.body()))
        except (StripeError, msgspec.ValidationError, msgspec.DecodeError) as error:
            return JSONResponse({"error": str(error)}, 400)

    def _open(self, body: bytes) -> Object:
        given = _read(body, NewAccount)
        return self._accounts.open(given.name, given.country, given.currency)

    def _advance(self, body: bytes) -> Object:
        self._clock.advance(_read(body, Advance).seconds)
        return {"now": self._clock.now()}

    def _plan(self, body: bytes) -> Object:
        self._faults.add(_read(body, list[Plan]))
        return {"waiting": msgspec.to_builtins(self._faults.waiting)}

    def _clear(self, _: bytes) -> Object:
        self._faults.clear()
        return {"waiting": []}

    def _trouble(self, body: bytes) -> Object:
        self._faults.set_trouble(_read(body, Trouble))
        return {}

    def _transfer(self, body: bytes) -> Object:
        given = _read(body, Transfer)
        for book in self._accounts.books():
            if customer := transfers.customer_of(book, given.clabe):
                return transfers.arrived(book, customer, given.amount, given.reference)
        raise invalid(f"No customer has the CLABE {given.clabe}.")

    def _take_back(self, body: bytes) -> Object:
        given = _read(body, Reversal)
        book, funded = self._accounts.holding("customer_cash_balance_transaction", given.transaction)
        if funded["type"] != "funded":
            raise invalid(f"{given.transaction} is no transfer that arrived.")
        return transfers.taken_back(book, funded)

    def _voucher(self, body: bytes) -> Object:
        given = _read(body, Voucher)
        book, intent = self._accounts.holding("payment_intent", given.payment_intent)
        (vouchers.pay if given.action == "pay" else vouchers.expire)(book, intent)
        return intent

    def _authenticate(self, body: bytes) -> Object:
        given = _read(body, Authentication)
        kind = "setup_intent" if given.setup_intent else "payment_intent"
        book, intent = self._accounts.holding(kind, given.setup_intent or given.payment_intent)
        if intent["status"] != "requires_action" or "challenge" not in book.details[intent["id"]]:
            raise invalid(f"{intent['id']} waits for no 3-D Secure; its status is {intent['status']}.")
        ends = setup_intents.authenticated if given.setup_intent else authenticated
        ends(book, intent, passed=given.passed)
        return intent

    def _refund(self, body: bytes) -> Object:
        given = _read(body, RefundEnd)
        book, refund = self._accounts.holding("refund", given.refund)
        match given.action:
            case "succeed":
                refunds.succeed(book, refund)
            case "fail":
                refunds.fail(book, refund, given.reason)
            case _:
                refunds.ask_payer(book, refund)
        return refund

    def _dispute(self, body: bytes) -> Object:
        given = _read(body, NewDispute)
        name = given.charge
        if given.payment_intent:
            name = self._accounts.holding("payment_intent", given.payment_intent)[1]["latest_charge"]
        book, charge = self._accounts.holding("charge", name or "")
        return disputes.open_dispute(book, charge, given.reason, given.amount, inquiry=given.inquiry)

    def _end_dispute(self, body: bytes) -> Object:
        given = _read(body, DisputeEnd)
        book, dispute = self._accounts.holding("dispute", given.dispute)
        disputes.end(book, dispute, won=given.won)
        return dispute

    def _pay_out(self, body: bytes) -> Object:
        given = _read(body, NewPayout)
        return {"payout": payouts.pay_out(self._accounts.book(given.account, given.mode), given.currency)}

    def _end_payout(self, body: bytes) -> Object:
        given = _read(body, PayoutEnd)
        book, payout = self._accounts.holding("payout", given.payout)
        payouts.end(book, payout, paid=given.paid)
        return payout

    def _alter(self, body: bytes) -> Object:
        given = _read(body, Alteration)
        book, found = self._any(given.id)
        found |= given.set
        if given.payout is not None:
            book.details[given.id]["payout"] = given.payout or None
        return found

    def _remove(self, body: bytes) -> Object:
        book, found = self._any(_read(body, Removal).id)
        book.remove(found["object"], found["id"])
        return found

    def _any(self, name: str) -> tuple[Book, Object]:
        """Returns the object of an id in any account, and its book. Raises StripeError."""
        for book in self._accounts.books():
            if found := book.by_id(name):
                return book, found
        raise invalid(f"No account has an object {name!r}.")

    def _deliver(self, body: bytes) -> Object:
        self._sender.change(_read(body, Deliveries))
        return {}

    def _release(self, _: bytes) -> Object:
        return {"released": self._sender.release()}

    def _roll(self, body: bytes) -> Object:
        book, endpoint = self._accounts.holding("webhook_endpoint", _read(body, Endpoint).webhook_endpoint)
        return {"secret": roll_secret(book, endpoint)}

    def _state(self, _: bytes) -> Object:
        sender = self._sender
        return {
            "now": self._clock.now(),
            "requests": self._requests.served,
            "violations": self._record.violations,
            "faults": msgspec.to_builtins(self._faults.waiting),
            "messages": {
                "sent": sender.sent,
                "refused": sender.refused,
                "lost": sender.lost,
                "waiting": sender.waiting,
            },
        }

    def _cards(self, _: bytes) -> Object:
        return {f"pm_card_{name}": msgspec.to_builtins(card) for name, card in cards.BY_NAME.items()}


def _read(body: bytes, kind: type[T]) -> T:
    return msgspec.json.decode(body or b"{}", type=kind)
