"""What a connection answers by itself, while there is no request yet that the application could be asked about.

The rule a stranger would break: such an answer looks like any other refusal, with a request id of its own. A client reads
its errors in one way.
"""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Final

import msgspec

HEAD_BYTES_MAX: Final = 64 << 10
"""What a request line and its headers may weigh before the application has seen them; it has narrower limits itself."""

BEFORE_ANY_REQUEST: Final = {
    400: ("BAD_REQUEST", "This is not a valid HTTP request."),
    408: ("REQUEST_TIMEOUT", "The request did not arrive in time."),
    431: ("HEADERS_TOO_LARGE", f"The request line and headers must have at most {HEAD_BYTES_MAX} bytes."),
}
"""What is answered, by status, while there is no request yet that the application could be asked about."""


def own_answer(status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The bytes of an answer that the application has no part in; `headers` are the server's own."""
    code, message = BEFORE_ANY_REQUEST[status]
    request_id = f"req-{secrets.token_hex(12)}"
    body = msgspec.json.encode({"message": message, "code": code, "requestId": request_id})
    lines = [
        b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode()),
        *(name + b": " + value for name, value in headers),
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        b"x-request-id: " + request_id.encode(),
        b"connection: close",
        b"\r\n",
    ]
    return b"\r\n".join(lines) + body
