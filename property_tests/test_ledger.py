"""Any sequence of operations, with the real journal and the real sandbox: the log has no gaps, the money adds up, and
the read models follow from the log alone, in any process and in any batch size.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property_tests.log_replay import digest, read_log, replay_log
from tests.audit.auditing import audit_of, wrong_in
from tests.databases import Databases
from tests.operations.conftest import an_order, by_card, register
from tests.sealing import MASTER_KEY

from ledger.backup.rebuild import rebuild
from ledger.domain.orders.events import OrderCreated
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import ORDER_EDGES, PAYMENT_EDGES, OrderStatus
from ledger.domain.rejections import Rejected
from ledger.operations.context.inputs import Actor, CustomerInput, OrderInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import charge_order, create_order
from ledger.postgres.connection import connect
from ledger.processors.contract import ProcessorUnavailable
from ledger.settings import Settings
from ledger.wiring import open_ledger
from projections.rebuild import stored

APPROVED, HALF, DECLINED, RISK = "4242424242424242", "4000000000000010", "4000000000000002", "4100000000000019"

# Few names, so that the steps of a sequence concern the same orders.
NAMES = st.sampled_from(["a", "b", "c"])
CARDS = st.sampled_from([APPROVED, APPROVED, HALF, DECLINED, RISK])
CREATE = st.tuples(
    st.just("create"),
    NAMES,
    st.one_of(st.none(), CARDS),
    st.sampled_from([Decimal(10_000), Decimal(10_000), Decimal("150.75")]),
    st.booleans(),
    st.sampled_from(["ana", "luis"]),
)
CHARGE = st.tuples(st.just("charge"), NAMES, CARDS, st.sampled_from([None, Decimal(3_000)]))
STEPS = st.lists(st.one_of(CREATE, CHARGE), min_size=1, max_size=12)


class EventLoop:
    """An event loop that is kept over all examples, as the ledger is."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    def close(self) -> None:
        self._runner.close()


@pytest.fixture(scope="module")
def loop() -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def url(databases: Databases) -> Iterator[str]:
    """Returns one database for all examples; each example has its own merchant."""
    with databases.lent() as url:
        yield url


@pytest.fixture(scope="module")
def ledger(url: str, loop: EventLoop) -> Iterator[Ledger]:
    context = open_ledger(Settings(database_url=url, master_key=MASTER_KEY))
    yield loop.run(context.__aenter__())
    loop.run(context.__aexit__(None, None, None))


async def send_step(ledger: Ledger, actor: Actor, step: tuple[Any, ...]) -> None:
    """Carries out one operation. The domain may refuse it."""
    try:
        match step:
            case ("create", name, card, amount, split, customer):
                await create_order(ledger, actor, order(name, card, amount, split, customer))
            case ("charge", name, card, amount):
                await charge_order(ledger, actor, name, by_card(card, amount=amount))
    except (Rejected, ProcessorUnavailable):
        pass


def order(name: str, card: str | None, amount: Decimal, split: bool, customer: str) -> OrderInput:
    return an_order(
        name,
        None if card is None else by_card(card),
        amount=amount,
        allow_partials=split and card is None,
        customer=CustomerInput(external_id=customer, first_name=customer),
    )


async def run_steps(ledger: Ledger, steps: list[tuple[Any, ...]], *, twice: bool) -> UUID:
    """Carries out the steps for a new merchant, each twice concurrently if `twice`. Returns the merchant's id."""
    actor = await register(ledger)
    for step in steps:
        await asyncio.gather(*[send_step(ledger, actor, step) for _ in range(2 if twice else 1)])
    return actor.merchant_id


def assert_gapless(log: list[Any]) -> None:
    """Asserts I10: the merchant's positions and the versions of every stream count from one without a gap."""
    assert [event.position for event in log] == list(range(1, len(log) + 1))
    versions: dict[UUID, list[int]] = defaultdict(list)
    for event in log:
        versions[event.stream_id].append(event.version)
    assert all(seen == list(range(1, len(seen) + 1)) for seen in versions.values())


