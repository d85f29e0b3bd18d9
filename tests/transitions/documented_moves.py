"""Which operation takes which move: in the scenarios, and in the tables that `docs/reference/statuses.md` publishes.

List here, with the reason, every documented move that no scenario takes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from docs.generation.moves import ORDER_TAKERS, PAYMENT_TAKERS
from tests.transitions.context import Edge, Move
from tests.transitions.runner import Outcome
from tests.transitions.scenario import CHR, DDR

from ledger.domain.orders.statuses import (
    PAYMENT_EDGES,
    REPORTED_PAYMENT_EDGES,
    OrderStatus,
    PaymentStatus,
    is_legal_move,
)

Taken = tuple[Edge, str]


def illegal_moves(outcomes: Iterable[Outcome]) -> set[tuple[str, Move]]:
    """Returns the moves, event by event, that are in no table, with the names of their scenarios."""
    found = set()
    for each in outcomes:
        name = each.scenario.name
        found |= {(name, move) for order in each.orders for move in order.by_event if not _is_legal_order_move(move)}
        found |= {(name, move) for move in each.payment_moves if not _is_legal_payment_move(move)}
    return found


def undocumented_moves(outcomes: Sequence[Outcome]) -> set[Taken]:
    """Returns the operations that take a move of the tables and are not documented there.

    Of an order only the moves count that a reader can see: from commit to commit.
    """
    visible = _taken(move for each in outcomes for order in each.orders for move in order.by_commit)
    tabled = {edge for edge, _ in DOCUMENTED_ORDER_MOVES}
    of_orders = {each for each in visible if each[0] in tabled} - DOCUMENTED_ORDER_MOVES
    moved = {each for each in payment_moves_taken(outcomes) if each[1] != "reversal"}
    return of_orders | (moved - DOCUMENTED_PAYMENT_MOVES)


def _is_legal_order_move(move: Move) -> bool:
    before = move.before and OrderStatus(move.before)
    return move.before == move.after or is_legal_move(before or None, OrderStatus(move.after), split=move.split)


def _is_legal_payment_move(move: Move) -> bool:
    edge = (move.before and PaymentStatus(move.before), PaymentStatus(move.after))
    return edge in PAYMENT_EDGES | REPORTED_PAYMENT_EDGES


def order_moves_taken(outcomes: Iterable[Outcome]) -> set[Taken]:
    """Returns all moves of orders: event by event, commit by commit, request by request."""
    return _taken(
        move
        for each in outcomes
        for order in each.orders
        for moves in (order.by_event, order.by_commit, order.by_request)
        for move in moves
    )


def payment_moves_taken(outcomes: Iterable[Outcome]) -> set[Taken]:
    return _taken(move for each in outcomes for move in each.payment_moves)


def _taken(moves: Iterable[Move]) -> set[Taken]:
    return {((move.before, move.after), move.operation) for move in moves}


def _documented(operations: Mapping[tuple[Any, Any], Iterable[str]]) -> set[Taken]:
    return {
        ((origin and str(origin), str(target)), operation)
        for (origin, target), names in operations.items()
        for operation in names
    }


DOCUMENTED_ORDER_MOVES, DOCUMENTED_PAYMENT_MOVES = _documented(ORDER_TAKERS), _documented(PAYMENT_TAKERS)


def _parsed(table: str) -> set[Taken]:
    """Returns the moves of a table with lines of `origin: target=operation,operation`."""
    found = set()
    for line in table.strip().splitlines():
        origin, _, targets = line.strip().partition(":")
        for move in targets.split():
            target, _, operations = move.partition("=")
            found |= {((origin, target), operation) for operation in operations.split(",")}
    return found


# What the sandbox's processor never does, and another one can. The tests of the pure core cover each of these.
_LESS_AFTER_AUTHENTICATION = f"""
    ACTION_REQUIRED: PROCESSING=validate
    {CHR}: PROCESSING=validate
    PARTIALLY_AUTHORIZED: PARTIALLY_PAID=due
"""
_DECLINE_AFTER_DEVICE_DATA = f"""
    {DDR}: FAILED=device,recovery PENDING=device,recovery
"""
_SCHEDULED_CAPTURE_REFUSED = """
    PARTIALLY_AUTHORIZED: FAILED=capture,due,recovery PENDING=capture,due,recovery
"""
_VOID_OF_HALF_REFUSED = """
    CANCELLATION_REQUESTED: PARTIALLY_AUTHORIZED=due
"""
# A session at a processor that authorises when the payer has acted ends there before it ends here.
_SESSIONS_THAT_AUTHORISE = f"""
    {CHR}: AUTHORIZED=expiry PENDING=due PARTIALLY_PAID=cancel,expiry,due
    ACTION_REQUIRED: AUTHORIZED=expiry COMPLETED=expiry PENDING=due
    ACTION_REQUIRED: PARTIALLY_PAID=cancel,expiry,due
"""
_ANSWERED_TOO_LATE = """
    FAILED: COMPLETED=late PARTIALLY_PAID=late
    CANCELLED: COMPLETED=late PARTIALLY_PAID=late
"""
# Money arrives while the call of a cancellation waits for its answer.
_MONEY_DURING_CANCELLATION = """
    CANCELLATION_REQUESTED: COMPLETED=cancel
"""
ORDER_MOVES_OF_OTHER_PROCESSORS = set().union(
    *map(
        _parsed,
        (
            _LESS_AFTER_AUTHENTICATION,
            _DECLINE_AFTER_DEVICE_DATA,
            _SCHEDULED_CAPTURE_REFUSED,
            _VOID_OF_HALF_REFUSED,
            _SESSIONS_THAT_AUTHORISE,
            _ANSWERED_TOO_LATE,
            _MONEY_DURING_CANCELLATION,
        ),
    )
)
PAYMENT_MOVES_OF_OTHER_PROCESSORS = _parsed(
    """
    PENDING_AUTHORIZATION: PARTIALLY_AUTHORIZED=device,validate
    PARTIALLY_AUTHORIZED: PARTIALLY_CAPTURED=device,validate
    PARTIALLY_AUTHORIZED: PENDING_CAPTURE=create,charge,pay,device,validate,recovery
    PENDING_CAPTURE: CAPTURING=create,charge,pay,device,validate,recovery
    REQUIRES_ACTION: PENDING_AUTHORIZATION=validate
    REQUIRES_ACTION: AUTHORIZED=expiry,cancel,due FAILED=due EXPIRED=recovery CANCELLED=due,recovery
    CAPTURING: PARTIALLY_CAPTURED=create,charge,pay,device,validate,due
    CAPTURING: AUTHORIZED=due
    AUTHORIZED: PENDING_CAPTURE=due
    PENDING_CANCELLATION: PARTIALLY_AUTHORIZED=cancel,due
    CREATED: FAILED=recovery
    EXPIRED: CAPTURED=late
    CANCELLED: CAPTURED=late
    """
)
"""For the same reasons."""
