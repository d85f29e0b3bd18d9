"""The actions on an order over HTTP: split tender, refunds, captures, cancellations, references."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import httpx
import pytest
from tests.api.bodies import ABSENT, DECLINED, by_card, card, charge, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.operations.test_action_recovery import recover

pytestmark = pytest.mark.anyio

CLABE = "032180000118359719"
SLOW_REFUND, FAILED_REFUND, HALF, NO_CAPTURE = (
    "4000000000005126",
    "4000000000007726",
    "4000000000000010",
    "4000000000007015",
)


def with_card(number: str, **changes: Any) -> dict[str, Any]:
    return paid_order(paymentMethod=by_card(cardDetails=card(number=number)), **changes)


async def act(merchant: Merchant, order_id: str, action: str, body: Any = None, **headers: str) -> httpx.Response:
    return await merchant.post(f"{ORDERS}/{order_id}/{action}", {} if body is None else body, **headers)


async def split(merchant: Merchant, **changes: Any) -> str:
    created = await merchant.create(order(allowPartials=True, **changes))
    return str(created.json()["id"])


# ---------------------------------------------------------------- split tender


async def test_the_worked_example_of_a_split_order_with_a_surcharge(store: Storefront):
    merchant = await store.register(surcharge_rate=Decimal(3))
    order_id = await split(merchant, amount=10_000)
    card_part = await act(merchant, order_id, "payments", charge(amount=4000))
    assert card_part.status_code == 201
    said = card_part.json()
    assert (said["amount"], said["amountPaid"], said["amountPending"]) == (10120, 4120, 6000)
    assert (said["payment"]["amount"], said["status"]) == ("4120", "PARTIALLY_PAID")
    transfer = (await act(merchant, order_id, "payments", {"paymentMethod": {"type": "spei"}})).json()
    assert [payment["paymentMethodType"] for payment in transfer["payments"]] == ["CARD", "SPEI"]
    assert transfer["payment"]["amount"] == "6000"
    assert len(transfer["payment"]["speiDetails"]["clabe"]) == 18
    refunded = (await act(merchant, order_id, "refund", {"amount": 1000, "reason": "Taza rota"})).json()
    assert (refunded["refund"]["subtotalAmount"], refunded["refund"]["surchargeAmount"]) == (971, 29)
    assert (refunded["surchargeAmount"], refunded["amount"], refunded["status"]) == (91, 10091, "PARTIALLY_PAID")
    rest = (await act(merchant, order_id, "refund", {"amount": 3120, "reason": "Todo"})).json()
    assert (rest["refund"]["subtotalAmount"], rest["refund"]["surchargeAmount"]) == (3029, 91)
    assert (rest["surchargeAmount"], rest["amount"]) == (0, 10000)


async def test_a_part_that_is_sent_again_is_answered_as_it_is(merchant: Merchant):
    order_id = await split(merchant)
    part = charge(amount=50_000, externalId="part/1")
    first = await act(merchant, order_id, "payments", part)
    again = await act(merchant, order_id, "payments", part)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["payment"]["id"] == first.json()["payment"]["id"]
    other = await act(merchant, order_id, "payments", charge(amount=1, externalId="part/1"))
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_MISMATCH")


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "otra-vez"}])
@pytest.mark.parametrize("action", ["charge", "payments"])
async def test_a_payment_that_was_never_sent_is_carried_out_when_it_is_asked_again(
    merchant: Merchant, action: str, headers: dict[str, str]
):
    """After a 503 nothing was charged, so the merchant's external id is still free."""
    order_id = await split(merchant)
    await act(merchant, order_id, "payments", charge(amount=1000))
    asked = {"amount": 500, "externalId": "otra-vez"} | charge()
    await merchant.post("/api/sandbox/processor", {"mode": "DOWN", "times": 1})
    refused = await act(merchant, order_id, action, asked, **headers)
    assert (refused.status_code, refused.json()["code"]) == (503, "PROCESSOR_UNAVAILABLE")
    done = await act(merchant, order_id, action, asked, **headers)
    assert done.status_code in (200, 201)
    assert "idempotent-replayed" not in done.headers
    payment = done.json()["payment"]
    assert (payment["externalId"], payment["status"]) == ("otra-vez", "CAPTURED")
    again = await act(merchant, order_id, action, asked, **headers)
    assert (again.headers["idempotent-replayed"], again.json()["payment"]["id"]) == ("true", payment["id"])
    shown = await merchant.get(f"{ORDERS}/{order_id}/payments/otra-vez")
    assert (shown.json()["id"], shown.json()["status"]) == (payment["id"], "CAPTURED")


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "otra-vez"}])
async def test_a_refund_that_was_never_sent_is_accepted_and_sent_by_the_service(
    merchant: Merchant, store: Storefront, headers: dict[str, str]
):
    order_id = (await merchant.create(paid_order())).json()["id"]
    await merchant.post("/api/sandbox/processor", {"mode": "DOWN", "times": 1})
    asked = {"amount": 500, "externalId": "otra-vez"}
    waits = await act(merchant, order_id, "refund", asked, **headers)
    assert (waits.status_code, waits.json()["refund"]["status"], waits.json()["status"]) == (
        200,
        "PENDING",
        "REFUND_PROCESSING",
    )
    entry = waits.json()["payments"][0]["paymentEvents"][-1]
    assert (entry["status"], entry["reason"]) == (
        "PENDING",
        "The payment processor could not be reached; the request is sent again.",
    )
    again = await act(merchant, order_id, "refund", asked, **headers)
    assert (again.status_code, again.json()["refund"]["id"]) == (200, waits.json()["refund"]["id"])
    assert store.settings.database_url is not None
    await recover(store.settings.database_url, store.ledger)
    done = await merchant.get(f"{ORDERS}/{order_id}/refunds/otra-vez")
    assert (done.json()["id"], done.json()["status"]) == (waits.json()["refund"]["id"], "SUCCEEDED")


