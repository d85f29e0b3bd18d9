"""Deletes messages that orders applied a month ago.

A message that comes again after that changes nothing. Its signature is too old by then, and lists of processors are
read back for 29 days only. If a processor sends it anew, a notice only asks for what is so at the processor, and an
order knows its deposits, refunds and disputes by their ids. It knows only the last settlement batch of a payment, so
lines of settlements stay: one of an earlier batch would count again. Dismissed messages stay too: they are an
operator's decisions.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from ledger.background.periodic import pause
from ledger.processors.inbox_store import Inbox

KEPT: Final = timedelta(days=30)
"""How long an applied message is kept: longer than a processor's list is read back (`missed`)."""
EVERY_S: Final = 3600.0
_SLICE: Final = 1_000
_PAUSE_S: Final = 0.1
"""Between two slices, so that messages which arrive are not held up."""


async def delete_applied(inbox: Inbox, stop: asyncio.Event, *, slice_size: int = _SLICE) -> int:
    """Deletes what was applied longer than `KEPT` ago, slice by slice until `stop` is set; returns how many messages.

    Raises DatabaseUnavailable.
    """
    deleted = 0
    while not stop.is_set():
        count = await inbox.delete_applied(KEPT, slice_size)
        deleted += count
        if count < slice_size:
            break
        await pause(stop, _PAUSE_S)
    return deleted
