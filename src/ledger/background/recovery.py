"""Recovery: looks up every call to an outside system that has no outcome, and sends again what never reached it.

Never send an authorisation again: the card is not kept. Captures, voids, refunds and payouts are sent again under their
own keys for a day. After that, "not found" is final only when the processor can no longer apply the call late: it has
fenced the call's key, or its time for late arrivals is over. An unreadable or missing answer is looked up again without
end, with back-off, and so is an order that cannot be read; what waits does not delay other orders. Look-ups run side by
side in fair slots: look-ups that hang delay their own merchant alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import structlog
from msgspec import Struct

from ledger.back_off import back_off_s
from ledger.background.fair_slots import FairSlots
from ledger.background.periodic import run_periodically
from ledger.background.reactions.quarantine import UNREADABLE
from ledger.call_failures import TimedOut, Unavailable
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.open_calls import open_calls
from ledger.operations.pipeline.calls import Call, LookUp
from ledger.operations.pipeline.execute import record_outcome
from ledger.operations.pipeline.unit_of_work import UnitOfWork, load_order
from ledger.postgres.faults import Fault
from ledger.telemetry.logs import stack_locations
from ledger.telemetry.metrics import SETTLED

_log = structlog.get_logger()

_ORDERS_MAX: Final = 1000
"""How many orders one sweep begins with, and how many of one merchant wait for their look-ups."""
_BACK_OFF_FIRST_S, _BACK_OFF_MAX_S = 1.0, 60.0
_RELOAD_S: Final = 10.0
"""How long an order with an open call that is due is not read again."""

Due = Callable[[datetime, int, Collection[UUID]], Awaitable[Sequence[tuple[UUID, UUID]]]]
"""Returns at most so many (merchant, order) whose open call was over before that real time, by its deadline or because
it came back without an answer; without these orders, from each merchant in turn."""


class Windows(Struct, frozen=True, kw_only=True):
    """When an unknown outcome is looked up, in seconds of real time."""

    margin_s: float = 5.0
    """How long after its deadline a call is first looked up, or after it came back without an answer."""
    late_s: float = 30.0
    """How long after its deadline "not found" can be final. A processor that cannot fence a key may need longer."""
    look_up_s: float = 10.0
    """How long one look-up may take."""
    repeat_s: float = 86_400.0
    """How long after its first deadline a call that never reached the processor is sent again."""
    poll_s: float = 1.0


class Recovery:
    """Finds the outcomes of calls that crashes and time-outs left open.

    `due` returns the orders with such calls. Setting `stop` ends `run` between two sweeps.
    """

    def __init__(self, ledger: Ledger, due: Due, windows: Windows = Windows()) -> None:  # noqa: B008 - frozen
        self._ledger = ledger
        self._due = due
        self._windows = windows
        self._tries: dict[str | UUID, tuple[int, datetime]] = {}  # by call, and by order
        self._slots = FairSlots[UUID]()  # by order

    async def run(self, stop: asyncio.Event) -> None:
        """Begins with every call that is due, every second until `stop` is set. Finishes the look-ups that run then."""
        await run_periodically(
            self._begin,
            stop,
            pause_s=self._windows.poll_s,
            log_waiting=lambda reason: _log.warning("recovery_waits", reason=reason),
        )
        await self._slots.stop()

    async def sweep(self) -> None:
        """Looks up every call that is due now."""
        await self._begin()
        await self._slots.drain()

    async def _begin(self) -> None:
        """Begins with every call that is due now, and does not wait for the look-ups."""
        now = datetime.now(UTC)
        self._tries = {key: tried for key, tried in self._tries.items() if tried[1] > now - timedelta(hours=1)}
        skipped = {key for key, (_, next_at) in self._tries.items() if isinstance(key, UUID) and next_at > now}
        skipped.update(self._slots.keys)
        before = now - timedelta(seconds=self._windows.margin_s)
        for merchant_id, order_id in await self._due(before, _ORDERS_MAX, skipped):
            if self._slots.started[merchant_id] < _ORDERS_MAX:
                self._slots.start(merchant_id, order_id, partial(self._try, merchant_id, order_id))

    async def _try(self, merchant_id: UUID, order_id: UUID) -> None:
        """Finds an order's outcomes. An order that cannot be read, or fails in any other way, is tried again later."""
        try:
            await self._recover(merchant_id, order_id)
        except UNREADABLE as fault:
            self._retry_later(order_id)
            _log.error("recovery_cannot_read", order_id=str(order_id), reason=repr(fault))
        except Fault:
            return  # the database is unreachable: the next sweep is soon enough
        except Exception as fault:  # noqa: BLE001 - an order that fails must not delay the others
            self._retry_later(order_id)
            reason = type(fault).__name__
            _log.error("recovery_failed", order_id=str(order_id), reason=reason, at=stack_locations(fault))

    async def _recover(self, merchant_id: UUID, order_id: UUID) -> None:
        """Finds the outcomes of the order's calls that are over, one after another."""
        # No processor is asked about a call that a promotion could lose.
        await self._ledger.journal.writer.confirm(merchant_id)
        order = await load_order(self._ledger, merchant_id, order_id)
        has_changed = False
        for call in open_calls(self._ledger, merchant_id, order):
            if self._next_try(call) <= datetime.now(UTC):
                has_changed |= await self._settle(call)
        if has_changed:
            order = await load_order(self._ledger, merchant_id, order_id)
        self._tries.pop(order_id, None)
        next_at = min(map(self._next_try, open_calls(self._ledger, merchant_id, order)), default=None)
        if next_at is not None:  # another process may see a call of the order come back before that
            self._tries[order_id] = (0, min(next_at, datetime.now(UTC) + timedelta(seconds=_RELOAD_S)))

    async def _settle(self, call: Call) -> bool:
        """Looks up a call and records its outcome, or sends it again. Returns False if it is to be looked at later."""
        repeats = call.is_repeated(self._windows.repeat_s)
        outcome = None
        if not (repeats and call.is_unsent):
            outcome = await self._look_up(call, fence=not repeats)
            if outcome is None:
                self._retry_later(call.key)
                return False
        if repeats and (call.is_unsent or call.never_arrived(outcome)):
            if not await call.repeat():
                self._retry_later(call.key)
                return False
        else:
            actor = Actor(merchant_id=call.merchant_id, request_id="recovery")
            await record_outcome(UnitOfWork(self._ledger, actor, cause=call.cause), call, outcome)
            SETTLED.inc()
            call.log_recovered(outcome)
        self._tries.pop(call.key, None)
        return True

    async def _look_up(self, call: Call, *, fence: bool) -> Any:
        """Returns the outcome, or None if it is still unknown.

        Before a "not found" is final, an outside system that can fence refuses the key if `fence` is True.
        """
        how = LookUp(late_s=self._windows.late_s, timeout_s=self._windows.look_up_s, fence=fence)
        try:
            return await call.look_up(how)
        except (TimedOut, Unavailable, TimeoutError):
            return None

    def _next_try(self, call: Call) -> datetime:
        """Returns when this call may be looked up, for the first time or again."""
        tried = self._tries.get(call.key)
        return call.over_at + timedelta(seconds=self._windows.margin_s) if tried is None else tried[1]

    def _retry_later(self, key: str | UUID) -> None:
        tries = self._tries.get(key, (0, None))[0]
        pause_s = back_off_s(tries, _BACK_OFF_MAX_S, _BACK_OFF_FIRST_S)
        self._tries[key] = (tries + 1, datetime.now(UTC) + timedelta(seconds=pause_s))
