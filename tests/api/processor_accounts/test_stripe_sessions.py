"""The end of a 3-D Secure session at the fake of Stripe: nothing stays open there, and what a quicker payer paid counts."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from urllib.error import HTTPError
from uuid import UUID

import httpx
import pytest
from campaigns.fake_stripe.running import control
from tests.api.bodies import charge, order
from tests.api.processor_accounts.test_stripe_payments import Shop, shop
from tests.api.storefront import ORDERS
from tests.operations.test_timers import Ahead

from ledger.domain.orders.timers import TimerKind
from ledger.operations.context.inputs import Actor
from ledger.operations.orders.due.timers import run_timer
from ledger.operations.payment_methods.change import delete_payment_method
from ledger.operations.pipeline import processor_requests
from ledger.operations.pipeline.session_end import end_session

pytestmark = [pytest.mark.anyio, pytest.mark.long]

__all__ = ["shop"]  # the fixture

CANCEL, INTENT = "/v1/payment_intents/*/cancel", "/v1/payment_intents/*"
RACES = int(os.environ.get("STRIPE_RACES", "60"))
"""How many payers race with the end of their sessions; 500 by `STRIPE_RACES=500`."""


async def in_session(shop: Shop, name: str, **changes: Any) -> str:
    """Creates an order whose payer is at the bank's page. Returns the intent's id."""
    answer = await shop.create(name, "pm_card_authenticationRequired", returnUrl="https://shop.example/back", **changes)
    return str(answer.json()["payerAuthentication"]["authenticationTransactionId"])


async def moved_on(shop: Shop) -> None:
    """Moves the merchant's clock beyond the end of all sessions, and runs what is due."""
    answer = await shop.merchant.post("/api/sandbox/clock", {"advanceBy": "PT16M"})
    assert answer.status_code == 200, answer.text


def authenticate(shop: Shop, intent: str, *, passed: bool = True) -> bool:
    """Lets the payer act at the bank's page. Returns False if the session is over there."""
    try:
        control(shop.url, "authentications", {"payment_intent": intent, "passed": passed})
    except HTTPError:
        return False
    return True


def fail(shop: Shop, fault: str, path: str, times: int = 1, method: str = "POST") -> None:
    fault_ = {"fault": fault, "method": method, "path": path, "times": times, "seconds": 3}
    control(shop.url, "faults", [fault_])


def kinds(shop: Shop, intent: str) -> set[str]:
    """Returns what Stripe has done with an intent's money; it has done each kind once."""
    found = {kind: times for (kind, about), times in shop.moved().items() if about == intent}
    assert set(found.values()) <= {1}
    return set(found)


async def test_a_session_that_ends_is_ended_at_stripe_first(shop: Shop) -> None:
    late = await in_session(shop, "late")
    paid, held = await in_session(shop, "paid"), await in_session(shop, "held", captureMethod="MANUAL")
    failed = await in_session(shop, "failed")
    assert authenticate(shop, paid)
    assert authenticate(shop, held)
    assert authenticate(shop, failed, passed=False)
    await moved_on(shop)
    assert not authenticate(shop, late)
    assert await shop.shown("late") == ("FAILED", "EXPIRED")
    assert await shop.shown("paid") == ("COMPLETED", "CAPTURED")
    assert await shop.shown("held") == ("AUTHORIZED", "AUTHORIZED")
    assert await shop.shown("failed") == ("FAILED", "FAILED")
    assert (kinds(shop, late), kinds(shop, held), kinds(shop, failed)) == (set(), {"AUTHORIZED"}, set())
    path = f"{ORDERS}/paid/payer-authentication/validate"
    validated = await shop.merchant.post(path, {"authenticationTransactionId": paid})
    assert (validated.status_code, validated.json()["status"]) == (200, "COMPLETED")


async def test_a_payer_who_failed_cannot_charge_another_card(shop: Shop) -> None:
    """The bank's page gives the payer's browser the intent's client secret, with which Stripe's script can confirm it."""
    for name in ("asked", "reported"):
        intent = await in_session(shop, name)
        assert authenticate(shop, intent, passed=False)
        if name == "asked":
            path = f"{ORDERS}/{name}/payer-authentication/validate"
            await shop.merchant.post(path, {"authenticationTransactionId": intent})
        else:
            await shop.told()
        assert await shop.shown(name) == ("FAILED", "FAILED")
        async with httpx.AsyncClient(base_url=shop.url, auth=("sk_test_fake", "")) as client:
            secret = (await client.get(f"/v1/payment_intents/{intent}")).json()["client_secret"]
        form = {"client_secret": secret, "payment_method": "pm_card_visa", "return_url": "https://shop.example/back"}
        async with httpx.AsyncClient(base_url=shop.url, auth=("pk_test_fake", "")) as browser:
            confirmed = await browser.post(f"/v1/payment_intents/{intent}/confirm", data=form)
        assert (confirmed.status_code, kinds(shop, intent)) == (400, set())


