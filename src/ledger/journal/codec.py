"""Events as bytes: deterministic JSON under a permanent topic, and back.

The rule a stranger would break: bytes that were ever stored must load for ever. A new meaning is a new topic version,
and an upcaster turns the old one into it while reading; stored rows are never rewritten. What is personal in an event
(the event modules say which fields) is only ever stored sealed (see `ledger.journal.encryption.sealing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from ledger.domain.customers import events as customer_events
from ledger.domain.idempotency import events as request_events
from ledger.domain.merchants import events as merchant_events
from ledger.domain.orders import events as order_events
from ledger.domain.personal_data import split
from ledger.journal.append import EncodedEvent
from ledger.journal.encryption.sealing import Seal

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
"""What an old event's JSON object becomes in the next version of its topic. Pure."""


class UnknownTopic(Exception):
    """The log holds a topic that this release does not know: reading stops, it never skips."""


def postgres_micros(moment: datetime) -> int:
    """A moment as Postgres keeps it: microseconds since 2000-01-01 UTC."""
    return (moment - _EPOCH) // _MICROSECOND


class Codec:
    """Encodes and decodes the events of a set of topics.

    `upcasters` maps an old topic to the topic that follows it and the function between the two.
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
        self._personal = {type_: (paths, _spelling(type_)) for type_, paths in (personal or {}).items()}
        self._encode = msgspec.json.Encoder(decimal_format="string").encode
        assert len(self._topics) == len(self._types), "an event type has two topics"

    def may_be_personal(self, events: Iterable[Any]) -> bool:
        """Returns whether a type among these events has fields that are sealed, filled or not."""
        return not self._personal.keys().isdisjoint(map(type, events))

    def encode(self, event: Any) -> EncodedEvent:
        """The event's topic, its bytes in clear and its time. Field order is the type's, so equal events have equal bytes.

        For events without personal fields, and for whoever does not store what comes out.
        """
        return EncodedEvent(self._topics[type(event)], self._encode(event), postgres_micros(event.at))

    def encode_sealed(self, event: Any, version: int, seal: Seal | None) -> EncodedEvent:
        """The event as it is stored at this version of its stream. `seal` None forgets what is personal: its key is no more."""
        known = self._personal.get(type(event))
        if known is None:
            return self.encode(event)
        paths, spelling = known
        clear, personal = split(event, paths)
        if not personal or seal is None:
            return self.encode(clear)
        topic = self._topics[type(event)]
        members = self._encode({spelling[name]: member for name, member in personal.items()})
        data = seal.sealed(topic, version, self._encode(clear), members)
        return EncodedEvent(topic, data, postgres_micros(event.at))

    def decode(self, topic: str, data: bytes) -> Any:
        """The event that these bytes are, brought up to the present version of its topic.

        Of sealed bytes that were not opened this is the event of a forgotten person. Raises UnknownTopic: no type and no
        upcaster is known for the topic.
        """
        decoder = self._decoders.get(topic)
        if decoder is not None:
            return decoder.decode(data)
        return self._decode_old(topic, data)

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


def _spelling(type_: type[Struct]) -> dict[str, str]:
    """What the fields of a type are called in JSON."""
    return {field.name: field.encode_name for field in msgspec.structs.fields(type_)}


TOPICS: Final[dict[str, type[Struct]]] = {
    **order_events.TOPICS,
    **customer_events.TOPICS,
    **merchant_events.TOPICS,
    **request_events.TOPICS,
}
"""Every topic that the log may hold."""

CODEC: Final = Codec(TOPICS, personal={**order_events.PERSONAL, **customer_events.PERSONAL})
