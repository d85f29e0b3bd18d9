"""The dispatcher: reads every merchant's log by position and writes the effects of its events, exactly once.

Write the effects of events in the transaction that moves the cursor past them, and lock the cursor's row meanwhile. A
dispatcher that is killed has done all of a range or nothing of it; two that run at once share the merchants. A merchant
whose log cannot be read, or at whose events a reaction fails, delays no other (see `quarantine`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import psycopg
from msgspec import Struct
from msgspec.structs import replace

from ledger.background.effects import Effect, EnqueueJob, NoteAlias, Reaction, StateReaction
from ledger.background.reactions.quarantine import UNREADABLE, Quarantine
from ledger.background.scheduler.jobs import Jobs
from ledger.journal.journal import Journal
from ledger.journal.reader import SeenEvent, StoredEvent
from ledger.postgres.arrays import ENCODE_ARRAY, Array
from ledger.postgres.connection import Connection
from ledger.postgres.faults import Fault
from ledger.postgres.merchant_transactions import MerchantTransactions

_AT_ONCE: Final = 64
_EVENTS_AT_ONCE: Final = 1_000  # of one merchant in one transaction
_BEHIND_MAX: Final = 1000

# Merchants whose log continues after a reaction's cursor, of all merchants or of some; without those in quarantine.
_BEHIND: Final = """
select r.name, h.merchant_id, c.position is null
  from {heads} cross join unnest(%(reactions)s::text[]) as r(name)
  left join reaction_cursor c on c.merchant_id = h.merchant_id and c.reaction = r.name
 where h.position > coalesce(c.position, 0) {some}
   and not exists (select from unnest(%(quarantined)s::text[], %(quarantined_of)s::uuid[]) as q(name, merchant_id)
                    where q.name = r.name and q.merchant_id = h.merchant_id)
 order by h.merchant_id, r.name limit %(limit)s
"""
_ALL_BEHIND: Final = _BEHIND.format(heads="merchant_head h", some="")
_SOME_BEHIND: Final = _BEHIND.format(heads="merchant_head h", some="and h.merchant_id = any(%(merchants)s)")

# The heads of all merchants, and the same of given heads: on Citus, they are on the nodes and cursors are not.
_ALL_HEADS: Final = "select merchant_id, position from merchant_head"
_GIVEN_BEHIND: Final = _BEHIND.format(
    heads="unnest(%(merchants)s::uuid[], %(positions)s::int8[]) as h(merchant_id, position)", some=""
)

_BEGIN: Final = "insert into reaction_cursor (reaction, merchant_id) select * from unnest(%s::text[], %s::uuid[]) on conflict do nothing"

# Locks the cursors that no other dispatcher has locked, and reads how far their logs go: reactions at the same position
# together. A cursor that was moved since the statement began is locked where it is now, past what the statement sees of
# the log: it stays.
_LOCK: Final = """
with locked as (
  select reaction, merchant_id, position from reaction_cursor
   where (reaction, merchant_id) in (select * from unnest(%s::text[], %s::uuid[]))
   order by merchant_id, reaction for update skip locked)
select merchant_id, l.position, greatest(l.position, least(h.position, l.position + %s)), h.position, array_agg(reaction)
  from locked l join merchant_head h using (merchant_id) group by merchant_id, l.position, h.position
"""

# The same on Citus, where the cursors are on the coordinator and the heads on the nodes.
_LOCK_CURSORS: Final = """
select merchant_id, position, array_agg(reaction) from (
  select reaction, merchant_id, position from reaction_cursor
   where (reaction, merchant_id) in (select * from unnest(%s::text[], %s::uuid[]))
   order by merchant_id, reaction for update skip locked) as locked
 group by merchant_id, position
