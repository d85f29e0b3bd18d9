"""The moves that orders and payments took, event by event, in a session of the stateful test.

Keep the tables of moves here as a second copy, written from the contract: a move that the code allows by mistake must
fail here.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from itertools import chain
from uuid import UUID

from ledger.domain.orders.events import OrderCreated
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.journal.reader import RecordedEvent

Move = tuple[str | None, str]

DDR, CHR = "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED", "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED"
HELD = "CAPTURED PARTIALLY_CAPTURED PENDING_SETTLEMENT SETTLED PARTIALLY_REFUNDED"


def _moves(table: dict[str | None, str]) -> frozenset[Move]:
    return frozenset((origin, target) for origin, targets in table.items() for target in targets.split())


PAYMENT_MOVES = _moves(
    {
        None: "CREATED",
        "CREATED": "PENDING_AUTHORIZATION REQUIRES_ACTION FAILED CANCELLED",
        "PENDING_AUTHORIZATION": "AUTHORIZED PARTIALLY_AUTHORIZED REQUIRES_ACTION FAILED PENDING_CANCELLATION",
        "REQUIRES_ACTION": "REQUIRES_ACTION PENDING_AUTHORIZATION AUTHORIZED FAILED EXPIRED CANCELLED CAPTURED "
        "PARTIALLY_CAPTURED",
        "AUTHORIZED": "CAPTURED PENDING_CAPTURE PENDING_CANCELLATION EXPIRED",
        "PARTIALLY_AUTHORIZED": "PARTIALLY_CAPTURED PENDING_CAPTURE PENDING_CANCELLATION EXPIRED",
        "PENDING_CAPTURE": "CAPTURING PENDING_CANCELLATION",
        "CAPTURING": "CAPTURED PARTIALLY_CAPTURED AUTHORIZED FAILED",
        "CAPTURED": "PENDING_SETTLEMENT PENDING_REFUND DISPUTED",
        "PARTIALLY_CAPTURED": "CAPTURED CAPTURING PENDING_SETTLEMENT PENDING_REFUND DISPUTED",
        "PENDING_SETTLEMENT": "SETTLED CAPTURED PENDING_REFUND DISPUTED",
        "SETTLED": "CAPTURED PENDING_REFUND DISPUTED",
        "PARTIALLY_REFUNDED": "PENDING_REFUND DISPUTED",
        "PENDING_REFUND": f"REFUNDED {HELD}",
        "DISPUTED": f"REFUNDED {HELD}",
        "PENDING_CANCELLATION": "CANCELLED AUTHORIZED PARTIALLY_AUTHORIZED",
        "EXPIRED": "CAPTURED",
        "CANCELLED": "CAPTURED",
    }
)
ORDER_MOVES = _moves(
    {
        None: "PENDING PROCESSING",
        "PENDING": "PROCESSING PARTIALLY_PAID COMPLETED CANCELLED",
        "PROCESSING": "COMPLETED AUTHORIZED PARTIALLY_AUTHORIZED ACTION_REQUIRED FAILED REFERENCE_GENERATED PARTIALLY_PAID "
        f"PENDING CANCELLATION_REQUESTED {DDR} {CHR}",
        DDR: f"{CHR} AUTHORIZED COMPLETED FAILED PENDING PARTIALLY_PAID CANCELLED PROCESSING",
        CHR: "AUTHORIZED FAILED PENDING PARTIALLY_PAID CANCELLED PROCESSING",
        "ACTION_REQUIRED": "AUTHORIZED COMPLETED FAILED PENDING PARTIALLY_PAID CANCELLED PROCESSING",
        "REFERENCE_GENERATED": "COMPLETED PARTIALLY_PAID FAILED PENDING CANCELLED PROCESSING",
        "AUTHORIZED": "COMPLETED PARTIALLY_PAID CANCELLATION_REQUESTED FAILED PENDING PROCESSING",
        "PARTIALLY_AUTHORIZED": "PARTIALLY_PAID COMPLETED CANCELLATION_REQUESTED FAILED PENDING PROCESSING",
        "PARTIALLY_PAID": "PARTIALLY_PAID COMPLETED REFUND_PROCESSING CANCELLATION_REQUESTED REFUNDED PARTIALLY_REFUNDED",
        "COMPLETED": "REFUND_PROCESSING PARTIALLY_REFUNDED REFUNDED PARTIALLY_PAID",
        "REFUND_PROCESSING": "COMPLETED PARTIALLY_REFUNDED REFUNDED PARTIALLY_PAID",
        "PARTIALLY_REFUNDED": "PARTIALLY_REFUNDED REFUND_PROCESSING REFUNDED",
        "CANCELLATION_REQUESTED": "CANCELLED AUTHORIZED PARTIALLY_AUTHORIZED PENDING PARTIALLY_PAID COMPLETED REFUNDED",
        "FAILED": "PROCESSING COMPLETED PARTIALLY_PAID",
        "CANCELLED": "COMPLETED PARTIALLY_PAID",
    }
)
REPORTED_MOVES = _moves(
    {
        CHR: "COMPLETED",
        "REFUNDED": "PARTIALLY_REFUNDED PARTIALLY_PAID COMPLETED",
        "CANCELLATION_REQUESTED": "PARTIALLY_REFUNDED",
    }
)
"""The moves of money that is reported after an order was final (ADR 19), and of a capture within a validation."""

WAITING = ("PROCESSING", "REFERENCE_GENERATED", "AUTHORIZED", "PARTIALLY_AUTHORIZED", "ACTION_REQUIRED", DDR, CHR,
           "CANCELLATION_REQUESTED")  # fmt: skip
"""The statuses of waiting parts. A split order can move from any to any of them when its newest part ends."""


class MoveCoverage:
    """Counts the moves of orders and payments, and collects the illegal ones (I7)."""

    def __init__(self) -> None:
        self.orders: Counter[Move] = Counter()
        self.payments: Counter[Move] = Counter()
        self.illegal: list[str] = []
        self.events = 0

    def record_event(self, before: Order | None, after: Order) -> None:
        """Records the moves of one event of an order."""
        self.events += 1
        was = None if before is None else str(before.status)
        if was != after.status or (before is not None and before.amount_paid != after.amount_paid):
            self._order((was, str(after.status)), split=after.terms.allow_partials)
        known = {} if before is None else {payment.payment_id: payment for payment in before.payments}
        for payment in after.payments:
            previous = known.get(payment.payment_id)
            if previous is None or previous.status != payment.status or previous.next_action != payment.next_action:
                self._payment((None if previous is None else str(previous.status), str(payment.status)))

    def record_commit(self, before: Order | None, after: Order) -> None:
        """Records an order's move since the start of the current commit: the tables name outcomes, not steps."""
        move = (None if before is None else str(before.status), str(after.status))
        if move in ORDER_MOVES:
            self.orders[move] += 1

    def _order(self, move: Move, *, split: bool) -> None:
        older = split and move[0] in WAITING and move[1] in WAITING
        if move[0] != move[1] and not (move in ORDER_MOVES or move in REPORTED_MOVES or older):
            self.illegal.append(f"order {move[0]} -> {move[1]}")
        self.orders[move] += 1

    def _payment(self, move: Move) -> None:
        if move[0] != move[1] and move not in PAYMENT_MOVES:
            self.illegal.append(f"payment {move[0]} -> {move[1]}")
        self.payments[move] += 1

    @property
    def untaken(self) -> tuple[set[Move], set[Move]]:
        """The moves of the two tables that were not taken: of orders, and of payments."""
        return set(ORDER_MOVES) - set(self.orders), set(PAYMENT_MOVES) - set(self.payments)

    def report(self) -> str:
        """Returns the coverage of both tables as text, with the moves that were not taken."""
        orders, payments = self.untaken
        wanted = len(ORDER_MOVES)
        lines = [f"  {self.events} events"]
        lines += [f"  {wanted - len(orders)} of {wanted} moves of orders"]
        lines += [f"  {len(PAYMENT_MOVES) - len(payments)} of {len(PAYMENT_MOVES)} moves of payments"]
        lines += [f"  not taken: {origin} -> {target}" for origin, target in sorted(chain(orders, payments), key=str)]
        return "\n".join(lines) + "\n"


