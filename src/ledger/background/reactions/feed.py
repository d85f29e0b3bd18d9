"""The feed in an API process: a request lets the numbering catch up with the log before it reads.

What an answered request did is in the log. So the feed is up to date as soon as it has been numbered up to the head
that a later request finds, by this process or by a worker.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from typing import Final
from uuid import UUID

from ledger.background.reactions.numbering import EventNumbers, is_far
from ledger.journal.journal import Journal
from ledger.operations.context.event_feed import FeedBehind
from ledger.postgres.connection import Connection, SharedClient

_PATIENCE_S: Final = 3.0
"""How long a request lets the numbering catch up."""

# Where a merchant's log ends, how far it is numbered, and where the past ended when the numbering began.
_PLACE: Final = """
select h.position, f.position, f.past from merchant_head h left join event_feed f using (merchant_id)
 where h.merchant_id = %s
"""

# Begins a merchant's feed, unless another request was first.
_BEGIN: Final = """
insert into event_feed (merchant_id, sequence, past)
select h.merchant_id, n.behind, h.position from merchant_head h cross join event_numbers n where h.merchant_id = %s
on conflict do nothing
"""


class Feed:
    """The feeds of all merchants (see `operations.context.event_feed`). Call `stop` at the end.

    Requests have turns at one connection, each for a slice of a log. Those of long pasts have turns among themselves
    before: however many there are, a turn of another merchant waits for one slice of them.
    """

    def __init__(self, url: str, journal: Journal) -> None:
        self._client = SharedClient(url, "ledger-numbering")
        self._numbers = EventNumbers(url, journal)
        self._far = asyncio.Lock()

    async def stop(self) -> None:
        """Disconnects."""
        await self._client.stop()
        await self._numbers.stop()

    async def begin(self, merchant_id: UUID) -> None:
        """Begins a merchant's feed, if there is none. The worker numbers it."""
        async with self._client.turn() as connection:
            await connection.execute(_BEGIN, (merchant_id,))

    async def catch_up(self, merchant_id: UUID) -> None:
        """Numbers what a merchant's log holds now, and begins its feed if there is none."""
        until_s = time.monotonic() + _PATIENCE_S
        target: int | None = None
        has_long_past = False
        while True:
            async with self._far if has_long_past else nullcontext(), self._client.turn() as connection:
                head, position, past = await _place(connection, merchant_id)
                target = head if target is None else target
                if position >= target:
                    return
                if self._numbers.is_quarantined(merchant_id):
                    raise FeedBehind(is_readable=True, cause=self._numbers.quarantine.why(merchant_id))
                if time.monotonic() >= until_s:
                    raise FeedBehind(is_readable=position >= past)
                had_turn, has_long_past = has_long_past, is_far(target - position)
                if had_turn or not has_long_past:
                    await self._numbers.advance(connection, merchant_id)


async def _place(connection: Connection, merchant_id: UUID) -> tuple[int, int, int]:
    row = await (await connection.execute(_PLACE, (merchant_id,))).fetchone()
    assert row is not None, "every merchant has a log"
    if row[1] is None:
        await connection.execute(_BEGIN, (merchant_id,))
        return await _place(connection, merchant_id)
    head, position, past = row
    return head, position, past
