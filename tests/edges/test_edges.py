"""Each move of the two tables is taken over HTTP by a story that is told for it, and nothing takes any other.

The stories stand in `payment_stories`, `order_stories` and `older_parts`; `matrix` tries every operation in every status.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from docs.generation.moves import TAKERS
from tests.api.storefront import Storefront
from tests.edges.matrix import WAYS, every_operation
from tests.edges.older_parts import OLDER_PART_STORIES
from tests.edges.order_stories import ORDER_STORIES
from tests.edges.payment_stories import PAYMENT_STORIES
from tests.edges.telling import Outcome, tell
from tests.edges.told import Edge, Story, edges, told

from ledger.orders.status import (
    OLDER_PART_EDGES,
    ORDER_EDGES,
    PAYMENT_EDGES,
    REPORTED_EDGES,
    OrderStatus,
    PaymentStatus,
    is_legal_move,
)

pytestmark = pytest.mark.anyio

STORIES = [*PAYMENT_STORIES, *ORDER_STORIES, *OLDER_PART_STORIES]
TRIED = [told(f"everything is tried of {way[0]}, {way[1]}", every_operation(*way)) for way in WAYS]

Moves = frozenset[tuple[Any, Any]]


@pytest.fixture(scope="module")
async def outcomes(store: Storefront) -> list[Outcome]:
    return await tell(store, [*STORIES, *TRIED])


def by_name(moves: Moves) -> Any:
    """A test for each of these moves."""
    named = sorted((origin and str(origin), str(target)) for origin, target in moves if origin)
    named += sorted((None, str(target)) for origin, target in moves if origin is None)
    return pytest.mark.parametrize("edge", named, ids=lambda edge: f"{edge[0] or 'new'}-{edge[1]}")


def insist_on(edge: Edge, told_for: Sequence[tuple[Story, Outcome]]) -> None:
    assert told_for, f"no story is told for {edge}"
    for story, outcome in told_for:
        if outcome.fault is not None:
            raise outcome.fault
        assert outcome.missed() == [], story.name


@by_name(PAYMENT_EDGES)
async def test_a_payment_takes_this_move(outcomes: list[Outcome], edge: Edge) -> None:
    insist_on(edge, [(each.story, each) for each in outcomes if edge in edges(each.story.payments)])


@by_name(ORDER_EDGES | REPORTED_EDGES | OLDER_PART_EDGES)
async def test_an_order_takes_this_move(outcomes: list[Outcome], edge: Edge) -> None:
    insist_on(edge, [(each.story, each) for each in outcomes if edge in edges(each.story.orders)])


async def test_every_story_is_told_to_its_end(outcomes: list[Outcome]) -> None:
    assert [(each.story.name, repr(each.fault)) for each in outcomes if each.fault] == []
    assert [(each.story.name, each.missed()) for each in outcomes if each.missed()] == []


async def test_no_payment_takes_any_other_move(outcomes: list[Outcome]) -> None:
    moves = {
        (move.before and PaymentStatus(move.before), PaymentStatus(move.after))
        for each in outcomes
        for move in each.payment_moves
    }
    assert moves - PAYMENT_EDGES == set()


async def test_no_order_takes_any_other_move(outcomes: list[Outcome]) -> None:
    moves = {
        move[:2] + move[3:]
        for each in outcomes
        for went in each.went
        for move in went.order
        if move.before != move.after
    }
    found = {
        (before, after)
        for before, after, split in moves
        if not is_legal_move(before and OrderStatus(before), OrderStatus(after), split=split)
    }
    assert found == set()


async def test_everything_is_tried_in_every_status(outcomes: list[Outcome]) -> None:
    assert {way[0] for way in WAYS} == set(OrderStatus)
    assert {way[1] for way in WAYS} - {""} == set(PaymentStatus)
    by_themselves = {"confirmation", "due", "expiry", "recovery"}
    for each in outcomes[len(STORIES) :]:
        assert set(TAKERS) - by_themselves <= each.asked, each.story.name