"""
_HEADS: Final = "select merchant_id, position from merchant_head where merchant_id = any(%s::uuid[])"

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

# Aliases of payments. A name that exists keeps its payment.
_NAME: Final = """
insert into payment_name (merchant_id, name, order_id, payment_id)
select * from unnest(%s::uuid[], %s::text[], %s::uuid[], %s::uuid[]) on conflict do nothing
"""


_Cursor = tuple[str, UUID]  # a reaction's name and a merchant
_MerchantEffect = tuple[UUID, Effect]  # the merchant whose log it follows from, and the effect


class _Range(Struct, frozen=True):
    """The part of a log that these reactions have not seen: positions after `after` up to `until`.

    The log ends at `head`.
    """

    merchant_id: UUID
    after: int
    until: int
    head: int
    reactions: Sequence[str]


class Dispatcher:
    """Shows new events to the reactions. `dispatched` counts the events shown.

    `quarantine` holds the merchants whose log cannot be read now.
    """

    def __init__(
        self,
        journal: Journal,
        jobs: Jobs,
        reactions: Sequence[AnyReaction],
    ) -> None:
        self._journal = journal
        self._jobs = jobs
        self._reactions = {reaction.name: reaction for reaction in reactions}
        self._topics = sorted({topic for reaction in reactions for topic in reaction.topics})
        self.quarantine = Quarantine()
        self.dispatched = 0

    async def sweep(self, connection: Connection, merchants: Sequence[UUID] | None = None) -> bool:
        """Dispatches new events of these merchants or of all. Returns whether all events that existed at the start are
        dispatched.

        Merchants in quarantine do not count. The connection is in autocommit and uses the queue's schema
        (`use_jobs_schema`). Raises psycopg.Error, a Fault.
        """
        more = free = True
        while more and free:
            behind = await self._behind(connection, merchants)
            more = len(behind) == _BEHIND_MAX
            for n in range(0, len(behind), _AT_ONCE):
                some = behind[n : n + _AT_ONCE]
                ranges = await self._react(connection, some)
                more = more or any(each.until < each.head for each in ranges)
                if sum(len(each.reactions) for each in ranges) < len(some):
                    free = False  # another dispatcher has locked the rest: it does them, or the next sweep finds them
        return free

    async def behind(self, connection: Connection, transactions: MerchantTransactions) -> Sequence[UUID]:
        """Returns merchants with events to dispatch, on Citus without those on a node that is down. Raises
        psycopg.Error.
        """
        heads = [*(await transactions.read_all(connection, _ALL_HEADS, ())).rows]
        values = {
            **self._asked(self.quarantine.now()),
            "merchants": _uuids(merchant_id for merchant_id, _ in heads),
            "positions": ENCODE_ARRAY["int8"]([position for _, position in heads]),
        }
        rows = await connection.execute(_GIVEN_BEHIND, values, binary=True)
        return list(dict.fromkeys(merchant_id for _, merchant_id, _ in await rows.fetchall()))

    async def catch_up(self, connection: Connection, merchant_id: UUID) -> None:
        """Returns when all that a merchant's log holds now has been dispatched, here or by another dispatcher.

        Raises one of `UNREADABLE` if the log cannot be read: what is due is unknown then.
        """
        while not await self.sweep(connection, [merchant_id]):
            await connection.execute("select pg_sleep(0.01)")
        if (fault := self.quarantine.why(merchant_id)) is not None:
            raise fault

    def _asked(self, quarantined: Collection[_Cursor]) -> Mapping[str, Any]:
        """Returns the parameters of statements that find what is behind."""
        return {
            "reactions": _texts(self._reactions),
            "quarantined": _texts(name for name, _ in quarantined),
            "quarantined_of": _uuids(merchant_id for _, merchant_id in quarantined),
            "limit": _BEHIND_MAX,
        }

    async def _behind(self, connection: Connection, merchants: Sequence[UUID] | None) -> Sequence[_Cursor]:
        """Returns the cursors that are behind the ends of their logs, and creates those that do not exist yet."""
        quarantined = self.quarantine.now()
        values = {**self._asked(quarantined), "merchants": None if merchants is None else _uuids(merchants)}
        statement = _ALL_BEHIND if merchants is None else _SOME_BEHIND
        rows = await connection.execute(statement, values, binary=True)
        found = await rows.fetchall()
        behind = [(name, merchant_id) for name, merchant_id, _ in found]
        if merchants is None and len(behind) < _BEHIND_MAX:
            self.quarantine.keep_only({*quarantined, *behind})  # another worker may have a key that this one lacks
        if new := [(name, merchant_id) for name, merchant_id, is_new in found if is_new]:
            # Committed at once: in the later transaction, a new cursor would make every other dispatcher wait for its
            # end.
            await connection.execute(_BEGIN, _cursor_columns(new))
        return behind

    async def _react(self, connection: Connection, cursors: Sequence[_Cursor]) -> Sequence[_Range]:
        """Moves the cursors that can be locked, in one transaction; returns the ranges of those."""
        async with connection.transaction():
            ranges = await _locked(connection, cursors)
            if not ranges:
                return ranges
            places = [(each.merchant_id, each.after, each.until) for each in ranges]
            stored = await self._journal.reader.stored(connection, places, self._topics)
            effects: list[_MerchantEffect] = []
            moved: list[tuple[str, UUID, int]] = []
            for each, events in zip(ranges, stored, strict=True):
                for name in await self._show(connection, each, events, effects):
                    self.quarantine.release(name, each.merchant_id)
                    moved.append((name, each.merchant_id, each.until))
            await self._write(connection, effects)
            if moved:
                positions = ENCODE_ARRAY["int8"]([until for *_, until in moved])
                await connection.execute(_MOVE, (*_cursor_columns(moved), positions))
        return ranges

    async def _show(
        self,
        connection: Connection,
        new: _Range,
        stored: Sequence[StoredEvent],
        effects: list[_MerchantEffect],
    ) -> Sequence[str]:
        """Shows a range to its reactions and adds their effects; returns the reactions that could read it."""
        merchant_id = new.merchant_id
        if len(new.reactions) < len(self._reactions):
            topics = {topic for name in new.reactions for topic in self._reactions[name].topics}
            stored = [event for event in stored if event[3] in topics]
        try:
            seen = await self._journal.reader.opened(connection, merchant_id, stored)
        except UNREADABLE as fault:
            if len(new.reactions) == 1:
                self.quarantine.add(new.reactions[0], merchant_id, fault)
                return []
            # Each with its own topics alone: another one's may be readable.
            alone = [replace(new, reactions=[name]) for name in new.reactions]
            return [name for one in alone for name in await self._show(connection, one, stored, effects)]
        able = []
        for name in new.reactions:
            reaction = self._reactions[name]
            shown = [each for each in seen if each.topic in reaction.topics]
            try:
                effects += await self._effects(connection, reaction, merchant_id, shown)
            except Exception as fault:
                if isinstance(fault, psycopg.Error | Fault) and not isinstance(fault, UNREADABLE):
                    raise  # the database's
                self.quarantine.add(name, merchant_id, fault)
            else:
                self.dispatched += len(shown)
                able.append(name)
        return able

    async def _effects(
        self, connection: Connection, reaction: AnyReaction, merchant_id: UUID, seen: Sequence[SeenEvent]
    ) -> Sequence[_MerchantEffect]:
        """Returns a reaction's effects of a range. Raises before anything is written."""
        if not isinstance(reaction, StateReaction):
            return [(merchant_id, effect) for each in seen for effect in reaction.react(each)]
        shown: dict[UUID, list[SeenEvent]] = {}
        for each in seen:
            shown.setdefault(each.stream_id, []).append(each)
        touched = sorted(stream_id for stream_id, events in shown.items() if not reaction.is_settled(events))
        if not touched:
            return []
        # Together: the reader makes one query of them.
        timers = await asyncio.gather(*[reaction.timers(self._journal, merchant_id, one) for one in touched])
        await connection.execute(_CLEAR_STREAMS, (merchant_id, touched))
        return [(merchant_id, timer) for each in timers for timer in each]

    async def _write(self, connection: Connection, effects: Sequence[_MerchantEffect]) -> None:
        # By key: a later timer replaces an earlier one, and most captures have the alias of their authorisation.
        timers: dict[tuple[bytes, bytes, bytes, bytes], datetime] = {}
        aliases: dict[tuple[bytes, bytes, bytes, bytes], None] = {}
        jobs: list[tuple[UUID, EnqueueJob]] = []
        for merchant_id, effect in effects:
            if isinstance(effect, EnqueueJob):
                jobs.append((merchant_id, effect))
                continue
            stream, payment = effect.stream_id.bytes, effect.payment_id.bytes
            if isinstance(effect, NoteAlias):
                aliases[merchant_id.bytes, effect.name.encode(), stream, payment] = None
            else:
                timers[merchant_id.bytes, effect.kind.encode(), stream, payment] = effect.due_at
        if timers:
            await connection.execute(_SET, (*_columns(timers), list(timers.values())))
        if aliases:
            await connection.execute(_NAME, _columns(aliases))
        await self._jobs.enqueue(connection, jobs)


