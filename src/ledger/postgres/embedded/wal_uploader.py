"""The process that archives write-ahead log in an object store. Run as `python -m …embedded.wal_uploader`.

Postgres hands each segment over in a directory, and waits for the answer beside it. So the server's account needs
neither the store's credentials nor access to this program. Answer `done` only when the store has the segment: then
Postgres removes its own.

It ends with the server, which outlives its parent for the time of a shutdown.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Final

import structlog

from ledger.postgres.embedded.wal_store import ArchiveFailed, WalStore

_log = structlog.get_logger()

POLL_S: Final = 0.1
_SEGMENT: Final = re.compile(r"[0-9A-F]{8,24}(\.(history|partial|[0-9A-F]{8}\.backup))?")


class Uploader:
    """Stores what is handed over in `spool`. Answers with a file: `NAME.done`, or `NAME.refused` with the reason."""

    def __init__(self, store: WalStore, spool: Path) -> None:
        self._store = store
        self._spool = spool
        self._reason = ""

    def upload(self) -> None:
        """Stores and answers every segment that waits."""
        for file in sorted(self._spool.iterdir()):
            if _SEGMENT.fullmatch(file.name):
                self._upload(file)

    def _upload(self, file: Path) -> None:
        try:
            self._store.put(file.name, file.read_bytes())
        except ArchiveFailed as failure:
            self._record(str(failure))
            self._answer(file, "refused", f"{failure}\n")
        else:
            self._record("")
            self._answer(file, "done", "")

    def _answer(self, file: Path, kind: str, text: str) -> None:
        file.unlink()
        unfinished = self._spool / "answer"
        unfinished.write_text(text)
        unfinished.chmod(0o644)  # the server's account prints it to the log
        unfinished.rename(self._spool / f"{file.name}.{kind}")

    def _record(self, reason: str) -> None:
        if reason and not self._reason:
            _log.error("wal_archive_failed", reason=reason)
        elif self._reason and not reason:
            _log.info("wal_archive_back")
        self._reason = reason


def main() -> None:
    """Uploads until the server has ended after the parent's end, which is the end of standard input."""
    from ledger.telemetry.logs import configure_logs

    configure_logs("info", process="wal-uploader")
    url, spool, cluster = sys.argv[1:]
    orphaned = threading.Event()
    threading.Thread(target=_await_end_of_parent, args=[orphaned], daemon=True).start()
    uploader = Uploader(WalStore(url), Path(spool))
    while not (orphaned.is_set() and not _is_running(Path(cluster))):
        uploader.upload()
        time.sleep(POLL_S)


def _await_end_of_parent(orphaned: threading.Event) -> None:
    while os.read(0, 64):
        pass
    orphaned.set()


def _is_running(cluster: Path) -> bool:
    from ledger.postgres.embedded.ownership import process_in

    return process_in(cluster) != 0


if __name__ == "__main__":
    main()
