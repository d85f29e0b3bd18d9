"""A running application, and merchants that use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
from msgspec import Struct
from starlette.types import ASGIApp
from tests.api.bodies import encoded

from api.app import create_app
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.api_keys import issue_key
from ledger.operations.merchants.registration import register_merchant
from ledger.security.api_keys import new_key
from ledger.security.secrets import Purpose, load_secrets
from ledger.settings import Settings
from ledger.wiring import open_ledger

ORDERS = "/api/v2/payment-orders"
JSON = {"content-type": "application/json"}
NO_LIMITS = {"requests_per_minute": 0, "requests_per_second": 0}


class Merchant(Struct):
    """A merchant with its first key, and the client that it uses."""

    merchant_id: UUID
    secret: str
    client: httpx.AsyncClient

    @property
    def key(self) -> dict[str, str]:
        return {"x-api-key": self.secret}

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers=self.key | headers)

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else encoded(body)
        return await self.client.post(path, content=content, headers=self.key | JSON | headers)

    async def put(self, path: str, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else encoded(body)
        return await self.client.put(path, content=content, headers=self.key | JSON | headers)

    async def delete(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.delete(path, headers=self.key | headers)

    async def create(self, body: Any) -> httpx.Response:
        return await self.post(ORDERS, body)


class Storefront:
    """The application, a client without a key, and a ledger of its own for what only operators do."""

    def __init__(self, client: httpx.AsyncClient, ledger: Ledger, settings: Settings) -> None:
        self.client = client
        self.ledger = ledger
        self.settings = settings
        self._pepper = load_secrets(settings).key(Purpose.API_KEY_PEPPER)

    async def register(self, **settings: Any) -> Merchant:
        """A merchant without rate limits, unless it is given some."""
        key = new_key(self.settings.environment, self._pepper)
        merchant, _ = await register_merchant(self.ledger, "Café Tacuba", key, settings=NO_LIMITS | settings)
        return Merchant(merchant.merchant_id, key.secret, self.client)

    async def another_key(self, merchant: Merchant, **limits: Any) -> Merchant:
        """The same merchant with a further key."""
        key = new_key(self.settings.environment, self._pepper)
        await issue_key(self.ledger, Actor(merchant_id=merchant.merchant_id), key, **limits)
        return Merchant(merchant.merchant_id, key.secret, self.client)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Storefront]:
    """The application as a server runs it, from its start to its end."""
    app = create_app(settings)
    transport = httpx.ASGITransport(app)
    async with (
        open_ledger(settings) as ledger,
        lifespan(app),
        httpx.AsyncClient(transport=transport, base_url="http://ledger.example") as client,
    ):
        yield Storefront(client, ledger, settings)


@asynccontextmanager
async def lifespan(app: ASGIApp) -> AsyncIterator[None]:
    """Starts and stops an application as the ASGI specification requires."""
    sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    received: asyncio.Queue[Any] = asyncio.Queue()
    running = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, sent.get, received.put))  # type: ignore[arg-type]
    await sent.put({"type": "lifespan.startup"})
    assert (await received.get())["type"] == "lifespan.startup.complete"
    yield
    await sent.put({"type": "lifespan.shutdown"})
    await running