def _columns(keys: Iterable[tuple[bytes, bytes, bytes, bytes]]) -> list[Array]:
    """Returns the first four columns of timers or aliases, packed: psycopg takes longer to encode such lists than
    everything else here takes.
    """
    merchants, names, streams, payments = zip(*keys, strict=True)
    uuids = ENCODE_ARRAY["uuid"]
    return [uuids(merchants), ENCODE_ARRAY["text"](names), uuids(streams), uuids(payments)]


async def _locked(connection: Connection, cursors: Sequence[_Cursor]) -> Sequence[_Range]:
    """Locks those of these cursors that no other dispatcher has locked, and returns what their reactions read next."""
    if not connection.has_citus:
        rows = await connection.execute(_LOCK, (*_cursor_columns(cursors), _EVENTS_AT_ONCE), binary=True)
        return [_Range(*row) for row in await rows.fetchall()]
    rows = await connection.execute(_LOCK_CURSORS, _cursor_columns(cursors), binary=True)
    locked = await rows.fetchall()
    rows = await connection.execute(_HEADS, (_uuids(merchant_id for merchant_id, *_ in locked),), binary=True)
    heads = dict(await rows.fetchall())
    return [
        _Range(
            merchant_id, after, max(after, min(heads[merchant_id], after + _EVENTS_AT_ONCE)), heads[merchant_id], names
        )
        for merchant_id, after, names in locked
        if merchant_id in heads
    ]


def _cursor_columns(rows: Iterable[tuple[str, UUID, *tuple[Any, ...]]]) -> list[Array]:
    """Returns the names of reactions and the merchants, with which each row begins."""
    names, merchants = zip(*[row[:2] for row in rows], strict=True)
    return [_texts(names), _uuids(merchants)]


def _texts(values: Iterable[str]) -> Array:
    return ENCODE_ARRAY["text"]([value.encode() for value in values])


def _uuids(values: Iterable[UUID]) -> Array:
    return ENCODE_ARRAY["uuid"]([value.bytes for value in values])
