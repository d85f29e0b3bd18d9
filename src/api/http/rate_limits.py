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
from typing import Final
from uuid import UUID, uuid5

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

TESTS_PER_MINUTE: Final = 60
"""How many samples a merchant may have posted to its endpoints in a minute: each is a request to another's machine, and
may hold a connection for fifteen seconds.
"""
_TESTS: Final = int.from_bytes(b"webhook samples.")
"""Makes of a merchant's id the owner of the bucket of its samples."""

VISITS_PER_HOUR: Final = 120
"""How often the page on which a payer requests an order's invoice may be opened or sent in an hour."""
FORMS_PER_HOUR: Final = 20
"""How often its form may be sent in an hour: each may cost a call to the stamping provider, or guess a tax number."""
MESSAGES_PER_MINUTE: Final = 12_000
"""How many signed messages of an account's processor are taken in a minute. A payment brings three to five: this is
what fifty payments a second bring, all day.
"""
PROCESSOR_MESSAGES_PER_MINUTE: Final = 60_000
"""How many signed messages of a processor of the whole installation are taken in a minute."""
_MESSAGES: Final = int.from_bytes(b"account messages")
"""Makes of an account's id the owner of the bucket of its messages."""
_PROCESSORS: Final = UUID("019ac1d2-0000-7000-8000-6d6573736167")
"""The namespace of the owners of the buckets of processors, by name."""
_VISITS: Final = int.from_bytes(b"self-inv. visits")
_FORMS: Final = int.from_bytes(b"self-inv. forms.")
"""Make of an order's id the owners of these buckets."""

_OF_KEY: Final = "Too many requests with this API key"
_OF_MERCHANT: Final = "Too many requests with all API keys of the merchant together"
_OF_MESSAGES: Final = "Too many messages"
_OF_VISITS: Final = "Too many visits of this page"
_OF_CREATIONS: Final = f"A merchant may create {NEW_KEYS_PER_HOUR} API keys in an hour"

_OF_TESTS: Final = f"A merchant may test its webhook endpoints {TESTS_PER_MINUTE} times in a minute"

_Owner = tuple[UUID, int, float, int, str]
"""The owner of two buckets: how many requests it may make in how many seconds, how many in one second, and what a
refusal is called.
"""
_Level = tuple[int, float, float]
"""A bucket: its limit, its period, and in how many seconds it is full; both in seconds."""


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
        owners = [(key_id, per_minute, 60.0, per_second, _OF_KEY)]
        if merchant_id is not None and self._factor:
            owners.append((merchant_id, self._factor * per_minute, 60.0, self._factor * per_second, _OF_MERCHANT))
        return self._admit(owners)

    def admit_new_key(self, merchant_id: UUID) -> None:
        """Counts the creation of an API key. Raises TooManyRequests after sixty of a merchant within an hour."""
        self._admit([(UUID(int=merchant_id.int ^ _CREATIONS), NEW_KEYS_PER_HOUR, 3600.0, 0, _OF_CREATIONS)])

    def admit_webhook_test(self, merchant_id: UUID) -> None:
        """Counts a sample that is posted to a merchant's endpoint. Raises TooManyRequests."""
        self._admit([(UUID(int=merchant_id.int ^ _TESTS), TESTS_PER_MINUTE, 60.0, 0, _OF_TESTS)])

    def admit_visit(self, order_id: UUID, *, is_sent: bool) -> None:
        """Counts a visit of the page on which an order's payer requests its invoice, and one that sends its form.

        Raises TooManyRequests.
        """
        owners = [(UUID(int=order_id.int ^ _VISITS), VISITS_PER_HOUR, 3600.0, 0, _OF_VISITS)]
        if is_sent:
            owners.append((UUID(int=order_id.int ^ _FORMS), FORMS_PER_HOUR, 3600.0, 0, _OF_VISITS))
        self._admit(owners)

    def admit_account_message(self, account_id: UUID) -> None:
        """Counts a signed message of an account's processor. Raises TooManyRequests: the processor sends it again."""
        self._admit([(UUID(int=account_id.int ^ _MESSAGES), MESSAGES_PER_MINUTE, 60.0, 0, _OF_MESSAGES)])

    def admit_processor_message(self, processor: str) -> None:
        """Counts a signed message of a processor of the whole installation. Raises TooManyRequests."""
        self._admit([(uuid5(_PROCESSORS, processor), PROCESSOR_MESSAGES_PER_MINUTE, 60.0, 0, _OF_MESSAGES)])

    def return_new_key(self, merchant_id: UUID) -> None:
        """Takes back the creation of an API key that was refused, or answered as before."""
        owner = UUID(int=merchant_id.int ^ _CREATIONS)
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            slot, full_at, second_full_at = self._find(owner.int, owner.bytes, -1)
            _SLOT.pack_into(self._table, slot, owner.bytes, full_at - 3600.0 / NEW_KEYS_PER_HOUR, second_full_at)
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def _admit(self, owners: Sequence[_Owner]) -> Headers:
        """Counts a request in both buckets of each owner, or in none of them. Raises TooManyRequests."""
        now, wait_s, refused, slot = self._clock(), 0.0, "", -1
        levels: list[_Level] = []
        counted: list[_Level] = []
        changes = []
        fcntl.lockf(self._lock, fcntl.LOCK_EX)  # the kernel releases it if the process is killed
        try:
            for owner, limit, period_s, per_second, what in owners:
                name = owner.bytes
                slot, full_at, second_full_at = self._find(owner.int, name, slot)
                left_s = full_at - now if full_at > now else 0.0
                second_left_s = second_full_at - now if second_full_at > now else 0.0
                after_s = left_s + period_s / limit if limit else 0.0
                second_after_s = second_left_s + 1.0 / per_second if per_second else 0.0
                own_wait_s = max(after_s - period_s, second_after_s - 1.0)
                if own_wait_s > wait_s:
                    wait_s, refused = own_wait_s, what
                levels += [(limit, period_s, left_s), (per_second, 1.0, second_left_s)]
                counted += [(limit, period_s, after_s), (per_second, 1.0, second_after_s)]
                changes.append((slot, name, now + after_s, now + second_after_s))
            if wait_s <= _ROUNDING:
                levels = counted
                for change in changes:
                    _SLOT.pack_into(self._table, *change)
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)
        headers = _headers(levels)
        if wait_s > _ROUNDING:
            RATE_LIMITED.inc()
            raise TooManyRequests(refused, math.ceil(wait_s), headers)
        return headers

    def _find(self, number: int, key: bytes, taken: int) -> tuple[int, float, float]:
        """Returns the offset of a key's slot, or of the one that it may take, and the times at which its buckets are
        full. `taken` is the slot that the same request takes for another owner.
        """
        first = number % self._starts * _SLOT.size
        slots = range(first, first + _PROBES * _SLOT.size, _SLOT.size)
        for slot in slots:
            owner, minute_full_at, second_full_at = _SLOT.unpack_from(self._table, slot)
            if owner == key:
                return slot, minute_full_at, second_full_at
        free = [slot for slot in slots if slot != taken]
        return min(free, key=lambda slot: max(_SLOT.unpack_from(self._table, slot)[1:])), 0.0, 0.0


def _headers(buckets: Sequence[_Level]) -> Headers:
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
