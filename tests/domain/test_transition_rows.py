"""Every row of the contract's tables 2.1 and 2.2 is taken, and no move outside the tables."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.domain.builders import payment_id
from tests.domain.scenario import given
from tests.domain.transition_rows import (
    NO_ANSWER_ROWS,
    OLDER_PART_ROWS,
    ORDER_ROWS,
    PAYMENT_ROWS,
    REPORTED_ROWS,
    SALE_ROWS,
)

from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import (
    OLDER_PART_EDGES,
    ORDER_EDGES,
    PAYMENT_EDGES,
    REPORTED_EDGES,
    OrderStatus,
    PaymentStatus,
    is_legal_move,
)


def named(row: Any) -> str:
    origin, trigger, guard, target = row[:4]
    return f"{origin or 'new'}, {trigger}{guard and ', '}{guard}: {target}"


def states(history: Any, command: Any) -> list[Order | None]:
    """Returns the order before the command, and after each event that follows from it."""
    order: Order | None = None
    for event in history:
        order = evolve(order, event)
    found = [order]
    for event in given(*history).when(command).then_events():
        order = evolve(order, event)
        found.append(order)
    return found


def moves(line: list[Any]) -> set[Any]:
    """Returns the moves from each status to the next, and from the first to the last."""
    return {*pairwise(line), (line[0], line[-1])}


def first_payment(order: Order | None) -> PaymentStatus | None:
    exists = order is not None and order.has_payment(payment_id(1))
    return order.payment(payment_id(1)).status if exists and order is not None else None


@pytest.mark.parametrize("row", [*PAYMENT_ROWS, *NO_ANSWER_ROWS], ids=named)
def test_a_payment_moves_as_its_row_states(row: Any) -> None:
    origin, _, _, target, history, command = row
    statuses = [first_payment(order) for order in states(history, command)]
    assert statuses[0] in {origin, None}
    assert (origin, target) in moves(statuses)
    for before, after in pairwise(statuses):
        assert before is after or (before, after) in PAYMENT_EDGES


@pytest.mark.parametrize("row", SALE_ROWS, ids=named)
def test_a_payment_takes_two_moves_where_one_call_did_both(row: Any) -> None:
    origin, _, _, target, history, command = row
    assert [first_payment(order) for order in states(history, command)][1:] == [origin, target]


@pytest.mark.parametrize("row", [*ORDER_ROWS, *OLDER_PART_ROWS, *REPORTED_ROWS], ids=named)
def test_an_order_moves_as_its_row_states(row: Any) -> None:
    origin, _, _, target, history, command = row
    orders = states(history, command)
    statuses = [None if order is None else order.status for order in orders]
    assert statuses[0] is origin
    assert (origin, target) in moves(statuses)
    split = bool(orders[-1] and orders[-1].terms.allow_partials)
    for before, after in pairwise(statuses):
        assert before is after or (after is not None and is_legal_move(before, after, split=split))


def test_every_move_of_a_payment_has_a_row() -> None:
    assert {(row[0], row[3]) for row in [*PAYMENT_ROWS, *SALE_ROWS]} == PAYMENT_EDGES


def test_every_move_of_an_order_has_a_row() -> None:
    rows = {(row[0], row[3]) for row in ORDER_ROWS}
    stays = {(OrderStatus.PROCESSING, OrderStatus.PROCESSING)}  # a time-out moves nothing
    assert rows - stays == ORDER_EDGES


def test_every_move_outside_the_contracts_table_has_a_row() -> None:
    assert {(row[0], row[3]) for row in OLDER_PART_ROWS} - ORDER_EDGES == OLDER_PART_EDGES
    assert {(row[0], row[3]) for row in REPORTED_ROWS} == REPORTED_EDGES
    assert not ORDER_EDGES & (OLDER_PART_EDGES | REPORTED_EDGES)


def test_an_order_of_one_tender_never_takes_the_moves_of_older_parts() -> None:
    assert not any(is_legal_move(*move, split=False) for move in OLDER_PART_EDGES)
