"""The service under test: two processes on one real database, spoken to over HTTP, killed and started again at will.

The rule a stranger would break: processes are started from the main thread only, and merchants are made ahead of the runs:
a sandbox clock takes half a second to be moved for the first time, which two hundred runs cannot each wait for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.chaos.installation import Installation, installed
from tests.chaos.running import LEDGER, Running
from tests.sealing import MASTER_KEY

from ledger.api_keys import new_key
from ledger.migrate import migrate
from ledger.operations.merchants import register_merchant
from ledger.secrets import Purpose, load_secrets
from ledger.settings import Settings
from ledger.wiring import open_ledger

API = "/api"
ORDERS = f"{API}/v2/payment-orders"
RATES = (None, 30, 35)
"""The surcharges of the merchants, in thousandths."""

# Nobody waits for anything: what the sandbox does not answer, it does not answer soon.
_SETTINGS = {
    "LEDGER_SANDBOX_DELAY_MS": "0",
    "LEDGER_SANDBOX_DEADLINE_S": "0.02",
    "LEDGER_PROCESSOR_TIMEOUT_S": "30.0",
    "LEDGER_LOG_LEVEL": "warning",
}


class Shop(NamedTuple):
    """A merchant with its key, and its surcharge in thousandths of an amount."""

    key: str
    rate: int | None


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: dict[str, Any]
    replayed: bool

    @property
    def code(self) -> str | None:
        return self.body.get("code")


class Service:
    """Processes to speak to in turn. `url` is the owner's connection string."""

    def __init__(self, installation: Installation, log: Path) -> None:
        self.url = installation.url
        self.restarts = 0
        self._environment, self._log = installation.environment, log
        self._processes = [self._start(), self._start()]
        self._ports = [process.wait_port() for process in self._processes]
        self._lines: dict[int, HTTPConnection] = {}
        self._turn = 0

    def ask(self, shop: Shop, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request, on a connection that is kept open. `path` is below the API's prefix."""
        return self.ask_at(self._ports[self._turn], shop, method, path, body, **headers)

    def ask_at(self, port: int, shop: Shop, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        line = self._lines.get(port)
        if line is None:
            line = self._lines[port] = HTTPConnection("127.0.0.1", port, timeout=30)
        content = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        line.request(method, path, content, {"x-api-key": shop.key, "content-type": "application/json"} | named)
        answer = line.getresponse()
        text = answer.read()
        return Answer(answer.status, json.loads(text), answer.headers.get("idempotent-replayed") == "true")

    def other_process(self) -> None:
        """The next requests go to the other process, which has seen nothing of what this one did."""
        self._turn = 1 - self._turn

    def kill(self) -> None:
        """The process that was spoken to last is killed, and another one is started in its place."""
        self.restarts += 1
        self._processes[self._turn].kill_group()
        line = self._lines.pop(self._ports[self._turn], None)
        if line is not None:
            line.close()
        self._processes[self._turn] = self._start()
        self._ports[self._turn] = self._processes[self._turn].wait_port()

    def shops(self, count: int) -> Iterator[Shop]:
        """New merchants whose clocks have been moved once, as many as asked for."""
        made = asyncio.run(_registered(self._environment, count))
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(self._wind, made))
        return iter(made)

    def stop(self) -> None:
        for line in self._lines.values():
            line.close()
        for process in self._processes:
            process.stop()

    def _wind(self, shop: Shop) -> None:
        line = HTTPConnection("127.0.0.1", self._ports[0], timeout=60)
        body = json.dumps({"advanceBy": "PT1S"})
        line.request("POST", f"{API}/sandbox/clock", body, {"x-api-key": shop.key, "content-type": "application/json"})
        answer = line.getresponse()
        assert answer.status == 200, answer.read()
        line.close()

    def _start(self) -> Running:
        return Running([*LEDGER, "api", "--port", "0"], self._environment, self._log)


@contextmanager
def service(postgres_url: str, template_database: str, log: Path) -> Iterator[Service]:
    """The service on a fresh database, gone with the block."""
    with installed(postgres_url, template_database, _SETTINGS) as installation:
        running = Service(installation, log)
        try:
            yield running
        finally:
            running.stop()


@contextmanager
def migrated(server_url: str) -> Iterator[str]:
    """The name of a database that others are cloned from, for programs that run without pytest."""
    name = f"template_{uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    migrate(make_conninfo(server_url, dbname=name))
    yield name


def order_path(name: str, *more: str) -> str:
    return "/".join([ORDERS, quote(name, safe=""), *more])


async def _registered(environment: Mapping[str, str], count: int) -> list[Shop]:
    settings = Settings(database_url=environment["LEDGER_DATABASE_URL"], master_key=MASTER_KEY)
    pepper = load_secrets(settings).key(Purpose.API_KEY_PEPPER)
    shops = []
    async with open_ledger(settings) as ledger:
        for n in range(count):
            key, rate = new_key(settings.environment, pepper), RATES[n % len(RATES)]
            terms: dict[str, Any] = {"requests_per_minute": 0, "requests_per_second": 0}
            if rate is not None:
                terms["surcharge_rate"] = Decimal(rate) / 10  # percent
            await register_merchant(ledger, f"Shop {n}", key, settings=terms)
            shops.append(Shop(key.secret, rate))
    return shops
