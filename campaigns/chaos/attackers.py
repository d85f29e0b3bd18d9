"""Clients that send too much, too slowly or wrongly, hundreds at once: a program of its own, so that it slows down no other.

An attacker that is cut off connects again at once, as long as the attack lasts.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from campaigns.chaos.bodies import ORDERS

SLOW_HEADS, SLOW_BODIES = 500, 50

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _attack(port: int, endings: Counter[str], name: str, attack: Attack, until: float, pause_s: float) -> None:
    """Connects, attacks and counts how it ended, again and again."""
    while time.monotonic() < until:
        ending = "refused"
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sending = asyncio.create_task(_quietly(attack(reader, writer)))
            try:
                async with asyncio.timeout(max(0.1, until - time.monotonic())):
                    answer = await reader.read(1 << 16)
                ending = answer[9:12].decode() if answer.startswith(b"HTTP/1.1 ") else "hung up"
            except (TimeoutError, OSError) as fault:
                ending = "open to the end" if isinstance(fault, TimeoutError) else "reset"
            sending.cancel()
            writer.transport.abort()
        endings[f"{name}: {ending}"] += 1
        await asyncio.sleep(pause_s)


async def _quietly(attack: Awaitable[None]) -> None:
    with suppress(OSError, RuntimeError):  # uvloop's for a connection that was lost
        await attack


def _slowly(start: bytes, piece: bytes) -> Attack:
    async def attack(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            await asyncio.sleep(1)
            writer.write(piece)

    return attack


def _at_once(*parts: tuple[bytes, int]) -> Attack:
    """Returns an attack that sends each part so many times, as fast as it is read."""

    async def attack(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece, times in parts:
            for _ in range(times):
                writer.write(piece)
                await writer.drain()

    return attack


async def everything(port: int, api_key: str, seconds: float) -> Counter[str]:
    """Runs every attack at once; returns how often each of them ended in which way."""
    endings = Counter[str]()
    head = f"POST {ORDERS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-api-key: {api_key}\r\n".encode()
    piece = b" " * (1 << 16)
    get = b"GET /health/live HTTP/1.1\r\nhost: x\r\n"
    long_body, chunk = (head + b"content-length: %d\r\n\r\n" % (100 << 20), 1), b"%x\r\n%b\r\n" % (len(piece), piece)
    classes: list[tuple[str, int, float, Attack]] = [
        ("slow head", SLOW_HEADS, 0.2, _slowly(head, b"a")),
        ("slow body", SLOW_BODIES, 0.2, _slowly(head + b"content-length: 200000\r\n\r\n{", b" ")),
        ("short body", 10, 0.2, _at_once((head + b"content-length: 100\r\n\r\n{}", 1))),
        ("100 MB by length", 1, 2.0, _at_once(long_body, (piece, 1600))),
        ("100 MB in chunks", 1, 2.0, _at_once((head + b"transfer-encoding: chunked\r\n\r\n", 1), (chunk, 1600))),
        ("10 MB header", 2, 0.2, _at_once((get + b"x-big: ", 1), (b"a" * (1 << 16), 160))),
        ("1,000 headers", 2, 0.2, _at_once((get + b"x-a: b\r\n" * 1000 + b"\r\n", 1))),
        ("two lengths", 2, 0.2, _at_once((head + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}", 1))),
        ("nothing at all", 20, 0.2, _at_once()),
    ]
    until = time.monotonic() + seconds
    attackers = [
        _attack(port, endings, name, attack, until, pause_s) for name, n, pause_s, attack in classes for _ in range(n)
    ]
    await asyncio.gather(*attackers)
    return endings


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    found = asyncio.run(everything(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
    sys.stdout.write(json.dumps(found) + "\n")
