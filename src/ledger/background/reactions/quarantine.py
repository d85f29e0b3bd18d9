"""Merchants whose log cannot be read on: left alone for a while, so that the others' go on.

The rule a stranger would break: nothing is skipped. A merchant's cursor stays where it stands until the log behind it can be
read, by the same question as ever; only the asking becomes rarer. What is set aside is in sight: a line in the log for every
attempt, and a figure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

from ledger.background.periodic import back_off_s
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.codec import UnknownTopic

_log = structlog.get_logger()

UNREADABLE: Final = (KeyUnavailable, SealBroken, UnknownTopic)
"""What is wrong with this merchant's log alone: a key that is lost or not known here, bytes that do not open, a newer event."""

_PAUSE_MAX_S: Final = 60.0


class _Aside(Struct, frozen=True):
    """How often it was tried, from when (monotonic) it may be again, and what was wrong."""

    tries: int
    until_s: float
    fault: Exception


class Quarantine:
    """What one dispatcher leaves alone, by reaction and merchant."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._aside: dict[tuple[str, UUID], _Aside] = {}

    @property
    def merchants(self) -> int:
        """How many merchants some reaction does not get on with."""
        return len({merchant_id for _, merchant_id in self._aside})

    def now(self) -> Sequence[tuple[str, UUID]]:
        """Which reaction leaves whom alone at this moment."""
        now_s = self._now_s()
        return [whom for whom, one in self._aside.items() if one.until_s > now_s]

    def why(self, merchant_id: UUID) -> Exception | None:
        """What is wrong with a merchant's log, where it is set aside."""
        return next((one.fault for (_, whose), one in self._aside.items() if whose == merchant_id), None)

    def add(self, reaction: str, merchant_id: UUID, fault: Exception) -> None:
        """Leave a merchant alone: for a second, then two, four, at last a minute."""
        known = self._aside.get((reaction, merchant_id))
        tries = 0 if known is None else known.tries
        self._aside[reaction, merchant_id] = _Aside(tries + 1, self._now_s() + back_off_s(tries, _PAUSE_MAX_S), fault)
        _log.error(
            "merchant_set_aside",
            merchant_id=str(merchant_id),
            reaction=reaction,
            tries=tries + 1,
            reason=f"{type(fault).__name__}: {fault}",
        )

    def release(self, reaction: str, merchant_id: UUID) -> None:
        """The merchant's log was read."""
        if self._aside.pop((reaction, merchant_id), None) is not None:
            _log.info("merchant_goes_on", merchant_id=str(merchant_id), reaction=reaction)

    def keep_only(self, behind: Collection[tuple[str, UUID]]) -> None:
        """Nobody but these is left alone by a reaction: the others' logs have been read, by whomever."""
        for reaction, merchant_id in set(self._aside).difference(behind):
            self.release(reaction, merchant_id)
