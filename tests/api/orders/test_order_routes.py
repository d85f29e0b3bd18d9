"""Create, show and charge over HTTP, down to the database."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest
from tests.api.bodies import APPROVED, DECLINED, by_card, card, charge, line, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront

from ledger.domain.orders.terms import MethodType
from ledger.journal.commit.writer import Writer

pytestmark = pytest.mark.anyio


async def test_a_pending_order_is_created_and_shown_by_either_id(merchant: Merchant):
    body = order(lineItems=[line()], metadata={"carrito": "ñ"}, description="Café")
    created = await merchant.create(body)
    assert created.status_code == 201
    made = created.json()
    assert (made["status"], made["amount"], made["externalId"]) == ("PENDING", 150000, "order-1")
    assert made["externalMerchantReference"] == "order-1"
    assert made["metadata"] == {"carrito": "ñ"}
    assert made["customer"]["email"] == "ana@example.com"
    for reference in (made["id"], "order-1"):
        shown = await merchant.get(f"{ORDERS}/{reference}")
        assert shown.status_code == 200
        assert shown.json() == made


async def test_a_paid_order_is_complete_and_shows_no_card_number(merchant: Merchant):
    created = await merchant.create(paid_order())
    assert created.status_code == 201
    made = created.json()
    assert made["status"] == "COMPLETED"
    assert made["payment"]["status"] == "CAPTURED"
    assert made["payments"] == [made["payment"]]
    assert made["paymentMethod"]["cardDetails"]["last4"] == "4242"
    assert made["payment"]["billingCity"] == "Puebla"
    assert APPROVED not in created.text


async def test_the_same_order_again_is_the_same_order(merchant: Merchant):
    first = await merchant.create(paid_order())
    again = await merchant.create(paid_order())
    assert again.status_code == 200
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert again.json()["id"] == first.json()["id"]
    assert len(again.json()["payments"]) == 1


async def test_the_same_external_id_for_other_money_is_a_conflict(merchant: Merchant):
    await merchant.create(order())
    answer = await merchant.create(order(amount=1))
    assert answer.status_code == 409
    assert answer.json()["code"] == "IDEMPOTENCY_MISMATCH"


async def test_a_decline_is_a_422_that_carries_the_order(merchant: Merchant):
    answer = await merchant.create(paid_order(paymentMethod=by_card(cardDetails=card(number=DECLINED))))
    assert answer.status_code == 422
    said = answer.json()
    assert (said["code"], said["declineCode"]) == ("PAYMENT_DECLINED", "GENERIC_DECLINE")
    assert said["message"]
    assert isinstance(said["retryable"], bool)
    assert said["advice"]
    assert said["status"] == said["paymentOrder"]["status"] == "FAILED"
    assert said["id"] == said["paymentOrder"]["id"]
    assert said["externalId"] == "order-1"
    shown = await merchant.get(f"{ORDERS}/order-1")
    assert shown.json()["payments"][0]["status"] == "FAILED"


async def test_a_repeated_order_is_not_answered_from_a_log_that_a_standby_may_lack(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ({}, {"idempotency-key": "k"})
    bodies = [order(externalId=f"unconfirmed-{n}") for n in range(len(keys))]
    for body, key in zip(bodies, keys, strict=True):
        assert (await merchant.post(ORDERS, body, **key)).status_code == 201
    with monkeypatch.context() as lost:
        lost.setattr(Writer, "alive", False)  # the writer has lost its connection, and waits for the standby
        for body, key in zip(bodies, keys, strict=True):
            again = await merchant.post(ORDERS, body, **key)
            assert (again.status_code, again.json()["code"]) == (503, "DATABASE_UNAVAILABLE")
    assert [(await merchant.post(ORDERS, body, **key)).status_code for body, key in zip(bodies, keys, strict=True)] == [
        200,
        201,
    ]


async def test_a_failed_order_sent_again_gets_a_new_payment(merchant: Merchant):
    failed = await merchant.create(paid_order(paymentMethod=by_card(cardDetails=card(number=DECLINED))))
    paid = await merchant.create(paid_order())
    assert paid.status_code == 201
    assert paid.json()["id"] == failed.json()["id"]
    assert [payment["status"] for payment in paid.json()["payments"]] == ["FAILED", "CAPTURED"]


async def test_risk_rules_refuse_under_a_code_of_their_own(merchant: Merchant):
    answer = await merchant.create(paid_order(paymentMethod=by_card(cardDetails=card(number="4100000000000019"))))
    assert answer.status_code == 422
    assert answer.json()["code"] == "RISK_REJECTED"


async def test_a_pending_order_is_charged_once(merchant: Merchant):
    await merchant.create(order())
    paid = await merchant.post(f"{ORDERS}/order-1/charge", charge(externalId="p-1"))
    assert paid.status_code == 200
    assert paid.json()["status"] == "COMPLETED"
    again = await merchant.post(f"{ORDERS}/order-1/charge", charge(externalId="p-1"))
    assert again.status_code == 200
    assert again.headers["idempotent-replayed"] == "true"
    other = await merchant.post(f"{ORDERS}/order-1/charge", charge())
    assert other.status_code == 409
    said = other.json()
    assert said["code"] == "ORDER_NOT_PAYABLE"
    assert said["currentStatus"] == "COMPLETED"
    assert "PENDING" in said["allowedStatuses"]


async def test_a_declined_charge_is_a_422_and_may_be_tried_again(merchant: Merchant):
    await merchant.create(order())
    declined = await merchant.post(
        f"{ORDERS}/order-1/charge", charge(paymentMethod=by_card(cardDetails=card(number=DECLINED)))
    )
    assert declined.status_code == 422
    assert declined.json()["paymentOrder"]["payments"][0]["status"] == "FAILED"
    assert (await merchant.post(f"{ORDERS}/order-1/charge", charge())).status_code == 200


async def test_a_time_out_of_the_processor_leaves_the_order_processing(merchant: Merchant):
    answer = await merchant.create(paid_order(paymentMethod=by_card(cardDetails=card(number="4000000000000119"))))
    assert answer.status_code == 201
    assert answer.json()["status"] == "PROCESSING"


async def test_an_id_may_hold_an_encoded_slash(merchant: Merchant):
    for external_id in ("2026/000 17", "a%2Fb", "ñandú?#&=+", "../secret", "charge"):
        await merchant.create(order(externalId=external_id))
        path = f"{ORDERS}/{quote(external_id, safe='')}"
        shown = await merchant.get(path)
        assert (shown.status_code, shown.json().get("externalId")) == (200, external_id)
        charged = await merchant.post(f"{path}/charge", charge())
        assert (charged.status_code, charged.json()["externalId"]) == (200, external_id)


@pytest.mark.parametrize(
    "reference",
    ["nobody", "%00", "%ff", "%0a", "a%20b", "x" * 256, "0198b2f6-7e29-7000-8000-000000000000", "%F0%9F%92%B0"],
)
async def test_an_unknown_id_is_not_found(merchant: Merchant, reference: str):
    for answer in (
        await merchant.get(f"{ORDERS}/{reference}"),
        await merchant.post(f"{ORDERS}/{reference}/charge", charge()),
    ):
        assert answer.status_code == 404
        assert answer.json()["code"] == "ORDER_NOT_FOUND"


async def test_another_merchants_order_is_answered_like_an_unknown_one(store: Storefront, merchant: Merchant):
    other = await store.register()
    theirs = (await other.create(order())).json()["id"]
    absent = await merchant.get(f"{ORDERS}/0198b2f6-7e29-7000-8000-000000000000", **{"x-request-id": "same"})
    for reference in (theirs, "order-1"):
        foreign = await merchant.get(f"{ORDERS}/{reference}", **{"x-request-id": "same"})
        assert (foreign.status_code, foreign.content) == (absent.status_code, absent.content)
        charged = await merchant.post(f"{ORDERS}/{reference}/charge", charge())
        assert charged.status_code == 404
    assert (await other.get(f"{ORDERS}/{theirs}")).json()["status"] == "PENDING"
    mine = await merchant.create(order())
    assert (mine.status_code, mine.json()["id"] == theirs) == (201, False)


async def test_an_unknown_customer_or_method_is_not_found(merchant: Merchant):
    customer = await merchant.create(order(customer={"id": "nobody"}))
    assert (customer.status_code, customer.json()["code"]) == (404, "CUSTOMER_NOT_FOUND")
    saved = {"type": "payment_method_id", "paymentMethodId": "0198b2f6-7e29-7000-8000-000000000000"}
    method = await merchant.create(paid_order(paymentMethod=saved))
    assert (method.status_code, method.json()["code"]) == (404, "PAYMENT_METHOD_NOT_FOUND")


async def test_a_method_that_is_not_enabled_is_a_422(store: Storefront):
    cards_only = await store.register(payment_methods=(MethodType.CARD,))
    answer = await cards_only.create(paid_order(paymentMethod={"type": "spei"}))
    assert (answer.status_code, answer.json()["code"]) == (422, "METHOD_NOT_ENABLED")


async def test_many_identical_creates_at_once_make_one_order(merchant: Merchant):
    answers = await asyncio.gather(*(merchant.create(paid_order()) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len((await merchant.get(f"{ORDERS}/order-1")).json()["payments"]) == 1


async def test_an_invalid_body_is_reported_before_a_missing_order(merchant: Merchant):
    answer = await merchant.post(f"{ORDERS}/nobody/charge", {})
    assert answer.status_code == 400
