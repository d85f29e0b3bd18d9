"""A process that writes to a merchant's log at full speed: `python -m tests.recorder.full_speed URL MERCHANT`.

It prints `ready`, writes from the first line of its input to the second, and prints how many events were acknowledged.
Each commit also writes a row to `bare`, which a plain sequence numbers over all merchants.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

import uvloop
from tests.journal.small_log import command
from uuid_utils.compat import uuid7

from ledger.journal.append import Append
from ledger.journal.commit.writer import Writer
from ledger.journal.inline import InlineTable

BARE = InlineTable(
    "bare",
    (("merchant_id", "uuid"), ("stream_id", "uuid")),
    "insert into bare (merchant_id, stream_id) select merchant_id, stream_id from {rows}",
)
BARE_DDL = "create table bare (seq bigserial primary key, merchant_id uuid not null, stream_id uuid not null)"

_IN_FLIGHT = 64
_ROOT = Path(__file__).parents[2]


def _command(merchant: UUID) -> Append:
    stream = uuid7()
    plain = command(merchant, (stream, 0, 2))
    return Append(
        plain.merchant_id,
        plain.command_id,
        plain.context,
        plain.streams,
        plain.claims,
        {"bare": [(merchant.bytes, stream.bytes)]},
    )


async def write(url: str, merchant: UUID) -> int:
    """Writes until the second line of input, and returns how many events were acknowledged."""
    writer = Writer(url, [BARE])
    await writer.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    stopped = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    acknowledged = 0

    async def client() -> None:
        nonlocal acknowledged
        while not stopped.done():
            await writer.submit(_command(merchant))
            acknowledged += 2

    await asyncio.gather(*[client() for _ in range(_IN_FLIGHT)])
    await writer.stop()
    return acknowledged


class Processes:
    """Running writer processes. `end` stops them and returns how many events of each were acknowledged."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def end(self) -> list[int]:
        return [int(process.communicate("end\n", timeout=30)[0]) for process in self._processes]


@contextmanager
def writing(url: str, *merchants: UUID) -> Iterator[Processes]:
    """Starts a process for each merchant; all of them write when the block begins."""
    with ExitStack() as stack:
        processes = []
        for merchant in merchants:
            arguments = [sys.executable, "-m", "tests.recorder.full_speed", url, str(merchant)]
            process = subprocess.Popen(
                arguments, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            stack.callback(_reap, process)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("begin\n")
            process.stdin.flush()
        yield Processes(processes)


def _reap(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()


if __name__ == "__main__":
    sys.stdout.write(f"{uvloop.run(write(sys.argv[1], UUID(sys.argv[2])))}\n")
