"""A minimal persistent HTTP/1.1 connection: the standard library's takes longer than the service's answer.

Never send a request twice: check before the request whether the service has closed the connection.
"""

from __future__ import annotations

import socket
from typing import NamedTuple

import msgspec

_PATIENCE_S = 60.0


class Answer(NamedTuple):
    """An answer: its HTTP status, its JSON body, and the bytes of that."""

    status: int
    body: dict[str, object]
    content: bytes

    @property
    def code(self) -> str | None:
        code = self.body.get("code")
        return None if code is None else str(code)


class HttpConnection:
    """A connection to a port of this machine, opened with the first request."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def request(self, method: str, path: str, headers: dict[str, str], content: bytes) -> Answer:
        """Sends a request and returns its answer, which has a content length."""
        line = self._line()
        named = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(content)}\r\n{named}\r\n"
        line.sendall(head.encode() + content)
        received = self._more(line, b"")
        while (end := received.find(b"\r\n\r\n")) < 0:
            received = self._more(line, received)
        head_lines = received[:end].lower().split(b"\r\n")
        length = next(int(row[15:]) for row in head_lines if row.startswith(b"content-length:"))
        while len(received) < end + 4 + length:
            received = self._more(line, received)
        if b"connection: close" in head_lines:
            self.close()
        content = received[end + 4 :]
        return Answer(int(head_lines[0].split(b" ", 2)[1]), msgspec.json.decode(content), content)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _line(self) -> socket.socket:
        if self._socket is not None and self._is_over(self._socket):
            self.close()
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), _PATIENCE_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _is_over(self, line: socket.socket) -> bool:
        line.setblocking(False)
        try:
            line.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            line.settimeout(_PATIENCE_S)
        return True

    def _more(self, line: socket.socket, received: bytes) -> bytes:
        more = line.recv(1 << 16)
        assert more, "the service closed the connection instead of answering"
        return received + more
