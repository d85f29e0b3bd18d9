"""How many requests a key may make: per minute and per second, both at once (contract N75).

The rule a stranger would break: a request that is refused costs nothing. Otherwise a client that keeps asking would keep
itself out for ever.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final
from uuid import UUID

from msgspec import Struct

from api.http.errors import TooManyRequests
from api.http.response import Headers
from ledger.operations.rate_limits import RateDecision, RateRequest

_KEYS_MAX: Final = 20_000
_HAIR: Final = 1e-6  # sums of tenths do not come out even


class Rate(Struct, frozen=True):
    """So many requests in so many seconds, all of them at once or spread out."""

    limit: int
    period_s: float

    def remaining(self, full_in_s: float) -> int:
        """How many requests the bucket still holds when it is full again in so many seconds."""
        return int((self.period_s - full_in_s) * self.limit / self.period_s + _HAIR)


class LocalRateLimiter:
    """Counts one process's requests in memory, by the generic cell rate algorithm (ITU-T I.371).

    Of each key it keeps the moments at which its two buckets are full again; of more than `keys_max` keys it forgets the
    one that has been silent the longest. `clock` is monotonic, in seconds; `refused` counts the requests that were one too many.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, keys_max: int = _KEYS_MAX) -> None:
        self._clock = clock
        self._keys_max = keys_max
        self._full_at: dict[UUID, tuple[float, float]] = {}
        self.refused = 0

    def __len__(self) -> int:
        return len(self._full_at)

    def admit(self, key_id: UUID, per_minute: int, per_second: int) -> Headers:
        """Count a request, and return the RateLimit headers of the bucket with fewer requests left. A limit of 0 is none.

        Raises TooManyRequests, which carries the same headers.
        """
        if not (per_minute or per_second):
            return ()
        now = self._clock()
        full_at = self._full_at.pop(key_id, (now, now))
        minute, second = Rate(per_minute, 60.0), Rate(per_second, 1.0)
        after = _filled(full_at[0], now, minute), _filled(full_at[1], now, second)
        wait = max(after[0] - now - minute.period_s, after[1] - now - second.period_s)
        if wait <= _HAIR:
            full_at = after
        self._full_at[key_id] = full_at
        if len(self._full_at) > self._keys_max:
            del self._full_at[next(iter(self._full_at))]
        headers = _headers(((minute, full_at[0] - now), (second, full_at[1] - now)))
        if wait > _HAIR:
            self.refused += 1
            raise TooManyRequests(math.ceil(wait), headers)
        return headers


class SharedRateLimiter:
    """Counts the requests of all processes of an installation together, where `take` does; like `Limiter` otherwise."""

    def __init__(self, take: Callable[[RateRequest], Awaitable[RateDecision]]) -> None:
        self._take = take
        self.refused = 0

    async def admit(self, merchant_id: UUID, key_id: UUID, per_minute: int, per_second: int) -> Headers:
        """As `Limiter.admit`. Raises TooManyRequests, or a Fault while the database is away."""
        if not (per_minute or per_second):
            return ()
        taken = await self._take(RateRequest(merchant_id, key_id, per_minute, per_second))
        minute, second = Rate(per_minute, 60.0), Rate(per_second, 1.0)
        buckets = ((minute, taken.minute_full_in_s), (second, taken.second_full_in_s))
        headers = _headers(buckets)
        if not taken.admitted:
            self.refused += 1
            wait = max(
                max(0.0, full) + rate.period_s / rate.limit - rate.period_s for rate, full in buckets if rate.limit
            )
            raise TooManyRequests(max(1, math.ceil(wait)), headers)
        return headers


def _filled(full_at: float, now: float, rate: Rate) -> float:
    """When a bucket is full again after one more request."""
    return max(full_at, now) + rate.period_s / rate.limit if rate.limit else now


def _headers(buckets: Iterable[tuple[Rate, float]]) -> Headers:
    tightest = min(
        (rate.remaining(max(0.0, full_in_s)), rate.limit, max(0.0, full_in_s))
        for rate, full_in_s in buckets
        if rate.limit
    )
    remaining, limit, full_in_s = tightest
    return (
        (b"ratelimit-limit", b"%d" % limit),
        (b"ratelimit-remaining", b"%d" % remaining),
        (b"ratelimit-reset", b"%d" % math.ceil(full_in_s)),
    )
