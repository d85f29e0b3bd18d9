"""The fake's own file: every request that arrived, and all money that moved. It is a witness that the ledger cannot write.

Each line is written before the request is answered, and is never changed. It is not forced onto the disk: the file has to
survive the processes, not the machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import msgspec
from msgspec import Struct

Movement = Literal[
    "AUTHORIZED",
    "CAPTURED",
    "RELEASED",
    "REFUNDED",
    "REFUND_FAILED",
    "FUNDED",
    "FUNDING_REVERSED",
    "DISPUTED",
    "REINSTATED",
    "PAID_OUT",
]


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line: a request with its key and its fault, an answer outside Stripe's description, or money that moved."""

    account: str = ""
    request: str = ""
    method: str = ""
    path: str = ""
    key: str | None = None
    fault: str | None = None
    status: int | None = None
    replayed: bool = False
    violations: list[str] = []
    moved: Movement | None = None
    object: str = ""
    about: str = ""
    amount: int = 0
    currency: str = ""
    metadata: dict[str, str] = {}


class Record:
    """The file, open for appending. Use it in a `with` block. Without a path nothing is kept on the disk."""

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("ab", buffering=0) if path else None
        self.violations = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def write(self, **fields: Any) -> None:
        line = Line(**fields)
        self.violations += len(line.violations)
        if self._file:
            self._file.write(msgspec.json.encode(line) + b"\n")


def read(path: Path) -> list[Line]:
    """Returns all lines, in the order in which they were written."""
    return [msgspec.json.decode(line, type=Line) for line in path.read_bytes().splitlines()]
