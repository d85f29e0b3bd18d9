"""Who takes which move, in the stories and in the reference's tables.

The rule a stranger would break: what the reference names and no story tells stands here with its reason, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from docs.generation.moves import ORDER_TAKERS, PAYMENT_TAKERS
from tests.transitions.scene import Move
from tests.transitions.telling import Outcome
from tests.transitions.told import CHR, DDR, Edge

from ledger.domain.orders.statuses import PAYMENT_EDGES, OrderStatus, PaymentStatus, is_legal_move

Taken = tuple[Edge, str]


def illegal_moves(outcomes: Iterable[Outcome]) -> set[tuple[str, Move]]:
    """Moves event by event that no table has, with the story's name."""
    found = set()
    for each in outcomes:
        found |= {(each.story.name, move) for went in each.went for move in went.order if not _order_may(move)}
        found |= {(each.story.name, move) for move in each.payment_moves if not _payment_may(move)}
    return found


def unnamed_takers(outcomes: Sequence[Outcome]) -> set[Taken]:
    """Who takes a move of the tables without being named there. Of an order what counts is what somebody could have read, from
    commit to commit.
    """
    seen = _taken(move for each in outcomes for went in each.went for move in went.seen)
    tabled = {edge for edge, _ in ORDERS_NAMED}
    return ({each for each in seen if each[0] in tabled} - ORDERS_NAMED) | (payments_taken(outcomes) - PAYMENTS_NAMED)


def _order_may(move: Move) -> bool:
    before = move.before and OrderStatus(move.before)
    return move.before == move.after or is_legal_move(before or None, OrderStatus(move.after), split=move.split)


def _payment_may(move: Move) -> bool:
    return (move.before and PaymentStatus(move.before), PaymentStatus(move.after)) in PAYMENT_EDGES


def orders_taken(outcomes: Iterable[Outcome]) -> set[Taken]:
    """All moves of orders: event by event, commit by commit, request by request."""
    return _taken(
        move for each in outcomes for went in each.went for way in (went.order, went.seen, went.asked) for move in way
    )


def payments_taken(outcomes: Iterable[Outcome]) -> set[Taken]:
    return _taken(move for each in outcomes for move in each.payment_moves)


def _taken(moves: Iterable[Move]) -> set[Taken]:
    return {((move.before, move.after), move.taker) for move in moves}


def _named(takers: Mapping[tuple[Any, Any], Iterable[str]]) -> set[Taken]:
    return {
        ((origin and str(origin), str(target)), taker) for (origin, target), some in takers.items() for taker in some
    }


ORDERS_NAMED, PAYMENTS_NAMED = _named(ORDER_TAKERS), _named(PAYMENT_TAKERS)


def _beyond(table: str) -> set[Taken]:
    """Lines of `origin: target=taker,taker`."""
    found = set()
    for line in table.strip().splitlines():
        origin, _, targets = line.strip().partition(":")
        for move in targets.split():
            target, _, takers = move.partition("=")
            found |= {((origin, target), taker) for taker in takers.split(",")}
    return found


# What the sandbox's company never does, and another may. The pure core is told each of these.
_LESS_AFTER_AUTHENTICATION = f"""
    ACTION_REQUIRED: PROCESSING=validate
    {CHR}: PROCESSING=validate
    PARTIALLY_AUTHORIZED: PARTIALLY_PAID=due
"""
_NO_AFTER_DEVICE_DATA = f"""
    {DDR}: FAILED=device,recovery PENDING=device,recovery
"""
_PUT_OFF_CAPTURE_REFUSED = """
    AUTHORIZED: FAILED=due PENDING=due
    PARTIALLY_AUTHORIZED: FAILED=capture,due,recovery PENDING=capture,due,recovery
"""
_LOST_ON_THE_WAY = """
    CANCELLATION_REQUESTED: PARTIALLY_AUTHORIZED=recovery
"""
_ANSWERED_TOO_LATE = """
    FAILED: COMPLETED=late PARTIALLY_PAID=late
    CANCELLED: COMPLETED=late PARTIALLY_PAID=late
"""
# Money comes while a cancellation waits for its own answer: a window of one call.
_IN_BETWEEN = """
    CANCELLATION_REQUESTED: COMPLETED=cancel
"""
ORDERS_BEYOND = set().union(
    *map(
        _beyond,
        (
            _LESS_AFTER_AUTHENTICATION,
            _NO_AFTER_DEVICE_DATA,
            _PUT_OFF_CAPTURE_REFUSED,
            _LOST_ON_THE_WAY,
            _ANSWERED_TOO_LATE,
            _IN_BETWEEN,
        ),
    )
)
PAYMENTS_BEYOND = _beyond(
    """
    PENDING_AUTHORIZATION: PARTIALLY_AUTHORIZED=device,validate
    PARTIALLY_AUTHORIZED: PENDING_CAPTURE=device,validate
    REQUIRES_ACTION: PENDING_AUTHORIZATION=validate
    CAPTURING: PARTIALLY_CAPTURED=device,validate,due
    CAPTURING: FAILED=due AUTHORIZED=recovery
    CREATED: FAILED=recovery
    EXPIRED: CAPTURED=late
    CANCELLED: CAPTURED=late
    """
)
"""For the same reasons."""
