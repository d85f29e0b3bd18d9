"""Requests that wait for the next event: a few for each key, until their time is over or the process is to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

_ANSWER_S: Final = 5.0  # which are left for the answer, of the time that a request may take
WAITING_MAX: Final = 5
"""How many requests of a key wait at once, in each API process. A further one is answered at once."""


class WaitingRequests:
    """The waiting requests of one process, by their keys. A request may take `timeout_s` in all."""

    def __init__(self, timeout_s: float) -> None:
        self.wait_max_s = max(0.0, timeout_s - _ANSWER_S)
        self._waiting: Counter[UUID] = Counter()

    @contextmanager
    def place(self, key_id: UUID) -> Iterator[bool]:
        """Yields whether a request of this key may wait, and counts it meanwhile."""
        if self._waiting[key_id] >= WAITING_MAX:
            yield False
            return
        self._waiting[key_id] += 1
        try:
            yield True
        finally:
            self._waiting[key_id] -= 1
            if not self._waiting[key_id]:
                del self._waiting[key_id]
