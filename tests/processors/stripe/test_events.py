"""What Stripe's events mean for the ledger's payments, asked at Stripe: deposits, refunds, disputes and payouts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import ANY
from uuid import uuid4

import pytest
from msgspec.structs import replace
from tests.processors.stripe.conftest import Shop
from tests.processors.stripe.double import FAILS_BEFORE, Double
from tests.processors.stripe.test_references import _fund, _payout
from uuid_utils.compat import uuid7

from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import ActionRequired, CardReference, ReferenceIssued, Voided, VoidRefused
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import ProcessorTimedOut
from ledger.processors.findings import Finding, PaymentState, UnrequestedRefund, VerificationState
from ledger.processors.messages import (
    DepositReceived,
    DisputeLost,
    DisputeOpened,
    DisputeWon,
    NoticeReceived,
    OrderMessage,
    RefundConfirmed,
    RefundFailed,
    SettlementListed,
    SettlementMatched,
    SettlementRefused,
)
from ledger.processors.stripe.processor import StripeProcessor
from ledger.processors.stripe.transport import KeyRefused

pytestmark = pytest.mark.anyio


async def found(shop: Shop, event_id: str, **given: Any) -> list[Finding] | None:
    """What Stripe answers about a message of this event, of which only the names are used."""
    [event] = [event for event in shop.double.events if event["id"] == event_id]
    about: dict[str, Any] = {"processor": "stripe", "message_id": event_id, "merchant_id": shop.merchant_id}
    about |= {"kind": event["type"], "object_id": event["data"]["object"]["id"], "body_hash": "x"}
    notice = NoticeReceived(**about | {"occurred_at": datetime.now(UTC)} | given)
    answer = await shop.stripe.findings(notice, datetime.now(UTC) + timedelta(seconds=10))
    return None if answer is None else list(answer)


async def asked(shop: Shop, event_id: str, **given: Any) -> list[OrderMessage]:
    answer = await found(shop, event_id, **given)
    return [each for each in answer or () if not isinstance(each, PaymentState | UnrequestedRefund | VerificationState)]


def cash(double: Double, customer: str, amount: int, kind: str = "funded") -> str:
    moved = {"id": double._id("ccsbtxn"), "object": "customer_cash_balance_transaction", "type": kind}
    moved |= {"customer": customer, "net_amount": amount, "currency": "mxn", "created": double.now}
    return double.happen("customer_cash_balance_transaction.created", moved)


async def test_each_transfer_is_one_deposit_of_its_reference(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    request = shop.reference()
    issued = await stripe.issue_reference(request)
    assert isinstance(issued, ReferenceIssued)
    [customer] = double.customers
    first, second = cash(double, customer, 20_000), cash(double, customer, 31_500)
    for event, amount in ((first, 20_000), (first, 20_000), (second, 31_500)):
        [deposit] = await asked(shop, event)
        assert isinstance(deposit, DepositReceived)
        assert (deposit.reference, deposit.amount, deposit.currency) == (issued.clabe, amount, "MXN")
        assert (deposit.order_id, deposit.payment_id) == (request.order_id, request.payment_id)
    [one], [other] = await asked(shop, first), await asked(shop, second)
    assert one.processor_reference != other.processor_reference
    assert await asked(shop, cash(double, customer, -5_000, "applied_to_payment")) == []
    [lost] = await asked(shop, cash(double, customer, -20_000, "funding_reversed"))
    assert isinstance(lost, DisputeLost), "a bank that takes a transfer back takes it as a chargeback does"
    assert (lost.amount, lost.order_id, lost.payment_id) == (20_000, request.order_id, request.payment_id)
    assert await asked(shop, cash(double, customer, 0, "funding_reversed")) == []
    assert await asked(shop, first, merchant_id=uuid4()) == []  # another merchant's account has the same keys
    double.customers[customer]["metadata"] = {}
    assert await asked(shop, first) == []


async def test_cash_under_a_voucher_is_a_deposit(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    request = shop.reference(MethodType.PAYCASH)
    issued = await stripe.issue_reference(request)
    assert isinstance(issued, ReferenceIssued)
    intent = double.intents[issued.processor_reference]
    details = {"type": "oxxo", "oxxo": {"number": issued.reference}}
    charge = {"id": "ch_77", "object": "charge", "amount": 50_000, "payment_method_details": details}
    intent |= {"status": "succeeded", "amount_received": 50_000, "next_action": None, "latest_charge": charge}
    [deposit] = await asked(shop, double.happen("payment_intent.succeeded", intent))
    assert isinstance(deposit, DepositReceived)
    assert (deposit.reference, deposit.amount, deposit.processor_reference) == (issued.reference, 50_000, "ch_77")
    await stripe.authorize(shop.pay())
    assert await asked(shop, double.happen("payment_intent.succeeded", list(double.intents.values())[-1])) == []
    intent["latest_charge"] = "ch_77"


@pytest.mark.parametrize(
    ("status", "kind"),
    [("succeeded", RefundConfirmed), ("failed", RefundFailed), ("canceled", RefundFailed), ("pending", None)],
)
async def test_a_refund_has_an_end(
    shop: Shop, stripe: StripeProcessor, double: Double, status: str, kind: type | None
) -> None:
    request = shop.refund(await shop.authorized())
    await stripe.refund(request)
    [refund] = double.refunds.values()
    event = double.happen("refund.updated", refund)  # the event shows it as it was: what is true now counts
    refund["status"] = status
    messages = await asked(shop, event)
    assert [type(message) for message in messages] == ([] if kind is None else [kind])
    assert all(m.is_final for m in messages if isinstance(m, RefundFailed))
    assert {(m.idempotency_key, m.order_id) for m in messages} <= {(request.idempotency_key, request.order_id)}  # type: ignore[union-attr]
    refund["metadata"]["ledger_amount"] = "changed by hand"
    assert len(await asked(shop, event)) == len(messages)
    refund["metadata"] = {}
    assert await asked(shop, event) == []


async def test_a_payout_in_two_parts_ends_when_both_have(shop: Shop, stripe: StripeProcessor, double: Double) -> None:
    issued = await stripe.issue_reference(shop.reference())
    assert isinstance(issued, ReferenceIssued)
    double.balances[_fund(double, issued.processor_reference, 50_000)] = 1_500
    await stripe.pay_out(_payout(shop, issued.processor_reference, 51_500))
    first, second = double.refunds.values()
    first["status"], second["status"] = "pending", "succeeded"
    event = double.happen("refund.updated", second)
    assert await asked(shop, event) == []
    first["status"] = "succeeded"
    [confirmed] = await asked(shop, event)
    assert isinstance(confirmed, RefundConfirmed)
    assert confirmed.amount == 51_500
    [again] = await asked(shop, double.happen("refund.updated", first))
    assert again == confirmed
    second["status"] = "failed"
    [failed] = await asked(shop, double.happen("refund.failed", second))
    assert isinstance(failed, RefundFailed)
    assert (failed.returned, failed.returned_reference) == (first["amount"], first["id"])
    assert (failed.code, failed.message_id) == ("FAILED", f"{second['id']}:failed:{first['amount']}")
    first["status"], second["status"] = "failed", "succeeded"
    one = await asked(shop, double.happen("refund.failed", first))
    second["status"] = "failed"
    [both] = await asked(shop, double.happen("refund.failed", second))
    assert isinstance(both, RefundFailed)
    assert (both.returned, both.message_id in {failed.message_id, *(each.message_id for each in one)}) == (0, False)


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        ("warning_needs_response", []),
        ("needs_response", [DisputeOpened]),
        ("under_review", [DisputeOpened]),
        ("won", [DisputeOpened, DisputeWon]),
        ("lost", [DisputeOpened, DisputeLost]),
    ],
)
async def test_a_dispute_has_an_end(
    shop: Shop, stripe: StripeProcessor, double: Double, status: str, kinds: list[type]
) -> None:
    reference = await shop.authorized()
    dispute = {"id": "dp_5", "object": "dispute", "status": "needs_response", "amount": 9_000, "reason": "fraudulent"}
    dispute["payment_intent"] = reference
    double.disputes["dp_5"] = {**dispute, "status": status}
    messages = await asked(shop, double.happen("charge.dispute.created", dispute))
    assert [type(message) for message in messages] == kinds
    assert len({message.message_id for message in messages}) == len(kinds)
    for message in messages:
        assert (message.dispute_id, message.processor_reference) == ("dp_5", reference)  # type: ignore[union-attr]


def paid_out(double: Double, payout_id: str, status: str, **changes: Any) -> str:
    """Makes a payout of all transactions that are in none, and returns its event."""
    for line in double.transactions:
        line.setdefault("payout", payout_id)
    payout = {"id": payout_id, "object": "payout", "status": status, "created": double.now, "automatic": True}
    double.payouts[payout_id] = payout | {"reconciliation_status": "completed"} | changes
    return double.happen("payout.updated", double.payouts[payout_id])


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        ("in_transit", [SettlementListed]),
        ("paid", [SettlementListed, SettlementMatched]),
        ("failed", [SettlementListed, SettlementRefused]),
        ("canceled", [SettlementListed, SettlementRefused]),
    ],
)
async def test_a_payout_to_the_merchant_lists_its_payments_with_their_fees(
    shop: Shop, stripe: StripeProcessor, double: Double, status: str, kinds: list[type]
) -> None:
    references = [await shop.authorized() for _ in range(3)]
    await stripe.refund(shop.refund(references[0]))
    double._move("adjustment", {"id": "dp_1", "object": "dispute"}, -9_000)
    double._move("stripe_fee", {"id": "fee_1", "object": "fee"}, -100)
    event = paid_out(double, "po_9", status)
    messages = await asked(shop, event)
    assert {type(message) for message in messages} == set(kinds)
    assert sorted(m.processor_reference for m in messages if isinstance(m, SettlementListed)) == sorted(references)
    assert len({message.message_id for message in messages}) == len(messages) == 3 * len(kinds)
    assert {(m.fee, m.fee_tax, m.fee_currency) for m in messages} == {(36, 5, "MXN")}  # type: ignore[union-attr]
    assert await asked(shop, event) == messages, "the same messages each time"


async def test_a_payout_without_lines_settles_nothing(shop: Shop, double: Double) -> None:
    """Stripe refuses the list of a manual payout, and completes that of an automatic one later."""
    await shop.authorized()
    manual = paid_out(double, "po_1", "paid", automatic=False, reconciliation_status="not_applicable")
    assert await asked(shop, manual) == []
    assert await asked(shop, paid_out(double, "po_1", "paid", reconciliation_status="in_progress")) == []
    assert not [path for _, path, _ in double.requests if path.endswith("/balance_transactions")]
    assert len(await asked(shop, paid_out(double, "po_1", "paid"))) == 2


async def test_money_of_a_payout_that_was_sent_back_is_settled_by_a_later_one(shop: Shop, double: Double) -> None:
    reference = await shop.authorized()
    paid_out(double, "po_1", "failed")
    double._move("payout_failure", double.payouts["po_1"], 9_964)
    other = await shop.authorized()
    [listed, matched, *others] = await asked(shop, paid_out(double, "po_2", "paid"))
    assert {listed.processor_reference, *(m.processor_reference for m in others)} == {reference, other}  # type: ignore[union-attr]
    assert {m.batch_id for m in (listed, matched, *others)} == {"po_2"}  # type: ignore[union-attr]
    double._move("payout_failure", double.payouts["po_2"], 9_964)
    double.transactions[-1]["payout"] = "po_1"
    assert len(await asked(shop, paid_out(double, "po_2", "paid"))) == 4, "two payouts in each other's lines end"


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({"status": "succeeded", "amount_received": 10_000}, "CAPTURED"),
        ({"status": "requires_capture"}, "HELD"),
        ({"status": "canceled", "cancellation_reason": "requested_by_customer"}, "VOIDED"),
        ({"status": "canceled", "cancellation_reason": "automatic"}, "LAPSED"),
        ({"status": "requires_payment_method", "last_payment_error": {"type": "card_error"}}, "FAILED"),
        ({"status": "requires_action"}, "WAITING"),
        ({"status": "processing"}, "WAITING"),
    ],
)
async def test_a_payment_by_card_is_as_stripe_has_it_now(
    shop: Shop, double: Double, changes: dict[str, Any], standing: str
) -> None:
    request = shop.pay(capture=False)
    await shop.stripe.authorize(request)
    [intent] = double.intents.values()
    event = double.happen("payment_intent.canceled", intent)
    before = dict(intent)
    intent |= changes
    [state] = await found(shop, event) or ()
    assert isinstance(state, PaymentState)
    assert (state.standing, state.order_id, state.payment_id) == (standing, request.order_id, request.payment_id)
    assert (state.captured, state.released) == ((10_000, 0) if standing == "CAPTURED" else (0, 0))
    assert (state.capture_key, state.void_key) == (f"{intent['id']}:capture", f"{intent['id']}:cancel")
    assert await found(shop, event, merchant_id=uuid4()) == []
    intent |= before | {"last_payment_error": None}


async def test_a_refund_on_stripes_own_pages_is_found_and_looked_up_by_an_id_of_its_own(
    shop: Shop, double: Double
) -> None:
    request = shop.pay()
    await shop.stripe.authorize(request)
    [intent] = double.intents.values()
    refund = {"id": "re_77", "object": "refund", "amount": 4_000, "status": "succeeded", "metadata": {}}
    refund |= {"currency": "mxn"}
    double.refunds["re_77"] = refund | {"payment_intent": intent["id"], "created": double.now}
    event = double.happen("refund.created", double.refunds["re_77"])
    [made] = await found(shop, event) or ()
    assert isinstance(made, UnrequestedRefund)
    assert (made.amount, made.order_id, made.payment_id) == (4_000, request.order_id, request.payment_id)
    asked_for = shop.refund(intent["id"], idempotency_key=f"{made.refund_id}:{made.payment_id}")
    same = {"order_id": made.order_id, "payment_id": made.payment_id}
    assert await shop.stripe.look_up_refund(shop.question(asked_for, **same)) == made.outcome
    assert await shop.stripe.look_up_refund(shop.question(asked_for)) is None
    double.refunds["re_77"]["payment_intent"] = None
    assert await found(shop, event) == []
    reference = await shop.stripe.issue_reference(sent := shop.reference())
    assert isinstance(reference, ReferenceIssued)
    double.refunds["re_77"]["customer"] = double.intents[reference.processor_reference]["customer"]
    double.refunds["re_77"]["charge"] = "ch_77"
    assert await found(shop, event) == []
    double.refunds["re_77"]["charge"] = None
    [made] = await found(shop, event) or ()  # it came from the balance of the transfer's customer
    assert isinstance(made, UnrequestedRefund)
    assert (made.amount, made.order_id, made.payment_id) == (4_000, sent.order_id, sent.payment_id)
    given = {"step": EntryAction.REFUND, "processor_reference": reference.processor_reference, "announced_at": None}
    given |= {"amount": made.amount, "idempotency_key": f"{made.refund_id}:{made.payment_id}"}
    assert await shop.stripe.look_up_payout(replace(shop.question(sent), **given)) == made.outcome


async def test_a_message_about_an_unknown_object_or_of_another_kind_means_nothing(shop: Shop, double: Double) -> None:
    other = double.happen("customer.created", {"id": "cus_1"})
    refund = double.happen("refund.updated", {"id": "re_404"})
    moved = "customer_cash_balance_transaction.created"
    assert await found(shop, refund) is None
    assert await found(shop, other, kind=moved, message_id="evt_99") is None
    for changes in (
        {},
        {"kind": "payout.paid", "object_id": "../v1/account"},
        {"object_id": ""},
        {"message_id": "x/y"},
    ):
        assert await found(shop, other, **changes) == []
    assert [path for _, path, _ in double.requests] == ["/v1/refunds/re_404", "/v1/events/evt_99"]


async def test_what_stripe_does_not_show_is_asked_for_again(shop: Shop, double: Double) -> None:
    double.faults["/funding_instructions"] = [FAILS_BEFORE]
    await shop.stripe.issue_reference(shop.reference())
    [customer] = double.customers
    deposit = cash(double, customer, 100)
    with pytest.raises(ProcessorTimedOut):
        await asked(shop, deposit)
    assert len(await asked(shop, deposit)) == 1


async def test_the_verification_of_a_card_is_shown_as_it_stands(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    verification, customer = uuid7(), uuid7()
    terms: dict[str, Any] = {"amount": Decimal(0), "capture": False, "order_id": None, "payment_id": None}
    named = {"idempotency_key": str(verification), "customer_id": customer, "save_as": uuid7()}
    request = shop.pay("pm_3ds", **terms, **named)
    asked = await stripe.authorize(request)
    assert isinstance(asked, ActionRequired)
    intent = double.intents["seti_1"]
    assert asked.processor_reference == intent["id"], "the payer's act completes it: its session is ended there"
    about = {"merchant_id": shop.merchant_id, "customer_id": customer, "verification_id": verification}
    waiting = VerificationState(**about, processor_reference=intent["id"], is_waiting=True)  # type: ignore[arg-type]
    early = double.happen("setup_intent.succeeded", intent)
    assert await found(shop, early) == [waiting]
    other = await stripe.authorize(replace(request, idempotency_key=str(uuid7())))
    assert isinstance(other, ActionRequired)
    assert other.processor_reference is not None
    ended = await stripe.void(shop.void(other.processor_reference))
    assert ended == Voided(processor_reference=other.processor_reference)
    [canceled] = await found(shop, early, object_id=other.processor_reference) or ()
    assert isinstance(canceled, VerificationState)
    assert (canceled.is_waiting, canceled.saved_card) == (False, None)
    double.decline(intent["id"], code="setup_intent_authentication_failure")
    assert await found(shop, early) == [replace(waiting, is_waiting=False)]
    double.approve(intent["id"])
    card = CardReference(token="pm_3ds", customer=intent["customer"], fingerprint="print-1")
    done = replace(waiting, is_waiting=False, saved_card=card)
    for kind in ("succeeded", "setup_failed", "canceled"):
        assert await found(shop, double.happen(f"setup_intent.{kind}", intent)) == [done]
    assert await found(shop, early, merchant_id=uuid4()) == []
    assert await found(shop, double.happen("setup_intent.created", intent)) == []
    await stripe.authorize(shop.pay())
    assert await found(shop, early, object_id=list(double.intents)[-1]) == [], "a payment is no verification"
    assert await stripe.void(shop.void(intent["id"])) == VoidRefused(code="ALREADY_CAPTURED", message=ANY)
    double.forbidden = ("setup_intents",)
    assert await found(shop, early) == [], "a restricted key that may not read it has not made it"
    double.forbidden = ()
    double.key = "sk_test_2"
    with pytest.raises(KeyRefused):
        await found(shop, early)
    double.key = "sk_test_1"
    intent["metadata"].pop("ledger_customer")
    assert await found(shop, early) == [], "an earlier release made it"
    intent["metadata"]["ledger_customer"] = str(uuid7())
    assert await stripe.look_up(shop.question(request)) is not None


async def test_the_intent_of_an_earlier_release_is_found_by_listing(
    shop: Shop, stripe: StripeProcessor, double: Double
) -> None:
    terms: dict[str, Any] = {"amount": Decimal(0), "capture": False, "order_id": None, "payment_id": None}
    request = shop.pay(**terms)
    answer = await stripe.authorize(request)
    question = shop.question(request, customer_id=uuid7(), fence=True)
    assert await stripe.look_up(question) == answer
    double.intents.clear()
    with pytest.raises(ProcessorTimedOut):
        await stripe.look_up(question)
