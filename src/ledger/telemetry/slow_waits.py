"""Waits that an operator may wonder about: one of more than two seconds is reported, with what is waited for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

REPORT_AFTER_S: Final = 2.0


Report = Callable[[str], None]
"""Reports what is waited for, as the rest of a sentence that begins with "waiting for"."""


def report_to_person(what: str) -> None:
    """Reports to the person who runs a command."""
    sys.stderr.write(f"ledger: waiting for {what}\n")


@contextmanager
def reported_if_slow(report: Report, what: Callable[[], str]) -> Iterator[None]:
    """Reports once, in a thread of its own, if the block lasts longer than two seconds.

    The block may wait in a system call or for a statement, where it cannot report itself.
    """
    timer = threading.Timer(REPORT_AFTER_S, lambda: report(what()))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
