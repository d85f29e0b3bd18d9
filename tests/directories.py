"""Directories for the files of the tests' servers, in memory if there is room.

The servers sync their files as in an installation, and no test turns the machine off. On a disk, creating and dropping
a database takes ten times as long, most of it waiting.
"""

import shutil
import tempfile
from pathlib import Path

_MEMORY, _DISK = Path("/dev/shm"), Path("/tmp")
_ROOM = 8 << 30  # bytes: four servers with a gigabyte of log each, and their databases


def make_directory() -> Path:
    """Creates a directory that any account may enter, with a path short enough for sockets; as root, pytest's is neither.

    The caller removes it.
    """
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ROOM
    path = Path(tempfile.mkdtemp(prefix="ledger-", dir=_MEMORY if roomy else _DISK))
    path.chmod(0o711)
    return path
