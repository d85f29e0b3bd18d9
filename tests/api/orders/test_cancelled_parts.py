"""The cancellation of one part of a split order over HTTP: waiting, authorised, in flight, and refused."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.api.bodies import by_card, card, charge, order, paid_order
from tests.api.payer import CHALLENGED
from tests.api.storefront import ORDERS, Merchant

pytestmark = pytest.mark.anyio

SILENT, NO_VOID = "4000000000000119", "4000000000007023"
SPEI = {"paymentMethod": {"type": "spei"}}


def by(number: str) -> dict[str, Any]:
    return charge(paymentMethod=by_card(cardDetails=card(number=number)), amount=50_000)


async def parts(merchant: Merchant, *bodies: Any, **changes: Any) -> dict[str, Any]:
    """Returns a split order with these parts."""
    made = (await merchant.create(order(allowPartials=True, **changes))).json()
    for body in bodies:
        answer = await merchant.post(f"{ORDERS}/{made['id']}/payments", body)
        assert answer.status_code == 201, answer.text
    return dict((await merchant.get(f"{ORDERS}/{made['id']}")).json())


async def let_go(merchant: Merchant, shown: dict[str, Any], n: int = -1, **headers: str) -> httpx.Response:
    body = {"paymentId": shown["payments"][n]["id"]}
    return await merchant.post(f"{ORDERS}/{shown['id']}/cancel", body, **headers)


@pytest.mark.parametrize("part", [SPEI, by(CHALLENGED), by("4242424242424242")])
async def test_a_part_is_cancelled_and_the_order_stays_open(merchant: Merchant, part: Any):
    shown = await parts(merchant, part, captureMethod="MANUAL")
    answer = await let_go(merchant, shown)
    said = answer.json()
    assert (answer.status_code, said["status"], said["payment"]["status"]) == (200, "PENDING", "CANCELLED")
    paid = await merchant.post(f"{ORDERS}/{shown['id']}/payments", charge())
    assert (paid.status_code, paid.json()["status"]) == (201, "AUTHORIZED")


async def test_the_other_parts_stay_as_they_are(merchant: Merchant):
    shown = await parts(merchant, by("4242424242424242"), SPEI, SPEI)
    said = (await let_go(merchant, shown, 1)).json()
    assert [each["status"] for each in said["payments"]] == ["CAPTURED", "CANCELLED", "REQUIRES_ACTION"]
    assert said["payment"]["id"] == shown["payments"][1]["id"]
    money = {"clabe": shown["payments"][1]["speiDetails"]["clabe"], "amount": 1000}
    late = (await merchant.post("/api/sandbox/deposits", money)).json()["paymentOrder"]
    assert (late["lateDeposit"], late["amountPaid"]) == (True, 51_000)


async def test_a_part_that_is_cancelled_twice_is_shown_as_it_is(merchant: Merchant):
    shown = await parts(merchant, SPEI)
    key = {"idempotency-key": "let-go"}
    answers = [await let_go(merchant, shown, **headers) for headers in (key, key, {})]
    assert [each.status_code for each in answers] == [200] * 3
    assert [each.headers.get("idempotent-replayed") for each in answers] == [None, "true", "true"]
    assert answers[0].json() == answers[1].json() == answers[2].json()


async def test_the_cancellation_of_a_part_in_flight_waits_for_its_outcome(merchant: Merchant):
    shown = await parts(merchant, by(SILENT))
    said = (await let_go(merchant, shown)).json()
    assert (said["status"], said["payment"]["status"]) == ("CANCELLATION_REQUESTED", "PENDING_CANCELLATION")
    more = await merchant.post(f"{ORDERS}/{shown['id']}/cancel", {})
    assert (more.status_code, more.json()["status"]) == (200, "CANCELLATION_REQUESTED")


async def test_a_part_whose_void_is_refused_stays_authorised(merchant: Merchant):
    shown = await parts(merchant, by(NO_VOID), captureMethod="MANUAL")
    said = (await let_go(merchant, shown)).json()
    assert (said["status"], said["payment"]["status"]) == ("AUTHORIZED", "AUTHORIZED")


async def test_what_cannot_be_cancelled_is_refused(merchant: Merchant):
    shown = await parts(merchant, by("4242424242424242"))
    held = await let_go(merchant, shown)
    assert (held.status_code, held.json()["code"]) == (409, "INVALID_ORDER_STATE")
    strange = await merchant.post(f"{ORDERS}/{shown['id']}/cancel", {"paymentId": str(uuid4())})
    assert (strange.status_code, strange.json()["code"]) == (404, "PAYMENT_NOT_FOUND")
    single = (await merchant.create(paid_order(externalId="single", captureMethod="MANUAL"))).json()
    only = await let_go(merchant, single | {"payments": [single["payment"]]})
    assert (only.status_code, only.json()["code"]) == (409, "INVALID_ORDER_STATE")


@pytest.mark.parametrize("field", [{"refundCaptured": True}, {"reason": "Ya no"}])
async def test_fields_about_the_whole_order_exclude_the_cancellation_of_a_part(
    merchant: Merchant, field: dict[str, Any]
):
    shown = await parts(merchant, SPEI)
    body = {"paymentId": shown["payments"][0]["id"], **field}
    answer = await merchant.post(f"{ORDERS}/{shown['id']}/cancel", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "CONFLICTING_FIELDS")
    assert {each["field"] for each in answer.json()["errors"]} == {"paymentId", *field}
