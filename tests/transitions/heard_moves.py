"""By which messages a merchant's program hears of each move of the contract's tables 2.1, 2.2 and 2.3.

Name here every move, and give the reason for each that has no message of its own. These tables are written from the
contract, beside those of `ledger.domain.public_events` that the code announces by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from tests.transitions.context import Edge
from tests.transitions.scenario import CHR, DDR

Heard = tuple[str, ...]
"""What is heard of one move: the last parts of the names of the kinds, none for a move without a message."""

_PAYMENT_HEARD: Final = """
    -:                    CREATED=created
    CREATED:              REQUIRES_ACTION=requires_action FAILED=failed CANCELLED=cancelled
    PENDING_AUTHORIZATION: AUTHORIZED=authorized PARTIALLY_AUTHORIZED=authorized
    PENDING_AUTHORIZATION: REQUIRES_ACTION=requires_action FAILED=failed
    REQUIRES_ACTION:      REQUIRES_ACTION=requires_action AUTHORIZED=authorized
    REQUIRES_ACTION:      FAILED=failed EXPIRED=expired CANCELLED=cancelled
    REQUIRES_ACTION:      CAPTURED=captured PARTIALLY_CAPTURED=captured
    AUTHORIZED:           CAPTURED=captured EXPIRED=expired
    PARTIALLY_AUTHORIZED: PARTIALLY_CAPTURED=captured EXPIRED=expired
    CAPTURING:            CAPTURED=captured PARTIALLY_CAPTURED=captured FAILED=failed
    CAPTURED:             DISPUTED=disputed
    PARTIALLY_CAPTURED:   CAPTURED=captured DISPUTED=disputed
    PENDING_SETTLEMENT:   SETTLED=settled DISPUTED=disputed
    SETTLED:              DISPUTED=disputed
    PARTIALLY_REFUNDED:   DISPUTED=disputed
    PENDING_CANCELLATION: CANCELLED=cancelled
    PENDING_REFUND:       REFUNDED=refunded PARTIALLY_REFUNDED=refunded|refund_failed
    PENDING_REFUND:       CAPTURED=refund_failed PARTIALLY_CAPTURED=refund_failed
    PENDING_REFUND:       PENDING_SETTLEMENT=refund_failed SETTLED=refund_failed
    DISPUTED:             REFUNDED=dispute_closed PARTIALLY_REFUNDED=dispute_closed
    DISPUTED:             CAPTURED=dispute_closed PARTIALLY_CAPTURED=dispute_closed
    DISPUTED:             PENDING_SETTLEMENT=dispute_closed SETTLED=dispute_closed
    EXPIRED:              CAPTURED=captured,late_deposit
    CANCELLED:            CAPTURED=captured,late_deposit
"""

_A_CALL_BEGINS: Final = """
    CREATED:            PENDING_AUTHORIZATION
    REQUIRES_ACTION:    PENDING_AUTHORIZATION
    PENDING_CAPTURE:    CAPTURING
    PARTIALLY_CAPTURED: CAPTURING
"""
_THE_MONEY_IS_HEARD_OF: Final = """
    AUTHORIZED:           PENDING_CAPTURE
    PARTIALLY_AUTHORIZED: PENDING_CAPTURE
"""
_THE_ORDER_IS_HEARD_OF: Final = """
    PENDING_AUTHORIZATION: PENDING_CANCELLATION
    AUTHORIZED:           PENDING_CANCELLATION
    PARTIALLY_AUTHORIZED: PENDING_CANCELLATION
    PENDING_CAPTURE:      PENDING_CANCELLATION
    CAPTURED:             PENDING_REFUND
    PARTIALLY_CAPTURED:   PENDING_REFUND
    PENDING_SETTLEMENT:   PENDING_REFUND
    SETTLED:              PENDING_REFUND
    PARTIALLY_REFUNDED:   PENDING_REFUND
"""
_WITHOUT_EFFECT: Final = """
    CAPTURING: AUTHORIZED
"""
# If the outcome of the authorisation is known only now, it is heard of.
_VOIDED_WITHOUT_EFFECT: Final = """
    PENDING_CANCELLATION: AUTHORIZED=|authorized PARTIALLY_AUTHORIZED=|authorized
"""
_A_BATCH_MAY_CHANGE: Final = """
    CAPTURED:           PENDING_SETTLEMENT
    PARTIALLY_CAPTURED: PENDING_SETTLEMENT
    PENDING_SETTLEMENT: CAPTURED
    SETTLED:            CAPTURED
"""
# The contract's tables have no such move: a refund comes back that had succeeded.
_COMES_BACK: Final = """
    REFUNDED:           CAPTURED=refund_failed PARTIALLY_CAPTURED=refund_failed PARTIALLY_REFUNDED=refund_failed
    PARTIALLY_REFUNDED: CAPTURED=refund_failed PARTIALLY_CAPTURED=refund_failed PARTIALLY_REFUNDED=refund_failed
"""

_STATUSES_OF_PAYMENTS: Final = frozenset({"requires_action", "authorized", "failed", "expired", "cancelled"})
"""What tells a status. It is heard of only if the command goes on to nothing that is heard of."""


def _parsed(table: str) -> Iterator[tuple[Edge, tuple[Heard, ...]]]:
    """Yields the moves of a table with lines of `origin: target=kind,kind|kind`, each with what may be heard of it."""
    for line in table.strip().splitlines():
        origin, _, targets = line.strip().partition(":")
        for move in targets.split():
            target, _, heard = move.partition("=")
            alternatives = tuple(tuple(filter(None, each.split(","))) for each in heard.split("|"))
            yield (None if origin == "-" else origin, target), alternatives


PAYMENT_MOVES: Final[Mapping[Edge, tuple[Heard, ...]]] = dict(
    each
    for table in (
        _PAYMENT_HEARD,
        _A_CALL_BEGINS,
        _THE_MONEY_IS_HEARD_OF,
        _THE_ORDER_IS_HEARD_OF,
        _WITHOUT_EFFECT,
        _VOIDED_WITHOUT_EFFECT,
        _A_BATCH_MAY_CHANGE,
    )
    for each in _parsed(table)
)
"""Every move of a payment, with what may be heard of it."""

_REPORTED: Final = dict(_parsed(_COMES_BACK))


def readings(edges: Sequence[Edge]) -> Iterator[list[Heard]]:
    """Yields, for the moves that a payment made in one command, each way in which they may be heard of, move by move."""
    for chosen in product(*[PAYMENT_MOVES[edge] if edge in PAYMENT_MOVES else _REPORTED[edge] for edge in edges]):
        yield [
            tuple(kind for kind in heard if kind not in _STATUSES_OF_PAYMENTS or not any(chosen[n + 1 :]))
            for n, heard in enumerate(chosen)
        ]


def heard_of_order(edge: Edge) -> str | None:
    """Returns what is heard of a move of an order from one command to the next, None of one that keeps the status."""
    before, after = edge
    if before is None:
        return "created"
    if before == after:
        return None
    return "action_required" if after in {DDR, CHR} else after.lower()


def heard_of_subscription(edge: Edge) -> str:
    """Returns what is heard of a move of a subscription."""
    before, after = edge
    if before is None:
        return "created"
    return "activated" if after == "ACTIVE" else after.lower()
