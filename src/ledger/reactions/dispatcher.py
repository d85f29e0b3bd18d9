"""The dispatcher: reads every merchant's log by position and writes down what follows, exactly once.

The rule a stranger would break: what follows from events is written in the transaction that moves the cursor behind them,
and the cursor's row is held meanwhile. A dispatcher that is killed has done all of a stretch or nothing of it; two that run
at once share the merchants between them. And one merchant whose log cannot be read holds up no other (see `set_aside`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.journal.connection import Connection
from ledger.journal.journal import Journal
from ledger.journal.reader import Recorded
from ledger.reactions.jobs import Jobs
from ledger.reactions.reaction import DoNow, Effect, Known, Reaction, StandingReaction
from ledger.reactions.set_aside import UNREADABLE, SetAside

_MERCHANTS_AT_ONCE: Final = 64
_EVENTS_AT_ONCE: Final = 500  # of one merchant in one transaction
_BEHIND_MAX: Final = 1000

# The merchants whose log goes on behind a reaction's cursor, or those of them that are asked for; not those set aside.
_BEHIND: Final = """
select h.merchant_id from merchant_head h
  left join reaction_cursor c on c.merchant_id = h.merchant_id and c.reaction = %s
 where h.position > coalesce(c.position, 0) and h.merchant_id <> all(%s) {some} order by h.merchant_id limit %s
"""
_ALL_BEHIND: Final = _BEHIND.format(some="")
_SOME_BEHIND: Final = _BEHIND.format(some="and h.merchant_id = any(%s)")

_BEGIN: Final = (
    "insert into reaction_cursor (merchant_id, reaction) select m, %s from unnest(%s::uuid[]) m on conflict do nothing"
)

# Hold the cursors that nobody else holds, and see how far their logs go.
_HOLD: Final = """
with held as (
  select merchant_id, position from reaction_cursor
   where reaction = %s and merchant_id = any(%s) order by merchant_id for update skip locked)
select held.merchant_id, held.position, least(h.position, held.position + %s), h.position
  from held join merchant_head h using (merchant_id)
"""

_MOVE: Final = """
update reaction_cursor c set position = n.position from unnest(%s::uuid[], %s::int8[]) as n(merchant_id, position)
 where c.merchant_id = n.merchant_id and c.reaction = %s
"""

_SET: Final = """
insert into due_time (merchant_id, kind, stream_id, payment_id, due_at)
select * from unnest(%s::uuid[], %s::text[], %s::uuid[], %s::uuid[], %s::timestamptz[])
on conflict (merchant_id, stream_id, kind, payment_id) do update set due_at = excluded.due_at
"""
_CLEAR_STREAMS: Final = "delete from due_time where merchant_id = %s and stream_id = any(%s)"

AnyReaction = Reaction | StandingReaction

# What payments are called; a name that is known stays where it is.
_NAME: Final = """
insert into payment_name (merchant_id, name, order_id, payment_id)
select * from unnest(%s::uuid[], %s::text[], %s::uuid[], %s::uuid[]) on conflict do nothing
"""


class _Stretch(Struct, frozen=True):
    """A piece of a merchant's log: behind `after`, up to `until`; the log ends at `head`."""

    merchant_id: UUID
    after: int
    until: int
    head: int


