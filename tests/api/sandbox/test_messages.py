"""What processors and banks report over HTTP: deposits, payouts, disputes, settlement."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest
from tests.api.bodies import ABSENT, by_card, card, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront, opened

pytestmark = pytest.mark.anyio

SANDBOX = "/api/sandbox"
DEPOSITS, DISPUTES, SETTLEMENTS = f"{SANDBOX}/deposits", f"{SANDBOX}/disputes", f"{SANDBOX}/settlements"
SLOW_REFUND, DISPUTED = "4000000000005126", "4000000000000259"


async def reference(merchant: Merchant, method: str = "spei", **changes: Any) -> dict[str, Any]:
    """Returns an order over 1,500 pesos that waits for money on a reference."""
    created = await merchant.create(order(pending=ABSENT, paymentMethod={"type": method}, **changes))
    assert created.status_code == 201, created.text
    found: dict[str, Any] = created.json()
    assert found["status"] == "REFERENCE_GENERATED"
    return found


async def captured(merchant: Merchant, number: str = "4242424242424242", **changes: Any) -> dict[str, Any]:
    created = await merchant.create(paid_order(paymentMethod=by_card(cardDetails=card(number=number)), **changes))
    assert created.json()["status"] == "COMPLETED", created.text
    found: dict[str, Any] = created.json()
    return found


def clabe_of(found: dict[str, Any]) -> str:
    return str(found["payments"][-1]["speiDetails"]["clabe"])


async def send(merchant: Merchant, found: dict[str, Any], amount: int, **changes: Any) -> httpx.Response:
    return await merchant.post(DEPOSITS, {"clabe": clabe_of(found), "amount": amount, **changes})


async def shown(merchant: Merchant, found: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = (await merchant.get(f"{ORDERS}/{found['id']}")).json()
    return answer


async def wait(merchant: Merchant, **by: str) -> int:
    moved = await merchant.post(f"{SANDBOX}/clock", {"advanceBy": "PT1M"} | by)
    assert moved.status_code == 200, moved.text
    return int(moved.json()["jobsRun"])


def told(answer: httpx.Response) -> dict[str, Any]:
    """Returns the order in a helper's answer, which must equal what the order's own address shows."""
    assert answer.status_code == 200, answer.text
    assert answer.json()["accepted"] is True
    found: dict[str, Any] = answer.json()["paymentOrder"]
    return found


# ---------------------------------------------------------------- deposits


async def test_the_exact_amount_completes_the_order(merchant: Merchant):
    found = await reference(merchant)
    after = told(await send(merchant, found, 150_000))
    assert (after["status"], after["amountPaid"], after["amountPending"]) == ("COMPLETED", 150_000, 0)
    assert after["payments"][0]["status"] == "CAPTURED"
    assert after["payments"][0]["paymentEvents"][-1]["action"] == "DEPOSIT"
    assert (await shown(merchant, found))["status"] == "COMPLETED"


async def test_less_leaves_a_rest_that_a_further_deposit_pays(merchant: Merchant):
    found = await reference(merchant)
    after = told(await send(merchant, found, 40_000))
    assert (after["status"], after["amountPending"]) == ("PARTIALLY_PAID", 110_000)
    assert after["payments"][0]["status"] == "PARTIALLY_CAPTURED"
    after = told(await send(merchant, found, 110_000))
    assert (after["status"], after["payments"][0]["status"]) == ("COMPLETED", "CAPTURED")


async def test_more_completes_the_order_and_the_extra_is_shown_and_kept(merchant: Merchant):
    after = told(await send(merchant, await reference(merchant), 150_100))
    assert (after["status"], after["amountPending"], after["overpaidAmount"]) == ("COMPLETED", 0, 100)


async def test_more_goes_back_by_itself_where_the_merchant_wants_that(store: Storefront):
    merchant = await store.register(refund_overpayment=True)
    found = await reference(merchant)
    told(await send(merchant, found, 150_100))
    assert (await shown(merchant, found))["status"] == "REFUND_PROCESSING"
    assert await wait(merchant) >= 1
    after = await shown(merchant, found)
    assert (after["amountRefunded"], after["overpaidAmount"], after["amountPending"]) == (100, 0, 0)


@pytest.mark.parametrize("method", ["paycash", "cie_cash_net"])
async def test_cash_is_the_exact_amount_or_nothing(merchant: Merchant, method: str):
    found = await reference(merchant, method)
    cash = found["payments"][0]["cieDetails"]["reference"]
    for amount in (149_999, 150_001):
        refused = await merchant.post(DEPOSITS, {"reference": cash, "amount": amount})
        assert (refused.status_code, refused.json()["code"]) == (409, "AMOUNT_MISMATCH")
    assert (await shown(merchant, found))["amountPaid"] == 0
    assert told(await merchant.post(DEPOSITS, {"reference": cash, "amount": 150_000}))["status"] == "COMPLETED"


async def test_a_message_that_is_sent_again_gets_the_first_answer(merchant: Merchant):
    found = await reference(merchant)
    first = await send(merchant, found, 40_000, messageId="m-1")
    await send(merchant, found, 110_000, messageId="m-2")
    again = await send(merchant, found, 90_000, messageId="m-1")
    assert (again.status_code, again.json()) == (200, first.json())
    assert first.json()["processorMessageId"] == "m-1"
    assert (await shown(merchant, found))["amountPaid"] == 150_000


async def test_an_unknown_reference_is_kept_and_answered_202(merchant: Merchant, store: Storefront):
    stray = await merchant.post(DEPOSITS, {"reference": "93000000000018", "amount": 5})
    assert (stray.status_code, stray.json()["accepted"], stray.json()["paymentOrder"]) == (202, True, None)
    others = await reference(await store.register())
    assert (await send(merchant, others, 150_000)).status_code == 202, "another merchant's CLABE is nobody's"


async def expired(merchant: Merchant, **changes: Any) -> dict[str, Any]:
    found = await reference(merchant, **changes)
    await wait(merchant, advanceBy="PT73H")
    assert (await shown(merchant, found))["payments"][0]["status"] == "EXPIRED"
    return found


@pytest.mark.parametrize(("amount", "status"), [(150_000, "COMPLETED"), (50_000, "PARTIALLY_PAID")])
async def test_money_after_the_references_end_raises_a_failed_order(merchant: Merchant, amount: int, status: str):
    found = await expired(merchant)
    assert (await shown(merchant, found))["status"] == "FAILED"
    after = told(await send(merchant, found, amount))
    assert (after["status"], after["lateDeposit"]) == (status, True)
    assert after["payments"][0]["status"] == "CAPTURED"


@pytest.mark.parametrize(("amount", "status"), [(150_000, "COMPLETED"), (50_000, "PARTIALLY_PAID")])
async def test_money_on_a_cancelled_order_raises_it(merchant: Merchant, amount: int, status: str):
    found = await reference(merchant)
    cancelled = await merchant.post(f"{ORDERS}/{found['id']}/cancel", {})
    assert (cancelled.json()["status"], cancelled.json()["payments"][0]["status"]) == ("CANCELLED", "CANCELLED")
    after = told(await send(merchant, found, amount))
    assert (after["status"], after["lateDeposit"]) == (status, True)
    assert after["payments"][0]["status"] == "CAPTURED"


async def test_money_on_a_reference_that_a_card_has_replaced_is_money_all_the_same(merchant: Merchant):
    created = await merchant.create(order())
    path = f"{ORDERS}/{created.json()['id']}/charge"
    found = (await merchant.post(path, {"paymentMethod": {"type": "spei"}})).json()
    paid = await merchant.post(path, {"paymentMethod": by_card(), "billingAddress": {"city": "Puebla"}})
    assert paid.json()["status"] == "COMPLETED"
    after = told(await send(merchant, found, 150_000))
    assert (after["overpaidAmount"], after["lateDeposit"]) == (150_000, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"amount": 5}, "clabe"),
        ({"clabe": "646180000000000012"}, "amount"),
        ({"clabe": "646180000000000012", "amount": 0}, "amount"),
        ({"clabe": "646180000000000012", "amount": "5"}, "amount"),
        ({"clabe": "1", "reference": "2", "amount": 5}, "clabe"),
        ({"clabe": "", "amount": 5}, "clabe"),
        ({"clabe": "1\x00", "amount": 5}, "clabe"),
        ({"reference": "1", "amount": 5, "messageId": "sbx_1"}, "messageId"),
        ({"reference": "1", "amount": 5, "messageId": "\x00"}, "messageId"),
    ],
)
async def test_an_invalid_deposit_is_refused_with_its_field(merchant: Merchant, body: dict[str, Any], field: str):
    answer = await merchant.post(DEPOSITS, body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


# ---------------------------------------------------------------- payouts and refunds that end later


async def refund(merchant: Merchant, found: dict[str, Any], amount: int, **changes: Any) -> dict[str, Any]:
    answer = await merchant.post(f"{ORDERS}/{found['id']}/refund", {"amount": amount, "reason": "Taza rota", **changes})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_a_transfer_is_paid_back_and_that_ends_at_the_next_tick(merchant: Merchant):
    found = await reference(merchant)
    await send(merchant, found, 150_000)
    asked = await refund(merchant, found, 50_000)
    assert (asked["status"], asked["payments"][0]["status"]) == ("REFUND_PROCESSING", "PENDING_REFUND")
    assert await wait(merchant) == 1
    after = await shown(merchant, found)
    assert (after["status"], after["amountRefunded"]) == ("PARTIALLY_REFUNDED", 50_000)
    await refund(merchant, found, 100_000)
    await wait(merchant)
    after = await shown(merchant, found)
    assert (after["status"], after["payments"][0]["status"]) == ("REFUNDED", "REFUNDED")


async def test_a_payout_that_fails_leaves_the_order_as_it_was(merchant: Merchant):
    found = await reference(merchant)
    await send(merchant, found, 150_000)
    await refund(merchant, found, 50_000, destination={"clabe": "032180000118359719", "accountHolder": "Ana Fail"})
    await wait(merchant)
    after = await shown(merchant, found)
    assert (after["status"], after["amountRefunded"], after["payments"][0]["status"]) == ("COMPLETED", 0, "CAPTURED")


async def test_a_cards_slow_refund_ends_when_its_message_comes(merchant: Merchant):
    found = await captured(merchant, SLOW_REFUND)
    asked = await refund(merchant, found, 150_000)
    assert (asked["status"], asked["refund"]["status"]) == ("REFUND_PROCESSING", "PENDING")
    assert await wait(merchant) == 1
    after = await shown(merchant, found)
    assert (after["status"], after["amountRefunded"]) == ("REFUNDED", 150_000)


# ---------------------------------------------------------------- disputes


async def noted(merchant: Merchant) -> None:
    """Moves the clock on by nothing: that records payments' ids, for which no worker runs here."""
    assert (await merchant.post(f"{SANDBOX}/clock", {"advanceBy": "PT0S"})).status_code == 200


