"""`python -m campaigns corpus`: sends every named malformed body and request to a running service.

Processor time is what the serving process spent, read from the kernel before and after each request. Memory is what it held
before and after the whole corpus was sent, after a warm-up. Only the command reports them: never assert either in a test, since
the machine may be busy.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from tests.api.bodies import APPROVED, encoded, order
from tests.api.http.malformed import malformed

from campaigns.chaos.bodies import ORDERS
from campaigns.chaos.service import Service

CPU_MAX_S = 0.05
GROWTH_MAX = 20 << 20
PASSES = 5
_EXPECTED = frozenset({400, 401, 408, 413, 415, 431})


class Sent(Struct, frozen=True, kw_only=True):
    """A request and its outcome. `cpu_s` is the serving process's processor time; `wrong` lists what is wrong with the answer."""

    name: str
    status: int | None
    cpu_s: float
    wrong: Sequence[str]


class Found(Struct, frozen=True, kw_only=True):
    """The outcome of a run. `growth` is the resident memory, in bytes, after all passes beyond what it was after the first."""

    sent: Sequence[Sent]
    growth: int
    replaced: bool
    complaints: Sequence[str]

    @property
    def wrong(self) -> list[str]:
        """Returns what is wrong on any machine."""
        wrong = [f"{each.name}: {what}" for each in self.sent for what in each.wrong]
        return wrong + ["the serving process was replaced"] * self.replaced + list(self.complaints)

    @property
    def costly(self) -> list[str]:
        """Returns what took too much time or memory; these figures are meaningful on a quiet machine only."""
        slow = [f"{each.name}: {each.cpu_s * 1e3:.0f} ms" for each in self.sent if each.cpu_s > CPU_MAX_S]
        return slow + [f"memory grew by {self.growth >> 20} MB"] * (self.growth > GROWTH_MAX)


