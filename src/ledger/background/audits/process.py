"""The worker's view of the process of an audit.

The process ends when its standard input does: keep that open as long as it is to run, and pass it to no other process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from msgspec import MsgspecError

from ledger.background.audits.messages import (
    AuditWork,
    Ending,
    Failed,
    Progressed,
    Reason,
    decode_message,
    encode_work,
)
from ledger.settings import Settings

COMMAND: Final = (sys.executable, "-P", "-m", "ledger.audit.child_main")
PRIORITY: Final = 10
"""A tenth of a usual share where every processor is busy: with less it might not end, and it holds a snapshot."""
_LINE_MAX: Final = 64 << 20
"""The most bytes of a line: a report lists a thousand violations at most, of about 300 bytes each."""


class AuditProcess:
    """A process that audits one log. `progress` is the last one that it has sent."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.progress: Progressed | None = None

    async def ending(self) -> Ending:
        """Returns how the process has ended."""
        assert self._process.stdout is not None, "it is a pipe"
        try:
            while (line := await self._process.stdout.readline()).endswith(b"\n"):
                message = decode_message(line)
                if not isinstance(message, Progressed):
                    return message
                self.progress = message
        except (MsgspecError, ValueError) as unread:  # a line that is no message, or longer than one
            return Failed(Reason.ERROR, f"its messages cannot be read: {type(unread).__name__}")
        code = await self._process.wait()
        how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
        return Failed(Reason.ENDED, f"the process {how}")


@asynccontextmanager
async def auditing(settings: Settings, merchant_id: UUID) -> AsyncIterator[AuditProcess]:
    """Yields a process that audits a merchant's log, which is killed at the end of the block. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="ledger-audit-", ignore_cleanup_errors=True) as folder:
        work = encode_work(AuditWork(settings=settings, merchant_id=merchant_id, folder=Path(folder)))
        read, write = os.pipe()
        try:
            try:
                os.write(write, work)  # which the pipe holds, also if the process ends before it reads
                process = await asyncio.create_subprocess_exec(
                    *COMMAND, stdin=read, stdout=PIPE, env=_environment(), limit=_LINE_MAX
                )
            finally:
                os.close(read)
            try:
                with suppress(PermissionError, ProcessLookupError):  # a container may refuse it
                    os.setpriority(os.PRIO_PROCESS, process.pid, PRIORITY)
                yield AuditProcess(process)
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        finally:
            os.close(write)


def _environment() -> Mapping[str, str]:
    """Returns this process's environment without the files of its metrics, which two processes must not write."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PROMETHEUS_MULTIPROC_")}
