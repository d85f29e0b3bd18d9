"""The memory that the embedded Postgres may count on: the machine's, or less if a control group limits it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MIN_MB: Final = 32
_MAX_MB: Final = 4096
_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")


def shared_buffers_mb() -> int:
    """Returns the size of Postgres' own memory for data, in MB: an eighth of all, at least 32 MB and at most 4 GB.

    The API and the worker run beside it, and the kernel keeps pages too. It gives up pages that rest, which Postgres
    then reads again (docs/decisions/0042).
    """
    return min(_MAX_MB, max(_MIN_MB, memory_bytes() >> 23))


def memory_bytes(membership: Path = _MEMBERSHIP, control_groups: Path = _CONTROL_GROUPS) -> int:
    """Returns the memory that this process may use; 0 on Windows, which does not report it here.

    `membership` names the control groups of this process, and `control_groups` is where Linux shows their limits.
    """
    if sys.platform == "win32":
        return 0
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(membership, control_groups)])


def _limits(membership: Path, control_groups: Path) -> Iterator[int]:
    """Yields the limits of the process's memory groups and of all groups above them, of version 1 and 2."""
    lines = membership.read_text().splitlines() if membership.exists() else []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            top, name = control_groups, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = control_groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        own = top / group.lstrip("/")
        for directory in (own, *own.parents):
            if directory.is_relative_to(top) and (limit := directory / name).exists():
                written = limit.read_text().strip()
                if written.isdigit():  # "max" is none
                    yield int(written)
