"""Payments at Stripe from the request to the recovery, at the fake of Stripe: what is shown, and what Stripe has recorded."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from campaigns.fake_stripe.running import control, fake_stripe
from msgspec.structs import replace
from psycopg import AsyncConnection
from tests.api.bodies import paid_order
from tests.api.processor_accounts.test_account_messages import follow
from tests.api.storefront import ORDERS, Merchant, Storefront, opened
from tests.api.subscriptions.billing import planned
from tests.background.test_recovery import AFTERWARDS, sweep

from ledger.background.reconciliation.comparison import contrast, records_of
from ledger.operations.payment_methods.sweep import sweep_cards
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.long]

CONFIRM, CAPTURE, REFUNDS = "/v1/payment_intents/*/confirm", "/v1/payment_intents/*/capture", "/v1/refunds"


class Shop:
    """A merchant with an account at the fake of Stripe, whose messages reach the account's address."""

    def __init__(self, store: Storefront, merchant: Merchant, url: str, record: Path) -> None:
        self.store, self.merchant, self.url, self._record = store, merchant, url, record

    def fail(self, fault: str, path: str) -> None:
        """Plans a fault for the next request; a connection that breaks is tried twice."""
        times = 2 if fault.startswith("reset") else 1
        control(self.url, "faults", [{"fault": fault, "method": "POST", "path": path, "times": times, "seconds": 3}])

    async def recover(self) -> None:
        control(self.url, "faults", None, "DELETE")
        assert self.store.settings.database_url is not None
        await sweep(self.store.ledger, self.store.settings.database_url, AFTERWARDS)

    async def references(self) -> int:
        assert self.store.settings.database_url is not None
        async with await AsyncConnection.connect(self.store.settings.database_url) as connection:
            row = await (await connection.execute("select count(*) from payment_method_reference")).fetchone()
        assert row is not None
        return int(row[0])

    async def detached(self) -> int:
        """How many cards are no longer kept at Stripe."""
        async with httpx.AsyncClient(base_url=self.url, auth=("sk_test_fake", "")) as client:
            events = await client.get("/v1/events", params={"type": "payment_method.detached"})
        return len(events.json()["data"])

    async def connect(self, *secrets: str) -> str:
        """Connects the account with these secrets for messages; returns the address for them."""
        body = {"processor": "stripe", "secretKey": "sk_test_fake", "webhookSecrets": secrets}
        answer = await self.merchant.put("/api/v1/processor-accounts/mx", body)
        assert answer.status_code in {200, 201}, answer.text
        messages_url: str = answer.json()["messagesUrl"]
        return messages_url

    async def create(
        self,
        name: str,
        token: str = "pm_card_visa",
        *,
        persist: bool = False,
        installments: int | None = None,
        **changes: Any,
    ) -> Any:
        method = {"type": "card", "cardTokens": [{"account": "mx", "token": token}], "persist": persist}
        method["installments"] = installments
        return await self.merchant.create(paid_order(**{"externalId": name, "paymentMethod": method, **changes}))

    async def shown(self, name: str) -> tuple[str, str]:
        order = (await self.merchant.get(f"{ORDERS}/{name}")).json()
        return order["status"], order["payments"][-1]["status"]

    def moved(self) -> Counter[tuple[str, str]]:
        """What Stripe has carried out, how often: the kind, and the intent."""
        lines = [json.loads(line) for line in self._record.read_text().splitlines() if '"moved"' in line]
        return Counter((line["moved"], line["about"]) for line in lines)

    async def at_stripe(self, path: str, **form: Any) -> Any:
        """What the merchant does on Stripe's own pages."""
        async with httpx.AsyncClient(base_url=self.url, auth=("sk_test_fake", "")) as client:
            answer = await client.post(path, data=form)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def told(self) -> None:
        """Lets all messages arrive, and records what they are about."""
        for _ in range(100):
            if control(self.url, "state", None, "GET")["messages"]["waiting"] == 0:
                break
            await asyncio.sleep(0.1)
        await follow(self.store, self.merchant)


