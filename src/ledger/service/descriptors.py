"""How many files and connections a process may have open."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress


def ask_for_descriptors() -> int:
    """Asks the system for as many descriptors as this process can get, and returns how many it has."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS has a lower limit than the one that it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