async def test_a_cancelled_order_leaves_no_session_at_stripe(shop: Shop) -> None:
    open_, held = await in_session(shop, "open"), await in_session(shop, "held", captureMethod="MANUAL")
    paid = await in_session(shop, "paid")
    assert authenticate(shop, held)
    assert authenticate(shop, paid)
    shown = {}
    for name in ("open", "held", "paid"):
        await shop.merchant.post(f"{ORDERS}/{name}/cancel", {})
        shown[name] = await shop.shown(name)
    assert shown == {
        "open": ("CANCELLED", "CANCELLED"),
        "held": ("CANCELLED", "CANCELLED"),
        "paid": ("COMPLETED", "CAPTURED"),
    }
    assert not authenticate(shop, open_)
    assert (kinds(shop, open_), kinds(shop, held)) == (set(), {"AUTHORIZED", "RELEASED"})


async def test_a_part_that_is_paid_otherwise_ends_its_session(shop: Shop) -> None:
    await shop.merchant.create(order(externalId="split", allowPartials=True))
    tokens = [{"account": "mx", "token": "pm_card_authenticationRequired"}]
    part = charge(paymentMethod={"type": "card", "cardTokens": tokens}, returnUrl="https://shop.example/back")
    answer = await shop.merchant.post(f"{ORDERS}/split/payments", part | {"amount": 100_000})
    intent = answer.json()["payerAuthentication"]["authenticationTransactionId"]
    other = charge(paymentMethod={"type": "card", "cardTokens": [{"account": "mx", "token": "pm_card_visa"}]})
    await shop.merchant.post(f"{ORDERS}/split/payments", other | {"amount": 90_000})
    answer = await shop.merchant.post("/api/sandbox/clock", {"advanceBy": "PT1S"})
    shown = (await shop.merchant.get(f"{ORDERS}/split")).json()
    assert [each["status"] for each in shown["payments"]] == ["FAILED", "CAPTURED"], answer.text
    assert not authenticate(shop, intent)


async def test_an_end_without_an_answer_is_looked_up_until_it_is_known(shop: Shop) -> None:
    """At each of the two requests of an end, and at the question before it, in every way in which one can fail."""
    intents = {}
    for path, method in ((INTENT, "GET"), (INTENT, "POST"), (CANCEL, "POST")):
        for fault in ("error_before", "error_after", "reset_before", "reset_after", "silent_before", "silent_after"):
            name = f"{method}-{path[-6:].strip('/*')}-{fault}"
            intents[name] = await in_session(shop, name)
            fail(shop, fault, path, times=2, method=method)
            await ended(shop)
            assert (await shop.shown(name))[1] in {"REQUIRES_ACTION", "EXPIRED"}
            control(shop.url, "faults", None, "DELETE")
    for _ in range(3):
        await shop.recover()
    for name, intent in intents.items():
        assert await shop.shown(name) == ("FAILED", "EXPIRED"), name
        assert not authenticate(shop, intent)
    assert shop.moved() == Counter()


async def test_a_payer_who_is_quicker_than_an_end_without_an_answer_has_paid(shop: Shop) -> None:
    intents = {}
    for fault in ("error_before", "reset_before", "silent_before"):
        intents[fault] = await in_session(shop, fault)
        fail(shop, fault, CANCEL, times=2)
        await ended(shop)
        assert (await shop.shown(fault))[1] == "REQUIRES_ACTION"
        assert authenticate(shop, intents[fault])
    for _ in range(3):
        await shop.recover()
    for fault, intent in intents.items():
        assert await shop.shown(fault) == ("COMPLETED", "CAPTURED")
        assert kinds(shop, intent) == {"CAPTURED"}


