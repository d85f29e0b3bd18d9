"""The directory in memory in which the processes of one service count together: metrics and rate limits.

Keep it off the disk if the system has such a place: its files are mapped, and a process that writes to a mapped file
of a full disk is killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Final

_IN_MEMORY: Final = "/dev/shm"  # noqa: S108 - the directory in it has a random name, and is this user's alone
_PREFIX: Final = "ledger-shared-"


@contextmanager
def shared_directory() -> Iterator[Path]:
    """Yields a new directory and removes it afterwards.

    It is locked until then. One that is there without a lock was left behind by a parent that was killed; it is
    removed.
    """
    memory = Path(_IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else gettempdir())
    for left in memory.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another service uses it, or it is another user's
            os.close(_locked(left))
            shutil.rmtree(left)
    directory = Path(mkdtemp(dir=memory))
    lock = _locked(directory)
    directory = directory.rename(memory / f"{_PREFIX}{directory.name}")  # from now on it can be found, and is locked
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _locked(directory: Path) -> int:
    """Returns a descriptor that holds the directory's lock. Raises OSError if another process has it."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
