"""A fake processor in a process of its own, and the ledger's client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from campaigns.chaos.running import environ
from campaigns.chaos.wire import Wire
from campaigns.fake_processor.client import FakeCards
from campaigns.fake_processor.modes import Mode
from campaigns.fake_processor.service import fake_processor

from ledger.processors.sandbox.call_executor import CallExecutor

SetModes = Callable[..., Awaitable[None]]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record.jsonl"


@pytest.fixture
def fake_port(record: Path, tmp_path: Path) -> Iterator[int]:
    options = ("--late-from", "0.3", "--late-to", "0.4")
    with fake_processor(record, tmp_path / "log", environ({}), *options) as running:
        yield running.wait_port()


@pytest.fixture
async def cards(fake_port: int, database_url: str) -> AsyncIterator[FakeCards]:
    executor = CallExecutor(database_url)
    yield FakeCards(executor, port=fake_port)
    await executor.stop()


@pytest.fixture
def set_modes(fake_port: int) -> SetModes:
    """Sets the modes of the fake processor's next calls."""

    async def set_modes(*modes: Mode) -> None:
        wire = Wire()
        await wire.open(fake_port)
        answer = await wire.ask("POST", "/modes", "", msgspec.json.encode(modes))
        assert answer.status == 200
        await wire.close()

    return set_modes
