"""The public events of a customer and of a customer's saved cards in one command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from ledger.domain.customers.state import Customer
from ledger.domain.payment_methods.state import SavedMethod, SavedMethods
from ledger.domain.public_events import kinds
from ledger.domain.public_events.command import CommandStream, PublicEvent
from ledger.domain.public_events.kinds import Kind
from ledger.domain.public_events.lookup import causes, last_cause


def announced(stream: CommandStream) -> list[PublicEvent]:
    """Returns the public event of a customer: created, deleted or updated; none about one that was deleted before."""
    before: Customer | None = stream.before
    after: Customer = stream.after
    if before is not None and before.erased:
        return []
    if after.erased:
        kind = kinds.CUSTOMER_DELETED
    else:
        kind = kinds.CUSTOMER_CREATED if before is None else kinds.CUSTOMER_UPDATED
    return [_event(stream, kind, stream.stream_id, last_cause(stream, kind))] if any(causes(stream, kind)) else []


def announced_methods(stream: CommandStream) -> list[PublicEvent]:
    """Returns the public events of a customer's cards: what was saved, deleted, or is shown otherwise than before."""
    return sorted(_of_methods(stream), key=lambda each: each.position)


def _of_methods(stream: CommandStream) -> Iterator[PublicEvent]:
    before: SavedMethods | None = stream.before
    after: SavedMethods = stream.after
    earlier = {} if before is None else {each.payment_method_id: each for each in before.methods}
    for method in after.methods:
        was = earlier.get(method.payment_method_id)
        kind = None if method is was else _kind(was, method)
        if kind is not None:
            id_ = method.payment_method_id
            is_own = any(causes(stream, kind, payment_method_id=id_))
            ids = {"payment_method_id": id_} if is_own else {}  # the default moved away from it by another one's event
            yield _event(stream, kind, id_, last_cause(stream, kind, **ids))


def _kind(before: SavedMethod | None, after: SavedMethod) -> Kind | None:
    if before is None:
        return None if after.deleted else kinds.METHOD_SAVED
    if after.deleted:
        return None if before.deleted else kinds.METHOD_DELETED
    return None if _shown(before) == _shown(after) else kinds.METHOD_UPDATED


def _shown(method: SavedMethod) -> tuple[Any, ...]:
    """Returns what is shown of a card and can change. The subscriptions that are charged to it are not shown."""
    return method.card, method.billing, method.nickname, method.is_default


def _event(stream: CommandStream, kind: Kind, resource_id: UUID, position: int) -> PublicEvent:
    return PublicEvent(
        kind=kind,
        resource_id=resource_id,
        stream_id=stream.stream_id,
        version=stream.version,
        position=position,
    )
