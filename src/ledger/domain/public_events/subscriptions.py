"""The public events of a subscription and its invoices in one command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from ledger.domain.public_events import kinds
from ledger.domain.public_events.command import CommandStream, PublicEvent
from ledger.domain.public_events.kinds import Kind, ResourceType
from ledger.domain.public_events.lookup import causes, facts_of_topics, last_cause
from ledger.domain.public_events.statuses import SUBSCRIPTION_STATUSES
from ledger.domain.subscriptions.state import Subscription

_FACTS: Final = facts_of_topics(
    frozenset(
        {
            kinds.SUBSCRIPTION_TRIAL_WILL_END,
            kinds.SUBSCRIPTION_RENEWED,
            kinds.SUBSCRIPTION_INVOICE_CREATED,
            kinds.SUBSCRIPTION_INVOICE_PAID,
            kinds.SUBSCRIPTION_INVOICE_PAYMENT_FAILED,
            kinds.SUBSCRIPTION_INVOICE_VOIDED,
            kinds.SUBSCRIPTION_INVOICE_UNCOLLECTIBLE,
        }
    )
)
"""The kinds of which each event of the log is one, if it is about a subscription that is shown."""


def announced(stream: CommandStream) -> list[PublicEvent]:
    """Returns the public events of a subscription in the log's order; none before it starts.

    The command that starts it announces the subscription first, and then its invoice, which nothing has shown before.
    """
    before: Subscription | None = stream.before
    after: Subscription = stream.after
    if not after.is_shown:
        return []
    shown = before if before is not None and before.is_shown else None
    rest = [*_facts(stream, shown), *_changes(stream, shown, after)]
    return [*_start(stream, shown, after), *sorted(rest, key=lambda each: each.position)]


def _start(stream: CommandStream, before: Subscription | None, after: Subscription) -> Iterator[PublicEvent]:
    """Yields the creation of a subscription that was not shown before, and its invoices of earlier commands."""
    if before is not None:
        return
    yield _event(stream, kinds.SUBSCRIPTION_CREATED, last_cause(stream, kinds.SUBSCRIPTION_CREATED))
    opened = {
        getattr(logged.event, "invoice_id", None) for logged in causes(stream, kinds.SUBSCRIPTION_INVOICE_CREATED)
    }
    for invoice in after.invoices:
        if invoice.invoice_id not in opened:
            position = last_cause(stream, kinds.SUBSCRIPTION_CREATED)
            yield _event(stream, kinds.SUBSCRIPTION_INVOICE_CREATED, position, invoice_id=invoice.invoice_id)


def _facts(stream: CommandStream, before: Subscription | None) -> Iterator[PublicEvent]:
    """Yields a public event for each fact that an event of the log states."""
    for logged in stream.events:
        invoice_id: UUID | None = getattr(logged.event, "invoice_id", None)
        for kind in _FACTS.get(logged.topic, ()):
            if kind.resource_type is ResourceType.SUBSCRIPTION:
                yield _event(stream, kind, logged.position)
            elif invoice_id is not None:
                previous = _status_of(before, invoice_id) if kind.is_status else None
                yield _event(stream, kind, logged.position, previous, invoice_id=invoice_id)


def _status_of(state: Subscription | None, invoice_id: UUID) -> str | None:
    invoices = () if state is None else state.invoices
    return next((each.status for each in invoices if each.invoice_id == invoice_id), None)


def _changes(stream: CommandStream, before: Subscription | None, after: Subscription) -> Iterator[PublicEvent]:
    """Yields the change of the status by the command, and the other changes as one."""
    if before is None:
        return
    if after.status is not None and before.status is not after.status:
        for kind in SUBSCRIPTION_STATUSES[after.status].kinds:
            yield _event(stream, kind, last_cause(stream, kind), before.status)
    if any(causes(stream, kinds.SUBSCRIPTION_UPDATED)):
        yield _event(stream, kinds.SUBSCRIPTION_UPDATED, last_cause(stream, kinds.SUBSCRIPTION_UPDATED))


def _event(
    stream: CommandStream, kind: Kind, position: int, previous: str | None = None, *, invoice_id: UUID | None = None
) -> PublicEvent:
    return PublicEvent(
        kind=kind,
        resource_id=invoice_id or stream.stream_id,
        stream_id=stream.stream_id,
        version=stream.version,
        position=position,
        previous_status=previous,
    )
