"""A random programme whose every answer is asked for again later, by `asOf` and by `version`: equal byte for byte."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pytest
from tests.api.as_of.conftest import BEHIND
from tests.api.as_of.test_past_reads import CLOCK, CUSTOMERS, at_version, now_of
from tests.api.as_of.test_summary import SUMMARY
from tests.api.bodies import charge, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import PLANS, SUBSCRIPTIONS, monthly, saved

from projections.formats import moment

pytestmark = pytest.mark.anyio

NAMES: Final = ("ana", "eva", "bea")
LISTS: Final = (
    ORDERS,
    f"{ORDERS}?status=PENDING,PARTIALLY_PAID",
    f"{ORDERS}?status=COMPLETED,CANCELLED&sortOrder=asc&limit=3",
    f"{ORDERS}?customerId=ana&includeRelatedCustomers=true",
    f"{ORDERS}?excludeOverdue=true&limit=5",
    f"{ORDERS}?amountMin=100001&currency=MXN",
    f"{ORDERS}?paymentMethodType=card&last4=4242&page=2&limit=2",
    SUBSCRIPTIONS,
    f"{SUBSCRIPTIONS}?status=ACTIVE&limit=1",
    f"{SUBSCRIPTIONS}?planId=plan-0",
    SUMMARY,
)
_CURSOR: Final = re.compile(rb'"nextCursor":(?:"[^"]*"|null)')
_OF_ERASED: Final = (
    "id",
    "status",
    "amount",
    "amountPaid",
    "amountRefunded",
    "amountPending",
    "isOverdue",
    "updatedAt",
)
"""What is compared of an order or a subscription of a customer who was erased since."""


class Answer(NamedTuple):
    """An answer, and when it was given. With events of the resource behind `position`, it shows the newest of them, and
    nothing else has happened since: then it is asked for by its version too.
    """

    path: str
    content: bytes
    at: datetime
    position: int | None


class Programme:
    """Random requests of a merchant over a month, with the answers that are asked for again."""

    def __init__(self, merchant: Merchant, seed: int, late: Merchant | None = None) -> None:
        """`late` is the merchant at a process whose clock is behind: about half of the changes are its own."""
        self._merchant, self._late, self._random = merchant, late, random.Random(seed)
        self._apart_s = 0.003 if late is None else BEHIND.total_seconds() + 0.01
        self._orders: list[str] = []
        self._owners: dict[str, str] = {}
        self._subscriptions: list[str] = []
        self._made = 0
        self._accepted: dict[str, int] = {}
        self._erased: set[str] = set()
        self._ids: dict[str, str] = {}
        self.answers: list[Answer] = []

    async def run(self, steps: int) -> None:
        """Does so many steps, each a request that changes something, and reads."""
        for plan in range(2):
            await self._send("plan", "POST", PLANS, monthly(externalId=f"plan-{plan}", amount=f"{30_000 + plan}"))
        for name in NAMES:
            body = {"externalId": name, "firstName": name.title(), "email": f"{name}@example.com"}
            await self._send("customer", "POST", CUSTOMERS, body)
            self._ids[name] = (await self._merchant.get(f"{CUSTOMERS}/{name}")).json()["id"]
        actions: list[Callable[[], Coroutine[Any, Any, str | None]]] = [
            self._order, self._order, self._sale, self._pay, self._refund, self._cancel, self._rename, self._relate,
            self._postpone, self._change_plan, self._subscribe, self._move_plan, self._unsubscribe, self._advance,
        ]  # fmt: skip
        for n in range(steps):
            position = (await self._merchant.get(SUMMARY)).json()["position"]
            changed = await (self._erase if n == steps * 2 // 3 else self._random.choice(actions))()
            await self._keep(changed, position)
        assert len(self._accepted) >= len(actions) - 4, self._accepted

    async def assert_equal(self) -> None:
        """Asks for every answer again."""
        assert self.answers
        by_version = 0
        for path, content, at, position in self.answers:
            sign = "&" if "?" in path else "?"
            again = await self._merchant.get(f"{path}{sign}asOf={moment(at)}")
            if path.startswith(CUSTOMERS) and path.removeprefix(f"{CUSTOMERS}/") in self._erased:
                assert again.status_code == 404
                continue
            assert again.status_code == 200, again.text
            self._assert_same(path, again.content, content)
            if position is None:
                continue
            at_its_version = await at_version(self._merchant, path, again.json()["version"])
            if at_its_version.json()["position"] > position:
                self._assert_same(path, at_its_version.content, content)
                by_version += 1
        assert by_version

    def _assert_same(self, path: str, again: bytes, content: bytes) -> None:
        if path.endswith(("/payments", "/refunds")) and self._owners[path.split("/")[-2]] in self._erased:
            assert _amounts(again) == _amounts(content), path
        elif any(self._ids[name].encode() in content for name in self._erased):
            assert self._public(json.loads(again)) == self._public(json.loads(content)), path
        else:
            assert _bare(again) == _bare(content), path

    def _public(self, body: Any) -> Any:
        """Returns what stays of an answer when some of its customers are erased."""
        erased = {self._ids[name] for name in self._erased}
        if "data" in body:
            return [self._public(each) for each in body["data"]], body["pagination"]["total"]
        body = {name: value for name, value in body.items() if name not in ("asOf", "position", "version")}
        owner = body.get("customerId") or body.get("customer", {}).get("id")
        if owner in erased:
            return {name: body.get(name) for name in _OF_ERASED}
        return {name: value for name, value in body.items() if name != "relatedCustomers"}

    async def _keep(self, changed: str | None, position: int) -> None:
        """Reads what was changed behind a position, and some lists. Nothing else is recorded at the same time, by any of
        the clocks.
        """
        await asyncio.sleep(self._apart_s)
        paths = [*self._random.sample(LISTS, 3)]
        if self._orders:
            path = f"{ORDERS}/{self._random.choice(self._orders)}"
            paths += [path, f"{path}/payments", f"{path}/refunds"]
        for path in paths if changed is None else [changed, *paths]:
            answer = await self._merchant.get(path)
            if answer.status_code == 200:
                at = await now_of(self._merchant)
                self.answers.append(
                    Answer(path, answer.content, at.astimezone(UTC), position if path == changed else None)
                )
            else:
                assert answer.status_code == 404, answer.text
        await asyncio.sleep(self._apart_s)

    async def _send(self, what: str, method: str, path: str, body: Any) -> bool:
        merchant = self._merchant if self._late is None else self._random.choice((self._merchant, self._late))
        answer = await merchant.client.request(method, path, json=body, headers=merchant.key)
        assert answer.status_code < 500, answer.text
        accepted = answer.status_code < 300
        if accepted:
            self._accepted[what] = self._accepted.get(what, 0) + 1
        return accepted

    def _customer(self) -> str:
        return self._random.choice([name for name in NAMES if name not in self._erased])

    def _some(self, names: list[str]) -> str:
        return self._random.choice(names) if names else "none"

    async def _create(self, what: str, body: dict[str, Any]) -> str | None:
        self._made += 1
        name = f"order-{self._made}"
        if not await self._send(what, "POST", ORDERS, {**body, "externalId": name}):
            return None
        self._orders.append(name)
        self._owners[name] = body["customer"]["externalId"]
        return f"{ORDERS}/{name}"

    async def _order(self) -> str | None:
        due = await now_of(self._merchant) + timedelta(days=self._random.randint(1, 20))
        customer = {"externalId": self._customer()}
        return await self._create("order", order(customer=customer, allowPartials=True, dueDate=due.isoformat()))

    async def _sale(self) -> str | None:
        currency = self._random.choice(("MXN", "USD"))
        return await self._create("sale", paid_order(customer={"externalId": self._customer()}, currency=currency))

    async def _pay(self) -> str | None:
        path = f"{ORDERS}/{self._some(self._orders)}"
        body = charge(amount=self._random.choice((10_000, 50_000)))
        return path if await self._send("pay", "POST", f"{path}/payments", body) else None

    async def _refund(self) -> str | None:
        path = f"{ORDERS}/{self._some(self._orders)}"
        return path if await self._send("refund", "POST", f"{path}/refund", {"amount": 1_000}) else None

    async def _cancel(self) -> str | None:
        path = f"{ORDERS}/{self._some(self._orders)}"
        return path if await self._send("cancel", "POST", f"{path}/cancel", {}) else None

    async def _postpone(self) -> str | None:
        path = f"{ORDERS}/{self._some(self._orders)}"
        due = await now_of(self._merchant) + timedelta(days=self._random.randint(2, 9))
        return path if await self._send("postpone", "PATCH", path, {"dueDate": due.isoformat()}) else None

    async def _rename(self) -> str | None:
        self._made += 1
        path = f"{CUSTOMERS}/{self._customer()}"
        return path if await self._send("rename", "PUT", path, {"firstName": f"Nombre {self._made}"}) else None

    async def _relate(self) -> str | None:
        path = f"{CUSTOMERS}/{self._customer()}"
        source = self._random.choice((None, *NAMES))
        return path if await self._send("relate", "PUT", path, {"sourceId": source}) else None

    async def _change_plan(self) -> str | None:
        self._made += 1
        path = f"{PLANS}/plan-{self._random.randint(0, 1)}"
        await self._send("change plan", "PUT", path, {"name": f"Plan {self._made}"})
        return None

    async def _subscribe(self) -> str | None:
        self._made += 1
        name, customer = f"subscription-{self._made}", self._customer()
        order_name = f"{customer}-4242"
        card = await saved(self._merchant, customer) if order_name not in self._orders else None
        if card is None:
            card = (await self._merchant.get(f"{CUSTOMERS}/{customer}/payment-methods")).json()["data"][0]["id"]
        else:
            self._orders.append(order_name)
            self._owners[order_name] = customer
        plan = f"plan-{self._random.randint(0, 1)}"
        body = {
            "externalId": name,
            "customerId": customer,
            "planId": plan,
            "paymentMethodId": card,
            "metadata": {"a": 1},
        }
        if not await self._send("subscribe", "POST", SUBSCRIPTIONS, body):
            return None
        self._subscriptions.append(name)
        return f"{SUBSCRIPTIONS}/{name}"

    async def _move_plan(self) -> str | None:
        path = f"{SUBSCRIPTIONS}/{self._some(self._subscriptions)}"
        body = {"planId": f"plan-{self._random.randint(0, 1)}"}
        return path if await self._send("move plan", "PUT", path, body) else None

    async def _unsubscribe(self) -> str | None:
        path = f"{SUBSCRIPTIONS}/{self._some(self._subscriptions)}"
        body = {"atPeriodEnd": self._random.random() < 0.5}
        return path if await self._send("unsubscribe", "POST", f"{path}/cancel", body) else None

    async def _advance(self) -> None:
        assert await self._send("advance", "POST", CLOCK, {"advanceBy": f"P{self._random.randint(2, 5)}D"})

    async def _erase(self) -> None:
        name = self._customer()
        if await self._send("erase", "DELETE", f"{CUSTOMERS}/{name}", None):
            self._erased.add(name)


def _amounts(content: bytes) -> list[dict[str, Any]]:
    """Returns what stays of the payments or refunds of an order whose customer is erased."""
    names = ("id", "status", "amount", "createdAt")
    return [{name: each[name] for name in names if name in each} for each in json.loads(content)["data"]]


def _bare(content: bytes) -> bytes:
    """Returns an answer without its place in the past and without the cursor, which belongs to a time."""
    body = _CURSOR.sub(b'"nextCursor":null', content)
    if body.startswith(b'{"asOf"'):  # a summary has its place in the present too
        return re.sub(rb'"asOf":"[^"]*"', b"", body)
    return re.sub(rb',"asOf":"[^"]*","position":\d+(,"version":\d+)?}$', b"}", body)


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_answer_is_the_same_when_it_is_asked_for_again(merchant: Merchant, seed: int):
    await _run(merchant, seed, 30)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 30))
async def test_every_answer_of_a_long_programme_is_the_same(merchant: Merchant, seed: int):
    await _run(merchant, seed, 120)


async def test_every_answer_of_two_processes_whose_clocks_are_apart_is_the_same(merchant: Merchant, late: Storefront):
    await _run(merchant, 3, 15, Merchant(merchant.merchant_id, merchant.secret, late.client))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(30, 40))
async def test_every_answer_of_a_long_programme_of_two_processes_is_the_same(
    merchant: Merchant, late: Storefront, seed: int
):
    await _run(merchant, seed, 100, Merchant(merchant.merchant_id, merchant.secret, late.client))


async def _run(merchant: Merchant, seed: int, steps: int, late: Merchant | None = None) -> None:
    programme = Programme(merchant, seed, late)
    await programme.run(steps)
    while await now_of(merchant) < datetime.now(UTC) + timedelta(days=31):
        moved = await merchant.post(CLOCK, {"advanceBy": "P10D"})
        assert moved.status_code == 200, moved.text
    await programme.assert_equal()
