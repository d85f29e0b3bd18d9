"""Whether all processes of a service run, as its parent reports it to them: an empty file in their shared directory.

The file exists while all of them are ready. So a disk without room for it makes a service not ready, never the reverse.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from ledger.telemetry.metrics import SHARED_DIRECTORY

_NAME: Final = "all-ready"


def report(directory: Path, *, all_ready: bool) -> bool:
    """Reports to the processes that share `directory` whether all of them are ready. Returns whether it could."""
    file = directory / _NAME
    with suppress(OSError):
        if all_ready:
            file.touch()
        else:
            file.unlink(missing_ok=True)
        return True
    return False


def all_ready(directory: str | None = SHARED_DIRECTORY) -> bool:
    """Returns whether all processes of this one's service are ready; true in a process that runs alone."""
    return directory is None or Path(directory, _NAME).exists()
