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
from msgspec.structs import replace

from ledger.background.reactions.quarantine import UNREADABLE, Quarantine
from ledger.background.reactions.reaction import Effect, EnqueueJob, NoteAlias, Reaction, StateReaction
from ledger.background.scheduler.jobs import Jobs
from ledger.journal.journal import Journal
from ledger.journal.reader import RecordedEvent
from ledger.postgres.arrays import ENCODE_ARRAY, Array
from ledger.postgres.connection import Connection

_AT_ONCE: Final = 64
_EVENTS_AT_ONCE: Final = 500  # of one merchant in one transaction
_BEHIND_MAX: Final = 1000

# Whose log goes on behind a reaction's cursor, of all merchants or of those that are asked for; not those set aside.
_BEHIND: Final = """
select r.name, h.merchant_id, c.position is null
  from merchant_head h cross join unnest(%(reactions)s::text[]) as r(name)
  left join reaction_cursor c on c.merchant_id = h.merchant_id and c.reaction = r.name
 where h.position > coalesce(c.position, 0) {some}
   and not exists (select from unnest(%(aside)s::text[], %(whom)s::uuid[]) as a(name, merchant_id)
                    where a.name = r.name and a.merchant_id = h.merchant_id)
 order by h.merchant_id, r.name limit %(limit)s
"""
_ALL_BEHIND: Final = _BEHIND.format(some="")
_SOME_BEHIND: Final = _BEHIND.format(some="and h.merchant_id = any(%(merchants)s)")

_BEGIN: Final = "insert into reaction_cursor (reaction, merchant_id) select * from unnest(%s::text[], %s::uuid[]) on conflict do nothing"

# Hold the cursors that nobody else holds, and see how far their logs go: reactions that stand at one place, together. A cursor
# that was moved since the statement began is held where it is now, beyond what the statement sees of the log: it stays there.
_HOLD: Final = """
with held as (
  select reaction, merchant_id, position from reaction_cursor
   where (reaction, merchant_id) in (select * from unnest(%s::text[], %s::uuid[]))
   order by merchant_id, reaction for update skip locked)
select merchant_id, held.position, greatest(held.position, least(h.position, held.position + %s)), h.position, array_agg(reaction)
  from held join merchant_head h using (merchant_id) group by merchant_id, held.position, h.position
"""

_MOVE: Final = """
update reaction_cursor c set position = n.position
  from unnest(%s::text[], %s::uuid[], %s::int8[]) as n(reaction, merchant_id, position)
 where c.reaction = n.reaction and c.merchant_id = n.merchant_id
"""

_SET: Final = """
insert into due_time (merchant_id, kind, stream_id, payment_id, due_at)
select * from unnest(%s::uuid[], %s::text[], %s::uuid[], %s::uuid[], %s::timestamptz[])
on conflict (merchant_id, stream_id, kind, payment_id) do update set due_at = excluded.due_at
"""
_CLEAR_STREAMS: Final = "delete from due_time where merchant_id = %s and stream_id = any(%s)"

AnyReaction = Reaction | StateReaction

# What payments are called; a name that is known stays where it is.
_NAME: Final = """
insert into payment_name (merchant_id, name, order_id, payment_id)
select * from unnest(%s::uuid[], %s::text[], %s::uuid[], %s::uuid[]) on conflict do nothing
"""


_Cursor = tuple[str, UUID]  # a reaction's name and a merchant
_Follows = tuple[UUID, Effect]  # of which merchant's log, and what


class _Stretch(Struct, frozen=True):
    """A piece of a merchant's log that these reactions have not seen: behind `after`, up to `until`; the log ends at `head`."""

    merchant_id: UUID
    after: int
    until: int
    head: int
    reactions: Sequence[str]


