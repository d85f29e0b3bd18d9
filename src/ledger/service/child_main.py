"""A child of the process tree: an API process, the worker, or an errand that ends. Started as `python -m ledger.service.child_main`.

The rule a stranger would break: a child never outlives its parent. Standard input is the parent's hand: the first line is
the errand, its end is the end of the parent, and then the child stops where it stands. Recovery is made for that.
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
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ledger.settings import Settings
from ledger.telemetry import shared_metrics


class ChildConfig(Struct, frozen=True):
    """What a child is to do: `target` is `module:name`; `listener`, `ready` and `board` are descriptors that it inherits.

    `place` is its own on the board.
    """

    role: Literal["api", "worker", "once"]
    target: str
    settings: Settings
    ready: int
    listener: int | None = None
    board: int | None = None
    place: int = 0


def encode_errand(errand: ChildConfig) -> bytes:
    """The line that a child reads."""
    return msgspec.json.encode(errand, enc_hook=str) + b"\n"


def main() -> None:
    """Read the errand, do it, and exit 0 after SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    errand = msgspec.json.decode(_first_line(), type=ChildConfig, dec_hook=_path)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from ledger.telemetry.logs import configure_logs

    configure_logs(errand.settings.log_level)
    if errand.board is not None:
        shared_metrics.attach(errand.board, errand.place, errand.role)
    module, _, name = errand.target.partition(":")
    target = getattr(import_module(module), name)

    def ready() -> None:
        os.write(errand.ready, b"1")

    if errand.role == "once":
        target(errand.settings)
        ready()
    elif errand.role == "api":
        from ledger.service.http_server import serve

        assert errand.listener is not None, "an API process is given its socket"
        _run(serve(target(errand.settings), errand.settings, socket.socket(fileno=errand.listener), ready))
    else:
        _run(_work(target, errand.settings, ready))


def _run(main: Coroutine[Any, Any, None]) -> None:
    _collect_seldom()
    if sys.platform == "win32":
        asyncio.run(main)
    else:
        import uvloop

        uvloop.run(main)


def _collect_seldom() -> None:
    """Leave what was imported out of every collection, and look for cycles a hundred times less often.

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
    """Byte by byte, so that nothing behind the line waits in a buffer of ours."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            os._exit(1)
        line += piece
    return bytes(line)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


def _path(kind: type, value: object) -> object:
    return Path(str(value)) if kind is Path else value


if __name__ == "__main__":
    main()
