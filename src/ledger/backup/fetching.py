"""Segments for a recovery from an archive in an object store, which this process reads and the server's account cannot.

The server asks for each segment by a file in a directory, and waits for the answer beside it. A failure must end the
recovery: the server takes a missing segment for the end of the log.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ledger.postgres.embedded.account import Account
from ledger.postgres.embedded.archiving import quoted
from ledger.postgres.embedded.ownership import own_directory
from ledger.postgres.embedded.wal_store import ArchiveFailed, WalStore

# An exit status above 125 ends the recovery; 1 means that the archive has no such segment.
_FETCH: Final = (
    "rm -f {to}/%f.missing {to}/%f.failed; : > {to}/%f.wanted; i=0; while test $i -lt 2400; do "
    'if test -e {to}/%f; then mv {to}/%f "%p"; exit 0; fi; if test -e {to}/%f.missing; then exit 1; fi; '
    "if test -e {to}/%f.failed; then exit 255; fi; sleep 0.05; i=$((i+1)); done; exit 255"
)


class SegmentFetcher:
    """Answers a recovering server's requests for segments. `serve` must be called regularly meanwhile."""

    def __init__(self, url: str, spool: Path, account: Account | None) -> None:
        self._store = WalStore(url)
        self._spool = spool
        self._account = account
        own_directory(spool, account)

    @property
    def command(self) -> str:
        """The `restore_command`."""
        return _FETCH.format(to=quoted(self._spool))

    def serve(self) -> None:
        """Answers what was asked for since the last call. Raises ArchiveFailed."""
        for wanted in self._spool.glob("*.wanted"):
            name = wanted.name.removesuffix(".wanted")
            wanted.unlink()
            try:
                content = self._store.get(name)
            except ArchiveFailed:
                (self._spool / f"{name}.failed").touch()
                raise
            if content is None:
                (self._spool / f"{name}.missing").touch()
            else:
                self._provide(name, content)

    def _provide(self, name: str, content: bytes) -> None:
        unfinished = self._spool / "segment"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if self._account is not None:
            os.chown(unfinished, self._account.uid, self._account.gid)
        unfinished.rename(self._spool / name)
