"""A process logs each change of its readiness by itself. No other application runs beside the tests of this module."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict
from tests.api.storefront import opened

from api.system import readiness
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("reacted")]


async def test_each_change_of_readiness_is_one_line_that_names_what_fails_and_no_client_has_to_ask(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "LOOK_S", 0.01)
    looks, check = 0, readiness.check

    async def counted(deps: object) -> readiness.Checks:
        nonlocal looks
        looks += 1
        return await check(deps)  # type: ignore[arg-type]

    async def looked_twice() -> None:
        until = looks + 3  # one may have begun before
        while looks < until:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)

    monkeypatch.setattr(readiness, "check", counted)
    lines: list[EventDict]
    with capture_logs() as lines:
        async with asyncio.timeout(60), opened(settings):
            for alive in (True, False, True):
                monkeypatch.setattr(CallExecutor, "alive", alive)
                await looked_twice()
    assert [
        (line["event"], line["log_level"], line.get("failed")) for line in lines if "readiness" in line["event"]
    ] == [
        ("readiness_lost", "warning", ["processor"]),
        ("readiness_back", "warning", None),
    ]