def orders_of(log: list[Any]) -> list[Order]:
    """Returns every order of the log, and asserts legal moves after every event (I6, I7) and unique external ids
    (I11)."""
    orders: dict[UUID, Order] = {}
    external_ids: list[str] = []
    for recorded in log:
        before = orders.get(recorded.stream_id)
        if before is None and not isinstance(recorded.event, OrderCreated):
            continue
        after = orders[recorded.stream_id] = evolve(before, recorded.event)
        if before is None:
            external_ids.append(after.terms.external_id)
        assert_legal(before, after)
    assert len(external_ids) == len(set(external_ids)), "I11: one order per external id"
    return list(orders.values())


def assert_legal(before: Order | None, after: Order) -> None:
    previous = None if before is None else before.status
    assert previous is after.status or (previous, after.status) in ORDER_EDGES
    statuses = {} if before is None else {payment.payment_id: payment.status for payment in before.payments}
    for payment in after.payments:
        move = (statuses.get(payment.payment_id), payment.status)
        assert move[0] is move[1] or move in PAYMENT_EDGES


def assert_money(order: Order) -> None:
    """Asserts I1 to I4, computed again from the payments."""
    paid = sum((payment.captured for payment in order.payments), Decimal(0))
    refunded = sum((payment.refunded for payment in order.payments), Decimal(0))
    assert order.amount == order.terms.amount + (order.surcharge_amount or 0)
    assert (order.amount_paid, order.amount_refunded) == (paid, refunded)
    assert order.amount_pending == max(Decimal(0), order.amount - (paid - refunded))
    assert all(0 <= p.refunded <= p.captured <= p.authorized <= p.amount for p in order.payments)
    assert (order.status is OrderStatus.COMPLETED) == (paid >= order.amount)


@pytest.mark.parametrize("examples", [12, pytest.param(60, marks=pytest.mark.long)])
def test_any_sequence_of_operations_leaves_a_gapless_log_and_read_models_that_follow_from_it(
    ledger: Ledger, loop: EventLoop, url: str, examples: int
) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(steps=STEPS, twice=st.booleans(), size=st.sampled_from([1, 7, 1000]))
    def holds(steps: list[tuple[Any, ...]], twice: bool, size: int) -> None:
        merchant = loop.run(run_steps(ledger, steps, twice=twice))
        log = loop.run(read_log(url, merchant, size))
        assert_gapless(log)
        for each in orders_of(log):
            assert_money(each)
        rows = loop.run(stored_rows(url, merchant))
        assert replay_log(merchant, log, size) == rows
        assert not loop.run(rebuild(url, ledger.journal.reader, merchant_id=merchant)).differs
        assert loop.run(stored_rows(url, merchant)) == rows
        assert wrong_in(audit_of(url, merchant)) == []

    holds()


async def stored_rows(url: str, merchant: UUID) -> Any:
    async with await connect(url, "property-tests") as connection:
        return await stored(connection, merchant)


def test_a_process_with_another_hash_seed_and_time_zone_replays_the_same_rows(
    ledger: Ledger, loop: EventLoop, url: str
) -> None:
    steps: list[tuple[Any, ...]] = [
        ("create", "a", APPROVED, Decimal(10_000), False, "ana"),
        ("create", "b", None, Decimal("150.75"), True, "luis"),
        ("charge", "b", HALF, None),
        ("charge", "b", DECLINED, None),
        ("create", "c", DECLINED, Decimal(10_000), False, "ana"),
        ("create", "c", APPROVED, Decimal(10_000), False, "ana"),
    ]
    merchant = loop.run(run_steps(ledger, steps, twice=False))
    here = digest(loop.run(stored_rows(url, merchant)))
    for seed, zone, size in (("1", "Asia/Kathmandu", 1), ("2", "America/Tijuana", 7), ("random", "UTC", 1000)):
        there = subprocess.run(
            [sys.executable, "-m", "property_tests.log_replay", url, str(merchant), str(size)],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "TZ": zone,
                "LC_ALL": "C",
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert there.stdout.strip() == here
