"""The unit of work of one request or fact: the streams it has loaded, its idempotency record, and its commits.

Every commit carries the events of the idempotency record that belong to it. A crash between two commits therefore
leaves exactly what recovery can finish.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final, TypeVar
from uuid import UUID, uuid5

from msgspec import Raw, Struct
from uuid_utils.compat import uuid7

from ledger.domain.customers.state import Customer
from ledger.domain.fold import fold
from ledger.domain.idempotency.events import (
    RequestAccepted,
    RequestAnswered,
    RequestCompleted,
    RequestEvent,
    RequestRefused,
    RequestReleased,
)
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.ids import parse_uuid
from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.state import Order
from ledger.domain.plans.state import Plan as SubscriptionPlan
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.rejections import Rejected, RequestInProgress
from ledger.domain.streams import IDEMPOTENCY_RECORDS, ORDERS, Stream
from ledger.journal.append import Change, Claim, VersionConflict
from ledger.journal.journal import Context
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import WHOLE_ORDER, RequestTarget
from ledger.operations.pipeline import payment_metrics
from ledger.operations.pipeline.processor_requests import NO_SECRETS, SecretInputs
from ledger.telemetry.logs import note_order

S = TypeVar("S")


class IdempotencyKey(Struct, frozen=True):
    """An idempotency key as the client sent it, and the keyed hash of the request (without its CVC)."""

    key: str
    fingerprint: str


class Plan(Struct, frozen=True, kw_only=True):
    """What an attempt decided.

    The first change is of the stream that the request is about; without events it is already so. `result` is the JSON
    with which a request is answered that is not about one order.
    """

    changes: Sequence[Change]
    claims: Sequence[Claim] = ()
    target: RequestTarget = WHOLE_ORDER
    secrets: SecretInputs = NO_SECRETS
    result: Raw | None = None

    @property
    def stream_id(self) -> UUID:
        return self.changes[0].stream_id

    @property
    def events(self) -> Sequence[Any]:
        return self.changes[0].events


class Loaded(Struct, frozen=True):
    """A stream's state and version; None and 0 if the merchant lacks the stream."""

    state: Any
    version: int


_NEW: Final = Loaded(None, 0)


class AnsweredWhen(Enum):
    """What records the answer to a request under an idempotency key."""

    AT_COMMIT = auto()
    """The commit of its last outcome, or its only commit."""
    AFTER_CALLS = auto()
    """Its only commit; after calls, the caller, which decides the answer by their outcomes."""
    AT_END = auto()
    """The caller."""


