"""The socket on which a service is reached: the parent binds it, every API process listens on it, and it closes without
a reset.

Close it in this order: keep new connections out, accept all connections in its queue, close it. A socket that is closed
resets the connections in its queue, whose clients may have sent a request.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ledger.settings import CannotRun

_PORT_PATIENCE_S: Final = 3.0
_POLL_S: Final = 0.02

# A filter of the kernel (classic BPF) over TCP headers: drop a segment with the SYN flag, let all others pass. The
# handshakes that have begun are completed; a later client gets no answer, asks again in a second and is then refused.
_NO_NEWCOMERS: Final = struct.pack(
    "HBBI" * 4,
    *(0x30, 0, 0, 13),  # load the byte of the flags
    *(0x45, 0, 1, 0x02),  # SYN?
    *(0x06, 0, 0, 0),  # drop
    *(0x06, 0, 0, 0xFFFFFFFF),  # pass
)
_SO_ATTACH_FILTER: Final = 26


def bind_socket(host: str, port: int, stop_if_asked: Callable[[], None]) -> socket.socket:
    """Returns a bound socket. It does not listen yet, so that no client waits in a queue that no process serves.

    A port that is taken may still belong to the children of a parent that was just killed, which are about to exit.
    Raises CannotRun.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    deadline = time.monotonic() + _PORT_PATIENCE_S
    while True:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as refusal:
            listener.close()
            if refusal.errno != errno.EADDRINUSE:
                raise CannotRun(f"LEDGER_HOST {host}: {refusal.strerror}") from refusal
            if time.monotonic() > deadline:
                raise CannotRun(f"LEDGER_PORT {port} is taken on {host}") from refusal
            stop_if_asked()
            time.sleep(_POLL_S)
        else:
            return listener


def stop_accepting(listener: socket.socket) -> None:
    """Keeps new connections out of the queue, for every process that shares the socket. Only Linux can."""
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(_NO_NEWCOMERS, len(_NO_NEWCOMERS))
        with suppress(OSError):  # a sandbox may forbid it; a connection that arrives at this very moment is then reset
            listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", 4, ctypes.addressof(program)))
