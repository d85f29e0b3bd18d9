"""One HTTP/1.1 connection of a client, as simple as possible, which distinguishes what was sent from what was not.

Never send anything twice. A request that may have left is answered or lost; only a connection that could not be opened proves
that nothing happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct


class NotSent(Exception):
    """There is no connection: the request was not sent."""


class Lost(Exception):
    """The request may have arrived, but no answer did. The text is the reason: "reset", "time-out"."""


class Answer(Struct, frozen=True):
    """An answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Wire:
    """A keep-alive connection to a port of this machine, opened again when it was lost."""

    def __init__(self, timeout_s: float = 10.0) -> None:
        self._timeout_s = timeout_s
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._port = 0

    async def open(self, port: int) -> None:
        """Opens the connection unless it is open. Raises NotSent."""
        if self._is_open and self._port == port:
            return
        await self.close()
        try:
            async with asyncio.timeout(self._timeout_s):
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        except (OSError, TimeoutError) as refusal:
            raise NotSent(type(refusal).__name__) from refusal
        self._port = port

    @property
    def _is_open(self) -> bool:
        if self._reader is None or self._writer is None:
            return False
        return not (self._reader.at_eof() or self._writer.is_closing())

    async def ask(
        self,
        method: str,
        path: str,
        api_key: str,
        body: bytes | None = None,
        key: str | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Sends a request on the open connection and returns its answer; `key` is its Idempotency-Key. Raises Lost."""
        return await self.finish(await self.begin(method, path, api_key, body, key, content_type))

    async def begin(
        self,
        method: str,
        path: str,
        api_key: str,
        body: bytes | None = None,
        key: str | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Sends all of a request but its last byte, which is returned: for clients that finish together. Raises Lost."""
        content = b"" if body is None else body
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\nx-api-key: {api_key}\r\n"
        if key is not None:
            head += f"idempotency-key: {key}\r\n"
        if body is not None:
            head += f"content-type: {content_type}\r\ncontent-length: {len(content)}\r\n"
        request = head.encode() + b"\r\n" + content
        await self._write(request[:-1])
        return request[-1:]

    async def _write(self, data: bytes) -> None:
        """Writes to the open connection. Raises Lost if it was lost meanwhile: uvloop has a RuntimeError for that."""
        assert self._writer is not None, "open it first"
        if self._writer.is_closing():
            await self.close()
            raise Lost("reset")
        self._writer.write(data)

    async def finish(self, last: bytes) -> Answer:
        """Sends the last byte of a request and returns its answer. Raises Lost."""
        await self._write(last)
        assert self._writer is not None, "what is written has a connection"
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._writer.drain()
                return await self._answer()
        except TimeoutError:
            await self.close()
            raise Lost("time-out") from None
        except (OSError, EOFError, ValueError) as fault:  # a reset, an end in the middle, no HTTP
            await self.close()
            raise Lost("reset" if isinstance(fault, OSError | EOFError) else "garbled") from fault

    async def _answer(self) -> Answer:
        assert self._reader is not None, "open it first"
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        answer = Answer(int(first.split(" ", 2)[1]), headers, body)
        if headers.get("connection", "").lower() == "close":
            await self.close()
        return answer

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
        self._reader = self._writer = None