class LogFollower:
    """Folds one merchant's log event by event into its orders, and records their moves.

    `versions` has the number of events of each order, `times` when each event of the log was recorded. Asserts that positions have no gap (I10) and that an external id has one order (I11).
    """

    def __init__(self, coverage: MoveCoverage) -> None:
        self.orders: dict[UUID, Order] = {}
        self.versions: dict[UUID, int] = {}
        self.times: list[datetime] = []
        self.position = 0
        self._coverage = coverage
        self._names: set[str] = set()
        self._before_commit: dict[UUID, tuple[UUID, Order | None]] = {}  # before the commit that is being read

    def see(self, recorded: RecordedEvent) -> None:
        """Folds the next event of the log."""
        assert recorded.position == self.position + 1, f"{recorded.position} follows {self.position}"
        self.position = recorded.position
        self.times.append(recorded.recorded_at)
        stream_id, event = recorded.stream_id, recorded.event
        if isinstance(event, OrderCreated):
            assert event.external_id not in self._names, f"two orders called {event.external_id}"
            self._names.add(event.external_id)
        elif stream_id not in self.orders:
            return
        before = self.orders.get(stream_id)
        after = self.orders[stream_id] = evolve(before, event)
        self.versions[stream_id] = recorded.version
        self._coverage.record_event(before, after)
        command, first = self._before_commit.get(stream_id, (None, None))
        if command != recorded.command_id:
            first = before
            self._before_commit[stream_id] = (recorded.command_id, before)
        self._coverage.record_commit(first, after)