async def test_a_process_that_dies_during_an_end_leaves_it_to_the_recovery(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    intents = {}
    for point, passed in (("before", False), ("before", True), ("after", False), ("after", True)):
        name = f"{point}-{passed}"
        intents[name] = await in_session(shop, name)
        assert not passed or authenticate(shop, intents[name])

        async def dies(*about: Any, point: str = point) -> Any:
            if point == "after":
                await end_session(*about)
            raise asyncio.CancelledError

        monkeypatch.setattr(processor_requests, "end_session", dies)
        with pytest.raises(asyncio.CancelledError):
            await end_of(shop, name)
        monkeypatch.undo()
    for _ in range(3):
        await shop.recover()
    for name, intent in intents.items():
        paid = name.endswith("True")
        assert await shop.shown(name) == (("COMPLETED", "CAPTURED") if paid else ("FAILED", "EXPIRED")), name
        assert kinds(shop, intent) == ({"CAPTURED"} if paid else set())
        assert not authenticate(shop, intent)


async def end_of(shop: Shop, name: str) -> None:
    """Runs the timer of a session's end in this process, at its time by a moved clock."""
    ledger, merchant_id = shop.store.ledger, shop.merchant.merchant_id
    found = (await shop.merchant.get(f"{ORDERS}/{name}")).json()
    order_id, payment_id = UUID(found["id"]), UUID(found["payments"][-1]["id"])
    ends_at = datetime.fromisoformat(found["payerAuthentication"]["expiresAt"])
    ledger.clock = Ahead(timedelta(minutes=16))
    await run_timer(ledger, merchant_id, order_id, TimerKind.EXPIRY, payment_id, ends_at)


async def test_races_between_payers_and_the_ends_of_their_sessions(shop: Shop) -> None:
    """Races: half of them for authorisations alone, a third against a cancellation, the others against the clock."""
    passed: dict[str, bool] = {}
    intents: dict[str, str] = {}

    async def payer(name: str, *, accepts: bool) -> None:
        await asyncio.sleep(random.uniform(0, 0.06))
        passed[name] = await asyncio.to_thread(authenticate, shop, intents[name], passed=accepts)

    for n in range(RACES):
        name = f"race-{n}"
        intents[name] = await in_session(shop, name, **({"captureMethod": "MANUAL"} if n % 2 else {}))
        cancelled = shop.merchant.post(f"{ORDERS}/{name}/cancel", {})
        await asyncio.gather(payer(name, accepts=n % 7 != 0), cancelled if n % 3 == 0 else end_of(shop, name))
        if n % 3:
            cancelled.close()
    for _ in range(3):
        await shop.recover()
    await ended(shop)
    moved, found = shop.moved(), Counter[tuple[str, bool]]()
    for name, intent in intents.items():
        order_status, payment = await shop.shown(name)
        held = moved["AUTHORIZED", intent] - moved["RELEASED", intent]
        assert payment in {"CAPTURED", "AUTHORIZED", "EXPIRED", "CANCELLED", "FAILED"}, (name, order_status, payment)
        assert moved["CAPTURED", intent] == (payment == "CAPTURED"), (name, payment)
        assert held == (payment == "AUTHORIZED"), (name, payment)
        found[payment, passed[name]] += 1
    assert sum(found.values()) == RACES
    print(dict(found))  # noqa: T201 - the figures of the campaign


async def ended(shop: Shop) -> None:
    """Moves the clock on until all that is due has run."""
    more = True
    while more:
        answer = await shop.merchant.post("/api/sandbox/clock", {"advanceBy": "PT16M"})
        more = answer.status_code in {409, 503} or answer.json()["more"]  # it is moved by others, or took 20 s


async def test_a_card_without_an_order_needs_no_return_and_leaves_no_session_at_stripe(shop: Shop) -> None:
    """The payer passes 3-D Secure and never comes back; another never passes it, or the merchant deletes the card."""
    names = map(str, range(9))

    async def asked() -> tuple[str, str]:
        """Asks for a new customer's card. Returns the card's path and the session."""
        person = {"externalId": next(names), "firstName": "Ana", "lastName": "López", "email": "ana@example.com"}
        customer = await shop.merchant.post("/api/customers", person)
        cards = f"/api/customers/{customer.json()['id']}/payment-methods"
        token = {"account": "mx", "token": "pm_card_authenticationRequired"}
        body = {"paymentMethod": {"type": "card", "cardTokens": [token]}, "returnUrl": "https://shop.example/x"}
        made = (await shop.merchant.post(cards, body)).json()
        return f"{cards}/{made['id']}", made["payerAuthentication"]["authenticationTransactionId"]

    def passes(setup: str, *, passed: bool = True) -> bool:
        try:
            control(shop.url, "authentications", {"setup_intent": setup, "passed": passed})
        except HTTPError:
            return False
        return True

    async def status(card: str) -> str:
        shown = await shop.merchant.get(f"/api/payment-methods/{card.rpartition('/')[2]}")
        return str(shown.json()["status"]) if shown.status_code == 200 else str(shown.status_code)

    async def delete(card: str) -> None:
        """Deletes a card in a process whose background work can be waited for."""
        customer, _, method = card.split("/")[-3:]
        actor = Actor(merchant_id=shop.merchant.merchant_id)
        await delete_payment_method(shop.store.ledger, actor, UUID(customer), UUID(method))
        await shop.store.ledger.drain()

    card, setup = await asked()
    assert (await status(card), passes(setup)) == ("REQUIRES_ACTION", True)
    for _ in range(2):
        await shop.told()
        assert (await status(card), await shop.references(), await shop.detached()) == ("ACTIVE", 1, 0)
    failed, setup = await asked()
    assert passes(setup, passed=False)
    await shop.told()
    assert (await status(failed), passes(setup)) == ("FAILED", False)
    late, setup = await asked()
    quicker, other = await asked()
    assert passes(other)
    await moved_on(shop)
    assert (await status(late), passes(setup)) == ("EXPIRED", False)
    assert (await status(quicker), await shop.references()) == ("ACTIVE", 2)
    deleted, setup = await asked()
    await delete(deleted)
    assert not passes(setup)
    deleted, setup = await asked()
    fail(shop, "reset_before", "/v1/setup_intents/*", times=2)
    await delete(deleted)
    assert passes(setup), "its end was lost"
    await shop.told()
    assert (await status(deleted), await shop.references(), await shop.detached()) == ("404", 2, 1)
