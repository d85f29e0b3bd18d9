"""A scenario as a file: its lines with their numbers, or the first error in them.

A line with an unknown field is refused: a misspelt field that is ignored would be a part of the scenario that never
happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct, field

from ledger.bounded_file import TooLarge, read_file
from ledger.settings import CannotRun

_BYTES_MAX: Final = 2**26
"""How large a scenario may be: it is read at once. A line has about a kilobyte."""


class LineNumber(Struct, frozen=True):
    """The place of a line: its file and its number, from 1."""

    file: Path
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


class InvalidScenario(CannotRun):
    """A line cannot be run. The message begins with its file and number."""

    def __init__(self, place: LineNumber, reason: str) -> None:
        super().__init__(f"{place}: {reason}")


class ScenarioLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of a scenario. `at` is aware; `order` is the external id of the order that the action is about."""

    merchant: Annotated[str, Meta(min_length=1)] = field(name="as")
    action: str = field(name="do")
    at: Annotated[datetime, Meta(tz=True)]
    body: Raw
    order: str | None = None


_decode: Final = msgspec.json.Decoder(ScenarioLine).decode


def read_lines(file: Path) -> Iterator[tuple[LineNumber, ScenarioLine]]:
    """Yields the lines of a scenario without empty ones.

    Raises CannotRun if the file is unreadable, InvalidScenario.
    """
    try:
        content = read_file(file, _BYTES_MAX)
    except OSError as error:
        raise CannotRun(f"{file} cannot be read: {error.strerror}") from error
    except TooLarge as error:
        raise CannotRun(f"{file} cannot be read: {error}") from None
    for number, text in enumerate(content.split(b"\n"), start=1):
        if text.strip():
            place = LineNumber(file, number)
            try:
                yield place, _decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InvalidScenario(place, str(error)) from None
