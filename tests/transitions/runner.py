"""Runs scenarios concurrently, each with a merchant of its own, and keeps their outcomes.

Keep a scenario that stops with an error as an outcome: its tests fail with that error. All scenarios run once in a test
run, whatever number of processes has tests that need their outcomes.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pickle
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.api.storefront import Merchant, Storefront
from tests.transitions.context import Move, OrderMoves, ScenarioContext
from tests.transitions.scenario import Scenario

from ledger.postgres.connection import connect
from projections.orders.open_calls import OpenCalls

_CONCURRENT = 32


class Outcome(NamedTuple):
    """The outcome of a scenario: the moves of its orders, the requested operations, and the error that stopped it."""

    scenario: Scenario
    orders: Sequence[OrderMoves] = ()
    operations: frozenset[str] = frozenset()
    error: str | None = None

    @property
    def payment_moves(self) -> list[Move]:
        return [move for order in self.orders for moves in order.payments for move in moves]

    def missed(self) -> list[str]:
        """Returns the scenario's paths that none of its orders and payments took."""
        orders = [moves for order in self.orders for moves in (order.by_event, order.by_commit)]
        payments = [moves for order in self.orders for moves in order.payments]
        return [
            path
            for paths, taken in ((self.scenario.orders, orders), (self.scenario.payments, payments))
            for path in paths
            if not any(_contains(moves, path) for moves in taken)
        ]


def _contains(moves: Sequence[Move], path: str) -> bool:
    """Returns whether these moves go through the statuses of `path`, one directly after the other."""
    statuses = [moves[0].before or "-", *(move.after for move in moves)] if moves else []
    wanted = path.split()
    return any(statuses[n : n + len(wanted)] == wanted for n in range(len(statuses)))


async def run_once(store: Storefront, scenarios: Sequence[Scenario], results: Path) -> list[Outcome]:
    """Returns the outcomes of the scenarios, which the first process to ask runs. The file `results` shares them."""
    descriptor = os.open(results, os.O_RDWR | os.O_CREAT)
    with os.fdopen(descriptor, "r+b") as file:
        await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)  # in a thread: the application runs on this loop
        if not (pickled := file.read()):
            outcomes = await run_all(store, scenarios)
            pickled = pickle.dumps([each[1:] for each in outcomes])  # without the scenario: functions cannot be pickled
            file.write(pickled)
        return [Outcome(scenario, *rest) for scenario, rest in zip(scenarios, pickle.loads(pickled), strict=True)]


async def _nothing(_: Merchant) -> None:
    """Most runs prepare nothing."""


async def run_all(
    store: Storefront, scenarios: Sequence[Scenario], prepare: Callable[[Merchant], Awaitable[None]] = _nothing
) -> list[Outcome]:
    """Runs the scenarios and returns their outcomes, in the given order. `prepare` is called for each one's merchant."""
    url = store.settings.database_url
    assert url is not None, "there is a database"
    slots = asyncio.Semaphore(_CONCURRENT)
    reading = asyncio.Lock()

    async with OpenCalls(url) as open_calls, await connect(url, "transitions") as connection:

        async def run(scenario: Scenario) -> Outcome:
            async with slots:
                merchant = await store.register(**dict(scenario.settings))
                await prepare(merchant)
                context = ScenarioContext(store, merchant, open_calls)
                try:
                    for step in scenario.steps:
                        await step(context)
                except Exception:  # noqa: BLE001 - it is the scenario's outcome, and fails its tests
                    return Outcome(scenario, error=traceback.format_exc())
            async with reading:
                return Outcome(scenario, await context.moves(connection), context.operations)

        return await asyncio.gather(*map(run, scenarios))
