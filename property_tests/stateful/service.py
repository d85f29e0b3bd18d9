"""The service under test: two processes on one real database, spoken to over HTTP, killed and started again at will.

The rule a stranger would break: processes are started from the main thread only, and nobody waits for one to start before
it is that one's turn.
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
from property_tests.stateful.backstage import Backstage, Shop, backstage
from property_tests.stateful.wire import Answer, Wire
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.chaos.installation import Installation, installed
from tests.chaos.running import LEDGER, Running

from ledger.postgres.migrate import migrate

API = "/api"
ORDERS = f"{API}/v2/payment-orders"
PROCESSOR_KEY = "70" * 32
"""What the processor signs its messages with; it goes by the name of the sandbox's, whose payments it tells of."""

# Nobody waits for anything: what the sandbox does not answer, it does not answer soon.
_SETTINGS = {
    "LEDGER_SANDBOX_DELAY_MS": "0",
    "LEDGER_SANDBOX_DEADLINE_S": "0.005",
    "LEDGER_PROCESSOR_TIMEOUT_S": "30.0",
    "LEDGER_LOG_LEVEL": "warning",
    "LEDGER_PROCESSOR_KEYS": f"sandbox:{PROCESSOR_KEY}",
}


class Service:
    """Processes to speak to in turn."""

    def __init__(self, installation: Installation, log: Path, behind: Backstage) -> None:
        self.restarts = 0
        self.backstage = behind
        self._environment, self._log = installation.environment, log
        self._processes = [self._start(), self._start()]
        self._wires: list[Wire | None] = [None, None]
        self._turn = 0

    def ask(self, shop: Shop, method: str, path: str, body: Any = None) -> Answer:
        """One request of a merchant, on a connection that is kept open."""
        headers = {"x-api-key": shop.key, "content-type": "application/json"}
        return self._wire().ask(method, path, headers, b"" if body is None else msgspec.json.encode(body))

    def tell(self, body: bytes, timestamp: str, signature: str) -> Answer:
        """A signed message of the processor."""
        signed = {"message-timestamp": timestamp, "message-signature": signature, "content-type": "application/json"}
        return self._wire().ask("POST", f"{API}/processor-messages/sandbox", signed, body)

    def other_process(self) -> None:
        """The next requests go to the other process, which has seen nothing of what this one did."""
        self._turn = 1 - self._turn

    def kill(self) -> None:
        """The process that was spoken to last is killed; while another one starts in its place, the other process serves."""
        self.restarts += 1
        self._processes[self._turn].kill_group()
        wire, self._wires[self._turn] = self._wires[self._turn], None
        if wire is not None:
            wire.close()
        self._processes[self._turn] = self._start()
        self.other_process()

    def stop(self) -> None:
        """End both at once: their database goes with them, so that there is nothing to finish."""
        for wire in self._wires:
            if wire is not None:
                wire.close()
        for process in self._processes:
            process.kill_group()

    def _wire(self) -> Wire:
        wire = self._wires[self._turn]
        if wire is None:
            wire = self._wires[self._turn] = Wire(self._processes[self._turn].wait_port())
        return wire

    def _start(self) -> Running:
        return Running([*LEDGER, "api", "--port", "0"], self._environment, self._log)


@contextmanager
def service(postgres_url: str, template_database: str, log: Path) -> Iterator[Service]:
    """The service on a fresh database, gone with the block."""
    with (
        installed(postgres_url, template_database, _SETTINGS) as installation,
        backstage(installation.url) as behind,
    ):
        running = Service(installation, log, behind)
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
