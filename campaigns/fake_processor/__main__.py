"""`python -m campaigns.fake_processor --record FILE`: a processor in a process of its own that fails in every way.

It has no access to the ledger: the two share only HTTP on loopback.

It prints `ready http://127.0.0.1:PORT`. `POST /calls` is a call, `GET /calls/KIND/MERCHANT/KEY` a look-up, and `GET
/fences/KIND/MERCHANT/KEY` a look-up that has the key refused from then on if it is unknown (410). `POST /modes` with a JSON list sets the modes of the next calls. The calls after those get a random failure, by `--seed`, with
the probability `--trouble`.
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

from campaigns.fake_processor.modes import SILENT, WITHOUT_EFFECT, Call, Kind, Line, Mode
from campaigns.fake_processor.record import Record
from campaigns.fake_processor.state import ProcessorState

_FAILURES = [mode for mode in Mode if mode is not Mode.OK]
_HELD_S = 60.0


class Reset(Exception):
    """The connection is cut without an answer."""


class Server:
    """The HTTP server. It treats each call by its mode; a late call takes effect between the two `late_s` seconds."""

    def __init__(self, record: Record, random: Random, trouble: float, late_s: tuple[float, float]) -> None:
        self._record = record
        self._state = ProcessorState(record)
        self._random = random
        self._trouble = trouble
        self._late_s = late_s
        self._next: deque[Mode] = deque()
        self._failures: list[Mode] = []
        self._late: set[asyncio.Task[None]] = set()

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serves one connection, request after request."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, path, _ = first.split(" ")
                status, answer = await self._answer(method, path, body)
                writer.write(f"HTTP/1.1 {status} .\r\ncontent-length: {len(answer)}\r\n\r\n".encode() + answer)
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
        _, place, kind, merchant_id, key = path.split("/", 4)
        if self._random.random() < self._trouble / 3:
            return 500, b"not now"
        if place == "fences":
            self._state.fence(cast("Kind", kind), UUID(merchant_id), key)
        answer = self._state.answer_to(cast("Kind", kind), UUID(merchant_id), key)
        return (404, b"{}") if answer is None else (200, msgspec.json.encode(answer))

    async def _call(self, call: Call) -> tuple[int, bytes]:
        mode = self._mode()
        self._record.write(Line(kind=call.kind, merchant_id=call.merchant_id, key=call.key, mode=mode))
        if mode is Mode.LATE:
            task = asyncio.create_task(self._apply_late(call))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        elif mode not in WITHOUT_EFFECT:
            self._state.apply(call)
        if mode is Mode.DUPLICATE:
            self._state.apply(call)
        if mode in SILENT:
            await asyncio.sleep(_HELD_S)
        if mode in {Mode.RESET_BEFORE, Mode.RESET_AFTER} or mode in SILENT:
            raise Reset
        return self._response(call, mode)

    def _response(self, call: Call, mode: Mode) -> tuple[int, bytes]:
        """Returns the status and the body that the caller gets."""
        match mode:
            case Mode.ERROR_BEFORE | Mode.ERROR_AFTER:
                return 500, b'{"message": "something went wrong"}'
            case Mode.DUPLICATE:
                return 409, b'{"message": "this key is in use"}'
            case Mode.GARBAGE:
                return 200, b'{"key": "' + call.key.encode() + b'", "authoriz'
            case Mode.OTHER_KEY:
                other = self._state.answer_to_another(call.kind, call.key)
                return 200, msgspec.json.encode(other) if other else b"{}"
            case _:
                return self._own_answer(call)

    def _own_answer(self, call: Call) -> tuple[int, bytes]:
        answer = self._state.answer_to(call.kind, call.merchant_id, call.key)
        return (410, b'{"message": "this key is refused"}') if answer is None else (200, msgspec.json.encode(answer))

    async def _apply_late(self, call: Call) -> None:
        await asyncio.sleep(self._random.uniform(*self._late_s))
        self._state.apply(call)

    def _mode(self) -> Mode:
        if self._next:
            return self._next.popleft()
        if self._random.random() >= self._trouble:
            return Mode.OK
        if not self._failures:  # in any order, but each one before one comes again: a short run has all of them
            self._failures = self._random.sample(_FAILURES, len(_FAILURES))
        return self._failures.pop()


async def main(arguments: Sequence[str]) -> None:
    """Serves until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.fake_processor", description=__doc__)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trouble", type=float, default=0.0)
    parser.add_argument("--late-from", type=float, default=1.2)
    parser.add_argument("--late-to", type=float, default=3.0)
    options = parser.parse_args(arguments)
    with Record(options.record) as record:
        late_s = (options.late_from, options.late_to)
        server = Server(record, Random(options.seed), options.trouble, late_s)
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        sys.stdout.write(f"ready http://127.0.0.1:{listener.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