async def test_a_declined_part_leaves_the_order_as_it_was(merchant: Merchant):
    order_id = await split(merchant)
    body = charge(amount=50_000, paymentMethod=by_card(cardDetails=card(number=DECLINED)))
    answer = await act(merchant, order_id, "payments", body)
    assert answer.status_code == 422
    said = answer.json()
    assert (said["code"], said["status"], said["declineCode"]) == ("PAYMENT_DECLINED", "PENDING", "GENERIC_DECLINE")
    assert said["paymentOrder"]["payments"][0]["status"] == "FAILED"


async def test_parts_are_guarded(merchant: Merchant):
    order_id = await split(merchant)
    over = await act(merchant, order_id, "payments", charge(amount=150_001))
    assert (over.status_code, over.json()["code"]) == (422, "AMOUNT_EXCEEDS_PENDING")
    assert over.json()["amountPending"] == 150_000
    single = (await merchant.create(order(externalId="single"))).json()["id"]
    refused = await act(merchant, single, "payments", charge())
    assert (refused.status_code, refused.json()["code"]) == (409, "PARTIALS_NOT_ALLOWED")
    await act(merchant, order_id, "payments", charge())
    paid = await act(merchant, order_id, "payments", charge())
    assert (paid.status_code, paid.json()["code"], paid.json()["currentStatus"]) == (
        409,
        "ORDER_NOT_PAYABLE",
        "COMPLETED",
    )


# ---------------------------------------------------------------- references


