"""Every operation in every status, over HTTP: it takes a move that the reference documents as its own, or none.

A refused operation leaves the order unchanged (`operation_matrix`). At every change,
`property_tests/test_operations_by_status.py` checks which operation succeeds where.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.generation.moves import TAKERS
from tests.api.storefront import Storefront
from tests.transitions.documented_moves import illegal_moves, undocumented_moves
from tests.transitions.operation_matrix import PATHS, every_operation
from tests.transitions.runner import Outcome, run_once
from tests.transitions.scenario import scenario

from ledger.domain.orders.statuses import OrderStatus, PaymentStatus

pytestmark = [pytest.mark.anyio, pytest.mark.long]

WITHOUT_REQUEST = {"confirmation", "due", "expiry", "recovery", "late"}
"""Operations that no request starts."""


@pytest.fixture(scope="module")
async def outcomes(store: Storefront, run_directory: Path) -> list[Outcome]:
    scenarios = [scenario(f"{path[0]} {path[1]}", every_operation(*path)) for path in PATHS]
    return await run_once(store, scenarios, run_directory / "every-operation.pickle")


async def test_a_refused_operation_changes_nothing(outcomes: list[Outcome]) -> None:
    assert [(each.scenario.name, each.error) for each in outcomes if each.error] == []


async def test_every_operation_is_attempted_in_every_status(outcomes: list[Outcome]) -> None:
    assert {path[0] for path in PATHS} == set(OrderStatus)
    assert {path[1] for path in PATHS} - {""} == set(PaymentStatus)
    for each in outcomes:
        assert set(TAKERS) - WITHOUT_REQUEST <= each.operations, each.scenario.name


async def test_no_operation_takes_a_move_outside_the_tables(outcomes: list[Outcome]) -> None:
    assert illegal_moves(outcomes) == set()


async def test_every_operation_is_documented_beside_its_moves(outcomes: list[Outcome]) -> None:
    assert undocumented_moves(outcomes) == set()
