"""Processes that generate load: given a plan, started together, asked for their result.

The rule a stranger would break: a child ends by itself when its standard input ends, so that nothing is left behind by a
benchmark that is interrupted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ledger.bench.measure.samples import Sample

P = TypeVar("P", bound=Struct)

Go = Callable[[], None]
"""Called by a child that is ready to begin; returns when all the others are."""


class ChildFailed(Exception):
    """A load generator ended without a result; its own words are on standard error."""


@contextmanager
def child(module: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a module for as long as the block lasts."""
    process = subprocess.Popen([sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_together(module: str, plans: Sequence[Struct]) -> list[Sample]:
    """One process of the module per plan, all begun at once; what each of them saw. Raises ChildFailed."""
    with ExitStack() as stack:
        children = [stack.enter_context(child(module)) for _ in plans]
        for process, plan in zip(children, plans, strict=True):
            _tell(process, msgspec.json.encode(plan))
        for process in children:
            _hear(process)
        for process in children:
            _tell(process, b"go")
        return [msgspec.json.decode(_hear(process), type=Sample) for process in children]


def run_one(module: str, plan: Struct) -> Sample:
    """The same with a single process."""
    return run_together(module, [plan])[0]


def work(plan_type: type[P], run: Callable[[P, Go], Awaitable[Sample]]) -> None:
    """The child's side: read the plan, do it, print the sample."""
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=plan_type)

    def go() -> None:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if not sys.stdin.buffer.readline():
            os._exit(1)
        threading.Thread(target=end_with_parent, daemon=True).start()

    result = event_loop()(run(plan, go))
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """Wait for the end of standard input, then end this process where it stands."""
    while os.read(0, 1024):
        pass
    os._exit(0)


def event_loop() -> Callable[[Any], Any]:
    import asyncio

    if sys.platform == "win32":
        return asyncio.run
    import uvloop

    return uvloop.run


def _tell(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise ChildFailed(f"{process.args!r} ended with {process.wait()}")
    return line
