"""A proxy between a client and Postgres that cuts connections at chosen moments, or stops forwarding.

It never changes a byte: what arrives is what was sent, up to a cut. Another server than Postgres may be behind it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

SYNC = b"S\x00\x00\x00\x04"
"""The end of a statement or of a batch: with it Postgres commits."""
_APPEND = b"ledger_append"
"""How the names of the journal's prepared statements begin, in the requests that execute them."""


@dataclass(eq=False)
class Wire:
    """One connection through the proxy. `name` is its application_name, `commits` how many batches of events it has sent.

    `commits_now` is whether the last piece from the client ends a batch.
    """

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    name: str = ""
    commits: int = 0
    commits_now: bool = False
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _appends: bool = False

    @property
    def client_port(self) -> int:
        name = self.client.get_extra_info("peername")
        return int(name[1]) if name else 0

    def note(self, piece: bytes) -> None:
        """Reads name and commits from what the client sends."""
        if not self.name and b"application_name\0" in piece:
            self.name = piece.split(b"application_name\0", 1)[1].split(b"\0", 1)[0].decode()
        self._appends |= _APPEND in piece
        ends = piece.endswith(SYNC)
        self.commits_now = self._appends and ends
        self._appends &= not ends
        self.commits += self.commits_now

    def cut(self) -> None:
        for end in (self.client, self.server):
            end.transport.abort()


Cut = Callable[[Wire, bytes, bool], int | None]
"""Is called for every piece of data, the last argument being whether it comes from the client. Returns how many bytes of it
still pass before the connection is cut, or None to leave the connection alone."""


def never(_wire: Wire, _piece: bytes, _from_client: bool) -> None:
    """Cuts nothing."""


class Proxy:
    """The proxy behind `url`. `decide` may be changed at any time; nothing is forwarded while `flowing` is not set."""

    def __init__(self, server_url: str) -> None:
        where = conninfo_to_dict(server_url)
        self._server_url = server_url
        self._host, self._port = str(where["host"]), int(where.get("port") or 5432)
        self._carrying: set[asyncio.Task[Any]] = set()
        self.wires: set[Wire] = set()
        self.decide: Cut = never
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.is_away = False
        self.cuts = 0
        self.url = ""
        self._apart: int | None = None

    def part(self, pid: int) -> None:
        """Forwards nothing from or to this process any more, on the connections that it has and on new ones."""
        self._apart, ports = pid, _ports_of(pid)
        for wire in self.wires:
            if wire.client_port in ports:
                wire.flowing.clear()

    def join(self) -> None:
        """Ends the partition. What was sent meanwhile arrives now."""
        self._apart = None
        for wire in self.wires:
            wire.flowing.set()

    def reached_at(self, port: int) -> None:
        """Sets the address that clients connect to."""
        self.url = make_conninfo(self._server_url, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")

    def connected(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._join(reader, client))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    def go_away(self) -> None:
        """Cuts all connections, and each new one until `is_away` is false again, as a server that is down."""
        self.is_away = True
        for wire in self.wires:
            wire.cut()

    async def end(self) -> None:
        """Cuts all connections."""
        self.flowing.set()
        self.join()
        for wire in self.wires:
            wire.cut()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self.is_away:
            client.transport.abort()
            return
        try:
            if self._host.startswith("/"):
                back, server = await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
            else:
                back, server = await asyncio.open_connection(self._host, self._port)
        except OSError:  # the server is unreachable, and so is the proxy
            client.transport.abort()
            return
        wire = Wire(client, server)
        self.wires.add(wire)
        if self._apart is None or wire.client_port not in _ports_of(self._apart):
            wire.flowing.set()
        await asyncio.gather(
            self._carry(wire, reader, server, from_client=True), self._carry(wire, back, client, from_client=False)
        )
        self.wires.remove(wire)

    async def _carry(
        self, wire: Wire, reader: asyncio.StreamReader, to: asyncio.StreamWriter, *, from_client: bool
    ) -> None:
        with suppress(OSError):
            while piece := await reader.read(1 << 16):
                await self.flowing.wait()
                await wire.flowing.wait()
                if from_client:
                    wire.note(piece)
                passing = self.decide(wire, piece, from_client)
                to.write(piece if passing is None else piece[:passing])
                await to.drain()
                if passing is not None:
                    self.cuts += 1
                    break
        wire.cut()


def _ports_of(pid: int) -> set[int]:
    """Returns the local ports of a process's TCP connections over IPv4."""
    sockets = set()
    with suppress(OSError):  # the process has ended
        for place in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                sockets.add(str(place.readlink()).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[9] in sockets}


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    """Runs a proxy in front of the server that `url` names."""
    proxy = Proxy(url)
    serving = await asyncio.start_server(proxy.connected, "127.0.0.1", 0)
    proxy.reached_at(serving.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        serving.close()
        await proxy.end()
