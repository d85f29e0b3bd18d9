"""Finds the addresses of receivers' names, however slowly their name servers answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

_LOOK_UPS_MAX: Final = 512
"""How many names are looked up at once, most of which hang if there are so many."""

Found = Sequence[tuple[Any, ...]]
LookUp = Callable[..., Found]
"""`socket.getaddrinfo`, or what replaces it."""


class Resolver(AbstractResolver):
    """Resolves each name in a thread of its own, for which the end of the process does not wait.

    The library's call cannot be ended, and takes as long as the name servers like. So a name that hangs has one thread,
    however often it is asked for, and delays no other name.
    """

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up
        self._under_way: dict[tuple[str, int, int], asyncio.Future[Found]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        key = host, port, int(family)
        while key not in self._under_way and len(self._under_way) >= _LOOK_UPS_MAX:
            await asyncio.wait(self._under_way.values(), return_when=asyncio.FIRST_COMPLETED)
        found = await asyncio.shield(self._under_way.get(key) or self._begin(key))
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return [
            ResolveResult(hostname=host, host=each[4][0], port=port, family=each[0], proto=each[2], flags=0)
            for each in found
        ]

    async def close(self) -> None:
        """Does nothing: a thread whose name server hangs cannot be ended."""

    def _begin(self, key: tuple[str, int, int]) -> asyncio.Future[Found]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Found] = loop.create_future()

        def ended(_: asyncio.Future[Found]) -> None:
            del self._under_way[key]
            found.exception()  # those who wait may have given up

        def look_up() -> None:
            try:
                settle = partial(found.set_result, self._look_up(*key, socket.SOCK_STREAM))
            except Exception as fault:  # noqa: BLE001 - raised where it is waited for
                settle = partial(found.set_exception, fault)
            with suppress(RuntimeError):  # the process is ending
                loop.call_soon_threadsafe(settle)

        try:
            Thread(target=look_up, name="webhook-name", daemon=True).start()
        except RuntimeError:
            raise socket.gaierror(socket.EAI_AGAIN, "no thread for it") from None
        self._under_way[key] = found
        found.add_done_callback(ended)
        return found
