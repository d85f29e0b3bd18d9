"""Draws the progress of a command on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import typer

from ledger.progress import Progress, unreported


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Yields what draws a bar for each step. Without a terminal nothing is drawn: a log has no use for it."""
    if not sys.stderr.isatty():
        yield unreported
        return
    with _Bars() as bars:
        yield bars.draw


class _Bars(ExitStack):
    """One bar at a time: a step begins where the step before it ends."""

    def __init__(self) -> None:
        super().__init__()
        self._step: str | None = None
        self._bar: Any = None

    def draw(self, step: str, done: int, total: int | None) -> None:
        if step != self._step:
            self.close()  # the bar of the step before
            self._step, self._bar = step, None
            if total is None:
                typer.echo(f"{step} …", err=True)
            else:
                bar = typer.progressbar(length=total, label=step, file=sys.stderr)
                self._bar = self.enter_context(bar)
        if self._bar is not None and done > self._bar.pos:
            self._bar.update(done - self._bar.pos)