@pytest.fixture
async def shop(settings: Settings, tmp_path: Path) -> AsyncIterator[Shop]:
    with fake_stripe(tmp_path / "record.jsonl", tmp_path / "log") as running:
        [url] = running.wait_ready()
        async with opened(replace(settings, stripe_url=url, processor_timeout_s=2.0)) as store:

            async def pass_on(request: web.Request) -> web.Response:
                headers = {name: request.headers[name] for name in ("content-type", "stripe-signature")}
                answer = await store.client.post(request.path, content=await request.read(), headers=headers)
                return web.Response(status=answer.status_code)

            app = web.Application()
            app.router.add_post("/{path:.*}", pass_on)
            async with TestServer(app) as server:
                shop = Shop(store, await store.register(), url, tmp_path / "record.jsonl")
                path = urlsplit(await shop.connect()).path
                endpoint = {"url": str(server.make_url(path)), "enabled_events[]": "*"}
                await shop.connect((await shop.at_stripe("/v1/webhook_endpoints", **endpoint))["secret"])
                yield shop
        assert control(url, "state", None, "GET")["violations"] == 0


async def test_a_card_is_paid_captured_cancelled_and_refunded(shop: Shop) -> None:
    paid = (await shop.create("paid")).json()
    assert (paid["status"], paid["payment"]["processorAccount"]) == ("COMPLETED", "mx")
    assert paid["payment"]["processorReference"].startswith("pi_")
    refunded = await shop.merchant.post(f"{ORDERS}/paid/refund", {"amount": 50_000, "reason": "x"})
    assert refunded.json()["status"] == "PARTIALLY_REFUNDED"
    for name, action, status in (("held", "capture", "PARTIALLY_PAID"), ("left", "cancel", "CANCELLED")):
        await shop.create(name, captureMethod="MANUAL")
        done = await shop.merchant.post(f"{ORDERS}/{name}/{action}", {"amount": 50_000} if action == "capture" else {})
        assert done.json()["status"] == status
    declined = (await shop.create("declined", "pm_card_decline_lost_card__do_not_try_again")).json()
    assert (declined["declineCode"], declined["advice"]) == ("CARD_LOST_OR_STOLEN", "DO_NOT_RETRY")
    unknown = await shop.create("unknown", "pm_nobody")
    assert (unknown.status_code, unknown.json()["code"]) == (422, "CARD_TOKEN_INVALID")


async def test_a_payer_is_authenticated(shop: Shop) -> None:
    asked = (await shop.create("asked", "pm_card_authenticationRequired", returnUrl="https://shop.example/x")).json()
    session = asked["payerAuthentication"]
    assert asked["status"] == "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED"
    assert session["stepUpUrl"].startswith(shop.url)
    name = session["authenticationTransactionId"]
    control(shop.url, "authentications", {"payment_intent": name, "passed": True})
    path = f"{ORDERS}/asked/payer-authentication/validate"
    validated = await shop.merchant.post(path, {"authenticationTransactionId": name})
    assert validated.json()["status"] == "COMPLETED"


async def test_transfers_arrive_in_parts_and_go_back(shop: Shop) -> None:
    await shop.merchant.delete("/api/v1/processor-accounts/sandbox")
    asked = (await shop.create("spei", paymentMethod={"type": "spei"})).json()
    clabe = asked["paymentMethod"]["speiDetails"]["clabe"]
    for amount, status in ((100_000, "PARTIALLY_PAID"), (60_000, "COMPLETED")):
        control(shop.url, "transfers", {"clabe": clabe, "amount": amount, "reference": "1"})
        await shop.told()
        assert (await shop.shown("spei"))[0] == status
    order = (await shop.merchant.get(f"{ORDERS}/spei")).json()
    assert (order["amountPaid"], order["overpaidAmount"]) == (160_000, 10_000)
    refund = {"amount": 30_000, "destination": {"clabe": clabe, "accountHolder": "Ana"}}
    refused = await shop.merchant.post(f"{ORDERS}/spei/refund", refund)
    assert [each["field"] for each in refused.json()["errors"]] == ["destination"]
    pending = (await shop.merchant.post(f"{ORDERS}/spei/refund", {"amount": 30_000})).json()
    assert (pending["refund"]["status"], pending["refund"]["destination"]["type"]) == ("PENDING", "PAYING_ACCOUNT")
    control(shop.url, "clock", {"seconds": 10})
    await shop.told()
    assert (await shop.shown("spei"))[0] == "PARTIALLY_REFUNDED"


