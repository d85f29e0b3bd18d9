"""Look-ups in the events of one command by the table of topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ledger.domain.public_events.command import CommandStream, LoggedEvent
from ledger.domain.public_events.kinds import Kind
from ledger.domain.public_events.topics import LINES

_NONE: Final[tuple[Kind, ...]] = ()


def kinds_of_topic(topic: str) -> tuple[Kind, ...]:
    """Returns the kinds that an event of a topic can cause; none for a topic of another application."""
    line = LINES.get(topic)
    return _NONE if line is None else line.kinds


def causes(stream: CommandStream, kind: Kind, **ids: Any) -> Iterator[LoggedEvent]:
    """Yields the events of the command that can cause this kind and have these ids, in the log's order."""
    for logged in stream.events:
        if kind in kinds_of_topic(logged.topic) and all(
            getattr(logged.event, name) == id_ for name, id_ in ids.items()
        ):
            yield logged


def last_cause(stream: CommandStream, kind: Kind, **ids: Any) -> int:
    """Returns the position of the last event of the command that can cause this kind and has these ids.

    Without one, the position is that of the command's last event in the stream: by the tests of the table this does not
    happen, and a public event must not be lost if it does.
    """
    position = stream.events[-1].position
    for logged in causes(stream, kind, **ids):
        position = logged.position
    return position
