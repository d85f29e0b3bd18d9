"""Processes that generate load: each reads a plan, starts with the others, and prints a sample.

A child ends when its standard input ends, so that an interrupted benchmark leaves no process behind.
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

from benchmarks.measure.samples import Sample

P = TypeVar("P", bound=Struct)

Go = Callable[[], None]
"""A child that is ready calls it; it returns when all children are ready."""


class ChildFailed(Exception):
    """A load generator ended without a result; its error is on standard error."""


@contextmanager
def child(module: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yields a process that runs a module, and ends it afterwards."""
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
    """Runs one process of the module per plan, all started at once; returns their samples. Raises ChildFailed."""
    with ExitStack() as stack:
        children = [stack.enter_context(child(module)) for _ in plans]
        for process, plan in zip(children, plans, strict=True):
            _send(process, msgspec.json.encode(plan))
        for process in children:
            _receive(process)
        for process in children:
            _send(process, b"go")
        return [msgspec.json.decode(_receive(process), type=Sample) for process in children]


def run_one(module: str, plan: Struct) -> Sample:
    """Does the same with a single process."""
    return run_together(module, [plan])[0]


def work(plan_type: type[P], run: Callable[[P, Go], Awaitable[Sample]]) -> None:
    """Reads the plan, runs it and prints the sample: the main function of a child."""
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
    """Waits for the end of standard input, then ends this process at once."""
    while os.read(0, 1024):
        pass
    os._exit(0)


def event_loop() -> Callable[[Any], Any]:
    import asyncio

    if sys.platform == "win32":
        return asyncio.run
    import uvloop

    return uvloop.run


def _send(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()


def _receive(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise ChildFailed(f"{process.args!r} ended with {process.wait()}")
    return line
