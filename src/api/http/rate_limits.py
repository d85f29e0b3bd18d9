"""How many requests a key may make: per minute and per second, both at once (contract N75).

The default limits are settings of the service (`ledger.settings`); a merchant may have others.

Never let a refused request count: a client that keeps asking would keep itself out.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Final
from uuid import UUID

from api.errors import TooManyRequests
from api.response import Headers
from ledger.telemetry.metrics import RATE_LIMITED

_SLOTS: Final = 1 << 15
_PROBES: Final = 8
_ROUNDING: Final = 1e-6  # sums of tenths do not come out even
_SLOT: Final = Struct("16sdd")


class RateLimiter:
    """Counts the requests of all processes that share a file, by the generic cell rate algorithm (ITU-T I.371).

    The file is a hash table. A slot has the id of a key and the times at which its two buckets are full again. Once
    they are full, another key may take the slot; if all slots of a key are in use, it takes the one that is full
    first.

    `directory` is where the file is; without one, the process counts alone. `clock` is monotonic, in seconds, and the
    same for all processes of the machine.
    """

    def __init__(
        self, directory: str | None = None, clock: Callable[[], float] = time.monotonic, slots: int = _SLOTS
    ) -> None:
        self._clock = clock
        self._starts = slots - _PROBES + 1
        with Path(directory, "rate_limits").open("a+b") if directory else tempfile.TemporaryFile() as file:
            self._lock = os.dup(file.fileno())
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        if not os.fstat(self._lock).st_size:  # written in full, so that the table always has its memory
            os.write(self._lock, bytes(slots * _SLOT.size))
        fcntl.lockf(self._lock, fcntl.LOCK_UN)
        self._table = mmap.mmap(self._lock, slots * _SLOT.size)

    def close(self) -> None:
        self._table.close()
        os.close(self._lock)

    def admit(self, key_id: UUID, per_minute: int, per_second: int) -> Headers:
        """Counts a request, and returns the RateLimit headers of the bucket with fewer requests left. A limit of 0 is
        none.

        Raises TooManyRequests, which carries the same headers.
        """
        if not (per_minute or per_second):
            return ()
        now, key = self._clock(), key_id.bytes
        fcntl.lockf(self._lock, fcntl.LOCK_EX)  # the kernel releases it if the process is killed
        try:
            slot, minute_full_at, second_full_at = self._find(key_id.int, key)
            minute, second = max(minute_full_at - now, 0.0), max(second_full_at - now, 0.0)
            minute_after = minute + 60.0 / per_minute if per_minute else 0.0
            second_after = second + 1.0 / per_second if per_second else 0.0
            wait_s = max(minute_after - 60.0, second_after - 1.0)
            if wait_s <= _ROUNDING:
                minute, second = minute_after, second_after
                _SLOT.pack_into(self._table, slot, key, now + minute, now + second)
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)
        headers = _headers((per_minute, 60.0, minute), (per_second, 1.0, second))
        if wait_s > _ROUNDING:
            RATE_LIMITED.inc()
            raise TooManyRequests(math.ceil(wait_s), headers)
        return headers

    def _find(self, number: int, key: bytes) -> tuple[int, float, float]:
        """Returns the offset of a key's slot, or of the one that it may take, and the times at which its buckets are
        full.
        """
        first = number % self._starts * _SLOT.size
        slots = range(first, first + _PROBES * _SLOT.size, _SLOT.size)
        for slot in slots:
            owner, minute_full_at, second_full_at = _SLOT.unpack_from(self._table, slot)
            if owner == key:
                return slot, minute_full_at, second_full_at
        return min(slots, key=lambda slot: max(_SLOT.unpack_from(self._table, slot)[1:])), 0.0, 0.0


def _headers(*buckets: tuple[int, float, float]) -> Headers:
    """Returns the headers of the tightest bucket. Each comes with its limit, its seconds, and in how many of them it is
    full.
    """
    remaining, limit, full_in_s = min(
        [
            (int((period_s - full_in_s) * limit / period_s + _ROUNDING), limit, full_in_s)
            for limit, period_s, full_in_s in buckets
            if limit
        ]
    )
    return (
        (b"ratelimit-limit", b"%d" % limit),
        (b"ratelimit-remaining", b"%d" % remaining),
        (b"ratelimit-reset", b"%d" % math.ceil(full_in_s)),
    )
