"""Look-ups in the events of one command by the table of topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ledger.domain.public_events.command import CommandStream, LoggedEvent
from ledger.domain.public_events.kinds import Kind
from ledger.domain.public_events.topics import LINES

_KINDS: Final[Mapping[str, frozenset[Kind]]] = {topic: frozenset(line.kinds) for topic, line in LINES.items()}


def causes(stream: CommandStream, kind: Kind, **ids: Any) -> Iterator[LoggedEvent]:
    """Yields the events of the command that can cause this kind and have these ids, in the log's order.

    An event of a topic without a line, which is another application's, causes nothing.
    """
    for logged in stream.events:
        if kind in _KINDS.get(logged.topic, ()):
            event = logged.event
            if all(getattr(event, name, None) == id_ for name, id_ in ids.items()):
                yield logged


def facts_of_topics(facts: frozenset[Kind]) -> Mapping[str, tuple[Kind, ...]]:
    """Returns the kinds among `facts` that an event of each topic can cause, for the topics that can cause one."""
    found = {topic: tuple(kind for kind in line.kinds if kind in facts) for topic, line in LINES.items()}
    return {topic: own for topic, own in found.items() if own}


def last_cause(stream: CommandStream, kind: Kind, **ids: Any) -> int:
    """Returns the position of the last event of the command that can cause this kind and has these ids.

    Without one, the position is that of the command's last event in the stream: by the tests of the table this does not
    happen, and a public event must not be lost if it does.
    """
    position = stream.events[-1].position
    for logged in causes(stream, kind, **ids):
        position = logged.position
    return position
