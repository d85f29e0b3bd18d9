"""Messages about events: signed as Stripe signs them, sent to the endpoints of the account, repeated until they are taken.

Source: https://docs.stripe.com/webhooks. The signature is HMAC-SHA256 of `t.body`, once for each secret of the endpoint. A test may
have them doubled, shuffled, delayed, lost, or held until it releases them.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from random import Random
from typing import Final, Self
from urllib.parse import urlsplit

import httpx
import msgspec
from msgspec import Struct

from campaigns.fake_stripe.account import matches
from campaigns.fake_stripe.books import Book, Object

_ATTEMPTS: Final = 6
_AT_ONCE: Final = 16
"""The client's time for a request grows with the number of those that wait in it, so no more than these do."""
_FIRST_PAUSE_S: Final = 0.5
_PATIENCE_S: Final = 10.0


class Deliveries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How messages are sent: how often each, after how many seconds (at random between two), how many of 1 are lost each time,
    and how many of 1 never come.

    Held ones wait for `release`, which shuffles them.
    """

    copies: int = 1
    delay_s: tuple[float, float] = (0.0, 0.0)
    lost: float = 0.0
    never: float = 0.0
    hold: bool = False
    seed: int = 1


class Message(Struct, frozen=True):
    """A message to one endpoint."""

    url: str
    secrets: tuple[str, ...]
    body: bytes
    event: Object


class Sender:
    """Sends the messages of all accounts. Use it in `async with`."""

    def __init__(self) -> None:
        self.sent = 0
        self.refused = 0
        self.lost = 0
        self._deliveries = Deliveries()
        self._random = Random(1)
        self._held: list[Message] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: httpx.AsyncClient | None = None
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def __aenter__(self) -> Self:
        self._client = httpx.AsyncClient(timeout=_PATIENCE_S, trust_env=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        if self._client:
            await self._client.aclose()

    @property
    def waiting(self) -> int:
        return len(self._held) + len(self._tasks)

    def change(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self._random = Random(deliveries.seed)

    def announce(self, book: Book, event: Object) -> None:
        """Sends an event to each endpoint of its account that wants it."""
        for endpoint in book.all("webhook_endpoint"):
            if any(matches(event["type"], one) for one in endpoint["enabled_events"]):
                event["pending_webhooks"] += 1
                body = msgspec.json.format(msgspec.json.encode(event), indent=2)
                self._take(Message(endpoint["url"], tuple(book.secrets[endpoint["id"]]), body, event))

    def release(self) -> int:
        """Sends what was held, shuffled, and returns how many that were."""
        held, self._held = self._held, []
        self._random.shuffle(held)
        for message in held:
            self._start(message)
        return len(held)

    def _take(self, message: Message) -> None:
        if self._random.random() < self._deliveries.never:
            self.lost += 1
            return
        for _ in range(self._deliveries.copies):
            if self._random.random() < self._deliveries.lost:
                self.lost += 1
            elif self._deliveries.hold:
                self._held.append(message)
            else:
                self._start(message)

    def _start(self, message: Message) -> None:
        task = asyncio.get_running_loop().create_task(
            self._send(message, self._random.uniform(*self._deliveries.delay_s))
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, message: Message, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        for attempt in range(_ATTEMPTS):
            async with self._slots:
                taken = await self._post(message)
            if taken:
                message.event["pending_webhooks"] = max(0, message.event["pending_webhooks"] - 1)
                return
            await asyncio.sleep(_FIRST_PAUSE_S * 2**attempt)

    async def _post(self, message: Message) -> bool:
        assert self._client is not None, "entered"
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Stripe-Signature": signature(message.body, message.secrets),
            "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
        }
        try:
            answer = await self._client.post(message.url, content=message.body, headers=headers)
        except httpx.HTTPError:
            self.refused += 1
            return False
        if answer.is_success:
            self.sent += 1
            return True
        self.refused += 1
        return False


def signature(body: bytes, secrets: tuple[str, ...], at: int | None = None) -> str:
    """Returns the header `Stripe-Signature` of a body."""
    moment = int(time.time()) if at is None else at
    signed = [hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest() for secret in secrets]
    return ",".join([f"t={moment}", *(f"v1={each}" for each in signed)])


def is_loopback(url: str) -> bool:
    """Returns whether an address is on this machine: the fake sends nothing anywhere else."""
    return urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}
