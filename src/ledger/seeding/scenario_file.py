"""A story as a file: its lines, each with its number, or the first thing that is wrong with one.

The rule a stranger would break: a line holds what its action needs and nothing else. A misspelt field that nobody reads
would be a part of the story that never happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct, field

from ledger.settings import CannotRun


class LineNumber(Struct, frozen=True):
    """Where a line stands: what a person needs to find it."""

    file: Path
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


class InvalidScenario(CannotRun):
    """A line cannot be told; the message begins with its file and number."""

    def __init__(self, place: LineNumber, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place


class ScenarioLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of a story. `at` is aware; `order` is the external id of the order that the action is about."""

    merchant: Annotated[str, Meta(min_length=1)] = field(name="as")
    action: str = field(name="do")
    at: Annotated[datetime, Meta(tz=True)]
    body: Raw
    order: str | None = None


_decode: Final = msgspec.json.Decoder(ScenarioLine).decode


def read_lines(file: Path) -> Iterator[tuple[LineNumber, ScenarioLine]]:
    """The lines of a story, empty ones left out. Raises CannotRun where the file cannot be read, InvalidScenario at a line."""
    try:
        content = file.read_bytes()
    except OSError as refusal:
        raise CannotRun(f"{file} cannot be read: {refusal.strerror}") from refusal
    for number, text in enumerate(content.split(b"\n"), start=1):
        if text.strip():
            yield LineNumber(file, number), _read(LineNumber(file, number), text)


def _read(place: LineNumber, text: bytes) -> ScenarioLine:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as refusal:
        raise InvalidScenario(place, str(refusal)) from None
