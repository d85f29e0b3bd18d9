"""Every operation in every status, over HTTP: it takes a move of the tables that the reference says is its own, or none at all.

What is refused leaves the order as it was (`matrix`). Which operation goes through where is told by the property tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.generation.moves import TAKERS
from tests.api.storefront import Storefront
from tests.transitions.matrix import WAYS, every_operation
from tests.transitions.reference import illegal_moves, unnamed_takers
from tests.transitions.telling import Outcome, tell_once
from tests.transitions.told import told

from ledger.domain.orders.statuses import OrderStatus, PaymentStatus

pytestmark = pytest.mark.anyio

BY_THEMSELVES = {"confirmation", "due", "expiry", "recovery", "late"}
"""Takers whom nobody asks."""


@pytest.fixture(scope="module")
async def outcomes(store: Storefront, of_this_run: Path) -> list[Outcome]:
    tried = [told(f"{way[0]} {way[1]}", every_operation(*way)) for way in WAYS]
    return await tell_once(store, tried, of_this_run / "every-operation.pickle")


async def test_what_is_refused_changes_nothing(outcomes: list[Outcome]) -> None:
    assert [(each.story.name, each.fault) for each in outcomes if each.fault] == []


async def test_everything_is_tried_in_every_status(outcomes: list[Outcome]) -> None:
    assert {way[0] for way in WAYS} == set(OrderStatus)
    assert {way[1] for way in WAYS} - {""} == set(PaymentStatus)
    for each in outcomes:
        assert set(TAKERS) - BY_THEMSELVES <= each.asked, each.story.name


async def test_no_operation_takes_a_move_that_the_tables_do_not_have(outcomes: list[Outcome]) -> None:
    assert illegal_moves(outcomes) == set()


async def test_every_operation_is_named_where_the_reference_has_its_moves(outcomes: list[Outcome]) -> None:
    assert unnamed_takers(outcomes) == set()
