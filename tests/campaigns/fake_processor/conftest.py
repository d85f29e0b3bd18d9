"""A fake processor in a process of its own, which the tests of a module share, and the ledger's client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from campaigns.chaos.running import environ
from campaigns.chaos.wire import Wire
from campaigns.fake_processor.client import FakeCards
from campaigns.fake_processor.modes import Line, Mode
from campaigns.fake_processor.record import read
from campaigns.fake_processor.service import fake_processor

from ledger.processors.sandbox.call_executor import CallExecutor

SetModes = Callable[..., Awaitable[None]]
Recorded = Callable[[], Sequence[Line]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fake-processor")


@pytest.fixture(scope="module")
def fake_port(directory: Path) -> Iterator[int]:
    """The port of a fake processor. A test uses up the modes that it sets."""
    options = ("--late-from", "0.3", "--late-to", "0.4")
    with fake_processor(directory / "record.jsonl", directory / "log", environ({}), *options) as running:
        yield running.wait_port()


@pytest.fixture
def recorded(directory: Path, fake_port: int) -> Recorded:
    """Returns what the fake processor has recorded since the test began."""
    before = len(read(directory / "record.jsonl"))
    return lambda: read(directory / "record.jsonl")[before:]


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
