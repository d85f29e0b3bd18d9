"""Files that a person has named: each may be a device without an end, which must not fill the memory."""

from __future__ import annotations

from pathlib import Path


class TooLarge(ValueError):
    """A file has more bytes than anything that it may hold."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"it has more than {bytes_max:,} bytes")


def read_file(path: Path, bytes_max: int) -> bytes:
    """Returns the bytes of a file. Raises OSError, and TooLarge if they are more than `bytes_max`."""
    with path.open("rb") as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise TooLarge(bytes_max)
    return content