class UnitOfWork:
    """Loads streams for an actor, folds decided events, and commits plans with the idempotency record of `key`.

    A stream stays as it was loaded, or as the last commit left it. `creates` is true if the request makes something
    new. `cause` is the id that the events name as their causation; the first commit that announces calls becomes the
    cause of the commits after it. `answered_when` is what records the answer under `key`. `withheld_because` is why a
    call was not made if that was a decision of the merchant.
    """

    def __init__(
        self,
        ledger: Ledger,
        actor: Actor,
        key: IdempotencyKey | None = None,
        *,
        creates: bool = False,
        cause: UUID | None = None,
    ) -> None:
        self.ledger = ledger
        self.merchant_id = actor.merchant_id
        self.key = key
        self.creates = creates
        self._now = ledger.clock.now(actor.merchant_id)
        self._streams: dict[UUID, Loaded] = {}
        self.withheld_because: Rejected | None = None
        self._calls_open = self._calls_ended = self._calls_sent = 0
        self.answered_when: AnsweredWhen = AnsweredWhen.AT_COMMIT
        self._actor = actor
        self._cause = cause
        self._found: dict[tuple[Stream[Any], str], UUID] = {}
        self._accepted = False
        self._record_id = None if key is None else uuid5(actor.merchant_id, f"idempotency-key:{key.key}")

    @property
    def now(self) -> datetime:
        """The merchant's time, aware, in UTC: as it was after the latest read of a stream, or after `refresh`."""
        return self._now

    async def refresh(self) -> datetime:
        """Reads the merchant's clock again, after a call that took time, and returns the time. Raises a Fault."""
        self._now = await self.ledger.clock.refresh(self.merchant_id)
        return self._now

    async def load(self, stream: Stream[S], stream_id: UUID, *, fresh: bool = False) -> S | None:
        """Returns the state of a stream, or None if it does not exist.

        Reads the log once, and again after a conflict or if `fresh`. Raises a Fault.
        """
        loaded = None if fresh else self._streams.get(stream_id)
        if loaded is None:
            loaded = Loaded(*await self.ledger.journal.load(self.merchant_id, stream, stream_id))
            await self._take(stream_id, loaded)
        if stream is ORDERS:
            note_order(stream_id)
        state: S | None = loaded.state
        return state

    async def find(self, stream: Stream[S], reference: str) -> S:
        """Returns the state of the stream that a request names by its service id, else by the merchant's own id of it.

        Raises the stream's rejection if there is none or if it is hidden; a Fault.
        """
        place = (stream, reference)
        stream_id = self._found.get(place) or await self._named(stream, reference)
        if stream_id is None:
            raise stream.missing()
        self._found[place] = stream_id
        state = await self.load(stream, stream_id)
        if state is None or (stream.is_hidden is not None and stream.is_hidden(state)):
            raise stream.missing()
        return state

    async def find_claimed(self, stream: Stream[S], key: str) -> S | None:
        """Returns the state of the stream that holds the merchant's own id `key`, hidden or not; None for none."""
        stream_id = await self.owner(stream, key)
        return None if stream_id is None else await self.load(stream, stream_id)

    async def owner(self, stream: Stream[Any], key: str) -> UUID | None:
        """Returns the id of the stream that holds the merchant's own id `key`, without reading the stream."""
        assert stream.claim is not None, f"a merchant has no ids of its own of the kind {stream.name!r}"
        return await self.ledger.journal.claim_owner(self.merchant_id, stream.claim, key)

    async def find_last(self, stream: Stream[S], key: str) -> S | None:
        """Returns the state of the stream that holds the id `key` from its last event alone, which must have all of it.

        Returns None if no stream holds the id.
        """
        assert stream.claim is not None, f"a merchant has no ids of its own of the kind {stream.name!r}"
        found = await self.ledger.journal.reader.last_event(self.merchant_id, stream.claim, key)
        if found is None:
            return None
        stream_id, version, event = found
        state = stream.evolve(None, event)
        await self._take(stream_id, Loaded(state, version))
        return state

    def cached_customer(self, external_id: str) -> Customer | None:
        """Returns a customer that this process has loaded lately, or None. The commit checks that it is unchanged."""
        found = self.ledger.customers.get(self.merchant_id, external_id)
        if found is None:
            return None
        self._streams[found.customer.customer_id] = Loaded(found.customer, found.version)
        self._now = self.ledger.clock.now(self.merchant_id)  # this process has seen the customer by the same clock
        return found.customer

    async def order(self, order_id: UUID, *, fresh: bool = False) -> Order:
        """Returns an order that exists. `fresh` reads the log again."""
        order = await self.load(ORDERS, order_id, fresh=fresh)
        assert order is not None, "the caller has the id from an order"
        return order

    def forget(self, stream_id: UUID) -> None:
        """Drops what was loaded of a stream: the next load reads the log."""
        self._streams.pop(stream_id, None)

    async def shown(self, stream: Stream[S], stream_id: UUID) -> S | None:
        """Returns what `load` returns, for an answer and not for a decision: the clock is not read."""
        loaded = self._streams.get(stream_id)
        if loaded is None:
            loaded = Loaded(*await self.ledger.journal.load(self.merchant_id, stream, stream_id))
        state: S | None = loaded.state
        return state

    def known(self, _: Stream[S], stream_id: UUID) -> S | None:
        """Returns the state of a stream if it was loaded or committed and exists, else None, without reading it."""
        state: S | None = self._streams.get(stream_id, _NEW).state
        return state

    async def _named(self, stream: Stream[Any], reference: str) -> UUID | None:
        """Returns the id of the stream that `reference` names. Takes over its state if it is the service id."""
        stream_id = parse_uuid(reference)
        if stream_id is not None:
            events = await self.ledger.journal.reader.stream_from(self.merchant_id, stream_id, stream.first)
            if events:
                await self._take(stream_id, Loaded(fold(stream.evolve, None, events), len(events)))
                return stream_id
        return None if stream.claim is None else await self.owner(stream, reference)

    async def _take(self, stream_id: UUID, loaded: Loaded) -> None:
        """Takes over what was just read. Reads the clock afterwards: no decision is dated before its state."""
        self._streams[stream_id] = loaded
        self._now = await self.ledger.clock.refresh(self.merchant_id)
        if isinstance(loaded.state, Customer):
            self.ledger.customers.put(self.merchant_id, loaded.state, loaded.version)

    def change(self, stream: Stream[S], stream_id: UUID, events: Sequence[Any]) -> Change:
        """Returns the change that appends `events` to a stream as loaded; one that was not loaded is new."""
        loaded = self._streams.get(stream_id, _NEW)
        return Change(stream_id, loaded.version, events, loaded.state, fold(stream.evolve, loaded.state, events))

    @staticmethod
    def absence(stream_id: UUID) -> Change:
        """Returns the check that a stream does not exist at the commit, as when it was loaded."""
        return Change(stream_id, 0, (), None, None)

    def change_order(self, order_id: UUID, events: Sequence[OrderEvent]) -> Change:
        """Returns the change that appends `events` to an order."""
        return self.change(ORDERS, order_id, events)

    async def commit(self, plan: Plan, calls: int = 0) -> None:
        """Commits a plan that announces so many calls to outside systems, with what it means for the idempotency
        record.

        Raises Conflict, after it has dropped what it knew of the stream in conflict; RequestInProgress if another
        request under the same key was first; a Fault of the journal.
        """
        record = None if self._record_id is None else self._record_change(plan, calls)
        changes = plan.changes if record is None else [*plan.changes, record]
        command_id = uuid7()
        context = Context(actor=self._actor.key_id, request=self._actor.request_id, causation=self._cause)
        try:
            await self.ledger.journal.commit(self.merchant_id, command_id, changes, plan.claims, context)
        except VersionConflict as conflict:
            self._streams.pop(conflict.stream_id, None)
            if conflict.stream_id == self._record_id:
                raise in_progress() from conflict
            raise
        for change in changes:
            self._take_over(change)
        self._accepted = True
        self._calls_open += calls
        if calls and self._cause is None:
            self._cause = command_id

    def _take_over(self, change: Change) -> None:
        """Takes over what a commit made of a stream, also in what this process has cached."""
        version = change.expected + len(change.events)
        self._streams[change.stream_id] = Loaded(change.after, version)
        if not change.events:
            return
        match change.after:
            case Order():
                payment_metrics.count(self.merchant_id, change)
                note_order(change.stream_id)
            case Customer():
                self.ledger.customers.put(self.merchant_id, change.after, version)
            case Merchant():
                self.ledger.forget_merchant(self.merchant_id)
            case SubscriptionPlan():
                self.ledger.forget_plan(self.merchant_id, change.stream_id)
            case ProcessorAccount():
                self.ledger.forget_accounts(self.merchant_id)
            case _:
                pass  # no process caches it

    # -------------------------------------------------------------------------------------------------- the calls

    @property
    def nothing_was_sent(self) -> bool:
        """Whether calls were announced and none of them left this process, or will."""
        return self._calls_ended > 0 and self._calls_sent == 0

    async def end_call(self, *, was_sent: bool) -> None:
        """Takes note that a call has its outcome now, and reads the clock: the call took time."""
        self._calls_open -= 1
        self._calls_ended += 1
        self._calls_sent += was_sent
        await self.refresh()

    def begin_call(self) -> None:
        """Takes note of a call that no commit announces."""
        self._calls_open += 1

    def count_as_unsent(self) -> None:
        """Takes back that the latest call counts as sent."""
        self._calls_sent -= 1

    def withhold(self, rejection: Rejected) -> None:
        """Takes note of why a call is not made: the request is rejected so if nothing was sent."""
        self.withheld_because = rejection

    # ------------------------------------------------------------------------------------- the idempotency record

    async def load_record(self) -> IdempotencyRecord | None:
        """Returns what the log knows of the request under this key."""
        assert self._record_id is not None, "only a request with a key has a record"
        record, version = await self.ledger.journal.load(self.merchant_id, IDEMPOTENCY_RECORDS, self._record_id)
        self._streams[self._record_id] = Loaded(record, version)
        self._accepted = record is not None and not record.released
        return record

    async def was_overtaken(self) -> bool:
        """Returns whether another request has recorded something under this key since this one last read it."""
        assert self._record_id is not None, "only a request with a key has a record"
        seen = self._streams.get(self._record_id)
        await self.load_record()
        return seen is None or self._streams[self._record_id].version != seen.version

    async def record_answer(self, stream_id: UUID, target: RequestTarget, *, replayed: bool) -> None:
        """Records that the request is answered with this stream as it is loaded now, unless that is recorded.

        Raises RequestInProgress, a Fault of the journal.
        """
        if self.key is None or self._is_answered():
            return
        if self.answered_when is not AnsweredWhen.AT_COMMIT:
            await self.load_record()  # a repetition may have waited for the same outcome, and been answered first
            if self._is_answered():
                return
        events: list[RequestEvent] = [] if self._accepted else [self._acceptance(stream_id, target)]
        version = self._streams[stream_id].version
        events.append(self._answer(version, created=self.creates and not replayed, replayed=replayed))
        await self._commit_record(events)

    async def release(self) -> None:
        """Records that nothing of an accepted request was sent, so that its key can be used for it again."""
        record = self._record
        if record is not None and self._accepted and not (self._is_answered() or record.released):
            await self._commit_record([RequestReleased(at=self.now)])

    @property
    def _record(self) -> IdempotencyRecord | None:
        loaded = None if self._record_id is None else self._streams.get(self._record_id)
        return None if loaded is None else loaded.state

    @property
    def _is_answered_later(self) -> bool:
        """Whether the caller decides the answer, so that no commit records it."""
        if self.answered_when is AnsweredWhen.AFTER_CALLS:
            return self._calls_ended > 0
        return self.answered_when is AnsweredWhen.AT_END

    def _is_answered(self) -> bool:
        """Returns whether the request under this key has its answer, or was refused for good."""
        record = self._record
        return record is not None and (record.answer is not None or record.refusal is not None)

    async def record_result(self, result: Raw) -> None:
        """Records the result of a request that changed nothing. Raises RequestInProgress, a Fault of the journal."""
        await self._commit_record([self._completion(result)])

    async def record_refusal(self, refusal: RequestRefused) -> None:
        """Records that the request is refused for good. Raises RequestInProgress, a Fault of the journal."""
        await self._commit_record([refusal])

    async def _commit_record(self, events: Sequence[RequestEvent]) -> None:
        assert self._record_id is not None, "only a request with a key has a record"
        await self.commit(Plan(changes=[self.change(IDEMPOTENCY_RECORDS, self._record_id, events)]))

    def _record_change(self, plan: Plan, calls: int) -> Change | None:
        """Returns what a commit means for the record: acceptance with the first, answer or release with the last."""
        assert self._record_id is not None, "only a request with a key has a record"
        if plan.stream_id == self._record_id:
            return None
        if plan.result is not None:
            return self.change(IDEMPOTENCY_RECORDS, self._record_id, [self._completion(plan.result)])
        events: list[RequestEvent] = [] if self._accepted else [self._acceptance(plan.stream_id, plan.target)]
        if self._calls_open + calls == 0 and not self._is_answered_later:
            if self.nothing_was_sent:
                events.append(RequestReleased(at=self.now))
            else:
                change = plan.changes[0]
                events.append(self._answer(change.expected + len(change.events), created=self.creates))
        return self.change(IDEMPOTENCY_RECORDS, self._record_id, events) if events else None

    def _completion(self, result: Raw) -> RequestCompleted:
        assert self.key is not None, "only a request with a key has a record"
        return RequestCompleted(fingerprint=self.key.fingerprint, result=result, at=self.now)

    def _acceptance(self, stream_id: UUID, target: RequestTarget) -> RequestAccepted:
        assert self.key is not None, "only a request with a key has a record"
        return RequestAccepted(
            fingerprint=self.key.fingerprint,
            stream_id=stream_id,
            at=self.now,
            payment_id=target.payment_id,
            refund_id=target.refund_id,
        )

    def _answer(self, stream_version: int, *, created: bool, replayed: bool = False) -> RequestAnswered:
        return RequestAnswered(stream_version=stream_version, created=created, at=self.now, replayed=replayed)


def in_progress() -> RequestInProgress:
    """Returns the rejection of a request whose first one under the same key has calls that have not ended."""
    return RequestInProgress(
        "A request with this Idempotency-Key is being carried out: send the request again after a second."
    )


async def load_order(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> Order:
    """Returns an order that exists, to a caller that changes nothing."""
    return await UnitOfWork(ledger, Actor(merchant_id=merchant_id)).order(order_id)


async def find_order(ledger: Ledger, merchant_id: UUID, reference: str) -> Order:
    """Returns the order that a path names, to a caller that changes nothing. Raises OrderNotFound."""
    return await UnitOfWork(ledger, Actor(merchant_id=merchant_id)).find(ORDERS, reference)
