"""A call to an outside system, as every kind of call is made: prepared, sent before its deadline, and never raising.

A committed event announces each call (`operations.calls`), so that a crash leaves a record of it. Report a missing or
unreadable answer as unknown, never as a refusal: only a contract that raises `Unavailable` proves that nothing was
sent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any, ClassVar, Final
from uuid import UUID

from msgspec import Struct

from ledger.call_failures import TimedOut, Unavailable
from ledger.domain.rejections import Rejected
from ledger.domain.streams import Stream
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork

_LOOK_UP_S: Final = 10.0


class Ended(Enum):
    """How a call without an answer ended."""

    NOT_SENT = auto()
    """Nothing left this process."""
    TIMED_OUT = auto()
    UNREADABLE = auto()


class Failure(Struct, frozen=True):
    """A call without an answer. `fault` is what was raised; None if the deadline had passed before the call."""

    ended: Ended
    fault: Exception | None = None


class Withheld(Unavailable):
    """The call is not made, because the merchant has decided something else meanwhile: `rejection` answers it."""

    def __init__(self, rejection: Rejected) -> None:
        super().__init__(rejection.message)
        self.rejection = rejection


class LookUp(Struct, frozen=True, kw_only=True):
    """How a call is looked up; times in seconds of real time.

    "Not found" is final `late_s` after the deadline, or later if the outside system can apply a call that long after
    it. `fence` makes a system that can do so refuse the call's key from then on.
    """

    late_s: float
    timeout_s: float
    fence: bool = False

    @property
    def deadline_at(self) -> datetime:
        """The real time until which a look-up that begins now may take."""
        return datetime.now(UTC) + timedelta(seconds=self.timeout_s)

    def is_final(self, deadline_at: datetime, *, can_fence: bool, late_arrival_s: float) -> bool:
        """Returns whether "not found" is final now, for a system that can fence or applies a call so long after it."""
        late_s = self.late_s if can_fence else max(self.late_s, late_arrival_s)
        return datetime.now(UTC) >= deadline_at + timedelta(seconds=late_s)


def look_up_from_timer(ledger: Ledger, *, fence: bool = False) -> LookUp:
    """Returns how the timer of a stream looks its call up: "not found" is final when the recovery takes it so."""
    return LookUp(late_s=ledger.call_timeouts.not_found_late_s, timeout_s=_LOOK_UP_S, fence=fence)


class Call(Struct, frozen=True, kw_only=True):
    """A call to an outside system that an event has announced, and how its outcome is recorded.

    The outcome is a value of the domain whose events `record` returns; its type is the call's own.
    """

    ledger: Ledger
    merchant_id: UUID

    stream: ClassVar[Stream[Any]]
    """The kind of stream that records the outcome."""
    is_recorded: ClassVar[bool] = True
    """False for a call on whose outcome nothing depends: it is made in the background and recorded nowhere."""

    @property
    def stream_id(self) -> UUID:
        """The stream that records the outcome."""
        raise NotImplementedError

    @property
    def deadline_at(self) -> datetime | None:
        """The real time until which an answer counts. None for a call that consists of calls with deadlines."""
        raise NotImplementedError

    @property
    def key(self) -> str:
        """The name of the call among those of its merchant that can be looked up."""
        raise NotImplementedError

    @property
    def cause(self) -> UUID:
        """What the events of an outcome name as their cause that the recovery has found."""
        raise NotImplementedError

    @property
    def about(self) -> Mapping[str, str]:
        """What log lines name of the call."""
        raise NotImplementedError

    @property
    def over_at(self) -> datetime:
        """The real time from which the call is over: its deadline, or when it came back without an answer."""
        assert self.deadline_at is not None, "only a call with a deadline is looked up by the recovery"
        return self.deadline_at

    @property
    def is_unsent(self) -> bool:
        """Whether the call never left this process."""
        return False

    def is_repeated(self, for_s: float) -> bool:  # noqa: ARG002 - the parameter of those that are repeated
        """Returns whether the call is sent again if it never arrived, as some are so many seconds long."""
        return False

    def never_arrived(self, outcome: Any) -> bool:  # noqa: ARG002 - as above
        """Returns whether the outside system certainly does not have the call."""
        return False

    def log_recovered(self, outcome: Any) -> None:
        """Logs that the recovery has found this outcome."""
        raise NotImplementedError

    async def repeat(self) -> bool:
        """Sends the call again under its key. Returns whether it needs no further look. Raises a Fault."""
        raise NotImplementedError

    async def prepare(self, uow: UnitOfWork) -> Any:  # noqa: ARG002 - the parameter of those that read something
        """Returns what `send` needs and no event has: of what the unit of work has loaded, as the call was decided.

        Whatever it raises, the call is not made.
        """
        return None

    async def send(self, prepared: Any, left_s: float) -> Any:
        """Makes the call and returns the answer.

        Raises Unavailable if nothing left this process; TimedOut; anything else if the answer cannot be read. It is
        cancelled after `left_s` seconds.
        """
        raise NotImplementedError

    async def read(self, answer: Any) -> Any:
        """Returns the outcome that an answer is, or None if another caller records it later.

        It has no deadline: the outside system has answered in time. Raises anything if the outcome is unknown.
        """
        return answer

    def without_answer(self, failure: Failure) -> Any:
        """Returns the outcome of a call that ended so, and logs it if an operator has to see it."""
        raise NotImplementedError

    def was_sent(self, outcome: Any) -> bool:  # noqa: ARG002 - the parameter of those that may be unsent
        """Returns whether something left this process, or will."""
        return True

    async def look_up(self, how: LookUp) -> Any:  # noqa: ARG002 - as above
        """Returns the outcome of an earlier call; None while it is not known, and if it cannot be looked up.

        Raises Unavailable, TimedOut, a Fault.
        """
        return None

    def needs_first(self, state: Any, outcome: Any) -> Call | None:  # noqa: ARG002 - as above
        """Returns the call that must have ended before this outcome is recorded on this state, or None."""
        return None

    def record(self, state: Any, outcome: Any, now: datetime) -> Sequence[Any]:
        """Returns the events of the outcome, decided on the present state. Never refuses."""
        raise NotImplementedError

    async def plan(self, uow: UnitOfWork, events: Sequence[Any]) -> Plan:
        """Returns the plan of the outcome's events."""
        return Plan(changes=[uow.change(self.stream, self.stream_id, events)])

    def recorded(self, outcome: Any, change: Any) -> bool:  # noqa: ARG002 - as above
        """Counts and logs what the commit of an outcome has changed. Returns whether the call counts as sent now."""
        return self.was_sent(outcome)


