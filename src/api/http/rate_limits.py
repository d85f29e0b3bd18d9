"""How many requests a key may make, and all keys of a merchant: per minute and per second, both at once (contract N75).

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
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from api.errors import TooManyRequests
from api.response import Headers
from ledger.telemetry.metrics import RATE_LIMITED

_SLOTS: Final = 1 << 15
_PROBES: Final = 8
_ROUNDING: Final = 1e-6  # sums of tenths do not come out even
_SLOT: Final = Struct("16sdd")

NEW_KEYS_PER_HOUR: Final = 60
"""How many API keys a merchant may create in an hour: each is a bucket of requests of its own, and stays in the log."""
_CREATIONS: Final = (1 << 128) - 1
"""Makes of a merchant's id the owner of the bucket of its new keys."""

_Rate = tuple[int, float]
"""A limit, and the seconds in which so many requests are allowed."""
_Counted = tuple[UUID, _Rate, _Rate]
"""The owner of two buckets, and their rates."""


class _Found(NamedTuple):
    """The slot of an owner, in how many seconds its two buckets are full before and after a request, and how long that
    request has to wait.
    """

    slot: int
    owner: bytes
    before: tuple[float, float]
    after: tuple[float, float]
    wait_s: float


class RateLimiter:
    """Counts the requests of all processes that share a file, by the generic cell rate algorithm (ITU-T I.371).

    The file is a hash table. A slot has the id of a key and the times at which its two buckets are full again. Once
    they are full, another key may take the slot; if all slots of a key are in use, it takes the one that is full
    first.

    `directory` is where the file is; without one, the process counts alone. `clock` is monotonic, in seconds, and the
    same for all processes of the machine. `merchant_factor` is how many times the limits of one key all keys of a
    merchant may use together; 0 means no such limit.
    """

    def __init__(
        self,
        directory: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        slots: int = _SLOTS,
        *,
        merchant_factor: int = 2,
    ) -> None:
        self._clock = clock
        self._factor = merchant_factor
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

    def admit(self, key_id: UUID, per_minute: int, per_second: int, merchant_id: UUID | None = None) -> Headers:
        """Counts a request of a key, and of its merchant, whose keys may make `merchant_factor` times as many together.

        Returns the RateLimit headers of the bucket with the fewest requests left. A limit of 0 is none. Raises
        TooManyRequests, which carries the same headers.
        """
        if not (per_minute or per_second):
            return ()
        own = key_id, (per_minute, 60.0), (per_second, 1.0)
        if merchant_id is None or not self._factor:
            return self._count(own)
        return self._count(own, (merchant_id, (self._factor * per_minute, 60.0), (self._factor * per_second, 1.0)))

    def admit_new_key(self, merchant_id: UUID) -> None:
        """Counts the creation of an API key. Raises TooManyRequests after sixty of a merchant within an hour."""
        self._count((UUID(int=merchant_id.int ^ _CREATIONS), (NEW_KEYS_PER_HOUR, 3600.0), (0, 1.0)))

    def _count(self, *counted: _Counted) -> Headers:
        """Counts a request in the buckets of each owner, or in none of them. Raises TooManyRequests."""
        now = self._clock()
        fcntl.lockf(self._lock, fcntl.LOCK_EX)  # the kernel releases it if the process is killed
        try:
            found = [self._look(owner, minute, second, now) for owner, minute, second in counted]
            wait_s = max([each.wait_s for each in found])
            is_admitted = wait_s <= _ROUNDING
            if is_admitted:
                for each in found:
                    minute, second = each.after
                    _SLOT.pack_into(self._table, each.slot, each.owner, now + minute, now + second)
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)
        levels = [each.after if is_admitted else each.before for each in found]
        headers = _headers(
            [
                (*rate, full_in_s)
                for (_, *rates), level in zip(counted, levels, strict=True)
                for rate, full_in_s in zip(rates, level, strict=True)
            ]
        )
        if not is_admitted:
            RATE_LIMITED.inc()
            raise TooManyRequests(math.ceil(wait_s), headers)
        return headers

    def _look(self, owner: UUID, minute: _Rate, second: _Rate, now: float) -> _Found:
        """Returns the buckets of an owner as they are, and as they are after one more request."""
        slot, minute_full_at, second_full_at = self._find(owner.int, owner.bytes)
        (per_minute, minute_s), (per_second, second_s) = minute, second
        before = max(minute_full_at - now, 0.0), max(second_full_at - now, 0.0)
        minute_after = before[0] + minute_s / per_minute if per_minute else 0.0
        second_after = before[1] + second_s / per_second if per_second else 0.0
        wait_s = max(minute_after - minute_s, second_after - second_s)
        return _Found(slot, owner.bytes, before, (minute_after, second_after), wait_s)

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


def _headers(buckets: Sequence[tuple[int, float, float]]) -> Headers:
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
