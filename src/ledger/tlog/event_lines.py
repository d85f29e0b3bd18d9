"""An event as a line of JSON: its metadata, its content, and the bytes from which its entry of the tree follows.

The content is opened, and lacks what was erased. The bytes that the log holds are beside it where they are others:
values of a person are encrypted in them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Container
from contextlib import suppress
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.journal.codec import CODEC, UnknownTopic
from ledger.tlog.entries import encode_entry, entry_of
from ledger.tlog.notes import Malformed, Unverified

_NO_LINE: Final = (
    "the event is not a line of `ledger export` (an answer of /events has not the bytes that the log holds: take the line"
    " of its position, or the `entry` of the proof in JSON by --leaf)"
)
_NOTHING: Final = Raw(b"null")
_SEALED: Final = "sealed"
"""The member of a stored event that has a person's values, encrypted."""


class EventLine(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An event of a merchant's log. `context` and `stored` are JSON objects, else base64 of bytes that are none.

    `event` is null where it cannot be read, and `stored` is absent where the log holds the bytes of `event`.
    """

    merchant_id: UUID
    position: int
    stream_id: UUID
    version: int
    topic: str
    recorded_at: datetime
    command_id: UUID
    context: Raw
    event: Raw
    stored: Raw | UnsetType = UNSET


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(EventLine).decode


def encode_line(
    merchant_id: UUID,
    *,
    position: int,
    stream_id: UUID,
    version: int,
    topic: str,
    recorded_at: datetime,
    command_id: UUID,
    context: bytes,
    event: Any,
    stored: bytes,
) -> bytes:
    """Returns the line of an event, without its end. `event` is None if its content cannot be read."""
    content = _NOTHING if event is None else Raw(_on_one_line(_encode(event)))
    line = EventLine(
        merchant_id=merchant_id,
        position=position,
        stream_id=stream_id,
        version=version,
        topic=topic,
        recorded_at=recorded_at,
        command_id=command_id,
        context=exact_json(context),
        event=content,
        stored=UNSET if bytes(content) == stored else exact_json(stored),
    )
    return _encode(line)


def entry_in(line: bytes) -> bytes:
    """Returns the entry of the tree that an event's line is about. Raises Malformed.

    Raises Unverified if the line shows another content than the bytes that the log holds, or a member that they lack. A
    person's value that is encrypted in them is not compared.
    """
    try:
        event = _decode(line)
    except msgspec.MsgspecError as wrong:
        raise Malformed(f"{_NO_LINE}: {wrong}") from None
    if event.recorded_at.tzinfo is None:
        raise Malformed(f"{_NO_LINE}: `recordedAt` has no offset")
    stored = bytes(event.event) if event.stored is UNSET else _bytes_of(event.stored, "stored")
    if event.stored is not UNSET and bytes(event.event) != bytes(_NOTHING):
        _require_same(event.topic, stored, bytes(event.event))
    return encode_entry(
        entry_of(
            event.merchant_id,
            position=event.position,
            stream_id=event.stream_id,
            version=event.version,
            topic=event.topic,
            recorded_at=event.recorded_at,
            command_id=event.command_id,
            data=stored,
            context=_bytes_of(event.context, "context"),
        )
    )


def _on_one_line(value: bytes) -> bytes:
    """Returns JSON without line ends, which are white space in it: merchants' own objects are stored as they came."""
    return value.replace(b"\r", b" ").replace(b"\n", b" ")


def exact_json(value: bytes) -> Raw:
    """Returns the JSON object that these bytes are, else a text with their base64."""
    is_object = value[:1] == b"{" and _on_one_line(value) == value
    if is_object:
        try:
            msgspec.json.decode(value)
        except msgspec.DecodeError:
            is_object = False
    return Raw(value if is_object else _encode(base64.b64encode(value).decode()))


def _bytes_of(value: Raw, name: str) -> bytes:
    """Returns the bytes that `_exact` was given. Raises Malformed, which names the member."""
    held = bytes(value)
    if held.startswith(b"{"):
        return held
    try:
        return base64.b64decode(msgspec.json.decode(held, type=str), validate=True)
    except (msgspec.MsgspecError, binascii.Error):
        raise Malformed(f"`{name}` of the event is no object, and no text of base64") from None


def _require_same(topic: str, stored: bytes, event: bytes) -> None:
    """Raises Unverified if an event shows something else than the bytes that the log holds, or more.

    Only what a topic has of a person may be others, where the bytes have such values encrypted. A member that they lack
    may have the value that a reader takes for it.
    """
    try:
        held, shown = msgspec.json.decode(stored), msgspec.json.decode(event)
    except msgspec.DecodeError:
        raise Unverified("`event` is not in the bytes that the log holds") from None
    encrypted: frozenset[str] = frozenset()
    read = held
    if isinstance(held, dict) and held.pop(_SEALED, None) is not None:
        try:
            encrypted = CODEC.personal_paths(topic)
        except UnknownTopic:
            what = "it is forged, or of a newer release, which can verify it"
            raise Unverified(f"this release does not know the topic of the event: {what}") from None
    with suppress(UnknownTopic, msgspec.MsgspecError):
        read = msgspec.json.decode(CODEC.encode(CODEC.decode(topic, stored)).data)
    if wrong := _difference(held, read, shown, "", encrypted):
        raise Unverified(f"`event{wrong}` is not what the log holds")


def _difference(held: Any, read: Any, shown: Any, place: str, encrypted: Container[str]) -> str:
    """Returns where a value that is shown is neither the one that is held nor what is read of that, empty if nowhere.

    The places in `encrypted` are not compared.
    """
    if place[1:] in encrypted:
        return ""
    if not isinstance(held, dict) or not isinstance(shown, dict):
        return "" if _ordered(shown) in (_ordered(held), _ordered(read)) else place or "."
    known = read if isinstance(read, dict) else {}
    for name in held | shown:
        value = held.get(name, known.get(name))
        where = f"{place}.{name}"
        if wrong := _difference(value, known.get(name, value), shown.get(name), where, encrypted):
            return wrong
    return ""


def _ordered(value: Any) -> bytes:
    """Returns a value as JSON in its one form: 1 is neither 1.0 nor true in it."""
    return msgspec.json.encode(value, order="deterministic")
