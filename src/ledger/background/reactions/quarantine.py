"""Merchants whose log cannot be read, or at whose events a reaction fails: they are skipped for a while.

The other merchants' logs are dispatched meanwhile.

Never skip an event. The cursor stays until the log after it can be read by the same query, which is sent ever more
rarely. Every attempt is logged, and a metric counts the merchants.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from ledger.back_off import back_off_s
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.codec import UnknownTopic
from ledger.journal.event_archive import ArchiveUnavailable

_log = structlog.get_logger()

UNREADABLE: Final = (KeyUnavailable, SealBroken, UnknownTopic, ArchiveUnavailable)
"""Faults of one merchant's log alone: a key that is lost or unknown here, bytes that do not open, a newer event, a file
of archived events that cannot be read.
"""

_PAUSE_MAX_S: Final = 60.0


class _Entry(Struct, frozen=True):
    """How often the log was tried, the monotonic time from which it may be tried again, and the fault."""

    tries: int
    until_s: float
    fault: Exception


class Quarantine:
    """The logs that one dispatcher skips for now, by reaction and merchant."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._entries: dict[tuple[str, UUID], _Entry] = {}

    @property
    def merchants(self) -> int:
        """How many merchants are in quarantine for any reaction."""
        return len(self.merchant_ids)

    @property
    def merchant_ids(self) -> frozenset[UUID]:
        """The merchants that are in quarantine for any reaction."""
        return frozenset(merchant_id for _, merchant_id in self._entries)

    def now(self) -> Sequence[tuple[str, UUID]]:
        """Returns which reactions skip which merchants now."""
        now_s = self._now_s()
        return [key for key, entry in self._entries.items() if entry.until_s > now_s]

    def why(self, merchant_id: UUID) -> Exception | None:
        """Returns the fault of a merchant's log, or None if it is not in quarantine."""
        return next((entry.fault for (_, merchant), entry in self._entries.items() if merchant == merchant_id), None)

    def add(self, reaction: str, merchant_id: UUID, fault: Exception) -> None:
        """Puts a merchant in quarantine: for a second, then two, four, at most a minute."""
        entry = self._entries.get((reaction, merchant_id))
        tries = 0 if entry is None else entry.tries
        self._entries[reaction, merchant_id] = _Entry(tries + 1, self._now_s() + back_off_s(tries, _PAUSE_MAX_S), fault)
        _log.error(
            "merchant_set_aside",
            merchant_id=str(merchant_id),
            reaction=reaction,
            tries=tries + 1,
            # The text of another fault may name a payer.
            reason=f"{type(fault).__name__}: {fault}" if isinstance(fault, UNREADABLE) else type(fault).__name__,
        )

    def release(self, reaction: str, merchant_id: UUID) -> None:
        """Ends the quarantine of a merchant whose log was read."""
        if self._entries.pop((reaction, merchant_id), None) is not None:
            _log.info("merchant_goes_on", merchant_id=str(merchant_id), reaction=reaction)

    def keep_only(self, behind: Collection[tuple[str, UUID]]) -> None:
        """Releases every merchant but these: another dispatcher has read the others' logs."""
        for reaction, merchant_id in set(self._entries).difference(behind):
            self.release(reaction, merchant_id)
