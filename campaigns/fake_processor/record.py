"""The processor's own file: an independent record of every call that arrived and of all money that it moved.

Write a line to disk before you answer the call that it is about, and never change it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import msgspec

from campaigns.fake_processor.modes import Line


class Record:
    """The file, open for appending. Use it in a `with` block."""

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
    """Returns all lines, in the order in which they were written."""
    return [msgspec.json.decode(line, type=Line) for line in path.read_bytes().splitlines()]