async def contest(merchant: Merchant, found: dict[str, Any], outcome: str, **changes: Any) -> httpx.Response:
    await noted(merchant)
    return await merchant.post(DISPUTES, {"paymentId": found["payments"][0]["id"], "outcome": outcome, **changes})


async def test_a_dispute_that_is_won_leaves_everything_as_it_was(merchant: Merchant):
    found = await captured(merchant)
    opened_one = told(await contest(merchant, found, "OPENED"))
    assert (opened_one["status"], opened_one["payments"][0]["status"]) == ("COMPLETED", "DISPUTED")
    won = told(await contest(merchant, found, "WON"))
    assert (won["status"], won["payments"][0]["status"], won["amountRefunded"]) == ("COMPLETED", "CAPTURED", 0)


@pytest.mark.parametrize(
    ("amount", "order_status", "payment_status"),
    [(50_000, "PARTIALLY_REFUNDED", "PARTIALLY_REFUNDED"), (150_000, "REFUNDED", "REFUNDED")],
)
async def test_a_dispute_that_is_lost_takes_its_amount(
    merchant: Merchant, amount: int, order_status: str, payment_status: str
):
    found = await captured(merchant)
    await contest(merchant, found, "OPENED", amount=amount)
    lost = told(await contest(merchant, found, "LOST"))
    assert (lost["status"], lost["payments"][0]["status"]) == (order_status, payment_status)
    assert lost["amountRefunded"] == amount
    assert lost["payments"][0]["paymentEvents"][-1]["action"] == "CHARGEBACK"


