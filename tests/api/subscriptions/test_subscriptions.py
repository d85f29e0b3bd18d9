"""Subscriptions over HTTP: what is answered, what is refused, the lists, and their invoices."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.api.openapi.description import assert_described
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import (
    DECLINED_WHEN_SAVED,
    INVOICES,
    PLANS,
    SUBSCRIPTIONS,
    made,
    monthly,
    planned,
    saved,
    shown,
    subscribed,
)
from tests.whole_log import whole_log
from uuid_utils.compat import uuid7

from ledger.postgres.connection import connect
from ledger.settings import Settings
from projections.rebuild import replay, stored

pytestmark = pytest.mark.anyio

CLOCK = "/api/sandbox/clock"


async def test_a_subscription_is_charged_and_answered_as_the_interface_has_it(merchant: Merchant):
    card, plan = await saved(merchant, "ana"), await planned(merchant, externalId="cafe")
    new = await subscribed(
        merchant, planId="cafe", paymentMethodId=card, externalId="sub-1", metadata={"grind": "whole"}
    )
    customer = (await shown(merchant, "/api/customers/ana"))["id"]
    assert new == {
        "id": new["id"], "merchantId": str(merchant.merchant_id), "externalId": "sub-1", "customerId": customer,
        "planId": plan["id"], "paymentMethodId": card, "status": "ACTIVE",
        "currentPeriodStart": new["createdAt"], "currentPeriodEnd": new["nextBillingDate"],
        "cancelAtPeriodEnd": False, "nextBillingDate": new["currentPeriodEnd"], "pendingLines": [], "missedInvoices": [], "trialStart": None, "trialEnd": None,
        "canceledAt": None, "endedAt": None, "metadata": {"grind": "whole"}, "createdAt": new["createdAt"],
        "updatedAt": new["updatedAt"],
        "plan": {
            "id": plan["id"], "name": "Café del mes", "amount": "38900", "currency": "MXN", "interval": "MONTH",
            "intervalCount": 1,
        },
    }  # fmt: skip
    for reference in (new["id"], "sub-1"):
        assert await shown(merchant, f"{SUBSCRIPTIONS}/{reference}") == new
    page = await shown(merchant, f"{SUBSCRIPTIONS}/sub-1/invoices")
    (invoice,) = page["data"]
    assert invoice == {
        "id": invoice["id"], "number": invoice["number"], "subscriptionId": new["id"], "customerId": customer,
        "planId": plan["id"], "paymentOrderId": invoice["paymentOrderId"], "status": "PAID", "amount": "38900", "amountRefunded": "0",
        "currency": "MXN", "periodStart": new["currentPeriodStart"], "periodEnd": new["currentPeriodEnd"],
        "dueDate": new["currentPeriodStart"], "attemptCount": 1, "nextAttemptAt": None, "paidAt": invoice["paidAt"],
        "lines": [{
            "description": "Café del mes", "quantity": 1, "unitAmount": "38900", "amount": "38900", "proration": False,
        }],
        "createdAt": invoice["createdAt"], "updatedAt": invoice["updatedAt"],
    }  # fmt: skip
    assert invoice["paidAt"] is not None
    assert await shown(merchant, f"{INVOICES}/{invoice['id']}") == invoice
    order = await shown(merchant, f"{ORDERS}/{invoice['paymentOrderId']}")
    assert (order["status"], order["amountPaid"], order["customer"]["id"]) == ("COMPLETED", 38900, customer)
    assert (await merchant.put(f"{PLANS}/cafe", {"amount": "1"})).json()["code"] == "PLAN_IN_USE"
    await merchant.put(f"{PLANS}/cafe", {"name": "Café"})
    assert (await shown(merchant, f"{SUBSCRIPTIONS}/sub-1"))["plan"]["name"] == "Café"


async def test_a_trial_has_no_invoice(merchant: Merchant):
    new = await subscribed(merchant, planId=(await planned(merchant, trialPeriodDays=14))["id"])
    assert (new["status"], new["trialStart"]) == ("TRIALING", new["createdAt"])
    assert new["trialEnd"] == new["currentPeriodEnd"] == new["nextBillingDate"]
    page = await shown(merchant, f"{SUBSCRIPTIONS}/{new['id']}/invoices")
    assert page["data"] == []
    assert page["pagination"] == {
        "page": 1, "limit": 20, "offset": 0, "total": 0, "count": 0, "totalPages": 0, "hasMore": False,
        "nextCursor": None,
    }  # fmt: skip


async def test_a_declined_first_charge_leaves_no_subscription(merchant: Merchant):
    card, plan = await saved(merchant, "ana", DECLINED_WHEN_SAVED), (await planned(merchant))["id"]
    body = {"customerId": "ana", "planId": plan, "paymentMethodId": card}
    first, again = [await merchant.post(SUBSCRIPTIONS, body, **{"idempotency-key": "k"}) for _ in range(2)]
    assert (first.status_code, first.json()["code"]) == (422, "PAYMENT_DECLINED")
    assert first.json()["declineCode"] == "GENERIC_DECLINE"
    assert {**again.json(), "requestId": ""} == {**first.json(), "requestId": ""}
    assert again.headers["idempotent-replayed"] == "true"
    assert (await shown(merchant, SUBSCRIPTIONS))["pagination"]["total"] == 0


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["customerId", "planId", "paymentMethodId"]),
        ({"customerId": "", "planId": 1, "trialEnd": "soon"}, ["customerId", "planId", "trialEnd", "paymentMethodId"]),
        ({"customerId": "a\nb", "planId": "p", "paymentMethodId": "m", "metadata": []}, ["customerId", "metadata"]),
        ({"startDate": "2020-01-01T00:00:00Z", "trialEnd": "2200-01-01T00:00:00Z", "externalId": "x" * 256}, [
            "startDate", "trialEnd", "externalId", "customerId", "planId", "paymentMethodId",
        ]),
        ({"customerId": "c", "planId": "p", "paymentMethodId": "m", "metadata": {"card": "4242424242424242"}}, [
            "metadata"
        ]),
    ],
)  # fmt: skip
async def test_every_wrong_field_of_a_subscription_is_named(merchant: Merchant, body: Any, fields: list[str]):
    answer = await merchant.post(SUBSCRIPTIONS, body)
    assert answer.status_code == 400
    assert sorted(each["field"] for each in answer.json()["errors"]) == sorted(fields)


async def test_what_a_subscription_names_must_be_the_merchants_and_the_customers(merchant: Merchant):
    card, plan = await saved(merchant, "ana"), (await planned(merchant))["id"]
    others = await saved(merchant, "eva")
    archived = (await planned(merchant))["id"]
    await merchant.delete(f"{PLANS}/{archived}")
    valid = {"customerId": "ana", "planId": plan, "paymentMethodId": card}
    for change, code in (
        ({"customerId": "nobody"}, "CUSTOMER_NOT_FOUND"),
        ({"planId": str(uuid7())}, "PLAN_NOT_FOUND"),
        ({"planId": archived}, "PLAN_NOT_FOUND"),
        ({"paymentMethodId": str(uuid7())}, "PAYMENT_METHOD_NOT_FOUND"),
        ({"paymentMethodId": others}, "PAYMENT_METHOD_NOT_FOUND"),
        ({"paymentMethodId": "text"}, "PAYMENT_METHOD_NOT_FOUND"),
    ):
        answer = await merchant.post(SUBSCRIPTIONS, valid | change)
        assert (answer.status_code, answer.json()["code"]) == (404, code)
    assert (await shown(merchant, SUBSCRIPTIONS))["pagination"]["total"] == 0
    await made(merchant, SUBSCRIPTIONS, valid | {"externalId": "sub-1"})
    again = await merchant.post(SUBSCRIPTIONS, valid | {"externalId": "sub-1"})
    assert (again.status_code, again.json()["code"]) == (409, "DUPLICATE_EXTERNAL_ID")


async def test_a_price_that_no_invoice_can_state_is_not_charged_to_a_customer_with_fiscal_data(merchant: Merchant):
    body = {"customerId": "ana", "planId": (await planned(merchant, amount="389.5"))["id"]}
    body["paymentMethodId"] = await saved(merchant, "ana")
    assert (await merchant.put("/api/customers/ana", {"fiscalData": {"taxId": "XAXX010101000"}})).status_code == 200
    answer = await merchant.post(SUBSCRIPTIONS, body)
    assert (answer.status_code, answer.json()["code"]) == (422, "AMOUNT_NOT_CHARGEABLE")
    assert_described(answer, "post", SUBSCRIPTIONS)
    assert (await merchant.put("/api/customers/ana", {"fiscalData": None})).status_code == 200
    assert (await merchant.post(SUBSCRIPTIONS, body)).status_code == 201


async def test_what_was_read_may_be_sent_back_and_another_wish_is_a_warning(merchant: Merchant):
    new = await subscribed(merchant)
    path = f"{SUBSCRIPTIONS}/{new['id']}"
    same = await merchant.put(path, new)
    assert (same.status_code, "warnings" in same.json()) == (200, False), same.text
    wish = {
        "cancelAtPeriodEnd": True,
        "trialEnd": "2031-01-01T00:00:00.000Z",
        "status": "CANCELED",
        "updatedAt": "then",
    }
    answer = (await merchant.put(path, new | wish)).json()
    assert sorted((each["field"], each["code"]) for each in answer.pop("warnings")) == [
        ("cancelAtPeriodEnd", "READ_ONLY"), ("status", "READ_ONLY"), ("trialEnd", "READ_ONLY"),
    ]  # fmt: skip
    assert answer == same.json()
    for body in ({"plan": "doble"}, {"prorate": False}, {"items": [{"price": "doble"}]}):
        refused = await merchant.put(path, body)
        assert (refused.status_code, refused.json()["code"]) == (400, "UNKNOWN_FIELD"), body


async def test_what_a_change_names_must_be_the_merchants_and_the_customers(merchant: Merchant):
    new = await subscribed(merchant)
    path, archived = f"{SUBSCRIPTIONS}/{new['id']}", (await planned(merchant))["id"]
    await merchant.delete(f"{PLANS}/{archived}")
    for change, code in (
        ({"planId": str(uuid7())}, "PLAN_NOT_FOUND"),
        ({"planId": archived}, "PLAN_NOT_FOUND"),
        ({"paymentMethodId": str(uuid7())}, "PAYMENT_METHOD_NOT_FOUND"),
        ({"paymentMethodId": await saved(merchant, "eva")}, "PAYMENT_METHOD_NOT_FOUND"),
        ({"paymentMethodId": "text"}, "PAYMENT_METHOD_NOT_FOUND"),
    ):
        answer = await merchant.put(path, change)
        assert (answer.status_code, answer.json()["code"]) == (404, code), change
    in_use = await merchant.delete(f"/api/customers/ana/payment-methods/{new['paymentMethodId']}")
    assert (in_use.status_code, in_use.json()["code"]) == (409, "PAYMENT_METHOD_IN_USE")
    assert await shown(merchant, path) == new


async def test_dates_before_the_clock_and_a_trial_over_two_years_are_refused(merchant: Merchant):
    new = await subscribed(merchant)
    now = datetime.now(UTC)
    valid = {name: new[name] for name in ("customerId", "planId", "paymentMethodId")}
    for field, date in (
        ("startDate", now - timedelta(days=1)),
        ("trialEnd", now - timedelta(days=1)),
        ("startDate", now + timedelta(days=733)),
        ("trialEnd", now + timedelta(days=733)),
    ):
        answer = await merchant.post(SUBSCRIPTIONS, valid | {field: date.isoformat()})
        assert (answer.status_code, [each["field"] for each in answer.json()["errors"]]) == (400, [field]), date
    assert (await shown(merchant, SUBSCRIPTIONS))["pagination"]["total"] == 1


async def test_a_request_under_its_key_is_charged_once(merchant: Merchant):
    body = {
        "customerId": "ana", "planId": (await planned(merchant))["id"], "paymentMethodId": await saved(merchant, "ana"),
    }  # fmt: skip
    first, again = [await merchant.post(SUBSCRIPTIONS, body, **{"idempotency-key": "k"}) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert (await shown(merchant, f"{SUBSCRIPTIONS}/{first.json()['id']}/invoices"))["pagination"]["total"] == 1


async def test_the_list_is_filtered_and_paginated(merchant: Merchant):
    plan, other = (await planned(merchant, externalId="p"))["id"], (await planned(merchant, trialPeriodDays=1))["id"]
    cards = {name: await saved(merchant, name) for name in ("ana", "eva")}
    ids = []
    for number in range(5):
        name = "eva" if number == 1 else "ana"
        new = await subscribed(
            merchant, name, planId=other if number == 2 else plan, paymentMethodId=cards[name], externalId=f"s-{number}"
        )
        ids.insert(0, new["id"])
    await made(merchant, f"{SUBSCRIPTIONS}/s-3/cancel", {"atPeriodEnd": False})
    assert [each["id"] for each in (await shown(merchant, SUBSCRIPTIONS))["data"]] == ids
    for query, found in (
        ("customerId=ana", "4320"), ("customerId=eva&planId=p", "1"), (f"planId={other}", "2"), ("status=TRIALING", "2"),
        ("status=CANCELED,TRIALING", "32"), ("planId=p&status=ACTIVE", "410"), ("planId=none", ""), ("status=", "43210"),
        ("customerId=none", ""), ("customerId=%00", ""), ("customerId=ana&planId=p&status=CANCELED", "3"),
        ("page=2&limit=2", "21"), ("offset=2&limit=2", "21"), ("customerId=ana&limit=2&page=2", "20"),
    ):  # fmt: skip
        page = await shown(merchant, f"{SUBSCRIPTIONS}?{query}")
        assert "".join(each["externalId"][-1] for each in page["data"]) == found, query
    cursor = (await shown(merchant, f"{SUBSCRIPTIONS}?limit=2&planId=p"))["pagination"]["nextCursor"]
    after = await shown(merchant, f"{SUBSCRIPTIONS}?limit=2&planId=p&cursor={cursor}")
    assert [each["externalId"] for each in after["data"]] == ["s-1", "s-0"]
    assert {name: after["pagination"][name] for name in ("total", "limit", "page", "hasMore")} == {
        "total": 4, "limit": 2, "page": 2, "hasMore": False,
    }  # fmt: skip
    wrong = await merchant.get(f"{SUBSCRIPTIONS}?status=activated&limit=101&customerId={'c' * 256}&page=1&offset=1")
    assert [each["field"] for each in wrong.json()["errors"]] == ["status", "limit", "customerId", "page", "offset"]


async def test_a_cancellation_is_taken_back_until_it_is_final(merchant: Merchant):
    new = await subscribed(merchant)
    path = f"{SUBSCRIPTIONS}/{new['id']}"
    scheduled = await merchant.client.post(f"{path}/cancel", headers=merchant.key)
    assert scheduled.status_code == 200
    body = scheduled.json()
    assert (body["status"], body["cancelAtPeriodEnd"], body["nextBillingDate"]) == ("ACTIVE", True, None)
    assert body["canceledAt"] is not None
    resumed = await made(merchant, f"{path}/resume", {})
    assert resumed == new | {"updatedAt": resumed["updatedAt"]}
    again = await merchant.post(f"{path}/resume", {})
    assert again.headers["idempotent-replayed"] == "true"
    ended = await made(merchant, f"{path}/cancel", {"atPeriodEnd": False})
    assert (ended["status"], ended["endedAt"]) == ("CANCELED", ended["canceledAt"])
    for request in (
        merchant.post(f"{path}/cancel", {}),
        merchant.post(f"{path}/resume", {}),
        merchant.post(f"{path}/retry", {}),
        merchant.put(path, {"metadata": {}}),
    ):
        refused = await request
        assert (refused.status_code, refused.json()["code"]) == (409, "SUBSCRIPTION_CANCELED")
    wrong = await merchant.post(f"{path}/cancel", {"atPeriodEnd": "no"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "atPeriodEnd")


async def test_two_cancellations_at_once_end_it_once(merchant: Merchant):
    new = await subscribed(merchant)
    path = f"{SUBSCRIPTIONS}/{new['id']}/cancel"
    answers = await asyncio.gather(*[merchant.post(path, {"atPeriodEnd": False}) for _ in range(2)])
    assert sorted(answer.status_code for answer in answers) == [200, 409]


async def test_a_change_moves_to_another_plan_and_card(merchant: Merchant):
    new = await subscribed(merchant, metadata={"a": 1})
    path = f"{SUBSCRIPTIONS}/{new['id']}"
    larger = await planned(merchant, amount="77800", externalId="doble")
    card = await saved(merchant, "ana", "5555555555554444")
    answer = await merchant.put(path, {
        "planId": "doble", "paymentMethodId": card, "prorationBehavior": "INVOICE_NOW", "metadata": None,
    })  # fmt: skip
    changed = answer.json()
    assert (changed["planId"], changed["plan"]["amount"]) == (larger["id"], "77800")
    assert (changed["paymentMethodId"], changed["metadata"], changed["status"]) == (card, None, "ACTIVE")
    assert await shown(merchant, path) == changed
    newest, first = (await shown(merchant, f"{path}/invoices"))["data"]
    assert ({line["proration"] for line in newest["lines"]}, first["lines"][0]["proration"]) == ({True}, False)
    assert sorted(line["amount"][0] == "-" for line in newest["lines"]) == [False, True]
    assert int(newest["amount"]) == sum(int(line["amount"]) for line in newest["lines"])
    same = await merchant.put(path, {"planId": "doble"})
    assert same.headers["idempotent-replayed"] == "true"
    wrong = await merchant.put(path, {"planId": "", "prorationBehavior": "always", "metadata": 1})
    assert [each["field"] for each in wrong.json()["errors"]] == ["planId", "prorationBehavior", "metadata"]
    dollars = await planned(merchant, currency="USD")
    refused = await merchant.put(path, {"planId": dollars["id"]})
    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (
        422,
        "CURRENCY_MISMATCH",
        "planId",
    )


async def test_the_lines_that_wait_are_shown_and_previewed_on_the_next_invoice(merchant: Merchant):
    new = await subscribed(merchant)
    path = f"{SUBSCRIPTIONS}/{new['id']}"
    await planned(merchant, amount="77800", externalId="doble")
    changed = (await merchant.put(path, {"planId": "doble"})).json()
    credit, charge = changed["pendingLines"]
    assert (credit["description"], charge["description"]) == (
        "Unused time on Café del mes",
        "Remaining time on Café del mes",
    )
    assert credit["amount"].startswith("-")
    assert credit["periodEnd"] == charge["periodEnd"] == new["currentPeriodEnd"]
    assert new["currentPeriodStart"] <= credit["periodStart"] < credit["periodEnd"]
    assert await shown(merchant, path) == changed
    preview = await made(merchant, f"{path}/preview", {})
    assert int(preview["amount"]) == 77800 + int(credit["amount"]) + int(charge["amount"])
    assert preview["dueDate"] == preview["periodStart"] == new["currentPeriodEnd"]
    assert await shown(merchant, path) == changed, "nothing is stored"
    other = await made(merchant, f"{path}/preview", {"planId": "doble"})
    assert [each["field"] for each in other["warnings"]] == ["planId"]
    ending = await made(merchant, f"{path}/cancel", {})
    assert ending["nextBillingDate"] == preview["dueDate"], "the lines that wait are charged at the end"
    await made(merchant, f"{path}/resume", {})
    assert (await shown(merchant, f"{path}/invoices"))["pagination"]["total"] == 1
    await made(merchant, CLOCK, {"advanceBy": "P32D"})
    invoice = (await shown(merchant, f"{path}/invoices"))["data"][0]
    assert {name: invoice[name] for name in preview} == preview
    assert (await shown(merchant, path))["pendingLines"] == []


async def test_a_period_that_a_bank_took_back_is_shown_on_its_invoice_and_gives_no_credit(merchant: Merchant):
    new = await subscribed(merchant)
    path = f"{SUBSCRIPTIONS}/{new['id']}"
    (paid,) = (await shown(merchant, f"{path}/invoices"))["data"]
    payment = (await shown(merchant, f"{ORDERS}/{paid['paymentOrderId']}"))["payments"][0]
    await planned(merchant, amount="77800", externalId="doble")
    before = (await merchant.put(path, {"planId": "doble"})).json()["pendingLines"]
    assert int(before[0]["amount"]) < -20000, "unused time was paid"
    await made(merchant, CLOCK, {"advanceBy": "PT1S"})
    await made(merchant, "/api/sandbox/disputes", {"paymentId": payment["id"], "outcome": "OPENED"})
    await made(merchant, CLOCK, {"advanceBy": "PT1S"})
    assert (await shown(merchant, f"{path}/invoices"))["data"] == [paid], "an open dispute has taken nothing"
    for lost, taken, credit in ((20000, "20000", int(before[0]["amount"]) + 20000), (None, "38900", 0)):
        report = {"paymentId": payment["id"], "outcome": "LOST"}
        await made(merchant, "/api/sandbox/disputes", report if lost is None else report | {"amount": lost})
        await made(merchant, CLOCK, {"advanceBy": "PT1S"})
        (invoice,) = (await shown(merchant, f"{path}/invoices"))["data"]
        assert (invoice["status"], invoice["amountRefunded"]) == ("PAID", taken)
        owed = sum(int(line["amount"]) for line in (await shown(merchant, path))["pendingLines"])
        assert owed == credit + int(before[1]["amount"])


async def test_a_preview_without_a_next_invoice_is_refused(merchant: Merchant):
    path = f"{SUBSCRIPTIONS}/{(await subscribed(merchant))['id']}"
    assert (await made(merchant, f"{path}/cancel", {}))["nextBillingDate"] is None
    ending = await merchant.post(f"{path}/preview", {})
    assert (ending.status_code, ending.json()["code"]) == (409, "NO_NEXT_INVOICE")
    await made(merchant, f"{path}/cancel", {"atPeriodEnd": False})
    ended = await merchant.post(f"{path}/preview", {})
    assert (ended.status_code, ended.json()["code"]) == (409, "SUBSCRIPTION_CANCELED")


async def test_more_lines_than_may_wait_are_refused(merchant: Merchant):
    path = f"{SUBSCRIPTIONS}/{(await subscribed(merchant))['id']}"
    plans = [(await planned(merchant))["id"] for _ in range(2)]
    for n in range(50):
        assert (await merchant.put(path, {"planId": plans[n % 2]})).status_code == 200
    refused = await merchant.put(path, {"planId": plans[0]})
    assert (refused.status_code, refused.json()["code"]) == (409, "TOO_MANY_PENDING_LINES")


async def test_pages_of_invoices_follow_the_periods(merchant: Merchant):
    new = await subscribed(merchant, planId=(await planned(merchant, interval="DAY"))["id"])
    await made(merchant, CLOCK, {"advanceBy": "P4DT1H"})
    path = f"{SUBSCRIPTIONS}/{new['id']}/invoices"
    whole = await shown(merchant, path)
    starts = [each["periodStart"] for each in whole["data"]]
    assert len(starts) == whole["pagination"]["total"] == 5
    assert starts == sorted(starts, reverse=True)
    assert {each["status"] for each in whole["data"]} == {"PAID"}
    cursor = (await shown(merchant, f"{path}?limit=2"))["pagination"]["nextCursor"]
    after = await shown(merchant, f"{path}?limit=2&cursor={cursor}")
    assert after["data"] == whole["data"][2:4] == (await shown(merchant, f"{path}?limit=2&page=2"))["data"]
    assert (after["pagination"]["offset"], after["pagination"]["hasMore"]) == (2, True)
    other = await subscribed(merchant, planId=new["planId"], externalId="other")
    of_other = await merchant.get(f"{SUBSCRIPTIONS}/{other['id']}/invoices?limit=2&cursor={cursor}")
    assert (of_other.status_code, [each["field"] for each in of_other.json()["errors"]]) == (400, ["cursor"])
    wrong = await merchant.get(f"{path}?limit=0&cursor=x")
    assert [each["field"] for each in wrong.json()["errors"]] == ["limit", "cursor"]


async def test_a_retry_charges_the_oldest_open_invoice(merchant: Merchant):
    plan = (await planned(merchant, trialPeriodDays=1))["id"]
    card = await saved(merchant, "ana", DECLINED_WHEN_SAVED)
    new = await subscribed(merchant, planId=plan, paymentMethodId=card)
    path = f"{SUBSCRIPTIONS}/{new['id']}"
    nothing = await merchant.post(f"{path}/retry", {})
    assert (nothing.status_code, nothing.headers["idempotent-replayed"]) == (200, "true")
    await made(merchant, CLOCK, {"advanceBy": "P1DT1H"})
    assert (await shown(merchant, path))["status"] == "PAST_DUE"
    (invoice,) = (await shown(merchant, f"{path}/invoices"))["data"]
    assert (invoice["status"], invoice["attemptCount"]) == ("OPEN", 1)
    assert invoice["nextAttemptAt"] == (await shown(merchant, path))["nextBillingDate"]
    declined = await merchant.post(f"{path}/retry", {})
    assert (declined.status_code, declined.json()["declineCode"]) == (422, "GENERIC_DECLINE")
    wrong = await merchant.post(f"{path}/retry", {"all": "yes"})
    assert (wrong.status_code, [each["field"] for each in wrong.json()["errors"]]) == (400, ["all"])
    await merchant.put(path, {"paymentMethodId": await saved(merchant, "ana")})
    assert (await shown(merchant, path))["status"] == "ACTIVE"
    (paid,) = (await shown(merchant, f"{path}/invoices"))["data"]
    assert (paid["status"], paid["attemptCount"]) == ("PAID", 3)


async def test_an_id_of_nothing_is_404(merchant: Merchant):
    for reference in ("nothing", "%ff", "x" * 256, "%00", str(uuid7())):
        path = f"{SUBSCRIPTIONS}/{reference}"
        for answer in (
            await merchant.get(path),
            await merchant.get(f"{path}/invoices"),
            await merchant.put(path, {}),
            *[await merchant.post(f"{path}/{action}", {}) for action in ("cancel", "resume", "retry", "preview")],
        ):
            assert (answer.status_code, answer.json()["code"]) == (404, "SUBSCRIPTION_NOT_FOUND")
        missing = await merchant.get(f"{INVOICES}/{reference}")
        assert missing.json()["code"] == "SUBSCRIPTION_INVOICE_NOT_FOUND"


async def test_an_erased_customer_leaves_no_metadata(merchant: Merchant):
    ended, live = [
        await subscribed(merchant, externalId=name, metadata={"for": "Ana"}, paymentMethodId=card)
        for card in [await saved(merchant, "ana")]
        for name in ("ended", "live")
    ]
    await made(merchant, f"{SUBSCRIPTIONS}/ended/cancel", {"atPeriodEnd": False})
    assert (await merchant.delete("/api/customers/ana")).status_code == 200
    for each in (ended, live):
        subscription = await shown(merchant, f"{SUBSCRIPTIONS}/{each['id']}")
        assert (subscription["status"], subscription["metadata"]) == ("CANCELED", None)


async def test_a_replay_of_the_log_gives_the_stored_rows(store: Storefront, merchant: Merchant, settings: Settings):
    new = await subscribed(merchant, metadata={"a": 1}, planId=(await planned(merchant, interval="DAY"))["id"])
    await made(merchant, CLOCK, {"advanceBy": "P2DT1H"})
    await made(merchant, PLANS, monthly(externalId="other"))
    await merchant.put(f"{SUBSCRIPTIONS}/{new['id']}", {"planId": "other"})
    await made(merchant, f"{SUBSCRIPTIONS}/{new['id']}/cancel", {"atPeriodEnd": False})
    assert settings.database_url is not None
    async with await connect(settings.database_url, "test") as connection:
        feed = await whole_log(store.ledger.journal.reader, connection, merchant.merchant_id)
        rows = await stored(connection, merchant.merchant_id)
    log = [(each.stream_id, each.version, each.event) for each in feed]
    assert replay(merchant.merchant_id, log) == rows
    assert (len(rows["plan"]), len(rows["subscription"]), len(rows["subscription_invoice"])) == (2, 1, 3)
