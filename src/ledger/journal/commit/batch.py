"""Which commands may share a batch: those whose outcomes do not depend on one another.

The rule a stranger would break: the statement judges all commands of a batch by the log as it was before the batch. Two
that touch one stream, where either writes it, or that take one key, would both be judged free.
"""

from __future__ import annotations

from ledger.journal.append import Append


class Batch:
    """Admits commands one by one. Streams that commands only check may be shared."""

    def __init__(self) -> None:
        self._checked: set[bytes] = set()
        self._written: set[bytes] = set()
        self._claimed: set[tuple[bytes, int, str]] = set()

    def admit(self, append: Append) -> bool:
        """Take the command in, unless its outcome would depend on one that is in already."""
        merchant = append.merchant_id
        streams = [(merchant + stream.stream_id, bool(stream.events)) for stream in append.streams]
        for stream, writes in streams:
            if stream in self._written or (writes and stream in self._checked):
                return False
        keys = [(merchant, claim.kind, claim.key) for claim in append.claims]
        for key in keys:
            if key in self._claimed:
                return False
        for stream, writes in streams:
            (self._written if writes else self._checked).add(stream)
        self._claimed.update(keys)
        return True
