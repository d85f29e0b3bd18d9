"""Differences at Stripe: made on its own pages, by requests that the log never had, and by changes of the stand-in's objects.

Payouts come last, because the stand-in's clock moves on for them and it forgets idempotency keys then.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.operations.conftest import an_order
from tests.sealing import MASTER_KEY
from uuid_utils.compat import uuid7

from campaigns.fake_stripe.running import control, fake_stripe
from campaigns.reconciliation.planting import AMOUNT, Expected, Figures, Site, refund_key, site
from ledger.background.reconciliation.comparison import Kind, Missing
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import Approved
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import MethodType
from ledger.operations.context.inputs import AccountToken, PaymentInput, ValidateInput
from ledger.operations.orders.authenticate import validate
from ledger.operations.orders.create import create_order
from ledger.operations.processor_accounts.connect import ConnectInput, connect_account
from ledger.processors.contract import AuthorizationRequest, CardToken
from ledger.processors.registry import AccountKeys
from ledger.processors.stripe.call_keys import unrequested_refund_id
from ledger.settings import Settings
from ledger.wiring import open_ledger

ACCOUNT, SECRET_KEY = "mx", "sk_test_fake"
RETURN_URL = "https://shop.example/back"
REPAIRED: Final = (
    "refund that the log lacks",
    "void that the log lacks",
    "capture that the log lacks",
    "line of a payout that the log lacks",
    "payout that the bank sent back",
)
_AVAILABLE_AFTER_S, _ARRIVES_AFTER_S = 3 * 86_400 + 3_600, 90_000

Result = tuple[dict[str, Figures], int]


async def run(url: str, count: int, place: Path) -> Result:
    """Plants each kind so often; returns the figures of each, and how many differences were found that none planted."""
    with fake_stripe(place / "record.jsonl", place / "fake.log") as running:
        [address] = running.wait_ready()
        settings = Settings(
            database_url=url,
            database_vault_url=url,
            master_key=MASTER_KEY,
            stripe_url=address,
            processor_timeout_s=30.0,
        )
        async with open_ledger(settings) as ledger, site(ledger, url, lambda: by_token("pm_card_visa")) as at:
            keys = AccountKeys(secret_key=SECRET_KEY)
            await connect_account(ledger, at.merchant, ACCOUNT, ConnectInput(processor="stripe", keys=keys))
            figures, others = await _Planting(at, address, count).run()
        violations = control(address, "state", None, "GET")["violations"]
        assert violations == 0, f"{violations} requests or answers are outside Stripe's description"
        return figures, others


def by_token(token: str) -> PaymentInput:
    tokens = (AccountToken(account=ACCOUNT, token=CardToken(token=token)),)
    return PaymentInput(type=MethodType.CARD, card_tokens=tokens, return_url=RETURN_URL)


class _Planting:
    """What is planted at one account."""

    def __init__(self, at: Site, address: str, count: int) -> None:
        self._at, self._address, self._count = at, address, count
        self._foreign = set[str]()
        """Stripe's names of the charges that no order knows."""

    async def run(self) -> Result:
        at, count = self._at, self._count
        sales, refunds = await at.make(3 * count, at.sale), await at.make(3 * count, at.refunded)
        held, by_hand = await at.make(2 * count, at.held), await at.make(count, at.captured)
        await at.make(count, at.voided)
        await at.make(count, self._authenticated)
        paid_out = await at.make(4 * count, at.sale)
        clean = await at.compare(repair=True)
        assert not clean, f"differences that none has planted: {clean[:3]}"
        calls = {
            "charge that no order knows": [await self._unknown() for _ in range(count)],
            "refund that the log lacks": [self._refund_on_page(*each) for each in sales[:count]],
            "capture of another amount": [self._other_capture(each) for _, each in sales[count : 2 * count]],
            "charge that the processor lacks": [self._without_charge(each) for _, each in sales[2 * count :]],
            "refund that the processor lacks": [self._without_refund(each) for each, _ in refunds[:count]],
            "refund of another amount": [self._other_refund(each) for each, _ in refunds[count : 2 * count]],
            "refund that failed after it succeeded": [self._failed_refund(each) for each, _ in refunds[2 * count :]],
            "void that the log lacks": [self._page(each, "cancel") for _, each in held[:count]],
            "capture that the log lacks": [self._page(each, "capture") for _, each in held[count:]],
            "capture that the processor lacks": [self._without_capture(each) for _, each in by_hand],
        }
        figures, others = await at.find(calls, REPAIRED)
        known = {(key, kind, side) for each in calls.values() for key, kind, side in each}
        more, unknown = await self._payouts(paid_out, known)
        return figures | more, others + unknown

    async def _payouts(self, paid_out: list[tuple[Order, Payment]], known: set[Expected]) -> Result:
        """Pays out all payments, first unnoticed by the log; then changes lines, and sends the payout back at last."""
        at, count = self._at, self._count
        at.ahead += timedelta(seconds=_AVAILABLE_AFTER_S + _ARRIVES_AFTER_S + 3_600)
        control(self._address, "clock", {"seconds": _AVAILABLE_AFTER_S})
        payout = control(self._address, "payouts", {"account": "fake"})["payout"]["id"]
        control(self._address, "clock", {"seconds": _ARRIVES_AFTER_S})
        lines = self._lines(payout)
        known |= {(name, Kind.MISSING, Missing.IN_LEDGER) for name in self._foreign}
        every = [(name, Kind.MISSING, Missing.IN_LEDGER) for name in lines if name not in self._foreign]
        figures, others = await self._find({"line of a payout that the log lacks": every}, known)
        mine = [payment.processor_reference or "" for _, payment in paid_out]
        assert set(mine) <= set(lines), "a payout has the payments of the days before"
        for name in mine[:count]:
            self._alter(lines[name]["id"], set={"fee": lines[name]["fee"] + 100, "net": lines[name]["net"] - 100})
        other = self._second_payout()
        for name in mine[count : 2 * count]:
            self._alter(lines[name]["id"], payout="")
        for name in mine[2 * count : 3 * count]:
            self._alter(lines[name]["id"], payout=other)
        changed = {
            "fee of another amount": [(name, Kind.FEE, Missing.IN_LEDGER) for name in mine[:count]],
            "line of a payout that the processor lacks": [
                (name, Kind.MISSING, Missing.AT_PROCESSOR) for name in mine[count : 2 * count]
            ],
            "payment in another payout": [
                (name, Kind.BATCH, Missing.IN_LEDGER) for name in mine[2 * count : 3 * count]
            ],
        }
        more, unknown = await self._find(changed, known, also=("fee of another amount",))
        figures, others = figures | more, others + unknown
        known |= {each for expected in changed.values() for each in expected if each[1] is not Kind.FEE}
        control(self._address, "payout_ends", {"payout": payout, "paid": False})
        left = [(name, Kind.STATUS, Missing.IN_LEDGER) for name in self._lines(payout) if name not in self._foreign]
        more, unknown = await self._find({"payout that the bank sent back": left}, known)
        return figures | more, others + unknown

    async def _find(
        self, planted: dict[str, list[Expected]], known: set[Expected], also: tuple[str, ...] = ()
    ) -> Result:
        """Finds what was planted now; what was planted before, and is not repaired, is found again."""
        return await self._at.find(planted, (*REPAIRED, *also), known)

    # ---------------------------------------------------------------- calls

    async def _authenticated(self, name: str) -> None:
        """Makes a payment whose payer is authenticated: the call that ends the authentication captures."""
        at, payment = self._at, by_token("pm_card_authenticationRequired")
        await create_order(at.ledger, at.merchant, an_order(name, payment))
        session = (await at.order(name)).payments[0].session
        assert session is not None, "the payer has to be authenticated"
        given = {"payment_intent": session.transaction_id, "passed": True}
        await asyncio.to_thread(control, self._address, "authentications", given)
        await validate(at.ledger, at.merchant, name, ValidateInput(transaction_id=session.transaction_id))

    async def _unknown(self) -> Expected:
        """Charges a card as the ledger does, for an order that it does not have."""
        account = await self._at.ledger.processors.named(self._at.merchant.merchant_id, ACCOUNT)
        assert account is not None, "it is connected"
        payment_id = uuid7()
        answer = await account.processor.authorize(
            AuthorizationRequest(
                merchant_id=self._at.merchant.merchant_id,
                idempotency_key=str(payment_id),
                order_id=uuid7(),
                payment_id=payment_id,
                deadline_at=datetime.now(UTC) + timedelta(seconds=30),
                amount=AMOUNT,
                currency="MXN",
                card=CardToken(token="pm_card_visa"),
                capture=True,
            )
        )
        assert isinstance(answer, Approved), "the test card is good"
        self._foreign.add(answer.processor_reference)
        return (str(payment_id), Kind.MISSING, Missing.IN_LEDGER)

    def _refund_on_page(self, order: Order, payment: Payment) -> Expected:
        refund = self._post("refunds", payment_intent=payment.processor_reference, amount=1_000)["id"]
        key = f"{unrequested_refund_id(order.terms.order_id, refund)}:{payment.payment_id}"
        return (key, Kind.MISSING, Missing.IN_LEDGER)

    def _page(self, payment: Payment, action: str) -> Expected:
        """Captures or cancels a payment on Stripe's own pages."""
        self._post(f"payment_intents/{payment.processor_reference}/{action}")
        return (f"{payment.processor_reference}:{action}", Kind.MISSING, Missing.IN_LEDGER)

    def _other_capture(self, payment: Payment) -> Expected:
        self._alter(self._charge(payment)["id"], set={"amount_captured": 9_999})
        return (payment.capture_keys[0], Kind.AMOUNT, Missing.AT_PROCESSOR)

    def _without_charge(self, payment: Payment) -> Expected:
        self._forget(self._charge(payment)["balance_transaction"])
        return self._uncaptured(payment, "requires_payment_method")

    def _without_capture(self, payment: Payment) -> Expected:
        self._forget(self._charge(payment)["balance_transaction"])
        return self._uncaptured(payment, "canceled")

    def _uncaptured(self, payment: Payment, status: str) -> Expected:
        changes = {"status": status, "amount_received": 0, "last_payment_error": None}
        self._alter(payment.processor_reference or "", set=changes)
        return (payment.capture_keys[0], Kind.MISSING, Missing.AT_PROCESSOR)

    def _without_refund(self, order: Order) -> Expected:
        refund = self._refund(order)
        self._forget(refund["balance_transaction"])
        self._forget(refund["id"])
        return (refund_key(order), Kind.MISSING, Missing.AT_PROCESSOR)

    def _other_refund(self, order: Order) -> Expected:
        self._alter(self._refund(order)["id"], set={"amount": 4_001})
        return (refund_key(order), Kind.AMOUNT, Missing.IN_LEDGER)

    def _failed_refund(self, order: Order) -> Expected:
        control(self._address, "refunds", {"refund": self._refund(order)["id"], "action": "fail"})
        return (refund_key(order), Kind.STATUS, Missing.AT_PROCESSOR)

    # ---------------------------------------------------------------- payouts

    def _lines(self, payout: str) -> dict[str, Any]:
        """Returns the lines of a payout that are payments of the ledger's orders, by Stripe's name of the payment."""
        found, after = dict[str, Any](), None
        while True:
            asked = {"payout": payout, "limit": 100, "expand[]": "data.source"}
            page = self._get("balance_transactions", **asked, **({"starting_after": after} if after else {}))
            for line in page["data"]:
                if line["type"] == "charge" and line["source"]["metadata"]:
                    found[line["source"]["payment_intent"]] = line
            if not page["has_more"]:
                return found
            after = page["data"][-1]["id"]

    def _second_payout(self) -> str:
        """Makes a payment that the ledger does not have, and pays it out."""
        form = {"amount": 50_000, "currency": "mxn", "confirm": "true", "payment_method": "pm_card_visa"}
        self._post("payment_intents", **form, **{"payment_method_types[]": "card"})
        control(self._address, "clock", {"seconds": _AVAILABLE_AFTER_S})
        self._at.ahead += timedelta(seconds=_AVAILABLE_AFTER_S)
        return str(control(self._address, "payouts", {"account": "fake"})["payout"]["id"])

    # ---------------------------------------------------------------- requests

    def _charge(self, payment: Payment) -> Any:
        intent = self._get(f"payment_intents/{payment.processor_reference}", **{"expand[]": "latest_charge"})
        return intent["latest_charge"]

    def _refund(self, order: Order) -> Any:
        [refund] = self._get("refunds", payment_intent=order.payments[0].processor_reference)["data"]
        return refund

    def _get(self, path: str, **query: Any) -> Any:
        return self._send(Request(f"{self._address}/v1/{path}?{urlencode(query)}"))

    def _post(self, path: str, **form: Any) -> Any:
        return self._send(Request(f"{self._address}/v1/{path}", urlencode(form).encode(), method="POST"))

    @staticmethod
    def _send(request: Request) -> Any:
        request.add_header("Authorization", f"Bearer {SECRET_KEY}")
        with urlopen(request) as answer:
            return json.load(answer)

    def _alter(self, name: str, **changes: Any) -> None:
        control(self._address, "alterations", {"id": name, **changes})

    def _forget(self, name: str) -> None:
        control(self._address, "removals", {"id": name})
