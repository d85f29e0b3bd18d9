"""Events as bytes: deterministic JSON under a permanent topic, and back.

Stored bytes must stay loadable permanently. A new meaning is a new version of the topic, and an upcaster converts the
old version while reading; stored rows are never rewritten. The personal fields of an event (listed in the event
modules) are stored only sealed (see `ledger.journal.encryption.sealing`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from ledger.domain.streams import STREAMS, TOPICS
from ledger.journal.append import EncodedEvent
from ledger.journal.encryption.sealing import Seal
from ledger.personal_data import split

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

HAS_TIME: Final = "recorded_at between '0001-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z'"
"""A condition in SQL: the time of an event is one of the calendar. The database has others, and infinity, and an event
with one, which no command writes, is read as one that is missing.
"""

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
"""Converts an old event's JSON object to the next version of its topic. Pure."""


class UnknownTopic(Exception):
    """The log holds a topic that this release does not know. Reading stops there: an event is never skipped."""


def postgres_micros(at: datetime) -> int:
    """Returns an aware time as Postgres stores it: microseconds since 2000-01-01 UTC."""
    return (at - _EPOCH) // _MICROSECOND


class Codec:
    """The encoder and decoder of the events of a set of topics.

    `upcasters` maps an old topic to its next version and the function that converts to it. `personal` maps an event
    type to the paths of its personal fields.
    """

    def __init__(
        self,
        topics: Mapping[str, type[Struct]],
        upcasters: Mapping[str, tuple[str, Upcast]] | None = None,
        personal: Mapping[type[Struct], tuple[str, ...]] | None = None,
    ) -> None:
        self._decoders = {topic: msgspec.json.Decoder(type_) for topic, type_ in topics.items()}
        self._types = dict(topics)
        self._topics = {type_: topic.encode() for topic, type_ in topics.items()}
        self._upcasters = dict(upcasters or {})
        self._personal = {type_: (paths, _json_names(type_)) for type_, paths in (personal or {}).items()}
        self._encode = msgspec.json.Encoder(decimal_format="string").encode
        assert len(self._topics) == len(self._types), "an event type has two topics"

    def may_be_personal(self, events: Iterable[Any]) -> bool:
        """Returns whether a type among these events has fields that are sealed, filled or not."""
        return not self._personal.keys().isdisjoint(map(type, events))

    def encode(self, event: Any) -> EncodedEvent:
        """Returns the event's topic, its unsealed bytes and its time.

        Fields are in the type's order: equal events have equal bytes.

        For events without personal fields, and for bytes that are not stored.
        """
        return EncodedEvent(self._topics[type(event)], self._encode(event), postgres_micros(event.at))

    def encode_sealed(self, event: Any, version: int, seal: Seal | None) -> EncodedEvent:
        """Returns the event as it is stored at this version of its stream.

        `seal` is None if the customer's data key was destroyed: the personal fields are then left out.
        """
        personal_fields = self._personal.get(type(event))
        if personal_fields is None:
            return self.encode(event)
        paths, json_names = personal_fields
        clear, personal = split(event, paths)
        if not personal or seal is None:
            return self.encode(clear)
        topic = self._topics[type(event)]
        members = self._encode({json_names[name]: member for name, member in personal.items()})
        data = seal.sealed(topic, version, self._encode(clear), members)
        return EncodedEvent(topic, data, postgres_micros(event.at))

    def decode(self, topic: str, data: bytes) -> Any:
        """Returns the event in these bytes, converted to the current version of its topic.

        Sealed bytes that were not opened give the event without its personal fields. Raises UnknownTopic if the
        topic has neither a type nor an upcaster.
        """
        decoder = self._decoders.get(topic)
        if decoder is not None:
            return decoder.decode(data)
        return self._decode_old(topic, data)

    def personal_paths(self, topic: str) -> frozenset[str]:
        """Returns where an event of a topic has personal data: the JSON names on the way, joined by full stops.

        Raises UnknownTopic.
        """
        type_ = self._types.get(topic)
        if type_ is None:
            raise UnknownTopic(topic)
        paths, _ = self._personal.get(type_, ((), {}))
        return frozenset(map(_in_camel_case, paths))

    def _decode_old(self, topic: str, data: bytes) -> Any:
        if topic not in self._upcasters:
            raise UnknownTopic(topic)
        fields: dict[str, Any] = msgspec.json.decode(data)
        while topic in self._upcasters:
            topic, upcast = self._upcasters[topic]
            fields = upcast(fields)
        if topic not in self._types:
            raise UnknownTopic(topic)
        return msgspec.convert(fields, self._types[topic], strict=False)


def _json_names(type_: type[Struct]) -> dict[str, str]:
    """Returns the JSON names of a type's fields."""
    return {field.name: field.encode_name for field in msgspec.structs.fields(type_)}


def _in_camel_case(path: str) -> str:
    """Returns a path of fields by the names that their types give them in JSON."""
    return re.sub("_([a-z])", lambda found: found[1].upper(), path)


CODEC: Final = Codec(TOPICS, personal={kind: paths for stream in STREAMS for kind, paths in stream.personal.items()})
