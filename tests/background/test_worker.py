"""The worker where one of its parts fails."""

from __future__ import annotations

import asyncio

import pytest

from ledger.background.erasure import ErasureSweep
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.worker import run
from ledger.settings import Settings

pytestmark = pytest.mark.anyio


async def test_the_other_parts_end_before_their_connections_where_one_fails(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    async def fail(_: ErasureSweep, __: asyncio.Event) -> None:
        raise LookupError("a fault of the program")

    async def wait(_: ReactionRunner, stop: asyncio.Event) -> None:
        await stop.wait()
        ended.append("reactions")

    monkeypatch.setattr(ErasureSweep, "run", fail)
    monkeypatch.setattr(ReactionRunner, "run", wait)
    settings = Settings(database_url=database_url, database_app_url=database_url, master_key="11" * 32)
    with pytest.raises(LookupError):
        await asyncio.wait_for(run(settings, lambda: None, asyncio.Event()), 60)
    assert ended == ["reactions"]
