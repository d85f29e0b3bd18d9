"""A process that stalls between an intent's commit and its call: the call is not made late, or it arrives at a fence.

Without either, the processor would carry out what the recovery has settled as never arrived, and what the merchant may have
requested again meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tests.operations.conftest import Open
from tests.operations.test_action_recovery import (
    ACTIONS,
    GIVEN_UP,
    REPEATED,
    Action,
    calls_booked,
    every_action,
    order_named,
    recover,
    wrap,
)

from ledger.background.recovery import Recovery, Windows
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline import calls as pipeline_calls
from ledger.processors.contract import ProcessorUnavailable
from ledger.settings import SettingWrong, read_settings
from projections.orders.open_calls import OpenCalls

pytestmark = pytest.mark.anyio

PAUSE_S = 90.0


def counting(calls: list[Any]) -> Callable[..., Any]:
    def around(call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def counted(request: Any) -> Any:
            calls.append(request)
            return await call(request)

        return counted

    return around


@every_action
@pytest.mark.parametrize("clock", ["real time", "monotonic"])
async def test_a_call_whose_deadline_has_passed_is_not_made(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, action: Action, clock: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A stopped process finds both clocks ahead, a suspended machine the real time, a clock that was set back neither."""
    await action.prepare(ledger, merchant)
    before, calls, stalled_s = calls_booked(database_url), list[Any](), [0.0]
    stalling = await open_another()
    wrap(stalling, action.method, counting(calls))
    commit = stalling.journal.commit

    async def commit_and_stall(*arguments: Any, **named: Any) -> int:
        position = await commit(*arguments, **named)
        stalled_s[0] = PAUSE_S
        return position

    stalling.journal.commit = commit_and_stall  # type: ignore[method-assign]
    if clock == "monotonic":
        monkeypatch.setattr(pipeline_calls, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + stalled_s[0]))
    else:
        real = SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(seconds=stalled_s[0]))
        monkeypatch.setattr(pipeline_calls, "datetime", real)
    if action.method in REPEATED:
        waits = await action.do(stalling, merchant)
        assert waits.order.open_intent is not None
        assert (waits.order.open_intent.unsent, calls, calls_booked(database_url)) == (True, [], before)
        return
    with pytest.raises(ProcessorUnavailable, match="nothing was charged"):
        await action.do(stalling, merchant)
    assert (calls, calls_booked(database_url)) == ([], before)
    order = await order_named(ledger, merchant, action.on)
    assert order.status is action.undone
    assert order.open_intent is None


@every_action
async def test_a_call_that_arrives_after_the_recovery_has_settled_it_has_no_effect(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, action: Action
) -> None:
    await action.prepare(ledger, merchant)
    before, sent, woken = calls_booked(database_url), asyncio.Event(), asyncio.Event()
    stalling = await open_another()

    def stalled(call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def late(request: Any) -> Any:
            sent.set()
            await woken.wait()
            return await call(request)

        return late

    wrap(stalling, action.method, stalled)
    request = asyncio.create_task(action.do(stalling, merchant))
    await sent.wait()
    await recover(database_url, ledger, windows=GIVEN_UP)
    settled = await order_named(ledger, merchant, action.on)
    assert (settled.status, settled.open_intent) == (action.undone, None)
    woken.set()
    with pytest.raises(ProcessorUnavailable, match="nothing was charged"):
        await request
    assert calls_booked(database_url) == before
    assert (await order_named(ledger, merchant, action.on)).status is action.undone


async def test_a_look_up_that_hangs_does_not_hold_up_the_sweep(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    refund = next(action for action in ACTIONS if action.method == "refund")
    await refund.prepare(ledger, merchant)
    dying = await open_another()

    def silent(_: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def call(_: Any) -> Any:
            raise asyncio.CancelledError

        return call

    wrap(dying, "refund", silent)
    with pytest.raises(asyncio.CancelledError):
        await refund.do(dying, merchant)
    cancelled = asyncio.Event()

    def hanging(_: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def look_up(*_: Any, **__: Any) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        return look_up

    wrap(ledger, "look_up_refund", hanging)
    windows = Windows(margin_s=-3600, late_s=-3600, look_up_s=0.1)
    async with OpenCalls(database_url) as open_calls:
        await Recovery(ledger, open_calls.due, windows).sweep()
    assert cancelled.is_set()
    assert (await order_named(ledger, merchant, "1")).open_intent is not None, "the outcome is still unknown"


def test_the_times_of_the_recovery_are_checked_at_the_start() -> None:
    with pytest.raises(SettingWrong, match="LEDGER_NOT_FOUND_FINAL_S must be above LEDGER_PROCESSOR_TIMEOUT_S"):
        read_settings({"LEDGER_NOT_FOUND_FINAL_S": "20", "LEDGER_PROCESSOR_TIMEOUT_S": "20"})
