"""How far a long piece of work is: what it reports, and where it is reported to."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
"""Takes the name of a step, how much of it is done, and how much it is; None if that is not known."""


def unreported(_step: str, _done: int, _total: int | None) -> None:
    """Reports nothing: the work runs without a person who waits for it."""
