"""What a connection makes of HTTP by itself: a request whose head has arrived, and the answer where the application has
no request yet, or one that is broken.
"""

from __future__ import annotations

import asyncio
import secrets
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_BYTES_MAX: Final = 64 << 10
"""The most bytes of a request line and its headers before the application has seen them; its own limits are
narrower.
"""

PROTOCOL_ERRORS: Final = {
    400: ("BAD_REQUEST", "This is not a valid HTTP request."),
    408: ("REQUEST_TIMEOUT", "The request did not arrive in time: send it again."),
    431: ("HEADERS_TOO_LARGE", f"The request line and headers must have at most {HEAD_BYTES_MAX} bytes."),
}
"""What is answered, by status: the code and the message."""


def new_cycle(protocol: HttpToolsProtocol) -> RequestResponseCycle:
    """Returns the request whose head the connection has received, and completes its scope: the method, the version and
    the address. Raises an error where the address has no path.
    """
    path, query = split_address(protocol.url)
    text = path.decode("ascii")
    http_version, scope = protocol.parser.get_http_version(), protocol.scope
    scope["method"] = protocol.parser.get_method().decode("ascii")
    scope["http_version"] = http_version
    scope["path"] = unquote(text) if "%" in text else text
    scope["raw_path"], scope["query_string"] = path, query
    return RequestResponseCycle(
        scope=scope,
        transport=protocol.transport,
        flow=protocol.flow,
        logger=protocol.logger,
        access_logger=protocol.access_logger,
        access_log=protocol.access_log,
        default_headers=protocol.server_state.default_headers,
        message_event=Signal(),  # type: ignore[arg-type]  # it does what a request asks of an event
        expect_100_continue=protocol.expect_100_continue,
        keep_alive=http_version != "1.0" and protocol.parser.should_keep_alive(),
        on_response=protocol.on_response_complete,
    )


def split_address(url: bytes) -> tuple[bytes, bytes]:
    """Returns the path and the query of the address in a request line. Raises httptools.HttpParserInvalidURLError.

    The parser has checked the characters already: only an address that does not begin with its path is parsed again.
    """
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path, parsed.query or b""


class Signal:
    """An asyncio.Event for one task that waits. It costs nothing until the task waits, which few requests do."""

    _is_set = False
    _waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> None:
        """Returns once the signal is set."""
        if not self._is_set:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


def error_response_bytes(status: int, default_headers: list[tuple[bytes, bytes]], errors_url: str) -> bytes:
    """Returns the bytes of an answer that closes its connection; `default_headers` are those of the server, and
    `errors_url` is the address of its page about errors.

    It has the shape of every other error, with a request id of its own, so that clients read errors in one way.
    """
    code, message = PROTOCOL_ERRORS[status]
    request_id = f"req-{secrets.token_hex(12)}"
    doc_url = f"{errors_url}#{code}"
    body = msgspec.json.encode({"message": message, "code": code, "requestId": request_id, "docUrl": doc_url})
    headers = [
        *default_headers,
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
    ]
    lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode()), *map(b": ".join, headers), b""]
    return b"\r\n".join([*lines, body])
