"""`python -m campaigns bounds [SECONDS]`: clients without a key make an API process hold as much as they can, and its memory is read.

Each row of the table fills one bound; the last one fills all of them at once. docs/explanation/connections.md explains the bounds.
An attacker that is cut off connects again at once, as long as its row lasts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Final

from msgspec import Struct

from campaigns.chaos.bodies import ORDERS
from campaigns.chaos.service import Service
from ledger.security.api_keys import PREFIXES

RESIDENT_MAX: Final = 400_000_000
"""How many bytes of memory a process may have while every bound is filled."""

CONNECTIONS: Final = 2400
"""More than a process keeps."""

SECONDS: Final = 6.0
WRONG_KEYS: Final = 21_000
"""More than are remembered."""

_HOST = b"host: x\r\n"
_PAD = b"x-pad: " + b"a" * 8000 + b"\r\n"
_PIECE = b" " * (16 << 10)
_MESSAGE = b"POST /api/processor-messages/x HTTP/1.1\r\ncontent-type: application/json\r\n" + _HOST
_ACCOUNT_MESSAGE = b"POST /api/processor-messages/x/y HTTP/1.1\r\ncontent-type: application/json\r\n" + _HOST
_CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
_LONG_ANSWER = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\n" + _HOST + b"\r\n"
_PAYER_PAGE = b"POST /api/sandbox/3ds/challenge/%d HTTP/1.1\r\n" + _HOST
_FORM = b"content-type: application/x-www-form-urlencoded\r\n"
_METHODS = """
DELETE GET HEAD POST PUT OPTIONS TRACE COPY LOCK MKCOL MOVE PROPFIND PROPPATCH SEARCH UNLOCK BIND REBIND UNBIND ACL REPORT
MKACTIVITY CHECKOUT MERGE M-SEARCH NOTIFY SUBSCRIBE UNSUBSCRIBE PATCH PURGE MKCALENDAR LINK UNLINK SOURCE PRI QUERY
"""
"""All that the parser accepts."""


class Held(Struct, frozen=True):
    """One thing that connections can make a process hold. `pieces` yields what each of them sends, in this order."""

    name: str
    pieces: Callable[[], Iterator[bytes]]


def _trailers() -> Iterator[bytes]:
    yield _MESSAGE + _CHUNKED + b"2\r\n{}\r\n0\r\n"
    yield from repeat(b"x-api-key: " + b"k" * 5000 + b"\r\n", 13)


def _requests_ahead() -> Iterator[bytes]:
    yield _LONG_ANSWER
    yield from repeat(b"GET /health/live HTTP/1.1\r\n" + _HOST + _PAD * 7 + b"\r\n", 20)


def _long_addresses_ahead() -> Iterator[bytes]:
    yield _LONG_ANSWER
    yield from repeat(b"GET /%F0%9F%98%80" + b"a" * 60_000 + b" HTTP/1.1\r\n" + _HOST + b"\r\n", 20)


def _small_requests_ahead() -> Iterator[bytes]:
    yield _LONG_ANSWER
    yield from repeat(b"GET / HTTP/1.1\r\n\r\n" * 1000, 60)


def _bodies_ahead() -> Iterator[bytes]:
    yield _LONG_ANSWER
    for _ in range(20):
        yield _MESSAGE + b"content-length: %d\r\n\r\n" % (4 * len(_PIECE))
        yield from repeat(_PIECE, 4)


def _endless_body() -> Iterator[bytes]:
    yield _MESSAGE + _CHUNKED
    yield from repeat(b"%x\r\n%b\r\n" % (len(_PIECE), _PIECE), 16)


def _form() -> Iterator[bytes]:
    yield _PAYER_PAGE % 1 + _FORM + b"content-length: 16384\r\n\r\n"
    yield b"decision=" + b"a" * 16_000


HELD: Final = (
    Held("idle connections", lambda: iter(())),
    Held("long heads", lambda: iter([b"GET / HTTP/1.1\r\n" + _HOST + b"x-a: " + b"a" * 65_000])),
    Held("heads of many fields", lambda: iter([b"GET / HTTP/1.1\r\n" + _HOST + b"a:b\r\n" * 12_000])),
    Held("trailers", _trailers),
    Held("requests ahead", _requests_ahead),
    Held("long addresses ahead", _long_addresses_ahead),
    Held("small requests ahead", _small_requests_ahead),
    Held("bodies ahead", _bodies_ahead),
    Held("bodies", lambda: iter([_ACCOUNT_MESSAGE + b"content-length: 32768\r\n\r\n" + b" " * 32_767])),
    Held("endless bodies", _endless_body),
    Held("forms", _form),
    Held("unread answers", lambda: iter([_LONG_ANSWER])),
    Held("unread metrics", lambda: iter([b"GET /metrics HTTP/1.1\r\n" + _HOST + b"\r\n"])),
)  # fmt: skip


class Process:
    """The only API process of a service."""

    def __init__(self, service: Service) -> None:
        (pid,) = service.api_processes()
        self.pid, self.port = pid, service.port

    def memory(self, name: str) -> int:
        """Returns a size of /proc/PID/status in bytes: VmRSS is resident now, VmHWM at the most since `forget`."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith(name)]
        return int(line.split()[1]) << 10

    def forget(self) -> None:
        """Begins a new VmHWM."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


async def fill(process: Process, held: Sequence[Held], seconds: float = SECONDS) -> Counter[str]:
    """Keeps all connections busy with these, each with the next one; returns how many of each were cut off."""
    endings = Counter[str]()
    until = time.monotonic() + seconds
    await asyncio.gather(*[_hold(process, held[n % len(held)], until, endings) for n in range(CONNECTIONS)])
    return endings


async def _hold(process: Process, held: Held, until: float, endings: Counter[str]) -> None:
    while (left := until - time.monotonic()) > 0:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(left):
                _, writer = await asyncio.open_connection("127.0.0.1", process.port, limit=1)
                try:
                    for piece in held.pieces():
                        writer.write(piece)
                        await writer.drain()
                    while not writer.is_closing():  # noqa: ASYNC110 - nothing is read, so no end is reported
                        await asyncio.sleep(0.2)
                finally:
                    writer.transport.abort()
                    endings[held.name] += time.monotonic() < until
        await asyncio.sleep(0.1)


async def send_wrong_keys(process: Process) -> None:
    """Sends more wrong keys than are remembered, each of the form of a key."""
    numbers = iter(range(WRONG_KEYS))
    head = f"GET {ORDERS} HTTP/1.1\r\nhost: x\r\nx-api-key: {PREFIXES['sandbox']}"
    await asyncio.gather(*[_ask_all(process, (f"{head}{n:0150d}\r\n\r\n" for n in numbers)) for _ in range(16)])


async def send_labels(process: Process) -> None:
    """Sends every method to every path of the interface."""
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    writer.write(b"GET /openapi.json HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    described = json.loads((await reader.read(-1)).split(b"\r\n\r\n", 1)[1])
    writer.close()
    paths = [path.replace("{", "").replace("}", "") for path in described["paths"]]
    targets = (f"{method} {path}" for path in (*paths, "/none") for method in _METHODS.split())
    await _ask_all(process, (f"{target} HTTP/1.1\r\nhost: x\r\n\r\n" for target in targets))


async def _ask_all(process: Process, requests: Iterator[str]) -> None:
    """Sends one request after the other, and waits for each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    for request in requests:
        writer.write(request.encode())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
            await reader.readexactly(0 if request.startswith("HEAD") else length)
        except (OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    writer.close()


FILLS: Final[dict[str, Callable[..., Awaitable[object]]]] = {
    "metrics labels": send_labels,
    "wrong keys": send_wrong_keys,
    **{held.name: partial(fill, held=[held]) for held in HELD},
    "all at once": partial(fill, held=HELD),
}
"""How each bound is filled. The keys and the labels stay while the connections are filled."""


def service() -> Service:
    """Returns a service with one API process, which may be slow: the machine may be busy."""
    return Service(workers=1, settings={"LEDGER_PING_TIMEOUT_S": "120"})


async def measure(process: Process, seconds: float) -> bool:
    """Prints the memory of each row, of which each takes so long. Returns whether all of it is within its limit."""
    fits = True
    sys.stdout.write(f"{'':24}{'before':>8}{'highest':>8}{'after':>8}  MB\n")
    for name, filled in FILLS.items():
        before = process.memory("VmRSS")
        process.forget()
        await (filled(process, seconds=seconds) if isinstance(filled, partial) else filled(process))
        await asyncio.sleep(1)
        highest = process.memory("VmHWM")
        fits = fits and highest < RESIDENT_MAX
        sizes = (before, highest, process.memory("VmRSS"))
        sys.stdout.write(f"{name:24}{''.join(f'{size / 1e6:8.0f}' for size in sizes)}\n")
        sys.stdout.flush()
    return fits


def main(arguments: Sequence[str]) -> int:
    """Fills the bounds and returns the exit status: 1 if the process held too much."""
    parser = argparse.ArgumentParser(prog="python -m campaigns bounds", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=SECONDS, help="how long each row takes")
    options = parser.parse_args(arguments)
    with service() as running:
        running.start()
        return 0 if asyncio.run(measure(Process(running), options.seconds)) else 1
