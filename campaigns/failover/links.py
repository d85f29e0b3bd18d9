"""The links between the nodes: proxies on loopback, which forward nothing while a node is cut off.

Each node reaches etcd through a link of its own, and the other nodes reach its Postgres and its Patroni through two more.
Clients do not use them: a node that is cut off from the others is still reached by the service, which is the worst case.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from psycopg.conninfo import conninfo_to_dict

from campaigns.chaos.proxy import Proxy, proxied

_UP_S = 10.0


class Links:
    """One link to each of the ports, in a `with` block, carried by a thread of their own."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._to = ports
        self._proxies: list[Proxy] = []
        self._up, self._ended = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._carry()))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(_UP_S), "the links do not come up"
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._ended.set)
        self._thread.join()

    def ports(self) -> list[int]:
        """Returns the port of each link."""
        return [int(conninfo_to_dict(proxy.url)["port"] or 0) for proxy in self._proxies]

    def cut(self, links: Sequence[int]) -> None:
        """Forwards nothing on the links with these numbers, and closes nothing: as a network that drops all packets."""
        for number in links:
            self._call(self._proxies[number].flowing.clear)

    def join(self, links: Sequence[int]) -> None:
        """Forwards again. What was sent meanwhile arrives now."""
        for number in links:
            self._call(self._proxies[number].flowing.set)

    def _call(self, what: object) -> None:
        assert self._loop is not None, "the links are up"
        assert callable(what), "a method of an event"
        self._loop.call_soon_threadsafe(what)

    async def _carry(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            for port in self._to:
                self._proxies.append(await stack.enter_async_context(proxied(f"host=127.0.0.1 port={port}")))
            self._up.set()
            await self._ended.wait()