async def test_what_comes_back_and_what_a_bank_takes_back_are_in_the_sums(shop: Shop) -> None:
    """A refund that had succeeded and fails, also one of Stripe's own pages, and a transfer that its bank reverses."""
    paid = (await shop.create("paid")).json()["payment"]["processorReference"]
    await shop.merchant.post(f"{ORDERS}/paid/refund", {"amount": 50_000, "reason": "x"})
    made = await shop.at_stripe("/v1/refunds", payment_intent=paid, amount=100_000)
    await shop.told()
    assert await shop.shown("paid") == ("REFUNDED", "REFUNDED")
    async with httpx.AsyncClient(base_url=shop.url, auth=("sk_test_fake", "")) as client:
        refunds = [each["id"] for each in (await client.get("/v1/refunds")).json()["data"]]
    for refund, status, left in ((made["id"], "PARTIALLY_REFUNDED", 50_000), (refunds[-1], "COMPLETED", 0)):
        control(shop.url, "refunds", {"refund": refund, "action": "fail", "reason": "expired_or_canceled_card"})
        await shop.told()
        order = (await shop.merchant.get(f"{ORDERS}/paid")).json()
        assert (order["status"], order["amountRefunded"]) == (status, left)
    merchant_id, now, hour = shop.merchant.merchant_id, datetime.now(UTC), timedelta(hours=1)
    state = await load_order(shop.store.ledger, merchant_id, UUID(order["id"]))
    account = await shop.store.ledger.processors.named(merchant_id, "mx")
    assert account is not None
    listed = [each async for each in account.processor.records(now - hour, now + hour)]
    assert [contrast(state, state.payments[0], each) for each in listed] == [None], "the comparison finds no difference"
    assert {each.idempotency_key for each in records_of(state, merchant_id, "mx", {})} == {listed[0].idempotency_key}
    await shop.merchant.delete("/api/v1/processor-accounts/sandbox")
    asked = (await shop.create("spei", paymentMethod={"type": "spei"})).json()
    clabe = asked["paymentMethod"]["speiDetails"]["clabe"]
    arrived = control(shop.url, "transfers", {"clabe": clabe, "amount": 150_000, "reference": "1"})
    await shop.told()
    control(shop.url, "reversals", {"transaction": arrived["id"]})
    await shop.told()
    order = (await shop.merchant.get(f"{ORDERS}/spei")).json()
    assert (order["status"], order["amountPaid"], order["amountRefunded"]) == ("REFUNDED", 150_000, 150_000)


async def test_a_transfer_that_is_paid_in_part_goes_back_when_its_order_is_cancelled(shop: Shop) -> None:
    await shop.merchant.delete("/api/v1/processor-accounts/sandbox")
    asked = (await shop.create("part", paymentMethod={"type": "spei"})).json()
    clabe = asked["paymentMethod"]["speiDetails"]["clabe"]
    control(shop.url, "transfers", {"clabe": clabe, "amount": 100_000, "reference": "1"})
    await shop.told()
    refused = await shop.merchant.post(f"{ORDERS}/part/refund", {"amount": 100_000})
    assert refused.json()["refund"]["status"] == "FAILED"
    assert (await shop.merchant.post(f"{ORDERS}/part/cancel", {"refundCaptured": True})).status_code == 200
    control(shop.url, "clock", {"seconds": 10})
    await shop.told()
    order = (await shop.merchant.get(f"{ORDERS}/part")).json()
    assert (order["status"], order["amountRefunded"]) == ("REFUNDED", 100_000)
    control(shop.url, "transfers", {"clabe": clabe, "amount": 70_000, "reference": "2"})
    await shop.told()
    account = (await shop.at_stripe(f"/v1/payment_intents/{asked['payment']['processorReference']}"))["customer"]
    balance = {"customer": account, "origin": "customer_balance", "currency": "mxn", "amount": 20_000}
    await shop.at_stripe("/v1/refunds", **balance)  # on Stripe's own pages, from what came late
    control(shop.url, "clock", {"seconds": 10})
    await shop.told()
    order = (await shop.merchant.get(f"{ORDERS}/part")).json()
    assert (order["amountPaid"], order["amountRefunded"]) == (170_000, 120_000)


async def test_cash_arrives_and_stays(shop: Shop) -> None:
    await shop.merchant.delete("/api/v1/processor-accounts/sandbox")
    asked = (await shop.create("oxxo", paymentMethod={"type": "paycash"})).json()
    assert asked["paymentMethod"]["channel"] == "OXXO"
    control(shop.url, "vouchers", {"payment_intent": asked["payment"]["processorReference"], "action": "pay"})
    await shop.told()
    assert (await shop.shown("oxxo"))[0] == "COMPLETED"
    refused = await shop.merchant.post(f"{ORDERS}/oxxo/refund", {"amount": 100})
    assert (refused.status_code, refused.json()["code"]) == (409, "ORDER_NOT_REFUNDABLE")


