"""The main function of a process that audits one merchant's log for a worker. Run as `python -m
ledger.audit.child_main`.

Its standard input has its work, and ends when the worker ends: it then exits at once. Its standard output has messages
for the worker.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import psycopg
from msgspec import Raw

from ledger.audit.auditor import EVENTS_READ, audit, read_saved, tune_process
from ledger.background.audits.messages import (
    AuditWork,
    Ending,
    Failed,
    Message,
    Progressed,
    Reason,
    Reported,
    decode_work,
    encode_message,
)
from ledger.journal.event_archive import ArchiveUnavailable
from ledger.parent_process import follow, read_line
from ledger.progress import Progress
from ledger.telemetry.logs import configure_logs, stack_locations
from ledger.tlog.checkpoint_files import CheckpointsUnavailable

_PROGRESS_S: Final = 1.0


def main() -> None:
    """Audits the log that the worker names, and reports what it found."""
    for each in (signal.SIGINT, signal.SIGTERM):  # they reach a whole group; the worker decides
        signal.signal(each, signal.SIG_IGN)
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library might print is no message
    work = decode_work(read_line())
    tempfile.tempdir = str(work.folder)
    threading.Thread(target=_end_with_worker, args=[work.folder], daemon=True).start()
    configure_logs(work.settings.log_level, work.settings.log_format, "audit")
    tune_process()

    def send(message: Message) -> None:
        line = memoryview(encode_message(message))
        while line:
            line = line[os.write(output, line) :]

    send(_audited(work, _now_and_then(send)))


def _audited(work: AuditWork, progress: Progress) -> Ending:
    url = work.settings.database_url
    assert url is not None, "the settings of a worker name its database"
    try:
        saved = asyncio.run(read_saved(work.settings))
        report = audit(work.settings, url, work.merchant_id, saved=saved, progress=progress)
    except CheckpointsUnavailable as unread:
        return Failed(Reason.CHECKPOINTS, str(unread))
    except ArchiveUnavailable as unread:
        return Failed(Reason.ARCHIVE, str(unread))
    except psycopg.Error as failure:
        return Failed(Reason.DATABASE, type(failure).__name__)
    except OSError as refusal:
        return Failed(Reason.FILES, refusal.strerror or type(refusal).__name__)
    except Exception as failure:  # noqa: BLE001 - the worker ends the audit with it
        return Failed(Reason.ERROR, f"{type(failure).__name__} at {stack_locations(failure)}")
    return Reported(Raw(msgspec.json.encode(report)), report.events, report.violations_total)


def _now_and_then(send: Callable[[Message], None]) -> Progress:
    """Returns a progress that sends the number of events that are read, about once a second."""
    sent = 0.0

    def progress(step: str, done: int, total: int | None) -> None:
        nonlocal sent
        now = time.monotonic()
        if step == EVENTS_READ and total is not None and now - sent >= _PROGRESS_S:
            sent = now
            send(Progressed(done, total))

    return progress


def _end_with_worker(folder: Path) -> None:
    follow()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main()