async def test_a_dispute_may_be_lost_at_once_and_deposits_can_be_contested_too(merchant: Merchant):
    found = await captured(merchant)
    assert told(await contest(merchant, found, "LOST", amount=1))["amountRefunded"] == 1
    by_transfer = await reference(merchant, externalId="2")
    await send(merchant, by_transfer, 150_000)
    assert told(await contest(merchant, by_transfer, "OPENED"))["payments"][0]["status"] == "DISPUTED"
    assert told(await contest(merchant, by_transfer, "LOST"))["amountRefunded"] == 150_000
    twice = await contest(merchant, by_transfer, "LOST", amount=1)
    assert (twice.status_code, [each["field"] for each in twice.json()["errors"]]) == (400, ["amount"])


async def test_card_0259_is_disputed_by_itself_after_its_capture(merchant: Merchant):
    found = await captured(merchant, DISPUTED)
    assert found["payments"][0]["status"] == "CAPTURED"
    assert await wait(merchant) == 1
    assert (await shown(merchant, found))["payments"][0]["status"] == "DISPUTED"
    assert told(await contest(merchant, found, "LOST"))["status"] == "REFUNDED"


async def test_what_cannot_be_contested_is_refused(merchant: Merchant, store: Storefront):
    found = await captured(merchant)
    unknown = await merchant.post(DISPUTES, {"paymentId": str(uuid4()), "outcome": "OPENED"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "PAYMENT_NOT_FOUND")
    assert (await contest(await store.register(), found, "OPENED")).status_code == 404


# ---------------------------------------------------------------- settlement


async def settle(merchant: Merchant, **body: Any) -> httpx.Response:
    await noted(merchant)
    return await merchant.post(SETTLEMENTS, body)


async def test_payments_are_listed_and_matched_or_refused_and_listed_again(merchant: Merchant):
    found = await captured(merchant)
    ids = [found["payments"][0]["id"]]
    for stage, status in (
        ("LISTED", "PENDING_SETTLEMENT"),
        ("REFUSED", "CAPTURED"),
        ("LISTED", "PENDING_SETTLEMENT"),
        ("MATCHED", "SETTLED"),
    ):
        answer = await settle(merchant, paymentIds=ids, stage=stage)
        assert (answer.status_code, answer.json()["lines"][0]["waitsFor"]) == (200, None)
        after = await shown(merchant, found)
        assert (after["payments"][0]["status"], after["status"]) == (status, "COMPLETED")


async def test_without_ids_everything_that_was_captured_is_settled(merchant: Merchant):
    orders = [await captured(merchant, externalId=str(n)) for n in range(3)]
    partly = await reference(merchant, externalId="partly")
    await send(merchant, partly, 10)
    answer = await settle(merchant)
    assert {line["paymentOrderId"] for line in answer.json()["lines"]} == {one["id"] for one in (*orders, partly)}
    for one in (*orders, partly):
        assert (await shown(merchant, one))["payments"][0]["status"] == "SETTLED"


async def test_settled_money_can_be_refunded_and_contested(merchant: Merchant):
    found = await captured(merchant)
    await settle(merchant)
    assert (await refund(merchant, found, 50_000))["payments"][0]["status"] == "PARTIALLY_REFUNDED"
    disputed = told(await contest(merchant, found, "OPENED", amount=150_000))["payments"][0]
    entry = disputed["paymentEvents"][-1]
    assert (disputed["status"], entry["amount"], entry["reportedAmount"]) == ("DISPUTED", "100000", "150000")
    assert told(await contest(merchant, found, "WON"))["payments"][0]["status"] == "PARTIALLY_REFUNDED"
    lost = told(await contest(merchant, found, "LOST", amount=150_000))
    assert (lost["status"], lost["amountRefunded"]) == ("REFUNDED", 150_000)


# ---------------------------------------------------------------- production


async def test_production_has_none_of_these(settings: Any, database_url: str):
    real = msgspec.structs.replace(settings, environment="production", database_url=database_url)
    async with opened(real) as store:
        merchant = await store.register()
        for path in (DEPOSITS, DISPUTES, SETTLEMENTS):
            answer = await merchant.post(path, {})
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