@pytest.mark.parametrize(
    ("kind", "channel", "field"),
    [("spei", None, "speiDetails"), ("paycash", "PAYCASH", "cieDetails"), ("cie_cash_net", None, "cieDetails")],
)
async def test_an_order_waits_for_money_on_its_reference(
    merchant: Merchant, kind: str, channel: str | None, field: str
):
    answer = await merchant.create(order(pending=False, paymentMethod={"type": kind}))
    said = answer.json()
    assert (answer.status_code, said["status"]) == (201, "REFERENCE_GENERATED")
    method = said["paymentMethod"]
    assert (method["type"], method["channel"]) == ("SPEI" if kind == "spei" else "CIE_CASH_NET", channel)
    details = method[field]
    assert details["expiresAt"]
    assert said["payment"]["paymentMethodId"] == details["clabe" if kind == "spei" else "reference"]
    assert said["payment"]["nextAction"] == "DISPLAY_REFERENCE"
    if kind == "paycash":
        assert (details["convenio"], details["clabe"]) == (None, None)
    cancelled = await act(merchant, said["id"], "cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "CANCELLED")


# ---------------------------------------------------------------- refunds


async def test_a_refund_is_answered_with_its_order_and_read_by_either_id(merchant: Merchant):
    paid = (await merchant.create(paid_order())).json()
    body = {"amount": 50_000, "reason": "Un kilo abierto", "externalId": "devolución/1"}
    answer = await act(merchant, paid["id"], "refund", body)
    assert answer.status_code == 200
    said = answer.json()
    refund = said["refund"]
    assert (said["status"], said["amountRefunded"], said["amountPending"]) == ("PARTIALLY_REFUNDED", 50_000, 50_000)
    assert (refund["status"], refund["amount"], refund["paymentOrderId"]) == ("SUCCEEDED", 50_000, paid["id"])
    (allocation,) = refund["allocations"]
    events = {event["id"]: event for event in said["payments"][0]["paymentEvents"]}
    assert events[allocation["paymentEventId"]]["action"] == "REFUND"
    again = await act(merchant, paid["id"], "refund", body)
    assert (again.headers["idempotent-replayed"], again.json()["refund"]) == ("true", refund)
    for name in (refund["id"], "devoluci%C3%B3n%2F1"):
        assert (await merchant.get(f"{ORDERS}/order-1/refunds/{name}")).json() == refund
    listed = (await merchant.get(f"{ORDERS}/{paid['id']}/refunds")).json()
    assert listed["data"] == [refund]
    assert (listed["pagination"]["total"], listed["pagination"]["hasMore"]) == (1, False)


@pytest.mark.parametrize(
    ("number", "status", "order_status"),
    [(SLOW_REFUND, "PENDING", "REFUND_PROCESSING"), (FAILED_REFUND, "FAILED", "COMPLETED")],
)
async def test_a_refund_may_wait_or_fail(merchant: Merchant, number: str, status: str, order_status: str):
    paid = (await merchant.create(with_card(number))).json()
    said = (await act(merchant, paid["id"], "refund", {"amount": 150_000})).json()
    assert (said["refund"]["status"], said["refund"]["reason"], said["status"]) == (
        status,
        "unspecified",
        order_status,
    )


async def test_a_refund_goes_to_the_payments_that_are_named(merchant: Merchant):
    order_id = await split(merchant)
    ids = [(await act(merchant, order_id, "payments", charge(amount=50_000))).json()["payment"]["id"] for _ in range(2)]
    body = {"amount": 300, "allocations": [{"paymentId": ids[0], "amount": 100}, {"paymentId": ids[1], "amount": 200}]}
    said = (await act(merchant, order_id, "refund", body)).json()
    assert [(part["paymentId"], part["amount"]) for part in said["refund"]["allocations"]] == [
        (ids[0], 100),
        (ids[1], 200),
    ]
    one = (await act(merchant, order_id, "refund", {"amount": 5, "paymentId": ids[0]})).json()
    assert [part["paymentId"] for part in one["refund"]["allocations"]] == [ids[0]]
    newest = (await act(merchant, order_id, "refund", {"amount": 5})).json()
    assert [part["paymentId"] for part in newest["refund"]["allocations"]] == [ids[1]]


async def test_refunds_are_guarded(merchant: Merchant):
    waiting = (await merchant.create(order(externalId="waiting"))).json()["id"]
    paid = (await merchant.create(paid_order())).json()
    slow = (await merchant.create(with_card(SLOW_REFUND, externalId="slow"))).json()
    await act(merchant, slow["id"], "refund", {"amount": 1})
    stranger = paid["id"]
    cases = [
        (waiting, {"amount": 1}, 409, "ORDER_NOT_REFUNDABLE"),
        (paid["id"], {"amount": 150_001}, 422, "REFUND_AMOUNT_EXCEEDS_BALANCE"),
        (paid["id"], {"amount": 1, "paymentId": stranger}, 404, "PAYMENT_NOT_FOUND"),
        (slow["id"], {"amount": 1}, 409, "REFUND_IN_PROGRESS"),
        ("nobody", {"amount": 1}, 404, "ORDER_NOT_FOUND"),
        (paid["id"], {"amount": 0.5}, 400, "VALIDATION_ERROR"),
        (paid["id"], {"amount": 2, "allocations": [{"paymentId": stranger, "amount": 1}]}, 400, "VALIDATION_ERROR"),
    ]
    for order_id, body, status, code in cases:
        answer = await act(merchant, order_id, "refund", body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), body
        assert answer.json()["message"]
    over = await act(merchant, paid["id"], "refund", {"amount": 150_001})
    assert over.json()["refundableAmount"] == 150_000


# ---------------------------------------------------------------- capture and cancel


async def test_a_manual_capture_takes_what_is_asked(merchant: Merchant):
    held = (await merchant.create(paid_order(captureMethod="MANUAL"))).json()
    assert held["status"] == "AUTHORIZED"
    over = await act(merchant, held["id"], "capture", {"amount": 150_001})
    assert (over.status_code, over.json()["code"]) == (422, "CAPTURE_EXCEEDS_AUTHORIZED")
    assert over.json()["authorizedAmount"] == 150_000
    part = await act(merchant, held["id"], "capture", {"amount": 50_000})
    assert (part.status_code, part.json()["status"], part.json()["amountPaid"]) == (200, "PARTIALLY_PAID", 50_000)
    nothing = await act(merchant, (await merchant.create(order(externalId="new"))).json()["id"], "capture")
    assert (nothing.status_code, nothing.json()["code"]) == (409, "INVALID_ORDER_STATE")
    assert set(nothing.json()["allowedStatuses"]) == {"AUTHORIZED", "PARTIALLY_AUTHORIZED"}


async def test_a_partial_capture_is_finished_by_a_release_or_by_being_final(merchant: Merchant):
    held = (await merchant.create(paid_order(captureMethod="MANUAL"))).json()
    early = await act(merchant, held["id"], "release")
    assert (early.status_code, early.json()["code"]) == (409, "INVALID_ORDER_STATE")
    assert "cancel instead" in early.json()["message"]
    part = (await act(merchant, held["id"], "capture", {"amount": 50_000})).json()
    assert (part["amountReleased"], part["payment"]["amountReleased"]) == (0, "0")
    first = await act(merchant, held["id"], "release", **{"Idempotency-Key": "r"})
    again = await act(merchant, held["id"], "release", **{"Idempotency-Key": "r"})
    assert (first.status_code, again.status_code, again.headers["idempotent-replayed"]) == (200, 200, "true")
    done = first.json()
    read = (await merchant.get(f"{ORDERS}/{held['id']}")).json()
    assert done == again.json() == read | {"payment": read["payments"][0]}
    assert (done["amountReleased"], done["payments"][0]["amountReleased"]) == (100_000, "100000")
    unchanged = ("status", "amount", "amountPaid", "amountPending", "amountRefunded")
    assert [done[name] for name in unchanged] == [part[name] for name in unchanged]
    assert done["payments"][0]["paymentEvents"][-1]["action"] == "RELEASE"
    more = await act(merchant, held["id"], "capture", {"amount": 1})
    assert (more.status_code, more.json()["code"]) == (409, "INVALID_ORDER_STATE")
    final = (await merchant.create(paid_order(captureMethod="MANUAL", externalId="final"))).json()
    taken = (await act(merchant, final["id"], "capture", {"amount": 50_000, "final": True})).json()
    assert (taken["status"], taken["amountPaid"], taken["amountReleased"]) == ("PARTIALLY_PAID", 50_000, 100_000)


async def test_a_capture_and_a_cancellation_need_no_body(merchant: Merchant):
    for number, action in enumerate(("capture", "cancel")):
        held = (await merchant.create(paid_order(captureMethod="MANUAL", externalId=f"held-{number}"))).json()
        path = f"{ORDERS}/{held['id']}/{action}"
        plain = await merchant.client.post(path, headers=merchant.key)
        assert plain.status_code == 200, plain.text
        text = await merchant.client.post(path, headers=merchant.key, content=b"x=1")
        assert text.status_code == 415


@pytest.mark.parametrize(("method", "status"), [("MANUAL", "AUTHORIZED"), ("AUTOMATIC", "FAILED")])
async def test_a_capture_that_is_refused_for_good_is_a_decline(merchant: Merchant, method: str, status: str):
    held = (await merchant.create(with_card(NO_CAPTURE, captureMethod=method))).json()
    assert held["status"] == "AUTHORIZED"
    for _ in range(2):
        refused = await act(merchant, held["id"], "capture", **{"Idempotency-Key": "k"})
        answer = refused.json()
        assert (refused.status_code, answer["code"], answer["status"]) == (422, "PAYMENT_DECLINED", status)
        assert answer["declineCode"] == "GENERIC_DECLINE"
        [payment] = answer["paymentOrder"]["payments"]
        assert (payment["declineCode"], payment["paymentEvents"][-1]["status"]) == ("GENERIC_DECLINE", "FAILED")
        assert payment["lastFailedEventReason"] == "The issuer refuses every capture of this card."


async def test_an_order_that_is_paid_is_not_cancelled(merchant: Merchant):
    held = (await merchant.create(paid_order(captureMethod="MANUAL"))).json()
    cancelled = await act(merchant, held["id"], "cancel", {"reason": "El cliente ya no lo quiere"})
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "CANCELLED")
    again = await act(merchant, held["id"], "cancel")
    assert (again.status_code, again.json()["code"]) == (409, "INVALID_ORDER_STATE")
    paid = (await merchant.create(paid_order(externalId="paid"))).json()
    for body in ({}, {"refundCaptured": True}):
        kept = await act(merchant, paid["id"], "cancel", body)
        assert (kept.status_code, kept.json()["code"]) == (409, "ORDER_HAS_CAPTURED_FUNDS")


