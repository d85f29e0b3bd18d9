"""What a connection answers by itself where the application has no request yet, or one that is broken.

Such an answer has the shape of every other error, with a request id of its own, so that clients read errors in one way.
"""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Final

import msgspec

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


def error_response_bytes(status: int, default_headers: list[tuple[bytes, bytes]], errors_url: str) -> bytes:
    """Returns the bytes of an answer that closes its connection; `default_headers` are those of the server, and
    `errors_url` is the address of its page about errors.
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
