"""The main function of a child process: an API process, the worker, or a task that ends. Run as `python -m
ledger.service.child_main`.

The parent holds the other end of a child's standard input. The first line is the child's configuration, and pings
follow. The end of the input is the end of the parent, and the child exits at once, wherever it is; the recovery
completes what that leaves open.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ledger.service.ping import Responder
from ledger.settings import Settings

Role = Literal["api", "worker", "once"]


class ChildConfig(Struct, frozen=True):
    """What a child runs: `target` is `module:name`; `ready` and `listener` are descriptors that it inherits."""

    role: Role
    target: str
    settings: Settings
    ready: int
    listener: int | None = None


def encode_config(config: ChildConfig) -> bytes:
    """Returns the line that a child reads."""
    return msgspec.json.encode(config, enc_hook=str) + b"\n"


def main() -> None:
    """Reads the configuration, runs its target, and exits 0 after SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    config = msgspec.json.decode(_first_line(), type=ChildConfig, dec_hook=_path)
    responder = Responder(config.ready)
    threading.Thread(target=_follow_parent, args=[responder], daemon=True).start()
    from ledger.telemetry.logs import configure_logs

    configure_logs(config.settings.log_level, config.settings.log_format)
    module, _, name = config.target.partition(":")
    target = getattr(import_module(module), name)

    def ready() -> None:
        os.write(config.ready, b"1")

    if config.role == "once":
        target(config.settings)
        ready()
    elif config.role == "api":
        from ledger.service.http_server import serve

        assert config.listener is not None, "an API process inherits a socket"
        _run(serve(target(config.settings), config.settings, socket.socket(fileno=config.listener), ready), responder)
    else:
        _run(_work(target, config.settings, ready), responder)


def _run(main: Coroutine[Any, Any, None], responder: Responder) -> None:
    _collect_seldom()
    import uvloop

    uvloop.run(responder.answer_during(main))


def _collect_seldom() -> None:
    """Leaves what was imported out of every collection, and looks for cycles a hundred times less often.

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


def _first_line() -> bytes:
    """Reads byte by byte, so that no buffer takes what comes after the line."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            os._exit(1)
        line += piece
    return bytes(line)


def _follow_parent(responder: Responder) -> None:
    while os.read(0, 1024):
        responder.pinged()
    os._exit(1)


def _path(kind: type, value: object) -> object:
    return Path(str(value)) if kind is Path else value


if __name__ == "__main__":
    main()