async def test_a_split_order_is_cancelled_with_its_money(merchant: Merchant):
    order_id = await split(merchant)
    await act(merchant, order_id, "payments", charge(amount=50_000))
    held = await act(merchant, order_id, "cancel")
    assert held.json()["code"] == "ORDER_HAS_CAPTURED_FUNDS"
    closed = await act(merchant, order_id, "cancel", {"refundCaptured": True})
    assert (closed.status_code, closed.json()["status"]) == (200, "REFUNDED")


# ---------------------------------------------------------------- reading, keys, other merchants


async def test_payments_are_read_one_by_one(merchant: Merchant):
    order_id = await split(merchant)
    paid = (await act(merchant, order_id, "payments", charge(amount=50_000, externalId="parte 1"))).json()
    listed = (await merchant.get(f"{ORDERS}/order-1/payments")).json()
    assert listed["data"] == paid["payments"]
    assert listed["pagination"]["count"] == 1
    for name in (paid["payment"]["id"], "parte%201"):
        assert (await merchant.get(f"{ORDERS}/{order_id}/payments/{name}")).json() == paid["payment"]
    for path, code in {
        f"{order_id}/payments/{order_id}": "PAYMENT_NOT_FOUND",
        f"{order_id}/payments/%00": "PAYMENT_NOT_FOUND",
        f"{order_id}/refunds/nothing": "REFUND_NOT_FOUND",
        "nobody/payments": "ORDER_NOT_FOUND",
        "nobody/refunds": "ORDER_NOT_FOUND",
        "%ff/refunds": "ORDER_NOT_FOUND",
    }.items():
        missing = await merchant.get(f"{ORDERS}/{path}")
        assert (missing.status_code, missing.json()["code"]) == (404, code)


