"""The main function of a child process: an API process, the worker, or a task that ends. Run as `python -m
ledger.service.child_main`.

Its arguments are its target, which it imports while the parent prepares the database, the descriptor by which it
reports that it is ready, and its role. The parent holds the other end of its standard input. The first line is the
child's configuration, and pings follow. The input ends when the parent ends. The child then exits at once; the recovery
completes the calls that it leaves open.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Literal

import msgspec
import psycopg
import structlog
from msgspec import Struct

from ledger.parent_process import follow, read_line
from ledger.postgres.faults import Fault, one_line
from ledger.service.descriptors import ask_for_descriptors
from ledger.service.ping import Responder
from ledger.settings import Settings

_log = structlog.get_logger()

_AWAY: Final = (Fault, psycopg.OperationalError)
"""What the start of a process raises for a database that does not answer."""

Role = Literal["api", "worker", "once"]

DATABASE_AWAY: Final = os.EX_TEMPFAIL
"""The exit status of a child whose database is away: another one may find it."""

WORKER_PRIORITY: Final = 3
"""Half of a usual share where every processor is busy: requests go first, and the worker still goes on."""


class ChildConfig(Struct, frozen=True):
    """What a child runs with: `listener` is a descriptor that it inherits."""

    settings: Settings
    listener: int | None = None


def encode_config(config: ChildConfig) -> bytes:
    """Returns the line that a child reads."""
    return msgspec.json.encode(config, enc_hook=str) + b"\n"


def main() -> None:
    """Imports its target (`module:name`), runs it with the configuration, and exits 0 after SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    target_name, to_parent, role = sys.argv[1:]
    lines = SimpleQueue[bytes]()
    responder = Responder(int(to_parent))
    threading.Thread(target=_follow_parent, args=[lines, responder], daemon=True).start()
    gc.disable()  # what is imported stays, and looking for cycles in it takes a tenth of the import's time
    module, _, name = target_name.partition(":")
    target = getattr(import_module(module), name)
    if role == "api":
        import_module("ledger.service.http.http_server")
    gc.freeze()  # else the first collection would look through all of it
    gc.enable()
    config = msgspec.json.decode(lines.get(), type=ChildConfig, dec_hook=_path)
    from ledger.telemetry.logs import configure_logs
    from ledger.telemetry.metrics import PROCESS

    configure_logs(config.settings.log_level, config.settings.log_format, PROCESS)

    def ready() -> None:
        os.write(int(to_parent), b"1")

    if role == "once":
        target(config.settings)
        ready()
    elif role == "api":
        from ledger.service.http.http_server import serve

        assert config.listener is not None, "an API process inherits a socket"
        listener = socket.socket(fileno=config.listener)
        _run(serve(target(config.settings), config.settings, listener, ready, _AWAY), responder)
    else:
        with suppress(PermissionError):  # a container may refuse it
            os.setpriority(os.PRIO_PROCESS, 0, WORKER_PRIORITY)
        ask_for_descriptors()  # a thousand endpoints whose receivers hang have eight connections each
        _run(_work(target, config.settings, ready), responder)


def _run(main: Coroutine[Any, Any, None], responder: Responder) -> None:
    _collect_seldom()
    import uvloop

    try:
        uvloop.run(responder.answer_during(main))
    except _AWAY as fault:
        _log.error("process_failed", reason=one_line(fault))
        sys.exit(DATABASE_AWAY)


def _collect_seldom() -> None:
    """Leaves what was made so far out of every collection, and looks for cycles a hundred times less often.

    A request leaves hardly any cycles behind; looking for them after every 700 objects cost 8 % of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


async def _work(
    run: Callable[[Settings, Callable[[], None], asyncio.Event], Coroutine[Any, Any, None]],
    settings: Settings,
    ready: Callable[[], None],
) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run(settings, ready, stop)


def _follow_parent(lines: SimpleQueue[bytes], responder: Responder) -> None:
    lines.put(read_line())
    follow(responder.pinged)
    os._exit(1)


def _path(kind: type, value: object) -> object:
    return Path(str(value)) if kind is Path else value


if __name__ == "__main__":
    main()
