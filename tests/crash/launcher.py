"""Starts processes of the service that are killed at a named point: `python -m tests.crash.launcher api POINT…`.

The product has no hooks: the process is the product's own, with functions of this module around it that kill it.

It forks a process per point and prints `ready PORT…` (`ready` for workers), then `died POINT STATUS` for each that
ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from tests.crash import due_points, inbox_points
from tests.crash.due_points import DUE_POINTS
from tests.crash.inbox_points import INBOX_POINTS
from tests.processors.shop import question

from ledger.domain.orders.events import (
    AuthorizationAbandoned,
    AuthorizationRequested,
    PaymentAuthorized,
    PaymentDeclined,
)
from ledger.domain.payment_methods.events import (
    CardVerificationAbandoned,
    CardVerificationDeclined,
    CardVerificationRequested,
    CardVerified,
)
from ledger.journal.journal import Journal
from ledger.postgres.prepare import prepare
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.settings import Settings, read_settings
from ledger.telemetry.logs import configure_logs

POINTS = ("before-intent", "after-intent", "during-call", "after-answer", "after-outcome")
"""Of a payment, and of a card that is verified: before its intent is committed, after that and before the call, when the processor has executed the
call and not answered, after its answer and before the outcome is committed, after that and before the response.
"""

WORKER_POINTS = ("before-outcome", "after-outcome")
"""Of the recovery: between the processor's answer and its commit, and after that commit."""

_INTENTS = (AuthorizationRequested, CardVerificationRequested)
_OUTCOMES = (
    PaymentAuthorized,
    PaymentDeclined,
    AuthorizationAbandoned,
    CardVerified,
    CardVerificationDeclined,
    CardVerificationAbandoned,
)
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl


def die() -> NoReturn:
    """Kills this process: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def arm(point: str) -> None:
    """Makes this process die at a point."""
    if point in DUE_POINTS:
        due_points.arm(point, die)
        return
    if point in INBOX_POINTS:
        inbox_points.arm(point, die)
        return
    commit, authorize = Journal.commit, SandboxProcessor.authorize

    async def deadly_commit(
        journal: Journal, merchant_id: Any, command_id: Any, changes: Any, *more: Any, **named: Any
    ) -> int:
        events = [event for change in changes for event in change.events]
        intends = any(isinstance(event, _INTENTS) for event in events)
        settles = any(isinstance(event, _OUTCOMES) for event in events)
        if (intends and point == "before-intent") or (settles and point == "before-outcome"):
            die()
        position = await commit(journal, merchant_id, command_id, changes, *more, **named)
        if (intends and point == "after-intent") or (settles and point == "after-outcome"):
            die()
        return position

    async def deadly_authorize(processor: SandboxProcessor, request: Any) -> Any:
        call = asyncio.ensure_future(authorize(processor, request))
        if point == "during-call":
            while await processor.look_up(question(request.merchant_id, request.idempotency_key)) is None:  # noqa: ASYNC110 - a table sends no event
                await asyncio.sleep(0.005)
            assert not call.done(), "it has been answered: the sandbox is too fast for this test"
            die()
        answer = await call
        if point == "after-answer":
            die()
        return answer

    Journal.commit = deadly_commit  # type: ignore[method-assign, assignment]
    SandboxProcessor.authorize = deadly_authorize  # type: ignore[method-assign]


Ready = Callable[[], object]


async def _serve(settings: Settings, listener: socket.socket, ready: Ready) -> None:
    import uvicorn

    from api.app import create_app

    server = uvicorn.Server(uvicorn.Config(create_app(settings), lifespan="on", log_config=None, access_log=False))
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    ready()
    await serving


async def _work(settings: Settings, ready: Ready) -> None:
    from ledger.background import worker

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await worker.run(settings, ready, stop)


def _fork(point: str, parent: int, run: Callable[[Ready], Awaitable[None]]) -> tuple[int, int]:
    """Forks a process that dies at a point; returns its pid, and the end of a pipe that it writes to when it is
    ready.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    arm(point)
    try:
        asyncio.run(run(lambda: os.write(writing, b"1")))  # type: ignore[arg-type]
    finally:
        os._exit(1)


def main(role: str, points: Sequence[str]) -> None:
    """Starts a process per point and prints how each ended."""
    settings = read_settings(os.environ)
    assert settings.database_url is not None, "the test sets LEDGER_DATABASE_URL"
    settings = prepare(settings, settings.database_url)
    configure_logs("warning")
    if role == "api":
        import_module("api.app")  # once, before the forks
    names, pipes, words = {}, [], ["ready"]
    for point in points:
        if role == "api":
            listener = socket.create_server(("127.0.0.1", 0))
            words.append(str(listener.getsockname()[1]))
            pid, pipe = _fork(point, os.getpid(), lambda ready, to=listener: _serve(settings, to, ready))
            listener.close()
        else:
            pid, pipe = _fork(point, os.getpid(), lambda ready: _work(settings, ready))
        names[pid] = point
        pipes.append(pipe)
    if not all(os.read(pipe, 1) for pipe in pipes):
        sys.exit("one of the processes ended before it was ready")
    _print(" ".join(words))
    while names:
        pid, status = os.wait()
        _print(f"died {names.pop(pid)} {os.waitstatus_to_exitcode(status)}")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