@pytest.mark.parametrize("fault", [None, "reset_after"])
async def test_a_voucher_expires_by_the_merchants_clock(shop: Shop, fault: str | None) -> None:
    await shop.merchant.delete("/api/v1/processor-accounts/sandbox")
    moved = await shop.merchant.post("/api/sandbox/clock", {"advanceBy": "P30D"})
    if fault is not None:
        shop.fail(fault, CONFIRM)
    await shop.create("oxxo", paymentMethod={"type": "paycash"})
    await shop.recover()
    order = (await shop.merchant.get(f"{ORDERS}/oxxo")).json()
    assert order["status"] == "REFERENCE_GENERATED"
    left = datetime.fromisoformat(order["paymentMethod"]["cieDetails"]["expiresAt"]) - datetime.fromisoformat(
        moved.json()["now"]
    )
    assert timedelta(days=1) < left < timedelta(days=5)


async def test_payers_who_never_come_back_and_what_was_done_on_stripes_pages(shop: Shop) -> None:
    for passed, status in ((True, "COMPLETED"), (False, "FAILED")):
        name = f"asked {passed}"
        asked = await shop.create(name, "pm_card_authenticationRequired", returnUrl="https://shop.example/x")
        intent = asked.json()["payerAuthentication"]["authenticationTransactionId"]
        control(shop.url, "authentications", {"payment_intent": intent, "passed": passed})
        await shop.told()
        assert (await shop.shown(name))[0] == status
    for action, form, status in (
        ("capture", {"amount_to_capture": 40_000}, "PARTIALLY_PAID"),
        ("cancel", {}, "FAILED"),
    ):
        held = (await shop.create(action, captureMethod="MANUAL")).json()["payment"]["processorReference"]
        await shop.at_stripe(f"/v1/payment_intents/{held}/{action}", **form)
        await shop.told()
        assert (await shop.shown(action))[0] == status
    paid = (await shop.create("paid")).json()["payment"]["processorReference"]
    await shop.at_stripe("/v1/refunds", payment_intent=paid, amount=30_000)
    await shop.told()
    assert (await shop.shown("paid"))[0] == "PARTIALLY_REFUNDED"
    dispute = control(shop.url, "disputes", {"payment_intent": paid, "reason": "fraudulent"})["id"]
    control(shop.url, "dispute_ends", {"dispute": dispute, "won": False})
    await shop.told()
    assert (await shop.shown("paid"))[1] == "REFUNDED"


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("error_after", "COMPLETED"),
        ("reset_after", "COMPLETED"),
        ("error_before", "FAILED"),
        ("reset_before", "FAILED"),
        ("silent_before", "FAILED"),
    ],
)
async def test_a_payment_without_an_answer_is_found(shop: Shop, fault: str, status: str) -> None:
    shop.fail(fault, CONFIRM)
    assert (await shop.create("order")).json()["status"] == "PROCESSING"
    await shop.recover()
    assert (await shop.shown("order"))[0] == status
    assert sum(shop.moved().values()) == (1 if status == "COMPLETED" else 0)


async def test_a_capture_and_a_refund_without_an_answer_are_carried_out_once(shop: Shop) -> None:
    await shop.create("held", captureMethod="MANUAL")
    shop.fail("error_before", CAPTURE)  # Stripe repeats this failure for a day
    await shop.merchant.post(f"{ORDERS}/held/capture", {"amount": 50_000})
    await shop.recover()
    assert await shop.shown("held") == ("PARTIALLY_PAID", "PARTIALLY_CAPTURED")
    await shop.create("paid")
    shop.fail("reset_after", REFUNDS)
    await shop.merchant.post(f"{ORDERS}/paid/refund", {"amount": 50_000, "reason": "x"})
    await shop.recover()
    assert await shop.shown("paid") == ("PARTIALLY_REFUNDED", "PARTIALLY_REFUNDED")
    assert set(shop.moved().values()) == {1}


