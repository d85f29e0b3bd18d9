"""The lines of a service's parent process about the service as a whole, in the format of all logs."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import msgspec

_SEVERITY: Final = ("debug", "info", "warning", "error")


PROCESS: Final = "supervisor"
"""The parent's name in its lines."""


class ServiceLog:
    """Writes each line at once, without any thread or buffer: the parent has nothing to lose when it ends.

    As JSON a line has the fields of all logs, and what happened for a person as `message`. As text it is the message.
    """

    def __init__(self) -> None:
        self._as_text = False
        self._least = _SEVERITY.index("info")

    def configure(self, log_format: str, level: str) -> None:
        """Sets the format, "json" or "text", and the least severe level that is written."""
        self._as_text = log_format == "text"
        self._least = _SEVERITY.index(level)

    def info(self, event: str, message: str, **fields: object) -> None:
        self._write("info", event, message, fields)

    def warning(self, event: str, message: str, **fields: object) -> None:
        self._write("warning", event, message, fields)

    def error(self, event: str, message: str, **fields: object) -> None:
        self._write("error", event, message, fields)

    def _write(self, level: str, event: str, message: str, fields: dict[str, object]) -> None:
        if _SEVERITY.index(level) < self._least:
            return
        text = f"ledger: {message}"
        if not self._as_text:
            head = {"timestamp": datetime.now(UTC), "level": level, "event": event, "process": PROCESS}
            text = msgspec.json.encode({**head, "message": message, **fields}).decode()
        with suppress(OSError):  # its file's disk may be full, and the process that read it may have ended
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