class Dispatcher:
    """Lets reactions see what was appended. `dispatched` counts the events that they were shown.

    `aside` holds the merchants whose log cannot be read on now.
    """

    def __init__(self, journal: Journal, jobs: Jobs, reactions: Sequence[AnyReaction]) -> None:
        self._journal = journal
        self._jobs = jobs
        self._reactions = reactions
        self.aside = SetAside()
        self.dispatched = 0

    async def sweep(self, connection: Connection, merchants: Sequence[UUID] | None = None) -> bool:
        """Go through what is new, of these merchants or of all; whether nothing that stood there at the start is left.

        Merchants that are set aside are not waited for. The connection is in autocommit and finds the queue (`see_jobs`).
        Raises psycopg.Error, a Fault.
        """
        finished = True
        for reaction in self._reactions:
            while behind := await self._behind(connection, reaction, merchants):
                for n in range(0, len(behind), _MERCHANTS_AT_ONCE):
                    caught_up = await self._react(connection, reaction, behind[n : n + _MERCHANTS_AT_ONCE])
                    if not caught_up:
                        finished = False
                if not finished:  # another dispatcher holds some of them: it does them, or we find them the next time
                    break
        return finished

    async def catch_up(self, connection: Connection, merchant_id: UUID) -> None:
        """Return when all that a merchant's log holds now has been seen, here or by another dispatcher.

        Raises what is wrong with the log where it cannot be read: nobody knows what is due then.
        """
        while not await self.sweep(connection, [merchant_id]):
            await connection.execute("select pg_sleep(0.01)")
        if (fault := self.aside.why(merchant_id)) is not None:
            raise fault

    async def _behind(
        self, connection: Connection, reaction: AnyReaction, merchants: Sequence[UUID] | None
    ) -> Sequence[UUID]:
        aside = self.aside.now(reaction.name)
        if merchants is None:
            rows = await connection.execute(_ALL_BEHIND, (reaction.name, aside, _BEHIND_MAX))
        else:
            rows = await connection.execute(_SOME_BEHIND, (reaction.name, aside, list(merchants), _BEHIND_MAX))
        behind = [merchant_id for (merchant_id,) in await rows.fetchall()]
        if merchants is None and len(behind) < _BEHIND_MAX:
            self.aside.only(reaction.name, {*aside, *behind})  # another worker may know a key that this one lacks
        return behind

    async def _react(self, connection: Connection, reaction: AnyReaction, merchants: Sequence[UUID]) -> bool:
        """One transaction: whether it brought all of these merchants up to the end of their logs, or found somebody at it."""
        # Committed at once: in the transaction, a new cursor would have every other dispatcher wait for our end.
        await connection.execute(_BEGIN, (reaction.name, list(merchants)))
        async with connection.transaction():
            held = await connection.execute(_HOLD, (reaction.name, list(merchants), _EVENTS_AT_ONCE))
            stretches = [_Stretch(*row) for row in await held.fetchall()]
            effects: list[tuple[UUID, Effect]] = []
            read: list[_Stretch] = []
            for stretch in stretches:
                try:
                    effects += await self._effects(connection, reaction, stretch)
                except UNREADABLE as fault:
                    self.aside.put(reaction.name, stretch.merchant_id, fault)
                else:
                    self.aside.take_back(reaction.name, stretch.merchant_id)
                    read.append(stretch)
            await self._write(connection, effects)
            moved = [stretch.merchant_id for stretch in read]
            positions = [stretch.until for stretch in read]
            await connection.execute(_MOVE, (moved, positions, reaction.name))
        return len(stretches) == len(merchants)

    async def _effects(
        self, connection: Connection, reaction: AnyReaction, stretch: _Stretch
    ) -> Sequence[tuple[UUID, Effect]]:
        """What follows from a stretch. Raises one of `UNREADABLE`, having written nothing."""
        merchant_id = stretch.merchant_id
        seen = await self._journal.reader.stretch(
            connection, merchant_id, stretch.after, stretch.until, sorted(reaction.topics)
        )
        self.dispatched += len(seen)
        if not isinstance(reaction, StandingReaction):
            return [(merchant_id, effect) for each in seen for effect in reaction.react(each)]
        shown: dict[UUID, list[Recorded]] = {}
        for each in seen:
            shown.setdefault(each.stream_id, []).append(each)
        touched = sorted(stream_id for stream_id, events in shown.items() if not reaction.is_settled(events))
        if not touched:
            return []
        # All at once: the reader makes one question of them.
        standing = await asyncio.gather(*[reaction.standing(self._journal, merchant_id, one) for one in touched])
        await connection.execute(_CLEAR_STREAMS, (merchant_id, touched))
        return [(merchant_id, due) for dues in standing for due in dues]

    async def _write(self, connection: Connection, effects: Iterable[tuple[UUID, Effect]]) -> None:
        due: dict[tuple[UUID, str, UUID, UUID], datetime] = {}  # a later word about the same replaces an earlier one
        now: list[tuple[UUID, DoNow]] = []
        named: list[tuple[UUID, str, UUID, UUID]] = []
        for merchant_id, effect in effects:
            if isinstance(effect, DoNow):
                now.append((merchant_id, effect))
            elif isinstance(effect, Known):
                named.append((merchant_id, effect.name, effect.stream_id, effect.payment_id))
            else:
                due[merchant_id, effect.kind, effect.stream_id, effect.payment_id] = effect.due_at
        if due:
            await connection.execute(_SET, _columns([(*key, due_at) for key, due_at in due.items()]))
        if named:
            await connection.execute(_NAME, _columns(named))
        await self._jobs.enqueue(connection, now)


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
