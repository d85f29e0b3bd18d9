"""The search for the primary among the servers of a connection string, which no silent server holds up.

libpq and psycopg wait for each server in turn, and a machine whose processes are stopped accepts a connection that it
never answers. With such a machine first in the string, every connection would take its whole time-out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

C = TypeVar("C", bound=psycopg.AsyncConnection[Any])

_ONE_ACCEPTS: Final = ("read-write", "primary")
"""The values of `target_session_attrs` under which only one server of a string is the right one."""

_NEXT_S: Final = 0.25
"""How long a server may be silent before the next one is asked too (the delay that RFC 8305 recommends)."""
_AGAIN_S: Final = 0.5
"""The pause before the servers that refused are asked again, while another one is silent."""


class Server(NamedTuple):
    """A server of a connection string; an empty part is libpq's default."""

    host: str
    hostaddr: str
    port: str

    @property
    def options(self) -> dict[str, str]:
        """The server's part of a connection string."""
        return {name: value for name, value in self._asdict().items() if value}


def servers_to_search(url: str) -> tuple[Server, ...]:
    """Returns the servers of a connection string in their order; none unless it names several and seeks the primary."""
    parts = conninfo_to_dict(url)
    hosts, addresses, ports = [str(parts.get(name) or "").split(",") for name in ("host", "hostaddr", "port")]
    number = max(len(hosts), len(addresses))
    columns = [column * number if len(column) == 1 else column for column in (hosts, addresses, ports)]
    is_search = number > 1 and parts.get("target_session_attrs") in _ONE_ACCEPTS
    if not is_search or any(len(column) != number for column in columns):  # psycopg reports what does not match
        return ()
    return tuple(Server(*server) for server in zip(*columns, strict=True))


_accepted: Final[dict[tuple[Server, ...], Server]] = {}
"""Which of these servers accepted the last connection."""


def connect_now(url: str, **options: Any) -> psycopg.Connection[Any]:
    """Opens a connection with psycopg's options, for a step of a start or of a command that nothing runs beside.

    Of several servers among which the primary is sought, the one that accepted the last connection is asked first: a
    silent server holds up the first connection of a process, and not each. Raises psycopg.OperationalError.
    """
    servers = servers_to_search(url)
    if not servers:
        return psycopg.connect(url, **options)
    last = _accepted.get(servers)
    order = sorted(servers, key=lambda server: server != last)
    named = {
        part: ",".join(each) for part, each in zip(Server._fields, zip(*order, strict=True), strict=True) if any(each)
    }
    connection = psycopg.connect(url, **options | named)
    accepted = next((server for server in order if _is_of(connection, server)), None)
    if accepted is not None:
        _accepted[servers] = accepted
    return connection


def _is_of(connection: psycopg.Connection[Any], server: Server) -> bool:
    """Returns whether a connection is one to this server."""
    reached = connection.info
    is_there = server.host == reached.host if server.host else server.hostaddr == reached.hostaddr
    return is_there and server.port in ("", str(reached.port))


async def connect_to_primary(servers: tuple[Server, ...], connect_to: Callable[[Server], Awaitable[C]]) -> C:
    """Returns the connection to the one of these servers that accepts it. Raises psycopg.OperationalError.

    The one that accepted the last connection is asked first, then the others in their order: each as soon as the one
    before has refused, or has been silent for a quarter of a second. While any of them is silent, those that refused
    are asked again, because another one may be promoted meanwhile. `connect_to` gives a silent server up.
    """
    last = _accepted.get(servers)
    later = deque(sorted(servers, key=lambda server: server != last))
    unheard, refused = set(servers), list[Server]()
    asked: dict[asyncio.Future[C], Server] = {}
    try:
        while True:
            if later:
                server = later.popleft()
                asked[asyncio.ensure_future(connect_to(server))] = server
            pause_s = _NEXT_S if later else _AGAIN_S
            answered, _ = await asyncio.wait(asked, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
            for future in answered:
                server = asked.pop(future)
                try:
                    connection = future.result()
                except psycopg.OperationalError:
                    unheard.discard(server)
                    refused.append(server)
                    if not unheard:
                        raise
                else:
                    _accepted[servers] = server
                    return connection
            if not answered and not later:
                later.extend(refused)
                refused.clear()
    finally:
        await _give_up(asked)


async def _give_up(asked: Collection[asyncio.Future[C]]) -> None:
    """Ends the attempts that are no longer needed, and closes the connection of one that has just succeeded."""
    for future in asked:
        future.cancel()
    for result in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(result, psycopg.AsyncConnection):
            await result.close()
