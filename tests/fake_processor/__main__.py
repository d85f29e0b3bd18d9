"""`python -m tests.fake_processor --record FILE`: a processor in a process of its own that goes wrong in every way.

The rule a stranger would break: it knows nothing of the ledger and shares nothing with it but HTTP on loopback.

It says `ready http://127.0.0.1:PORT`. `POST /calls` is a call, `GET /calls/KIND/MERCHANT/KEY` a look-up, and `POST /modes`
with a JSON list says how the next calls are treated; after those it is drawn, with `--seed`, in `--trouble` of all calls.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from asyncio import StreamReader, StreamWriter
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import cast
from uuid import UUID

import msgspec
from tests.fake_processor.company import Company
from tests.fake_processor.modes import SILENT, WITHOUT_EFFECT, Call, Kind, Line, Mode
from tests.fake_processor.record import Record

_TROUBLES = [mode for mode in Mode if mode is not Mode.OK]
_HELD_S = 60.0


class Reset(Exception):
    """The connection is to be cut without an answer."""


class Server:
    """Answers calls, each as its mode says. `late_s` is from when to when a late call takes effect, in seconds."""

    def __init__(self, record: Record, random: Random, trouble: float, late_s: tuple[float, float]) -> None:
        self._record = record
        self._company = Company(record)
        self._random = random
        self._trouble = trouble
        self._late_s = late_s
        self._next: deque[Mode] = deque()
        self._late: set[asyncio.Task[None]] = set()

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection, request after request."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, path, _ = first.split(" ")
                status, said = await self._answer(method, path, body)
                writer.write(f"HTTP/1.1 {status} .\r\ncontent-length: {len(said)}\r\n\r\n".encode() + said)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Reset:
            writer.transport.abort()
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if (method, path) == ("POST", "/modes"):
            self._next.extend(msgspec.json.decode(body, type=list[Mode]))
            return 200, b"{}"
        if (method, path) == ("POST", "/calls"):
            return await self._call(msgspec.json.decode(body, type=Call))
        _, _, kind, merchant_id, key = path.split("/", 4)
        if self._random.random() < self._trouble / 3:
            return 500, b"not now"
        said = self._company.said(cast("Kind", kind), UUID(merchant_id), key)
        return (404, b"{}") if said is None else (200, msgspec.json.encode(said))

    async def _call(self, call: Call) -> tuple[int, bytes]:
        mode = self._mode()
        self._record.write(Line(kind=call.kind, merchant_id=call.merchant_id, key=call.key, mode=mode))
        if mode is Mode.LATE:
            task = asyncio.create_task(self._apply_late(call))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        elif mode not in WITHOUT_EFFECT:
            self._company.apply(call)
        if mode is Mode.DUPLICATE:
            self._company.apply(call)
        if mode in SILENT:
            await asyncio.sleep(_HELD_S)
        if mode in {Mode.RESET_BEFORE, Mode.RESET_AFTER} or mode in SILENT:
            raise Reset
        return self._seen(call, mode)

    def _seen(self, call: Call, mode: Mode) -> tuple[int, bytes]:
        """What the caller is answered."""
        match mode:
            case Mode.ERROR_BEFORE | Mode.ERROR_AFTER:
                return 500, b'{"message": "something went wrong"}'
            case Mode.DUPLICATE:
                return 409, b'{"message": "this key is in use"}'
            case Mode.GARBAGE:
                return 200, b'{"key": "' + call.key.encode() + b'", "authoriz'
            case Mode.OTHER_KEY:
                other = self._company.another(call.kind, call.key)
                return 200, msgspec.json.encode(other) if other else b"{}"
        return 200, msgspec.json.encode(self._company.said(call.kind, call.merchant_id, call.key))

    async def _apply_late(self, call: Call) -> None:
        await asyncio.sleep(self._random.uniform(*self._late_s))
        self._company.apply(call)

    def _mode(self) -> Mode:
        if self._next:
            return self._next.popleft()
        return self._random.choice(_TROUBLES) if self._random.random() < self._trouble else Mode.OK


async def main(arguments: Sequence[str]) -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.fake_processor", description=__doc__)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trouble", type=float, default=0.0)
    parser.add_argument("--late-from", type=float, default=1.2)
    parser.add_argument("--late-to", type=float, default=3.0)
    options = parser.parse_args(arguments)
    with Record(options.record) as record:
        late_s = (options.late_from, options.late_to)
        fake = Server(record, Random(options.seed), options.trouble, late_s)
        server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
        sys.stdout.write(f"ready http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
