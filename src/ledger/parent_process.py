"""What a process reads of its parent, which holds the other end of its standard input: one line, and then the end.

The input ends when the parent ends, also if that was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Event

_has_parent = Event()


def has_parent() -> bool:
    """Returns whether this process has a parent that keeps it: one has sent it the first line."""
    return _has_parent.is_set()


def read_line() -> bytes:
    """Returns the first line. Ends this process if the parent ends before.

    It reads byte by byte, so that no buffer takes what comes after the line.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            os._exit(1)
        line += piece
    _has_parent.set()
    return bytes(line)


def follow(sent: Callable[[], None] = lambda: None) -> None:
    """Returns once the parent has ended. Calls `sent` whenever the parent has sent something. Call it in a thread."""
    while os.read(0, 1024):
        sent()
