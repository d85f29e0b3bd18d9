"""Each move of the two tables is taken over HTTP by a scenario that exists for it, and no scenario takes another move.

The operations that take a move are those of `docs/reference/statuses.md`. The scenarios are in `payment_scenarios`,
`order_scenarios`, `older_part_scenarios` and `operation_scenarios`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.api.storefront import Storefront
from tests.transitions.context import Edge
from tests.transitions.documented_moves import (
    DOCUMENTED_ORDER_MOVES,
    DOCUMENTED_PAYMENT_MOVES,
    ORDER_MOVES_OF_OTHER_PROCESSORS,
    PAYMENT_MOVES_OF_OTHER_PROCESSORS,
    illegal_moves,
    order_moves_taken,
    payment_moves_taken,
    undocumented_moves,
)
from tests.transitions.older_part_scenarios import OLDER_PART_SCENARIOS
from tests.transitions.operation_scenarios import OPERATION_SCENARIOS
from tests.transitions.order_scenarios import ORDER_SCENARIOS
from tests.transitions.payment_scenarios import PAYMENT_SCENARIOS
from tests.transitions.runner import Outcome, run_once
from tests.transitions.scenario import edges

from ledger.domain.orders.statuses import OLDER_PART_EDGES, ORDER_EDGES, PAYMENT_EDGES, REPORTED_EDGES

pytestmark = pytest.mark.anyio

SCENARIOS = [*PAYMENT_SCENARIOS, *ORDER_SCENARIOS, *OPERATION_SCENARIOS, *OLDER_PART_SCENARIOS]


@pytest.fixture(scope="module")
async def outcomes(store: Storefront, run_directory: Path) -> list[Outcome]:
    return await run_once(store, SCENARIOS, run_directory / "edges.pickle")


def by_name(moves: frozenset[tuple[Any, Any]]) -> Any:
    """Parametrises a test with these moves."""
    named = sorted(((origin and str(origin), str(target)) for origin, target in moves), key=str)
    return pytest.mark.parametrize("edge", named, ids=lambda edge: f"{edge[0] or 'new'}-{edge[1]}")


def require_taken(edge: Edge, scenarios: Sequence[Outcome]) -> None:
    assert scenarios, f"no scenario takes {edge}"
    for each in scenarios:
        assert each.error is None, f"{each.scenario.name}: {each.error}"
        assert each.missed() == [], each.scenario.name


@by_name(PAYMENT_EDGES)
async def test_a_payment_takes_this_move(outcomes: list[Outcome], edge: Edge) -> None:
    require_taken(edge, [each for each in outcomes if edge in edges(each.scenario.payments)])


@by_name(ORDER_EDGES | REPORTED_EDGES | OLDER_PART_EDGES)
async def test_an_order_takes_this_move(outcomes: list[Outcome], edge: Edge) -> None:
    require_taken(edge, [each for each in outcomes if edge in edges(each.scenario.orders)])


async def test_every_scenario_runs_to_its_end(outcomes: list[Outcome]) -> None:
    assert [(each.scenario.name, each.error) for each in outcomes if each.error] == []
    assert [(each.scenario.name, each.missed()) for each in outcomes if each.missed()] == []


async def test_no_scenario_takes_a_move_outside_the_tables(outcomes: list[Outcome]) -> None:
    assert illegal_moves(outcomes) == set()


async def test_every_operation_that_takes_a_move_is_documented(outcomes: list[Outcome]) -> None:
    assert undocumented_moves(outcomes[: -len(OLDER_PART_SCENARIOS)]) == set()


async def test_every_documented_operation_takes_its_move(outcomes: list[Outcome]) -> None:
    assert DOCUMENTED_ORDER_MOVES - order_moves_taken(outcomes) == ORDER_MOVES_OF_OTHER_PROCESSORS
    assert DOCUMENTED_PAYMENT_MOVES - payment_moves_taken(outcomes) == PAYMENT_MOVES_OF_OTHER_PROCESSORS