async def test_an_idempotency_key_answers_every_action_alike(merchant: Merchant):
    paid = (await merchant.create(paid_order(captureMethod="MANUAL"))).json()
    for action, body in (("capture", {}), ("refund", {"amount": 700})):
        key = {"idempotency-key": f"key-{action}"}
        first = await act(merchant, paid["id"], action, body, **key)
        again = await act(merchant, paid["id"], action, body, **key)
        assert (first.status_code, again.status_code, again.content) == (200, 200, first.content)
        assert again.headers["idempotent-replayed"] == "true"
        other = await act(merchant, paid["id"], action, {"amount": 1}, **key)
        assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")


async def test_another_merchants_order_is_not_found_by_any_action(store: Storefront, merchant: Merchant):
    paid = (await merchant.create(paid_order(captureMethod="MANUAL"))).json()
    other = await store.register()
    bodies: dict[str, Any] = {
        "charge": charge(),
        "payments": charge(),
        "refund": {"amount": 1},
        "cancel": {},
        "capture": {},
        "payer-authentication/device-data": {},
        "payer-authentication/validate": {"authenticationTransactionId": "x"},
    }
    for action, body in bodies.items():
        answer = await act(other, paid["id"], action, body)
        assert (answer.status_code, answer.json()["code"]) == (404, "ORDER_NOT_FOUND"), action
    for path in ("payments", f"payments/{paid['payment']['id']}", "refunds", f"refunds/{paid['id']}"):
        assert (await other.get(f"{ORDERS}/{paid['id']}/{path}")).json()["code"] == "ORDER_NOT_FOUND"


