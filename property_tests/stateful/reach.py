"""Which statuses orders and payments went through, event by event, in everything that a service was asked to do.

The rule a stranger would break: the tables of moves are written down here a second time, from the contract, so that a move
that somebody allows in the code by mistake is not allowed by its test as well.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

from tests.sealing import data_keys

from ledger.journal.codec import CODEC
from ledger.journal.connection import connect
from ledger.journal.reader import Reader
from ledger.orders.events import OrderCreated
from ledger.orders.evolve import evolve
from ledger.orders.state import Order

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
        "AUTHORIZED": "PENDING_CAPTURE PENDING_CANCELLATION EXPIRED",
        "PARTIALLY_AUTHORIZED": "PENDING_CAPTURE PENDING_CANCELLATION EXPIRED",
        "PENDING_CAPTURE": "CAPTURING PENDING_CANCELLATION",
        "CAPTURING": "CAPTURED PARTIALLY_CAPTURED AUTHORIZED FAILED",
        "CAPTURED": "PENDING_SETTLEMENT PENDING_REFUND DISPUTED",
        "PARTIALLY_CAPTURED": "CAPTURED CAPTURING PENDING_SETTLEMENT PENDING_REFUND DISPUTED",
        "PENDING_SETTLEMENT": "SETTLED CAPTURED PENDING_REFUND DISPUTED",
        "SETTLED": "PENDING_REFUND DISPUTED",
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
"""Money that is real although it was reported after an order was final (ADR 19), and a capture within a validation."""

WAITING = ("PROCESSING", "REFERENCE_GENERATED", "AUTHORIZED", "PARTIALLY_AUTHORIZED", "ACTION_REQUIRED", DDR, CHR,
           "CANCELLATION_REQUESTED")  # fmt: skip
"""Where a split order may go from any to any, when its newest part ends and an older one shows."""

_MERCHANTS = "select merchant_id from merchant_head order by merchant_id"


class Reach:
    """Every move of orders and of payments, and what was not legal among them (I7)."""

    def __init__(self) -> None:
        self.orders: Counter[Move] = Counter()
        self.payments: Counter[Move] = Counter()
        self.illegal: list[str] = []
        self.events = 0

    def took(self, before: Order | None, after: Order) -> None:
        """One event of an order."""
        self.events += 1
        was = None if before is None else str(before.status)
        if was != after.status or (before is not None and before.amount_paid != after.amount_paid):
            self._order((was, str(after.status)), split=after.terms.allow_partials)
        known = {} if before is None else {payment.payment_id: payment for payment in before.payments}
        for payment in after.payments:
            stood = known.get(payment.payment_id)
            if stood is None or stood.status != payment.status or stood.next_action != payment.next_action:
                self._payment((None if stood is None else str(stood.status), str(payment.status)))

    def whole(self, before: Order | None, after: Order) -> None:
        """What a commit has done to an order so far: the tables tell of the outcome, not of the steps to it."""
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
        """Moves of the two tables that nothing took, of orders and of payments."""
        return set(ORDER_MOVES) - set(self.orders), set(PAYMENT_MOVES) - set(self.payments)

    def report(self) -> str:
        """How much of the tables was reached, and what was not."""
        orders, payments = self.untaken
        wanted = len(ORDER_MOVES)
        lines = [f"  {self.events} events"]
        lines += [f"  {wanted - len(orders)} of {wanted} moves of orders"]
        lines += [f"  {len(PAYMENT_MOVES) - len(payments)} of {len(PAYMENT_MOVES)} moves of payments"]
        lines += [f"  not taken: {origin} -> {target}" for origin, target in sorted(chain(orders, payments), key=str)]
        return "\n".join(lines) + "\n"


async def reach_of(url: str) -> Reach:
    """What was reached in the whole database; `url` is the owner's connection string."""
    reach = Reach()
    async with await connect(url, "property-tests") as connection:
        merchants = await (await connection.execute(_MERCHANTS)).fetchall()
        for (merchant_id,) in merchants:
            reader, position = Reader("", CODEC, data_keys()), 0
            orders: dict[object, Order | None] = {}
            stood: dict[object, tuple[object, Order | None]] = {}  # before the commit that is being read
            while page := await reader.feed(connection, merchant_id, position, 10_000):
                position = page[-1].position
                for recorded in page:
                    if isinstance(recorded.event, OrderCreated):
                        orders[recorded.stream_id] = None
                    if recorded.stream_id in orders:
                        before = orders[recorded.stream_id]
                        after = orders[recorded.stream_id] = evolve(before, recorded.event)
                        reach.took(before, after)
                        command, first = stood.get(recorded.stream_id, (None, None))
                        if command != recorded.command_id:
                            first = before
                            stood[recorded.stream_id] = (recorded.command_id, before)
                        reach.whole(first, after)
    return reach
