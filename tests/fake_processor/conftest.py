"""A fake company in a process of its own, and the ledger's end of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.chaos.running import environ
from tests.chaos.wire import Wire
from tests.fake_processor.client import FakeCards
from tests.fake_processor.modes import Mode
from tests.fake_processor.service import company

from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.processors.sandbox.charge_writer import ChargeWriter

Script = Callable[..., Awaitable[None]]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record.jsonl"


@pytest.fixture
def fake_port(record: Path, tmp_path: Path) -> Iterator[int]:
    with company(record, tmp_path / "log", environ({}), "--late-from", "0.3", "--late-to", "0.4") as running:
        yield running.wait_port()


@pytest.fixture
async def cards(fake_port: int, database_url: str) -> AsyncIterator[FakeCards]:
    teller = CallExecutor(database_url)
    yield FakeCards(ChargeWriter(database_url), teller, port=fake_port)
    await teller.stop()


@pytest.fixture
def treat(fake_port: int) -> Script:
    """Say how the company's next calls are treated."""

    async def treat(*modes: Mode) -> None:
        wire = Wire()
        await wire.open(fake_port)
        answer = await wire.ask("POST", "/modes", "", msgspec.json.encode(modes))
        assert answer.status == 200
        await wire.close()

    return treat
