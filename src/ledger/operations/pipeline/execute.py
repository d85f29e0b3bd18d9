"""The only loop of the ledger that decides and commits, and the only place that makes calls to outside systems.

An event that announces a call is committed before the call; no database connection is held during it. An attempt
decides on the state that its commit checks, never on an older one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ledger.domain.fold import fold
from ledger.domain.rejections import ConcurrentUpdate
from ledger.journal.append import Conflict
from ledger.operations.pipeline.calls import Call, Clocks, make_call, read_clocks
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork

ATTEMPTS: Final = 20
ATTEMPTS_AT_A_FACT: Final = 1_000
"""An outcome has happened: it is recorded however many others change the stream meanwhile."""

Attempt = Callable[[Conflict | None], Awaitable[Plan]]
"""Loads, decides and returns a plan. The argument is the conflict that the previous attempt met."""

Continue = Callable[[Any, Any], Awaitable[Sequence[Any]]]
"""Returns what is committed with an outcome, from the state after it and the outcome: the start of a next call."""

_Calls = tuple[Sequence[Call], Clocks]


async def execute(uow: UnitOfWork, attempt: Attempt, *, is_fact: bool = False, go_on: Continue | None = None) -> Plan:
    """Commits what `attempt` decides, makes the calls that it announces, and records their outcomes.

    With `is_fact` it keeps trying, although a request would give up. `go_on` adds events to the commit of each outcome.
    Returns the plan of the last attempt. Raises what `attempt` raises, ConcurrentUpdate, a Fault of the journal.
    """
    plan, announced = await _commit(uow, attempt, ATTEMPTS_AT_A_FACT if is_fact else ATTEMPTS)
    if announced[0]:
        await _make(uow, announced, go_on)
    return plan


async def record_outcome(uow: UnitOfWork, call: Call, outcome: Any) -> None:
    """Records the outcome of a call and makes the calls that follow from it. Raises a Fault of the journal."""
    await _make(uow, await _record(uow, call, outcome, None), None)


async def _commit(uow: UnitOfWork, attempt: Attempt, attempts: int) -> tuple[Plan, _Calls]:
    """Commits what `attempt` decides; returns its plan and the calls that it announces."""
    conflict: Conflict | None = None
    for _ in range(attempts):
        began = read_clocks()
        plan = await attempt(conflict)
        if not plan.events:
            uow.ledger.journal.writer.require_confirmed(uow.merchant_id)  # it is answered by what was only read
            return plan, ((), began)
        calls = _announced(uow, plan)
        waited_for = [call for call in calls if call.is_recorded]
        try:
            await uow.commit(plan, calls=len(waited_for))
        except Conflict as met:
            conflict = met
            continue
        for call in calls:
            if not call.is_recorded:
                uow.ledger.begin(make_call(uow, call, began))
        return plan, (waited_for, began)
    raise ConcurrentUpdate("Too many requests change this at once. Send the request again.")


def _announced(uow: UnitOfWork, plan: Plan) -> Sequence[Call]:
    """Returns the calls that the plan's events announce and that are still to be made after all of them."""
    ledger, state = uow.ledger, plan.changes[0].after
    found = []
    for event in plan.events:
        factory = ledger.calls.get(type(event))
        if factory is not None:
            call: Call | None = factory(ledger, uow.merchant_id, state, event, plan.secrets)
            if call is not None:
                found.append(call)
    return found


async def _make(uow: UnitOfWork, announced: _Calls, go_on: Continue | None) -> None:
    """Makes calls side by side, records each outcome as it comes, and makes the calls that follow from it."""
    calls, began = announced
    while len(calls) == 1:
        [call] = calls
        calls, began = await _record(uow, call, await make_call(uow, call, began), go_on)
    if calls:
        for made in asyncio.as_completed([_made(uow, call, began) for call in calls]):
            call, outcome = await made
            await _make(uow, await _record(uow, call, outcome, go_on), go_on)


async def _made(uow: UnitOfWork, call: Call, began: Clocks) -> tuple[Call, Any]:
    return call, await make_call(uow, call, began)


async def _record(uow: UnitOfWork, call: Call, outcome: Any, go_on: Continue | None) -> _Calls:
    """Records an outcome; returns the calls that follow from it, or the one that must end before it is recorded."""
    was_sent = call.was_sent(outcome)
    await uow.end_call(was_sent=was_sent)
    if outcome is None:
        return (), read_clocks()
    first: Call | None = None

    async def attempt(_: Conflict | None) -> Plan:
        nonlocal first
        state = await uow.load(call.stream, call.stream_id)
        first = call.needs_first(state, outcome)
        if first is not None:
            return await call.plan(uow, ())
        events = call.record(state, outcome, uow.now)
        if go_on is not None:
            events = [*events, *await go_on(fold(call.stream.evolve, state, events), outcome)]
        return await call.plan(uow, events)

    plan, announced = await _commit(uow, attempt, ATTEMPTS_AT_A_FACT)
    if first is not None:
        uow.begin_call()
        return [first], read_clocks()
    if not call.recorded(outcome, plan.changes[0]) and was_sent:
        uow.count_as_unsent()
    return announced