def requests(api_key: str) -> Iterator[tuple[str, bytes]]:
    """Yields every request as bytes on the wire, with a name; each asks to close the connection."""
    key = f"x-api-key: {api_key}\r\n".encode()
    kind = b"content-type: application/json\r\n"
    for name, body in malformed():
        yield name, _post(key + kind, body)
    body = encoded(order())
    for content_type in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-16",
        "*/*",
        "",
    ):
        yield f"content type {content_type!r}", _post(key + f"content-type: {content_type}\r\n".encode(), body)
    yield "no content type", _post(key, body)
    for encoding in (b"gzip", b"deflate", b"br", b"gzip, gzip"):
        bomb = gzip.compress(b"[" * (10 << 20))
        yield (
            f"a bomb packed as {encoding.decode()}",
            _post(key + kind + b"content-encoding: " + encoding + b"\r\n", bomb),
        )
    yield "a card number as API key", _post(b"x-api-key: " + APPROVED.encode() + b"\r\n" + kind, body)
    for framing in (
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
        b"content-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
        b"content-length: -1\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    ):
        yield f"framing {framing[:40]!r}", _HEAD + key + kind + framing
    yield "a thousand headers", _post(key + kind + b"x-a: b\r\n" * 1000, body)
    yield "a header of a megabyte", _post(key + kind + b"x-a: " + b"b" * (1 << 20) + b"\r\n", body)
    yield "a long address", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n" + key + b"\r\n"


_HEAD = f"POST {ORDERS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n".encode()


def _post(headers: bytes, body: bytes) -> bytes:
    return _HEAD + headers + b"content-length: %d\r\n\r\n" % len(body) + body


async def _exchange(port: int, request: bytes) -> bytes:
    """Returns the answer's bytes, as far as one came; it may come before the request's end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    hearing = asyncio.create_task(reader.read(1 << 20))
    writer.write(request)
    try:
        answer = await asyncio.wait_for(hearing, 20)
        if b"\r\n\r\n" in answer and answer.endswith(b"\r\n\r\n"):
            answer += await asyncio.wait_for(reader.read(1 << 20), 20)
    except (TimeoutError, OSError):
        answer = b""
    writer.transport.abort()
    return answer


_OUR_ID = re.compile(rb'"req-[0-9a-f-]{24,25}"')
"""A request id of the service: sometimes its digits look like a card number's."""


def judge(answer: bytes) -> tuple[int | None, list[str]]:
    """Returns the status of an answer, and what is wrong with it."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 "):
        return None, ["there is no answer"]
    status, wrong = int(head[9:12]), []
    if status not in _EXPECTED:
        wrong.append(f"it was answered with {status}")
    if re.search(rb"\d{13}|4242|drop table", _OUR_ID.sub(b"", body)):
        wrong.append("the answer repeats what was sent")
    try:
        said = msgspec.json.decode(body, type=dict[str, object])
    except msgspec.DecodeError:
        return status, [*wrong, "the answer is no JSON"]
    named = {"message", "code", "requestId"} | ({"errors"} if said.get("code") == "VALIDATION_ERROR" else set())
    return status, wrong + [f"the answer lacks {name}" for name in sorted(named - said.keys())]


def _cpu_s(pid: int) -> float:
    """Returns the processor time of a process in seconds, all its threads together, to the nanosecond."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def _resident(pid: int) -> int:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) << 10  # type: ignore[index]


async def _one(port: int, pid: int, name: str, request: bytes) -> Sent:
    before = _cpu_s(pid)
    answer = await _exchange(port, request)
    cpu_s = _cpu_s(pid) - before
    status, wrong = judge(answer)
    return Sent(name=name, status=status, cpu_s=cpu_s, wrong=wrong)


def send_all(passes: int) -> Found:
    """Sends the corpus `passes` times to a service of its own, one request after the other, and returns what was found.

    The cheapest pass of each request counts: the process sometimes has other work to do.
    """
    with Service(workers=1) as service:
        service.start()
        merchant = service.merchant("Malformed")
        (pid,) = service.api_processes()
        corpus = list(requests(merchant.api_key))

        async def one_pass() -> list[Sent]:
            return [await _one(service.port, pid, name, request) for name, request in corpus]

        sent = asyncio.run(one_pass())
        before = growth = _resident(pid)
        for _ in range(passes - 1):
            again = asyncio.run(one_pass())
            sent = [a if (a.wrong, -a.cpu_s) >= (b.wrong, -b.cpu_s) else b for a, b in zip(sent, again, strict=True)]
        growth = _resident(pid) - before
        replaced = service.api_processes() != [pid]
        return Found(sent=sent, growth=growth, replaced=replaced, complaints=service.complaints())


def report(found: Found) -> str:
    """Returns the figures as text for a person."""
    statuses = Counter(str(each.status or "none") for each in found.sent)
    cpu = sorted(each.cpu_s for each in found.sent)
    p50, p99 = cpu[len(cpu) // 2], cpu[len(cpu) * 99 // 100]
    most = max(found.sent, key=lambda each: each.cpu_s)
    dearest = f"{most.cpu_s * 1e3:.1f} ms ({most.name})"
    return "\n".join(
        [
            f"{len(found.sent)} requests: {', '.join(f'{n} times {status}' for status, n in sorted(statuses.items()))}",
            f"processor time: {p50 * 1e3:.2f} ms (p50), {p99 * 1e3:.1f} ms (p99), {dearest} at most",
            f"memory: {found.growth / (1 << 20):+.1f} MB after {PASSES} passes, against the first",
            *(f"WRONG {what}" for what in found.wrong),
            *(f"COSTLY {what}" for what in found.costly),
        ]
    )


def main(arguments: Sequence[str]) -> int:
    """Sends the corpus and returns the exit status: 1 if an answer is wrong, or costly."""
    argparse.ArgumentParser(prog="python -m campaigns corpus", description=__doc__).parse_args(arguments)
    result = send_all(PASSES)
    sys.stdout.write(report(result) + "\n")
    return int(bool(result.wrong or result.costly))