class Dispatcher:
    """Lets reactions see what was appended. `dispatched` counts the events that they were shown.

    `aside` holds the merchants whose log cannot be read on now.
    """

    def __init__(self, journal: Journal, jobs: Jobs, reactions: Sequence[AnyReaction]) -> None:
        self._journal = journal
        self._jobs = jobs
        self._reactions = {reaction.name: reaction for reaction in reactions}
        self.aside = Quarantine()
        self.dispatched = 0

    async def sweep(self, connection: Connection, merchants: Sequence[UUID] | None = None) -> bool:
        """Go through what is new, of these merchants or of all; whether nothing that stood there at the start is left.

        Merchants that are set aside are not waited for. The connection is in autocommit and finds the queue (`see_jobs`).
        Raises psycopg.Error, a Fault.
        """
        more = free = True
        while more and free:
            behind = await self._behind(connection, merchants)
            more = len(behind) == _BEHIND_MAX
            for n in range(0, len(behind), _AT_ONCE):
                some = behind[n : n + _AT_ONCE]
                stretches = await self._react(connection, some)
                more = more or any(stretch.until < stretch.head for stretch in stretches)
                if sum(len(stretch.reactions) for stretch in stretches) < len(some):
                    free = False  # another dispatcher holds the rest: it does them, or we find them the next time
        return free

    async def catch_up(self, connection: Connection, merchant_id: UUID) -> None:
        """Return when all that a merchant's log holds now has been seen, here or by another dispatcher.

        Raises what is wrong with the log where it cannot be read: nobody knows what is due then.
        """
        while not await self.sweep(connection, [merchant_id]):
            await connection.execute("select pg_sleep(0.01)")
        if (fault := self.aside.why(merchant_id)) is not None:
            raise fault

    async def _behind(self, connection: Connection, merchants: Sequence[UUID] | None) -> Sequence[_Cursor]:
        """Which cursors are not where their logs end. All of them exist afterwards."""
        aside = self.aside.now()
        asked = {
            "reactions": list(self._reactions),
            "aside": [name for name, _ in aside],
            "whom": [merchant_id for _, merchant_id in aside],
            "merchants": merchants if merchants is None else list(merchants),
            "limit": _BEHIND_MAX,
        }
        rows = await connection.execute(_ALL_BEHIND if merchants is None else _SOME_BEHIND, asked)
        found = await rows.fetchall()
        behind = [(name, merchant_id) for name, merchant_id, _ in found]
        if merchants is None and len(behind) < _BEHIND_MAX:
            self.aside.keep_only({*aside, *behind})  # another worker may know a key that this one lacks
        if new := [(name, merchant_id) for name, merchant_id, is_new in found if is_new]:
            # Committed at once: in the transaction, a new cursor would have every other dispatcher wait for our end.
            await connection.execute(_BEGIN, _columns(new))
        return behind

    async def _react(self, connection: Connection, cursors: Sequence[_Cursor]) -> Sequence[_Stretch]:
        """Bring what nobody else holds of these cursors forward, in one transaction: the stretches of all that were held."""
        async with connection.transaction():
            held = await connection.execute(_HOLD, (*_columns(cursors), _EVENTS_AT_ONCE))
            stretches = [_Stretch(*row) for row in await held.fetchall()]
            follows: list[_Follows] = []
            moved: list[tuple[str, UUID, int]] = []
            for stretch in stretches:
                for name in await self._show(connection, stretch, follows):
                    self.aside.release(name, stretch.merchant_id)
                    moved.append((name, stretch.merchant_id, stretch.until))
            await self._write(connection, follows)
            if moved:
                await connection.execute(_MOVE, _columns(moved))
        return stretches

    async def _show(self, connection: Connection, stretch: _Stretch, follows: list[_Follows]) -> Sequence[str]:
        """Show a stretch to its reactions and add what follows; the names of those that could read it."""
        merchant_id = stretch.merchant_id
        topics = sorted({topic for name in stretch.reactions for topic in self._reactions[name].topics})
        try:
            seen = await self._journal.reader.range(connection, merchant_id, stretch.after, stretch.until, topics)
        except UNREADABLE as fault:
            if len(stretch.reactions) == 1:
                self.aside.add(stretch.reactions[0], merchant_id, fault)
                return []
            # Each by what it asks for itself.
            alone = [replace(stretch, reactions=[name]) for name in stretch.reactions]
            return [name for one in alone for name in await self._show(connection, one, follows)]
        able = []
        for name in stretch.reactions:
            reaction = self._reactions[name]
            shown = [each for each in seen if each.topic in reaction.topics]
            try:
                follows += await self._effects(connection, reaction, merchant_id, shown)
            except UNREADABLE as fault:
                self.aside.add(name, merchant_id, fault)
            else:
                self.dispatched += len(shown)
                able.append(name)
        return able

    async def _effects(
        self, connection: Connection, reaction: AnyReaction, merchant_id: UUID, seen: Sequence[RecordedEvent]
    ) -> Sequence[_Follows]:
        """What follows from a stretch for a reaction. Raises one of `UNREADABLE`, having written nothing."""
        if not isinstance(reaction, StateReaction):
            return [(merchant_id, effect) for each in seen for effect in reaction.react(each)]
        shown: dict[UUID, list[RecordedEvent]] = {}
        for each in seen:
            shown.setdefault(each.stream_id, []).append(each)
        touched = sorted(stream_id for stream_id, events in shown.items() if not reaction.is_settled(events))
        if not touched:
            return []
        # All at once: the reader makes one question of them.
        standing = await asyncio.gather(*[reaction.standing(self._journal, merchant_id, one) for one in touched])
        await connection.execute(_CLEAR_STREAMS, (merchant_id, touched))
        return [(merchant_id, due) for dues in standing for due in dues]

    async def _write(self, connection: Connection, follows: Sequence[_Follows]) -> None:
        due: dict[tuple[UUID, str, UUID, UUID], datetime] = {}  # a later word about the same replaces an earlier one
        now: list[tuple[UUID, EnqueueJob]] = []
        named: dict[tuple[UUID, str, UUID, UUID], None] = {}  # a capture is mostly called what its authorisation was
        for merchant_id, effect in follows:
            if isinstance(effect, EnqueueJob):
                now.append((merchant_id, effect))
            elif isinstance(effect, NoteAlias):
                named[merchant_id, effect.name, effect.stream_id, effect.payment_id] = None
            else:
                due[merchant_id, effect.kind, effect.stream_id, effect.payment_id] = effect.due_at
        if due:
            await connection.execute(_SET, _columns([(*key, due_at) for key, due_at in due.items()]))
        if named:
            await connection.execute(_NAME, _packed(named))
        await self._jobs.enqueue(connection, now)


def _packed(names: Iterable[tuple[UUID, str, UUID, UUID]]) -> list[Array]:
    """The columns of `_NAME`. An order by card has two rows of them: psycopg takes longer over such a list than all else here."""
    merchants, texts, orders, payments = zip(*names, strict=True)
    ids = [ENCODE_ARRAY["uuid"]([each.bytes for each in column]) for column in (merchants, orders, payments)]
    return [ids[0], ENCODE_ARRAY["text"]([text.encode() for text in texts]), *ids[1:]]


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