class Clocks(Struct, frozen=True):
    """The real time and the monotonic clock of one moment: before the deadlines of an attempt's calls were set."""

    at: datetime
    monotonic_s: float

    def left_s(self, deadline_at: datetime) -> float:
        """Returns the seconds until a deadline, by the clock that leaves fewer of them.

        A process may have been stopped, or the clock of its machine set.
        """
        passed_s = time.monotonic() - self.monotonic_s
        left_s = (deadline_at - datetime.now(UTC)).total_seconds()
        return min(left_s, (deadline_at - self.at).total_seconds() - passed_s)


def read_clocks() -> Clocks:
    """Returns both clocks now."""
    return Clocks(datetime.now(UTC), time.monotonic())


async def make_call(uow: UnitOfWork, call: Call, began: Clocks) -> Any:
    """Makes a call and returns its outcome. Whatever goes wrong is an outcome.

    A call whose deadline has passed is not made: the recovery may have settled it by then.
    """
    try:
        prepared = await call.prepare(uow)
    except Exception as fault:  # noqa: BLE001 - whatever it was, nothing was sent
        if isinstance(fault, Withheld):
            uow.withhold(fault.rejection)
        return call.without_answer(Failure(Ended.NOT_SENT, fault))
    deadline_at = call.deadline_at
    try:
        if deadline_at is None:
            return await call.read(await call.send(prepared, _UNLIMITED_S))
        left_s = began.left_s(deadline_at)
        if left_s <= 0:
            return call.without_answer(Failure(Ended.NOT_SENT))
        with call.ledger.timeouts.within(left_s):
            answer = await call.send(prepared, left_s)
        return await call.read(answer)
    except Unavailable as fault:
        return call.without_answer(Failure(Ended.NOT_SENT, fault))
    except (TimedOut, TimeoutError) as fault:
        return call.without_answer(Failure(Ended.TIMED_OUT, fault))
    except Exception as fault:  # noqa: BLE001 - an answer that cannot be read is an unknown outcome
        return call.without_answer(Failure(Ended.UNREADABLE, fault))


_UNLIMITED_S: Final = float("inf")
