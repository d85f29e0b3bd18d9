"""What the tests of deliveries share: a receiver over HTTP, and a worker's part in the test's own process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

import msgspec
from standardwebhooks import Webhook
from tests.background.conftest import rows

from ledger.background.deliveries.sender import DeliverySender
from ledger.background.reactions.feed import Feed
from ledger.background.reactions.numbering import EventNumbers
from ledger.domain.webhooks.terms import EndpointTerms
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.webhooks.create import create_endpoint
from ledger.postgres.connection import connect
from ledger.slices import Slices
from projections.events.bodies import BodyRenderer
from projections.events.feed import FeedReader
from projections.events.states import StateReader

Answer = Callable[[dict[str, Any], int], int]
"""Returns the status for an event that arrives for the n-th time, from 1."""


async def until(is_so: Callable[[], bool], within_s: float = 60.0) -> None:
    """Waits until something is so."""
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110 - the database is looked at, or another task
            await asyncio.sleep(0.02)


class Arrival(msgspec.Struct, frozen=True):
    """A message that arrived: its path, its headers in lower case, and its bytes."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        return msgspec.json.decode(self.body)


class Receiver:
    """A merchant's program. Requests for which `holds` is true wait until `go_on` is set."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.arrivals: list[Arrival] = []
        self.under_way = self.most_under_way = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.holds: Callable[[dict[str, Any]], bool] = lambda _: True
        self.headers = b""
        self._times: Counter[str] = Counter()
        self.url = ""

    def of(self, path: str = "/hook") -> list[dict[str, Any]]:
        """The events that arrived at a path."""
        return [each.event for each in self.arrivals if each.path == path]

    def sequences(self, path: str = "/hook") -> list[int]:
        return [event["sequence"] for event in self.of(path)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
                headers = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in head[1:-1]}
                body = await reader.readexactly(int(headers["content-length"]))
                self.arrivals.append(Arrival(head[0].split()[1], headers, body))
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)
                event = msgspec.json.decode(body)
                event["path"] = self.arrivals[-1].path
                if self.holds(event):
                    await self.go_on.wait()
                self._times[event["id"]] += 1
                status = self.answer(event, self._times[event["id"]])
                self.under_way -= 1
                writer.write(b"HTTP/1.1 %d -\r\n%bContent-Length: 0\r\n\r\n" % (status, self.headers))
                await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving(answer: Answer = lambda _, __: 204) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield receiver
    finally:
        receiver.go_on.set()
        server.close()


class Worker:
    """The deliveries and the numbering of one worker."""

    def __init__(self, url: str, ledger: Ledger) -> None:
        bodies = BodyRenderer("sandbox", "", "")
        self.url, self.ledger = url, ledger
        self.source = FeedReader(url, StateReader(ledger.journal.reader, Slices(rests=False)), bodies)
        self.sender = DeliverySender(url, ledger, self.source)
        self.numbers = EventNumbers(url, ledger.journal)
        self.task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def start(self) -> None:
        self.task = asyncio.create_task(self.sender.run(self._stop))

    async def number(self, merchants: Sequence[UUID] | None = None) -> None:
        """Numbers what there is, and lets the sender look, as the worker's reactions do."""
        async with await connect(self.url, "test") as connection:
            while await self.numbers.sweep(connection, merchants):
                pass
        self.sender.wake(merchants)

    async def stop(self) -> None:
        self._stop.set()
        assert self.task is not None
        await self.task
        await self.source.stop()

    async def kill(self) -> None:
        """Ends the worker's part at once: nothing more is written."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.source.stop()


@asynccontextmanager
async def working(url: str, ledger: Ledger) -> AsyncIterator[Worker]:
    worker = Worker(url, ledger)
    worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


async def an_endpoint(url: str, ledger: Ledger, merchant: Actor, address: str, **terms: Any) -> tuple[UUID, str]:
    """Creates an endpoint, and returns its id and its secret."""
    feed = Feed(url, ledger.journal)
    try:
        created = await create_endpoint(ledger, feed, merchant, EndpointTerms(url=address, **terms))
    finally:
        await feed.stop()
    assert created.secret is not None
    return created.endpoint.endpoint_id, created.secret


def verified(arrival: Arrival, secret: str) -> Any:
    """Returns the event of a message that the library of Standard Webhooks accepts."""
    return Webhook(secret).verify(arrival.body, arrival.headers)


def deliveries(url: str, endpoint_id: UUID) -> list[tuple[Any, ...]]:
    """The sequence, status and number of attempts of each delivery."""
    query = "select sequence, status, jsonb_array_length(attempts) from webhook_delivery where endpoint_id = %s order by sequence"
    return rows(url, query, endpoint_id)


def cursor(url: str, endpoint_id: UUID) -> tuple[Any, ...]:
    query = "select sequence, failures_in_a_row, holder from webhook_cursor where endpoint_id = %s"
    return rows(url, query, endpoint_id)[0]
