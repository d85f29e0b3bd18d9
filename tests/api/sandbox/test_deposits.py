"""Deposits over HTTP: exact, less, more, twice, late, to a store, to an unknown reference."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.api.bodies import charge, order
from tests.api.storefront import ORDERS, Merchant, Storefront

pytestmark = pytest.mark.anyio

DEPOSITS = "/api/sandbox/deposits"


async def waiting(merchant: Merchant, kind: str = "spei", **changes: Any) -> dict[str, Any]:
    answer = await merchant.create(order(pending=False, paymentMethod={"type": kind}, **changes))
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def clabe(said: dict[str, Any]) -> str:
    return str(said["paymentMethod"]["speiDetails"]["clabe"])


async def deposit(merchant: Merchant, **body: Any) -> httpx.Response:
    return await merchant.post(DEPOSITS, body)


async def test_an_exact_deposit_completes_the_order(merchant: Merchant):
    said = await waiting(merchant)
    answer = await deposit(merchant, clabe=clabe(said), amount=150_000)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["accepted"], told["waitsFor"]) == (True, None)
    assert told["paymentOrder"] == (await merchant.get(f"{ORDERS}/{said['id']}")).json()
    assert (told["paymentOrder"]["status"], told["paymentOrder"]["amountPaid"]) == ("COMPLETED", 150_000)


async def test_deposits_add_up_and_what_is_too_much_shows(merchant: Merchant):
    said = await waiting(merchant)
    part = (await deposit(merchant, clabe=clabe(said), amount=100_000)).json()["paymentOrder"]
    assert (part["status"], part["amountPending"]) == ("PARTIALLY_PAID", 50_000)
    more = (await deposit(merchant, clabe=clabe(said), amount=60_000)).json()["paymentOrder"]
    assert (more["status"], more["overpaidAmount"]) == ("COMPLETED", 10_000)


async def test_money_comes_in_steps_of_the_orders_quantum(merchant: Merchant):
    said = await waiting(merchant)
    answer = await deposit(merchant, clabe=clabe(said), amount=1499.5)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "amount")
    finer = await waiting(merchant, externalId="finer", amount=1500.25)
    assert (await deposit(merchant, clabe=clabe(finer), amount=1499.5)).status_code == 200


async def test_the_same_message_again_is_the_same_deposit(merchant: Merchant):
    said = await waiting(merchant)
    first, again = [
        (await deposit(merchant, clabe=clabe(said), amount=amount, messageId="spei/1")).json() for amount in (700, 900)
    ]
    assert first["processorMessageId"] == "spei/1"
    assert again == first


async def test_a_deposits_id_is_no_card_number(merchant: Merchant):
    said = await waiting(merchant)
    answer = await deposit(merchant, clabe=clabe(said), amount=700, messageId="4242424242424242")
    assert (answer.status_code, answer.json()["code"]) == (400, "CARD_NUMBER_NOT_ALLOWED")
    assert answer.json()["errors"][0]["field"] == "messageId"


async def test_a_store_takes_the_exact_amount_only(merchant: Merchant):
    said = await waiting(merchant, "paycash")
    reference = said["paymentMethod"]["cieDetails"]["reference"]
    wrong = await deposit(merchant, reference=reference, amount=149_999)
    assert (wrong.status_code, wrong.json()["code"]) == (409, "AMOUNT_MISMATCH")
    assert wrong.json()["expectedAmount"] == 150_000
    right = await deposit(merchant, reference=reference, amount=150_000)
    assert right.json()["paymentOrder"]["status"] == "COMPLETED"


async def test_a_deposit_on_a_closed_order_is_marked_late_and_counts(merchant: Merchant):
    said = await waiting(merchant)
    await merchant.post("/api/sandbox/clock", {"advanceBy": "PT73H"})
    assert (await merchant.get(f"{ORDERS}/{said['id']}")).json()["status"] == "FAILED"
    late = (await deposit(merchant, clabe=clabe(said), amount=150_000)).json()["paymentOrder"]
    assert (late["status"], late["lateDeposit"]) == ("COMPLETED", True)
    assert [each["late"] for each in late["payments"]] == [True]


async def test_a_split_order_is_paid_by_card_and_transfer(merchant: Merchant):
    split = (await merchant.create(order(allowPartials=True))).json()["id"]
    await merchant.post(f"{ORDERS}/{split}/payments", charge(amount=50_000))
    said = (await merchant.post(f"{ORDERS}/{split}/payments", {"paymentMethod": {"type": "spei"}})).json()
    done = (await deposit(merchant, clabe=clabe(said), amount=100_000)).json()["paymentOrder"]
    assert (done["status"], done["amountPaid"], len(done["payments"])) == ("COMPLETED", 150_000, 2)


async def test_a_transfer_is_paid_back_when_the_payout_is_confirmed(merchant: Merchant):
    said = await waiting(merchant)
    await deposit(merchant, clabe=clabe(said), amount=150_000)
    to = {"clabe": "032180000118359719", "accountHolder": "Ana"}
    body = {"amount": 150_000, "reason": "Cancelado", "destination": to}
    asked = (await merchant.post(f"{ORDERS}/{said['id']}/refund", body)).json()
    assert (asked["status"], asked["refund"]["status"]) == ("REFUND_PROCESSING", "PENDING")
    await merchant.post("/api/sandbox/clock", {"advanceBy": "P1D"})
    shown = (await merchant.get(f"{ORDERS}/{said['id']}/refunds/{asked['refund']['id']}")).json()
    assert shown["status"] == "SUCCEEDED"
    assert (await merchant.get(f"{ORDERS}/{said['id']}")).json()["status"] == "REFUNDED"


async def test_money_for_an_unknown_or_foreign_reference_is_kept(store: Storefront, merchant: Merchant):
    other = await store.register()
    said = await waiting(other)
    for sent_to in ("646180999999999992", clabe(said)):
        answer = await deposit(merchant, clabe=sent_to, amount=150_000)
        assert (answer.status_code, answer.json()["paymentOrder"]) == (202, None)
        assert answer.json()["waitsFor"]
    assert (await other.get(f"{ORDERS}/{said['id']}")).json()["amountPaid"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"amount": 1}, "clabe"),
        ({"clabe": "", "amount": 1}, "clabe"),
        ({"clabe": "x", "amount": 1}, "clabe"),
        ({"reference": "1-2", "amount": 1}, "reference"),
        ({"clabe": "1", "reference": "2", "amount": 1}, "clabe"),
        ({"clabe": 1, "amount": 1}, "clabe"),
        ({"clabe": "1", "messageId": ""}, "messageId"),
    ],
)
async def test_an_invalid_deposit_is_refused(merchant: Merchant, body: Any, field: str):
    answer = await merchant.post(DEPOSITS, body)
    assert answer.status_code == 400
    assert field in [each["field"] for each in answer.json()["errors"]]


@pytest.mark.parametrize("amount", [0, -1, None, "1", 1e15, 0.00001])
async def test_an_invalid_amount_is_refused(merchant: Merchant, amount: Any):
    answer = await deposit(merchant, clabe="646180999999999992", amount=amount)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "amount")


@pytest.mark.parametrize("mistyped", ["646180110400000008", "64618011040000000", "6461801104000000071"])
async def test_a_mistyped_clabe_is_refused_and_one_without_an_owner_is_kept(merchant: Merchant, mistyped: str):
    refused = await deposit(merchant, clabe=mistyped, amount=100)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "clabe")
    kept = await deposit(merchant, clabe="646180110400000007", amount=100)
    assert (kept.status_code, kept.json()["paymentOrder"]) == (202, None)