async def test_a_card_is_saved_charged_again_off_session_and_forgotten(shop: Shop) -> None:
    """With a payment and without one; with 3-D Secure; by a subscription; and at Stripe it is detached in the end."""
    first = (await shop.create("first", persist=True)).json()
    card = first["paymentMethod"]["id"]
    saved = (await shop.merchant.get(f"/api/payment-methods/{card}")).json()
    assert (saved["status"], saved["cardDetails"]["last4"], saved["cardDetails"]["bin"]) == ("ACTIVE", "4242", None)
    assert (await shop.create("again", persist=True)).json()["paymentMethod"]["id"] == card
    by_saved = {"type": "payment_method_id", "paymentMethodId": card}
    later = (await shop.create("later", paymentMethod=by_saved)).json()
    assert (later["status"], later["payment"]["processorAccount"]) == ("COMPLETED", "mx")
    customers = f"/api/customers/{first['customer']['id']}/payment-methods"
    token = {"account": "mx", "token": "pm_card_authenticationRequired"}
    body = {"paymentMethod": {"type": "card", "cardTokens": [token]}, "returnUrl": "https://shop.example/x"}
    asked = (await shop.merchant.post(customers, body)).json()
    name = asked["payerAuthentication"]["authenticationTransactionId"]
    control(shop.url, "authentications", {"setup_intent": name, "passed": True})
    path = f"/api/payment-methods/{asked['id']}/payer-authentication/validate"
    validated = await shop.merchant.post(path, {"authenticationTransactionId": name})
    assert validated.json()["status"] == "ACTIVE", validated.text
    lost = {"account": "mx", "token": "pm_card_decline_generic_decline__do_not_try_again"}
    declined = await shop.merchant.post(customers, {"paymentMethod": {"type": "card", "cardTokens": [lost]}})
    assert (declined.json()["advice"], declined.json()["retryable"]) == ("DO_NOT_RETRY", False)
    by_asked = {"type": "payment_method_id", "paymentMethodId": asked["id"]}
    off_session = (await shop.create("off", paymentMethod=by_asked, isVirtualTerminal=True)).json()
    assert off_session["declineCode"] == "AUTHENTICATION_REQUIRED", off_session
    plan = (await planned(shop.merchant))["id"]
    for method, status in ((asked["id"], 422), (card, 201)):
        subscription = {"customerId": first["customer"]["id"], "planId": plan, "paymentMethodId": method}
        answer = await shop.merchant.post("/api/v1/subscriptions", subscription)
        assert answer.status_code == status, answer.text
    deleted = await shop.merchant.delete(f"{customers}/{asked['id']}")
    assert deleted.status_code == 200, deleted.text
    assert (await shop.merchant.delete(f"/api/customers/{first['customer']['id']}")).is_success
    await sweep_cards(shop.store.ledger, age_s=0.0)
    await sweep_cards(shop.store.ledger, age_s=0.0)
    assert await shop.references() == 0
    assert await shop.detached() == 3, "the card that was saved twice has two names at Stripe"


async def test_the_reference_of_an_answer_that_was_lost_is_found_with_it(shop: Shop) -> None:
    shop.fail("reset_after", CONFIRM)
    lost = (await shop.create("lost", persist=True)).json()
    assert lost["status"] == "PROCESSING"
    await shop.recover()
    card = (await shop.merchant.get(f"{ORDERS}/lost")).json()["paymentMethod"]["id"]
    later = await shop.create("later", paymentMethod={"type": "payment_method_id", "paymentMethodId": card})
    assert later.json()["status"] == "COMPLETED"


async def test_a_mexican_credit_card_is_paid_in_months_and_another_plan_charges_nothing(shop: Shop) -> None:
    """By a payment method. Of a confirmation token Stripe shows no plans before it is confirmed."""
    paid = (await shop.create("paid", "pm_card_mx", installments=6)).json()
    assert (paid["status"], paid["payment"]["installments"]) == ("COMPLETED", 6), paid
    async with httpx.AsyncClient(base_url=shop.url, auth=("sk_test_fake", "")) as client:
        made = await client.post("/v1/test_helpers/confirmation_tokens", data={"payment_method": "pm_card_visa"})
    for name, token in (("none", "pm_card_visa"), ("token", made.json()["id"])):
        refused = (await shop.create(name, token, installments=6)).json()
        assert (refused["code"], refused["available"]) == ("INSTALLMENTS_NOT_AVAILABLE", []), refused
    assert {intent for _, intent in shop.moved()} == {paid["payment"]["processorReference"]}
