"""Checks of merchants' files: one of a merchant at a time, and few that wait."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from api.errors import TooManyRequests
from api.merchant.uploads import check_in_turn
from ledger.tasks import DetachedTasks

pytestmark = pytest.mark.anyio


async def test_files_of_one_merchant_are_checked_in_turn_and_those_of_others_meanwhile() -> None:
    deps: Any = SimpleNamespace(ledger=DetachedTasks())
    merchant_id, may_end, at_once = uuid4(), threading.Event(), []

    def check() -> None:
        at_once.append(1)
        may_end.wait(10)
        at_once.pop()

    first, *others = [asyncio.create_task(check_in_turn(deps, merchant_id, check)) for _ in range(4)]
    for _ in range(20):
        await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await check_in_turn(deps, merchant_id, check)
    assert await check_in_turn(deps, uuid4(), lambda: "another merchant") == "another merchant"
    first.cancel()  # its client has hung up: the check goes on, and keeps its turn
    others[0].cancel()  # this one no longer waits
    await asyncio.sleep(0.05)
    assert len(at_once) == 1
    may_end.set()
    assert [type(each) for each in await asyncio.gather(first, *others, return_exceptions=True)] == [
        asyncio.CancelledError, asyncio.CancelledError, type(None), type(None),
    ]  # fmt: skip
    assert await check_in_turn(deps, merchant_id, lambda: 7) == 7
