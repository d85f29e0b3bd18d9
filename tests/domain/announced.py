"""Commands as `public_events` takes them, and what holds of the public events of an order whatever the command did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from ledger.domain.orders import events as e
from ledger.domain.orders.refund import RefundStatus
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.public_events.announcing import public_events
from ledger.domain.public_events.command import CommandStream, PublicEvent
from ledger.domain.public_events.topics import LINES
from ledger.domain.streams import TOPICS

STREAM = UUID(int=77)
_TOPIC_OF = {kind: topic for topic, kind in TOPICS.items()}
_ENDED = {
    PaymentStatus.FAILED: "payment.failed",
    PaymentStatus.EXPIRED: "payment.expired",
    PaymentStatus.CANCELLED: "payment.cancelled",
}


class Logged(NamedTuple):
    topic: str
    version: int
    position: int
    event: Any


class Log:
    """One stream that commands change, one after the other."""

    def __init__(self, evolve: Callable[[Any, Any], Any], *history: Any, stream_id: UUID = STREAM) -> None:
        self.state: Any = None
        self._evolve, self._stream_id, self._version, self._position = evolve, stream_id, 0, 0
        if history:
            self.command(history)

    def command(self, events: Sequence[Any], *, after: int = 0) -> CommandStream:
        """Folds the events of one command. Their positions follow those of the stream's, and `after`."""
        before, logged = self.state, []
        self._position = max(self._position, after)
        for event in events:
            self._version += 1
            self._position += 1
            self.state = self._evolve(self.state, event)
            logged.append(Logged(_TOPIC_OF[type(event)], self._version, self._position, event))
        return CommandStream(self._stream_id, before, self.state, logged)

    def announced(self, *events: Any) -> list[str]:
        """Returns the names of the public events of one command, each with the status before it where it has one."""
        return named(public_events([self.command(events)]))


def named(found: Sequence[PublicEvent]) -> list[str]:
    return [
        each.kind.name if each.previous_status is None else f"{each.kind.name} < {each.previous_status}"
        for each in found
    ]


def checked(stream: CommandStream) -> list[PublicEvent]:
    """Returns the public events of a command, and checks what holds of those of any stream."""
    found = public_events([stream])
    topics = {logged.position: logged.topic for logged in stream.events}
    for each in found:
        assert each.kind in LINES[topics[each.position]].kinds, (each.kind.name, topics[each.position])
        assert each.version == stream.events[-1].version
        assert each.previous_status is None or each.kind.is_status
    keys = [(each.position, each.kind, each.resource_id) for each in found]
    assert len(set(keys)) == len(keys), "an id follows from position, kind and resource"
    if not any(LINES[topic].kinds for topic in topics.values()):
        assert found == []
    return found


def check_order(stream: CommandStream) -> list[PublicEvent]:
    """Checks that each change that a command made to an order and its payments is announced exactly once."""
    found = checked(stream)
    before: Order | None = stream.before
    after: Order = stream.after
    names = Counter((each.resource_id, each.kind.name) for each in found)
    own = [each for each in found if each.kind.resource_type == "payment_order"]
    statuses = [each for each in own if each.kind.is_status]
    moved = before is not None and before.status is not after.status
    assert len(statuses) == moved
    assert [each.previous_status for each in statuses] == ([before.status] if before is not None and moved else [])
    assert all(action_of(after) == each.kind.name.partition(".")[2] for each in statuses)
    assert (before is None) == any(each.kind.name == "payment_order.created" for each in own)
    overpaid = after.overpaid_amount > (Decimal(0) if before is None else before.overpaid_amount)
    assert any(each.kind.name == "payment_order.overpaid" for each in own) == overpaid
    for payment in after.payments:
        id_ = payment.payment_id
        was = before.payment(id_) if before is not None and before.has_payment(id_) else None
        assert names[id_, "payment.created"] == (was is None)
        captured = len(payment.inflows) - (0 if was is None else len(was.inflows))
        assert names[id_, "payment.captured"] == captured
        became = payment.status if was is None or was.status is not payment.status else None
        for status, name in _ENDED.items():
            assert names[id_, name] == (became is status)
        granted = any(_is(logged, e.PaymentAuthorized, id_) for logged in stream.events)
        passed = captured or payment.status in _ENDED or payment.status is PaymentStatus.REQUIRES_ACTION
        assert names[id_, "payment.authorized"] == (granted and not passed)
        closed = len(payment.decided_disputes) - (0 if was is None else len(was.decided_disputes))
        assert names[id_, "payment.dispute_closed"] == closed
        assert names[id_, "payment.refunded"] == _carried_out(after, id_) - _carried_out(before, id_)
        assert names[id_, "payment.refund_failed"] == len(_failed(after, id_) - _failed(before, id_))
        if became is PaymentStatus.REQUIRES_ACTION:
            assert names[id_, "payment.requires_action"] == 1
    _check_order_of(found)
    return found


def action_of(order: Order) -> str:
    """Returns the last part of the kind that announces an order's status."""
    status = order.status.lower()
    return "action_required" if status.startswith("payer_authentication") else status


def _is(logged: Any, kind: type, payment_id: UUID) -> bool:
    return isinstance(logged.event, kind) and logged.event.payment_id == payment_id


def _carried_out(order: Order | None, payment_id: UUID) -> int:
    """Returns how many parts of refunds of a payment were carried out, also those that came back afterwards."""
    parts = (part for refund in (order.refunds if order else ()) for part in refund.parts)
    own = (part for part in parts if part.payment_id == payment_id)
    return sum(part.status is RefundStatus.SUCCEEDED or part.came_back for part in own)


def _failed(order: Order | None, payment_id: UUID) -> set[UUID]:
    """Returns the refunds of which a payment's part failed."""
    refunds = order.refunds if order else ()
    parts = ((refund.refund_id, refund.part(payment_id)) for refund in refunds)
    return {id_ for id_, part in parts if part is not None and part.status is RefundStatus.FAILED}


def _check_order_of(found: Sequence[PublicEvent]) -> None:
    """Checks the order of the announcement: the creation, payments, the order's status; positions within each."""
    places = [
        (0 if each.kind.name == "payment_order.created" else 1 if each.resource_type == "payment" else 2, each.position)
        for each in found
    ]
    assert places == sorted(places)
