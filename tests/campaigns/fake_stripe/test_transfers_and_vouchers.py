"""SPEI, OXXO, instalments, disputes, payouts and messages on the fake of Stripe, driven by the official client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import stripe
from tests.campaigns.fake_stripe.conftest import Fake

SPEI: dict[str, Any] = {
    "currency": "mxn",
    "payment_method_types": ["customer_balance"],
    "payment_method_data": {"type": "customer_balance"},
    "payment_method_options": {
        "customer_balance": {"funding_type": "bank_transfer", "bank_transfer": {"type": "mx_bank_transfer"}}
    },
    "confirm": True,
}


def oxxo(email: str, **more: Any) -> dict[str, Any]:
    payer = {"name": "Ana Pérez", "email": email}
    return {
        "amount": 50_000,
        "currency": "mxn",
        "payment_method_types": ["oxxo"],
        "payment_method_data": {"type": "oxxo", "billing_details": payer},
        "confirm": True,
        **more,
    }


def instructions(intent: Any) -> Any:
    return intent.next_action.display_bank_transfer_instructions


def balance_of(client: stripe.StripeClient, customer: str) -> dict[str, Any]:
    available: Any = client.v1.customers.cash_balance.retrieve(customer).available
    found: dict[str, Any] = available.to_dict()
    return found


def test_transfers_in_parts_too_much_and_late_are_told_apart(fake: Fake, client: stripe.StripeClient) -> None:
    customer = client.v1.customers.create({"email": "payer@example.com"}).id
    waiting = client.v1.payment_intents.create({**SPEI, "amount": 30_000, "customer": customer})  # type: ignore[typeddict-item]
    clabe = instructions(waiting).financial_addresses[0].spei.clabe
    assert (waiting.status, instructions(waiting).amount_remaining, len(clabe)) == ("requires_action", 30_000, 18)
    given: Any = {"currency": "mxn", "funding_type": "bank_transfer", "bank_transfer": {"type": "mx_bank_transfer"}}
    told: Any = client.v1.customers.funding_instructions.create(customer, given)
    assert told.bank_transfer.financial_addresses[0].spei.clabe == clabe
    client.v1.test_helpers.customers.fund_cash_balance(customer, {"amount": 10_000, "currency": "mxn"})
    partly = client.v1.payment_intents.retrieve(waiting.id)
    assert (partly.status, instructions(partly).amount_remaining) == ("requires_action", 20_000)
    again = client.v1.payment_intents.confirm(waiting.id)
    assert instructions(again).amount_remaining == 20_000, "a second confirmation keeps what has come"
    fake.control("transfers", {"clabe": clabe, "amount": 25_000, "reference": "RENTA"})
    paid = client.v1.payment_intents.retrieve(waiting.id, {"expand": ["latest_charge"]})
    charge: Any = paid.latest_charge
    assert (paid.status, paid.amount_received, charge.payment_method_details.type) == (
        "succeeded",
        30_000,
        "customer_balance",
    )
    late = client.v1.test_helpers.customers.fund_cash_balance(customer, {"amount": 700, "currency": "mxn"})
    assert (late.type, late.net_amount, late.ending_balance) == ("funded", 700, 5_700)
    listed = client.v1.customers.cash_balance_transactions.list(customer)
    assert [(each.type, each.net_amount) for each in reversed(listed.data)] == [
        ("funded", 10_000),
        ("applied_to_payment", -10_000),
        ("funded", 25_000),
        ("applied_to_payment", -20_000),
        ("funded", 700),
    ]
    second = client.v1.payment_intents.create({**SPEI, "amount": 5_000, "customer": customer})  # type: ignore[typeddict-item]
    assert second.status == "succeeded", "what the customer has pays at once"
    third = client.v1.payment_intents.create({**SPEI, "amount": 5_000, "customer": customer})  # type: ignore[typeddict-item]
    assert instructions(third).amount_remaining == 4_300
    client.v1.payment_intents.cancel(third.id)
    assert balance_of(client, customer) == {"mxn": 700}


def test_refunds_of_transfers_go_back_to_the_bank_and_may_come_back(
    fake: Fake, account: str, client: stripe.StripeClient
) -> None:
    customer = client.v1.customers.create({}).id
    client.v1.test_helpers.customers.fund_cash_balance(customer, {"amount": 9_000, "currency": "mxn"})
    paid = client.v1.payment_intents.create({**SPEI, "amount": 6_000, "customer": customer})  # type: ignore[typeddict-item]
    with pytest.raises(stripe.InvalidRequestError, match="no email address"):
        client.v1.refunds.create({"payment_intent": paid.id})
    client.v1.customers.update(customer, {"email": "payer@example.com"})
    refund = client.v1.refunds.create({"payment_intent": paid.id, "amount": 2_000})
    rest: Any = {
        "origin": "customer_balance",
        "customer": customer,
        "amount": 3_000,
        "currency": "mxn",
        "metadata": {"k": "1"},
    }
    returned = client.v1.refunds.create(rest)
    assert (refund.status, returned.status, returned.payment_intent) == ("pending", "pending", None)
    with pytest.raises(stripe.InvalidRequestError) as empty:
        client.v1.refunds.create(rest)
    assert empty.value.code == "balance_insufficient"
    fake.control("refunds", {"refund": refund.id, "action": "ask_payer"})
    assert client.v1.refunds.retrieve(refund.id).status == "requires_action"
    assert client.v1.refunds.cancel(refund.id).status == "canceled"
    fake.control("refunds", {"refund": returned.id, "action": "fail"})
    assert client.v1.refunds.retrieve(returned.id).status == "failed"
    assert balance_of(client, customer) == {"mxn": 3_000}
    moved = [(line.moved, line.amount) for line in fake.lines(account) if line.moved]
    assert moved[2:] == [("REFUNDED", 2_000), ("REFUNDED", 3_000), ("REFUND_FAILED", 2_000), ("REFUND_FAILED", 3_000)]


def test_an_oxxo_voucher_is_paid_late_or_expires_at_the_end_of_its_day(fake: Fake, client: stripe.StripeClient) -> None:
    options: Any = {"payment_method_options": {"oxxo": {"expires_after_days": 2}}}
    made = [client.v1.payment_intents.create(oxxo("fill_never@example.com", **options)) for _ in range(3)]  # type: ignore[arg-type]
    shown: Any = made[0].next_action
    ends = datetime.fromtimestamp(shown.oxxo_display_details.expires_after, UTC) - timedelta(hours=6)
    assert (ends.hour, ends.minute) == (23, 59)
    assert shown.oxxo_display_details.hosted_voucher_url.startswith(fake.address)
    fake.control("vouchers", {"payment_intent": made[0].id})
    fake.control("clock", {"seconds": 3 * 86_400})
    assert client.v1.payment_intents.retrieve(made[1].id).status == "processing"
    fake.control("vouchers", {"payment_intent": made[1].id})
    fake.control("clock", {"seconds": 86_400})
    ended = [client.v1.payment_intents.retrieve(each.id) for each in made]
    assert [each.status for each in ended] == ["succeeded", "succeeded", "requires_payment_method"]
    last: Any = ended[2].last_payment_error
    assert last.code == "payment_intent_payment_attempt_expired"
    with pytest.raises(stripe.InvalidRequestError, match="cannot be refunded"):
        client.v1.refunds.create({"payment_intent": made[0].id})
    for amount in (999, 1_000_001):
        with pytest.raises(stripe.InvalidRequestError) as refused:
            client.v1.payment_intents.create(oxxo("a@example.com", amount=amount))  # type: ignore[arg-type]
        assert refused.value.param == "amount"
    at_once = client.v1.payment_intents.create(oxxo("succeed_immediately@example.com"))  # type: ignore[arg-type]
    assert client.v1.payment_intents.retrieve(at_once.id).status == "succeeded"


def test_instalments_are_offered_once_the_payment_has_its_card(client: stripe.StripeClient) -> None:
    enabled: Any = {"payment_method_options": {"card": {"installments": {"enabled": True}}}}
    for card, amount, months in (
        ("pm_card_mx", 60_000, [3, 6]),
        ("pm_card_mx", 500_000, [3, 6, 9, 12, 18, 24]),
        ("pm_card_visa", 500_000, []),
    ):
        made = client.v1.payment_intents.create({"amount": amount, "currency": "mxn", "payment_method_types": ["card"]})
        offered: Any = client.v1.payment_intents.update(made.id, {"payment_method": card, **enabled})
        plans = offered.payment_method_options.card.installments.available_plans
        assert [plan.count for plan in plans] == months
        chosen: Any = {"type": "fixed_count", "interval": "month", "count": 6}
        asked: Any = {
            "payment_method_options": {"card": {"installments": {"plan": chosen}}},
            "expand": ["latest_charge"],
        }
        if not months:
            with pytest.raises(stripe.InvalidRequestError, match="not available"):
                client.v1.payment_intents.confirm(made.id, asked)
            assert client.v1.payment_intents.retrieve(made.id).status == "requires_confirmation"
        else:
            paid: Any = client.v1.payment_intents.confirm(made.id, asked)
            assert paid.latest_charge.payment_method_details.card.installments.plan.count == 6


def test_disputes_and_payouts_move_the_balance_line_by_line(
    fake: Fake, account: str, client: stripe.StripeClient
) -> None:
    card: Any = {"amount": 100_000, "currency": "mxn", "payment_method_types": ["card"], "confirm": True}
    disputed = client.v1.payment_intents.create({**card, "payment_method": "pm_card_createDispute"})
    paid = client.v1.payment_intents.create({**card, "payment_method": "pm_card_visa"})
    client.v1.refunds.create({"payment_intent": paid.id, "amount": 30_000})
    fake.control("clock", {"seconds": 2})
    dispute = client.v1.disputes.list({"payment_intent": disputed.id}).data[0]
    assert (dispute.status, dispute.amount, dispute.reason) == ("needs_response", 100_000, "fraudulent")
    with pytest.raises(stripe.InvalidRequestError) as refused:
        client.v1.refunds.create({"payment_intent": disputed.id})
    assert refused.value.code == "charge_disputed"
    won = client.v1.disputes.update(
        dispute.id, {"evidence": {"uncategorized_text": "winning_evidence"}, "submit": True}
    )
    assert (won.status, [each.amount for each in won.balance_transactions]) == ("won", [-100_000, 100_000])
    assert fake.control("payouts", {"account": account}) == {"payout": None}, "nothing is available yet"
    fake.control("clock", {"seconds": 3 * 86_400})
    payout = fake.control("payouts", {"account": account})["payout"]
    lines = client.v1.balance_transactions.list({"payout": payout["id"], "limit": 100})
    kinds = sorted((each.type, each.amount, each.fee) for each in lines.data)
    fee = round((100_000 * 0.036 + 300) * 1.16)
    assert kinds == [
        ("adjustment", -100_000, 30_000),
        ("adjustment", 100_000, 0),
        ("charge", 100_000, fee),
        ("charge", 100_000, fee),
        ("payout", -payout["amount"], 0),
        ("refund", -30_000, 0),
    ]
    assert sum(each.net for each in lines.data) == 0
    charge = client.v1.balance_transactions.list({"type": "charge", "expand": ["data.source"]}).data[0]
    assert [(each.type, each.amount) for each in charge.fee_details] == [
        ("stripe_fee", fee - round(fee * 16 / 116)),
        ("tax", round(fee * 16 / 116)),
    ]
    source: Any = charge.source
    assert source.object == "charge"
    fake.control("clock", {"seconds": 86_400})
    assert client.v1.payouts.retrieve(payout["id"]).status == "paid"
    assert client.v1.payouts.list({"status": "paid"}).data[0].id == payout["id"]


Received = list[tuple[bytes, str]]


@pytest.fixture
def listener() -> Iterator[tuple[str, Received]]:
    """A server that takes messages, and what it took."""
    received: Received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append((body, self.headers["stripe-signature"]))
            self.send_response(500 if len(received) == 1 else 200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/messages", received
    server.shutdown()
    server.server_close()


def test_messages_are_signed_repeated_and_can_be_doubled_held_and_shuffled(
    fake: Fake, client: stripe.StripeClient, listener: tuple[str, Received]
) -> None:
    url, received = listener
    endpoint = client.v1.webhook_endpoints.create(
        {"url": url, "enabled_events": ["payment_intent.created", "charge.succeeded"]}
    )
    secret = str(endpoint.secret)
    fake.control("deliveries", {"copies": 2, "hold": True})
    card: Any = {"amount": 10_000, "currency": "mxn", "payment_method_types": ["card"], "confirm": True}
    paid = client.v1.payment_intents.create({**card, "payment_method": "pm_card_visa"}, {"idempotency_key": "k"})
    newer = fake.control("secrets", {"webhook_endpoint": endpoint.id})["secret"]
    assert received == []
    assert fake.control("release") == {"released": 4}
    for _ in range(300):
        if len(received) == 5:
            break
        time.sleep(0.02)
    assert len(received) == 5, "two messages, each twice, and the one that was answered 500 once more"
    for body, signature in received:
        event = client.construct_event(body, signature, secret)
        assert event.type in {"payment_intent.created", "charge.succeeded"}
        assert event.request is not None
        assert event.request.idempotency_key == "k"
        with pytest.raises(stripe.SignatureVerificationError):
            client.construct_event(body + b" ", signature, secret)
    assert len({body for body, _ in received}) == 2
    fake.control("deliveries", {})
    client.v1.payment_intents.create({**card, "confirm": False})
    for _ in range(300):
        if len(received) == 6:
            break
        time.sleep(0.02)
    body, signature = received[-1]
    for one in (secret, newer):
        assert client.construct_event(body, signature, one).type == "payment_intent.created"
    types = [
        event.type for event in client.v1.events.list({"types": ["payment_intent.succeeded", "charge.succeeded"]}).data
    ]
    assert types == ["payment_intent.succeeded", "charge.succeeded"]
    assert client.v1.payment_intents.retrieve(paid.id).status == "succeeded"
