"""The processor's own file: an independent witness of every call that arrived and of everything that it moved.

The rule a stranger would break: a line is on disk before anybody outside can know of it, and is never changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import msgspec
from tests.fake_processor.modes import Line


class Record:
    """Appends lines. Use it in a `with` block."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, line: Line) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")
        os.fsync(self._file.fileno())


def read(path: Path) -> list[Line]:
    """Every line, in the order in which things happened."""
    return [msgspec.json.decode(line, type=Line) for line in path.read_bytes().splitlines()]
