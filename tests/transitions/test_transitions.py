"""Each move of the two tables is taken over HTTP by a story that is told for it, and nothing in any story takes another.

Who takes it is what the reference says, `docs/reference/statuses.md`. The stories stand in `payment_stories`, `order_stories`,
`older_parts` and `taker_stories`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.api.storefront import Storefront
from tests.transitions.older_parts import OLDER_PART_STORIES
from tests.transitions.order_stories import ORDER_STORIES
from tests.transitions.payment_stories import PAYMENT_STORIES
from tests.transitions.reference import (
    ORDERS_BEYOND,
    ORDERS_NAMED,
    PAYMENTS_BEYOND,
    PAYMENTS_NAMED,
    illegal_moves,
    orders_taken,
    payments_taken,
    unnamed_takers,
)
from tests.transitions.taker_stories import TAKER_STORIES
from tests.transitions.telling import Outcome, tell_once
from tests.transitions.told import Edge, edges

from ledger.domain.orders.statuses import OLDER_PART_EDGES, ORDER_EDGES, PAYMENT_EDGES, REPORTED_EDGES

pytestmark = pytest.mark.anyio

STORIES = [*PAYMENT_STORIES, *ORDER_STORIES, *TAKER_STORIES, *OLDER_PART_STORIES]


@pytest.fixture(scope="module")
async def outcomes(store: Storefront, of_this_run: Path) -> list[Outcome]:
    return await tell_once(store, STORIES, of_this_run / "edges.pickle")


def by_name(moves: frozenset[tuple[Any, Any]]) -> Any:
    """A test for each of these moves."""
    named = sorted(((origin and str(origin), str(target)) for origin, target in moves), key=str)
    return pytest.mark.parametrize("edge", named, ids=lambda edge: f"{edge[0] or 'new'}-{edge[1]}")


def insist_on(edge: Edge, told_for: Sequence[Outcome]) -> None:
    assert told_for, f"no story is told for {edge}"
    for each in told_for:
        assert each.fault is None, f"{each.story.name}: {each.fault}"
        assert each.missed() == [], each.story.name


@by_name(PAYMENT_EDGES)
async def test_a_payment_takes_this_move(outcomes: list[Outcome], edge: Edge) -> None:
    insist_on(edge, [each for each in outcomes if edge in edges(each.story.payments)])


@by_name(ORDER_EDGES | REPORTED_EDGES | OLDER_PART_EDGES)
async def test_an_order_takes_this_move(outcomes: list[Outcome], edge: Edge) -> None:
    insist_on(edge, [each for each in outcomes if edge in edges(each.story.orders)])


async def test_every_story_is_told_to_its_end(outcomes: list[Outcome]) -> None:
    assert [(each.story.name, each.fault) for each in outcomes if each.fault] == []
    assert [(each.story.name, each.missed()) for each in outcomes if each.missed()] == []


async def test_nothing_takes_any_other_move(outcomes: list[Outcome]) -> None:
    assert illegal_moves(outcomes) == set()


async def test_the_reference_names_everybody_who_takes_a_move(outcomes: list[Outcome]) -> None:
    assert unnamed_takers(outcomes[: -len(OLDER_PART_STORIES)]) == set()


async def test_whom_the_reference_names_takes_the_move(outcomes: list[Outcome]) -> None:
    assert ORDERS_NAMED - orders_taken(outcomes) == ORDERS_BEYOND
    assert PAYMENTS_NAMED - payments_taken(outcomes) == PAYMENTS_BEYOND
