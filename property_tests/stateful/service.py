"""The service under test: two processes on one real database, reached over HTTP, killed and restarted by the test.

Start processes from the main thread only. The test waits for a process to start when it sends a request to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgspec
import psycopg
from campaigns.chaos.installation import Installation, installed
from campaigns.chaos.running import LEDGER, Running
from property_tests.stateful.http_connection import Answer, HttpConnection
from property_tests.stateful.ledger_access import LedgerAccess, RegisteredMerchant, ledger_access
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ledger.postgres.migrate import migrate

API = "/api"
ORDERS = f"{API}/v2/payment-orders"
PROCESSOR_KEY = "70" * 32
"""The key that signs the processor's messages. The processor has the sandbox's name, because they are about its
payments."""

# Short deadlines: a call that the sandbox never answers must time out at once.
_SETTINGS = {
    "LEDGER_SANDBOX_DELAY_MS": "0",
    "LEDGER_SANDBOX_DEADLINE_S": "0.005",
    "LEDGER_PROCESSOR_TIMEOUT_S": "30.0",
    "LEDGER_NOT_FOUND_FINAL_S": "60.0",
    "LEDGER_LOG_LEVEL": "warning",
    "LEDGER_PROCESSOR_KEYS": f"sandbox:{PROCESSOR_KEY}",
}


class Service:
    """Two processes of the service, which receive requests in turn."""

    def __init__(self, installation: Installation, log: Path, behind: LedgerAccess) -> None:
        self.restarts = 0
        self.ledger_access = behind
        self._environment, self._log = installation.environment, log
        self._processes = [self._start(), self._start()]
        self._connections: list[HttpConnection | None] = [None, None]
        self._turn = 0

    def request(self, merchant: RegisteredMerchant, method: str, path: str, body: Any = None) -> Answer:
        """Sends a merchant's request on a persistent connection, and returns the answer."""
        headers = {"x-api-key": merchant.key, "content-type": "application/json"}
        return self._current_connection().request(
            method, path, headers, b"" if body is None else msgspec.json.encode(body)
        )

    def post_message(self, body: bytes, timestamp: str, signature: str) -> Answer:
        """Sends a signed message of the processor, and returns the answer."""
        signed = {"message-timestamp": timestamp, "message-signature": signature, "content-type": "application/json"}
        return self._current_connection().request("POST", f"{API}/processor-messages/sandbox", signed, body)

    def other_process(self) -> None:
        """Sends the next requests to the other process, which has no caches of this one's work."""
        self._turn = 1 - self._turn

    def kill(self) -> None:
        """Kills the current process and starts another in its place; the other process serves meanwhile."""
        self.restarts += 1
        self._processes[self._turn].kill_group()
        connection, self._connections[self._turn] = self._connections[self._turn], None
        if connection is not None:
            connection.close()
        self._processes[self._turn] = self._start()
        self.other_process()

    def stop(self) -> None:
        """Kills both processes: their database is dropped as well, so that nothing has to be finished."""
        for connection in self._connections:
            if connection is not None:
                connection.close()
        for process in self._processes:
            process.kill_group()

    def _current_connection(self) -> HttpConnection:
        connection = self._connections[self._turn]
        if connection is None:
            connection = self._connections[self._turn] = HttpConnection(self._processes[self._turn].wait_port())
        return connection

    def _start(self) -> Running:
        return Running([*LEDGER, "api", "--port", "0"], self._environment, self._log)


@contextmanager
def service(postgres_url: str, template_database: str, log: Path) -> Iterator[Service]:
    """Yields the service on a new database, which is dropped at the end."""
    with (
        installed(postgres_url, template_database, _SETTINGS) as installation,
        ledger_access(installation.url) as behind,
    ):
        running = Service(installation, log, behind)
        try:
            yield running
        finally:
            running.stop()


@contextmanager
def migrated(server_url: str) -> Iterator[str]:
    """Yields the name of a migrated template database, for programs that run without pytest."""
    name = f"template_{uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    migrate(make_conninfo(server_url, dbname=name))
    yield name


def order_path(name: str, *more: str) -> str:
    return "/".join([ORDERS, quote(name, safe=""), *more])