@pytest.mark.parametrize("method", ["spei", "paycash", "cie_cash_net"])
async def test_a_reference_in_dollars_is_refused_before_anything_has_begun(merchant: Merchant, method: str):
    by_reference = {"paymentMethod": {"type": method}}
    whole = await merchant.create(paid_order(externalId="whole", currency="USD", billingAddress=ABSENT, **by_reference))
    assert (whole.status_code, whole.json()["code"]) == (422, "METHOD_NOT_ENABLED")
    assert (await merchant.get(f"{ORDERS}/whole")).status_code == 404
    later = (await merchant.create(order(externalId="later", currency="USD"))).json()
    parts = await split(merchant, externalId="parts", currency="USD")
    for order_id, action in ((later["id"], "charge"), (parts, "payments")):
        refused = await act(merchant, order_id, action, by_reference, **{"idempotency-key": f"key-{action}"})
        assert (refused.status_code, refused.json()["code"]) == (422, "METHOD_NOT_ENABLED")
        stands = (await merchant.get(f"{ORDERS}/{order_id}")).json()
        assert (stands["status"], stands["payments"]) == ("PENDING", [])
        again = await act(merchant, order_id, action, by_reference, **{"idempotency-key": f"key-{action}"})
        assert (again.status_code, again.json()["message"]) == (422, refused.json()["message"])
    paid = await act(merchant, later["id"], "charge", charge())
    assert paid.json()["status"] == "COMPLETED"
    late = await act(merchant, later["id"], "charge", by_reference)
    assert (late.status_code, late.json()["code"]) == (409, "ORDER_NOT_PAYABLE"), "what stands in the way comes first"


async def test_an_order_in_dollars_that_failed_is_not_tried_again_by_transfer(merchant: Merchant):
    failed = await merchant.create(with_card(DECLINED, currency="USD"))
    assert failed.status_code == 422
    again = await merchant.create(paid_order(currency="USD", billingAddress=ABSENT, paymentMethod={"type": "spei"}))
    assert (again.status_code, again.json()["code"]) == (422, "METHOD_NOT_ENABLED")
    assert len((await merchant.get(f"{ORDERS}/order-1")).json()["payments"]) == 1
    assert (await merchant.create(paid_order(currency="USD"))).json()["status"] == "COMPLETED"
