"""Ledgers on a fresh database, and a reaction of the tests: each new order gets a timer of an hour."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.operations.conftest import (
    Open,
    database_url,
    ledger,
    merchant,
    module_ledger,
    module_url,
    open_another,
    register,
)

from ledger.background.effects import Effect, SetTimer
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.scheduler.jobs import Jobs, use_jobs_schema
from ledger.journal.reader import SeenEvent
from ledger.operations.context.ledger import Ledger
from ledger.postgres.connection import Connection, connect

__all__ = [
    "Open",
    "database_url",
    "ledger",
    "merchant",
    "module_ledger",
    "module_url",
    "open_another",
    "register",
]

LOOK_AFTER = "look-after"
NO_PAYMENT = UUID(int=0)


class LookAfter:
    """Sets a timer an hour after an order's creation."""

    name = "test"
    topics = frozenset({"order-created.v1"})

    def react(self, recorded: SeenEvent) -> Iterable[Effect]:
        yield SetTimer(LOOK_AFTER, recorded.stream_id, NO_PAYMENT, recorded.event.at + timedelta(hours=1))


class Done:
    """A handler that records each call: (stream, the merchant's time then)."""

    def __init__(self) -> None:
        self.times: list[tuple[UUID, datetime]] = []

    async def __call__(self, ledger: Ledger, merchant_id: UUID, stream_id: UUID, _: UUID, due_at: datetime) -> None:
        assert ledger.clock.now(merchant_id) >= due_at, "done before it was due"
        self.times.append((stream_id, ledger.clock.now(merchant_id)))

    @property
    def streams(self) -> list[UUID]:
        return [stream for stream, _ in self.times]


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def done() -> Done:
    return Done()


@pytest.fixture
async def jobs(database_url: str, ledger: Ledger, done: Done, stack: AsyncExitStack) -> Jobs:
    return await stack.enter_async_context(Jobs(database_url, ledger, {LOOK_AFTER: done}))


@pytest.fixture
async def connection(database_url: str, stack: AsyncExitStack) -> Connection:
    return await worker_connection(database_url, stack)


@pytest.fixture
def dispatcher(ledger: Ledger, jobs: Jobs) -> Dispatcher:
    return Dispatcher(ledger.journal, jobs, [LookAfter()])


async def worker_connection(url: str, stack: AsyncExitStack) -> Connection:
    """A connection as a worker has it."""
    connection = await stack.enter_async_context(await connect(url, "test"))
    await use_jobs_schema(connection)
    return connection


_open: dict[str, psycopg.Connection[tuple[Any, ...]]] = {}


def rows(url: str, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Returns the rows of a query on a connection that stays open: tests ask again and again until something is so.

    The connection of an earlier test may have been ended, as its database was emptied.
    """
    connection = _open.get(url)
    try:
        if connection is not None:
            return connection.execute(query, parameters).fetchall()  # type: ignore[arg-type]
    except psycopg.OperationalError:
        assert connection is not None
        if not connection.closed:
            raise
    search_path = "-c search_path=public,public_jobs"
    _open[url] = connection = psycopg.connect(url, options=search_path, autocommit=True, prepare_threshold=None)
    return connection.execute(query, parameters).fetchall()  # type: ignore[arg-type]
