"""A rule that does not hold."""

from __future__ import annotations

from typing import NamedTuple


class Broken(NamedTuple):
    """A rule that does not hold, by its name in docs/how-to/audit-the-ledger.md, and what is found instead.

    The message has ids, statuses and amounts in minor units, and no personal data.
    """

    invariant: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.message}"
