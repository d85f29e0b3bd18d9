"""One operation under way: who asked, under which idempotency key, and how what it does is committed.

The rule a stranger would break: what an errand commits carries the record of its key in the same commit. The acceptance
stands beside the intent and the answer beside the outcome, so a crash in between leaves exactly what the recovery settles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid5

from msgspec import Struct
from uuid_utils.compat import uuid7

from ledger.domain.idempotency.events import (
    RequestAccepted,
    RequestAnswered,
    RequestEvent,
    RequestRefused,
    RequestReleased,
)
from ledger.domain.idempotency.evolve import evolve
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.rejections import RequestInProgress
from ledger.journal.append import Change, Claim, VersionConflict
from ledger.journal.journal import Context
from ledger.operations.inputs import Actor
from ledger.operations.ledger import Ledger
from ledger.operations.results import RequestTarget


class IdempotencyKey(Struct, frozen=True):
    """An idempotency key as it came, and the keyed hash of the request that came under it (without its CVC)."""

    key: str
    fingerprint: str


class UnitOfWork:
    """An operation on behalf of an actor, perhaps under an idempotency key."""

    def __init__(self, ledger: Ledger, actor: Actor, key: IdempotencyKey | None = None) -> None:
        self.ledger = ledger
        self.actor = actor
        self.key = key
        self._stream_id = None if key is None else uuid5(actor.merchant_id, f"idempotency-key:{key.key}")
        self._request: IdempotencyRecord | None = None
        self._version = 0

    @property
    def merchant_id(self) -> UUID:
        return self.actor.merchant_id

    def context(self, cause: UUID | None = None) -> Context:
        """Who asked and why, for the envelope of the events."""
        return Context(actor=self.actor.key_id, request=self.actor.request_id, causation=cause)

    async def recall(self) -> IdempotencyRecord | None:
        """What the log knows of the request under this key."""
        assert self._stream_id is not None, "only a request with a key is recalled"
        self._request, self._version = await self.ledger.journal.load(self.merchant_id, self._stream_id, evolve)
        return self._request

    async def overtaken(self) -> bool:
        """Whether another request has recorded something under this key since this one last looked."""
        seen = self._version
        await self.recall()
        return self._version != seen

    async def commit(
        self, changes: Sequence[Change], claims: Sequence[Claim] = (), *, record: Sequence[RequestEvent | None] = ()
    ) -> UUID:
        """Commit the changes with what they mean for the key; the command's id.

        Raises like `Journal.commit`, and RequestInProgress where another request under the same key was first.
        """
        command_id = uuid7()
        kept = self.kept(record)
        try:
            await self.ledger.journal.commit(self.merchant_id, command_id, [*changes, *kept], claims, self.context())
        except VersionConflict as conflict:
            if conflict.stream_id == self._stream_id:
                raise RequestInProgress("A request with this Idempotency-Key is being carried out.") from conflict
            raise
        self.keep(kept)
        return command_id

    def accepted(self, order_id: UUID, subject: RequestTarget) -> RequestAccepted | None:
        """The acceptance of this request, if it came under a key."""
        if self.key is None:
            return None
        at = self.ledger.clock.now(self.merchant_id)
        return RequestAccepted(
            fingerprint=self.key.fingerprint,
            order_id=order_id,
            at=at,
            payment_id=subject.payment_id,
            refund_id=subject.refund_id,
        )

    def answered(self, order_version: int, *, created: bool, replayed: bool = False) -> RequestAnswered | None:
        """The answer to this request, if it came under a key."""
        if self.key is None:
            return None
        at = self.ledger.clock.now(self.merchant_id)
        return RequestAnswered(order_version=order_version, created=created, at=at, replayed=replayed)

    def settled(self, order_version: int, *, sent: bool, created: bool) -> list[Change]:
        """What the last outcome means for the key: the answer, or that nothing left us and the key is free again."""
        if self.key is None:
            return []
        if sent:
            return self.kept([self.answered(order_version, created=created)])
        return self.kept([RequestReleased(at=self.ledger.clock.now(self.merchant_id))])

    def kept(self, record: Sequence[RequestEvent | None]) -> list[Change]:
        """The change of the key's stream that these events are; none without a key or without events."""
        events = [event for event in record if event is not None]
        if self._stream_id is None or not events:
            return []
        after: Any = self._request
        for event in events:
            after = evolve(after, event)
        return [Change(self._stream_id, self._version, events, self._request, after)]

    def keep(self, kept: Sequence[Change]) -> None:
        """The change has been committed: go on from there."""
        for change in kept:
            self._request, self._version = change.after, change.expected + len(change.events)

    async def refuse(self, refused: RequestRefused) -> None:
        """Record that the business said no."""
        await self.commit([], record=[refused])
