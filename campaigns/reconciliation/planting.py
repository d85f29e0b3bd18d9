"""A merchant whose orders are made by the ledger's operations, the comparison of its accounts, and what it should find."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

import psycopg
from msgspec import Struct
from tests.background.conftest import worker_connection
from tests.operations.conftest import an_order, by_card, register
from tests.operations.test_action_recovery import order_named
from tests.operations.test_actions import MANUAL

from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.payment_index import PaymentIndex
from ledger.background.reconciliation.comparison import Difference, Kind, Missing
from ledger.background.reconciliation.reconciler import Reconciliation
from ledger.background.scheduler.jobs import Jobs
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.operations.context.inputs import Actor, CancelInput, CaptureInput, PaymentInput, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.create import create_order
from ledger.operations.orders.payment_lookup import open_lookup
from ledger.operations.orders.refund import refund_order
from projections.orders.reconciliation import ReconciliationLog

AMOUNT, GIVEN_BACK = Decimal(10_000), Decimal(4_000)
_AT_ONCE: Final = 16

Expected = tuple[str, Kind, Missing]
"""A difference that was planted: the key, what differs, and the side that lacks it."""


class Figures(Struct, kw_only=True):
    """How many differences were planted of a kind, how many were found as what they are, and repaired."""

    planted: int
    found: int
    repaired: int = 0


class Site:
    """One merchant of a ledger, with the comparison of all accounts."""

    def __init__(self, ledger: Ledger, merchant: Actor, url: str, payment: Callable[[], PaymentInput]) -> None:
        self.ledger, self.merchant, self.url = ledger, merchant, url
        self._payment = payment
        self._made = 0
        self.since, self.ahead = datetime.now(UTC) - timedelta(minutes=5), timedelta(minutes=5)

    async def make(self, count: int, make_one: Callable[[str], Awaitable[None]]) -> list[tuple[Order, Payment]]:
        """Makes so many orders side by side, and returns each with its payment."""
        names = [f"order-{n}" for n in range(self._made, self._made + count)]
        self._made += count
        for begin in range(0, count, _AT_ONCE):
            await asyncio.gather(*map(make_one, names[begin : begin + _AT_ONCE]))
        orders = [await self.order(name) for name in names]
        return [(order, order.payments[0]) for order in orders]

    async def sale(self, name: str) -> None:
        await create_order(self.ledger, self.merchant, an_order(name, self._payment()))

    async def held(self, name: str) -> None:
        await create_order(self.ledger, self.merchant, an_order(name, self._payment(), **MANUAL))

    async def captured(self, name: str) -> None:
        await self.held(name)
        await capture_order(self.ledger, self.merchant, name, CaptureInput())

    async def voided(self, name: str) -> None:
        await self.held(name)
        await cancel_order(self.ledger, self.merchant, name, CancelInput())

    async def refunded(self, name: str) -> None:
        await self.sale(name)
        await refund_order(self.ledger, self.merchant, name, RefundInput(amount=GIVEN_BACK))

    async def order(self, name: str) -> Order:
        return await order_named(self.ledger, self.merchant, name)

    def execute(self, statement: str) -> None:
        """Changes a processor that is simulated in the ledger's own database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    async def compare(self, *, repair: bool) -> Sequence[Difference]:
        """Compares all accounts, after the names of the payments are stored."""
        async with AsyncExitStack() as stack:
            jobs = await stack.enter_async_context(Jobs(self.url, self.ledger, {}))
            log = await stack.enter_async_context(ReconciliationLog(self.url))
            names = await stack.enter_async_context(open_lookup(self.url))
            await Dispatcher(self.ledger.journal, jobs, [PaymentIndex()]).sweep(
                await worker_connection(self.url, stack)
            )
            until = datetime.now(UTC) + self.ahead
            findings = Reconciliation(self.ledger, names, log.moved).findings(self.since, until, repair=repair)
            found = [finding async for finding in findings]
        unreachable = [each for each in found if not isinstance(each, Difference)]
        assert not unreachable, f"an account was not compared: {unreachable}"
        return [each for each in found if isinstance(each, Difference)]

    async def find(
        self, planted: dict[str, list[Expected]], repaired: Collection[str], known: Collection[Expected] = ()
    ) -> tuple[dict[str, Figures], int]:
        """Compares without and with repairs. Returns the figures of each kind, and how many other differences there were.

        The kinds in `repaired` have to be recorded by the second comparison, and to be no difference in the third.
        `known` were planted before.
        """
        earlier = {key for key, _, _ in known}
        found = [each for each in await self.compare(repair=False) if each.idempotency_key not in earlier]
        seen = {(each.idempotency_key, each.kind, each.missing_in) for each in found}
        others = len(found) - sum(len(seen & set(each)) for each in planted.values())
        mended = {each.idempotency_key for each in await self.compare(repair=True) if each.repaired}
        left = {each.idempotency_key for each in await self.compare(repair=True)}
        figures = dict[str, Figures]()
        for name, expected in planted.items():
            keys = {key for key, _, _ in expected}
            figures[name] = Figures(planted=len(expected), found=len(seen & set(expected)), repaired=len(keys & mended))
            others += len(keys & left) if name in repaired else len(keys - left)
        return figures, others


@asynccontextmanager
async def site(ledger: Ledger, url: str, payment: Callable[[], PaymentInput] = by_card) -> AsyncIterator[Site]:
    yield Site(ledger, await register(ledger), url, payment)


def refund_key(order: Order) -> str:
    return f"{order.refunds[0].refund_id}:{order.payments[0].payment_id}"
