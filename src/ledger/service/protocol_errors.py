"""What a connection answers by itself: where there is no request yet that the application could be asked about, or one is broken.

The rule a stranger would break: such an answer looks like any other refusal, with a request id of its own. A client reads
its errors in one way.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec

HEAD_BYTES_MAX: Final = 64 << 10
"""What a request line and its headers may weigh before the application has seen them; it has narrower limits itself."""

PROTOCOL_ERRORS: Final = {
    400: ("BAD_REQUEST", "This is not a valid HTTP request."),
    408: ("REQUEST_TIMEOUT", "The request did not arrive in time."),
    431: ("HEADERS_TOO_LARGE", f"The request line and headers must have at most {HEAD_BYTES_MAX} bytes."),
}
"""What is answered, by status, while there is no request yet that the application could be asked about."""


Headers = list[tuple[bytes, bytes]]


def error_response_bytes(status: int, headers: Headers) -> bytes:
    """The bytes of an answer that the application has no part in; `headers` are the server's own."""
    own, body = _refusal(status)
    lines = [
        b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode()),
        *(name + b": " + value for name, value in headers + own),
        b"\r\n",
    ]
    return b"\r\n".join(lines) + body


def error_app(status: int) -> Callable[..., Awaitable[None]]:
    """An application that answers a request so, whatever it asks for: one whose turn comes when it is known to be broken."""

    async def refuse(_scope: Any, _receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        headers, body = _refusal(status)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return refuse


def _refusal(status: int) -> tuple[Headers, bytes]:
    code, message = PROTOCOL_ERRORS[status]
    request_id = f"req-{secrets.token_hex(12)}"
    body = msgspec.json.encode({"message": message, "code": code, "requestId": request_id})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
    ]
    return headers, body
