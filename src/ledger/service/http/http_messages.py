"""What a connection does with HTTP by itself: addresses, first lines of answers, and the answer to a request that the
application cannot be given.
"""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import httptools
import msgspec


def _status_line(status: int) -> bytes:
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


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

STATUS_LINES: Final = {status: _status_line(status) for status in range(100, 600)}
"""The first line of an answer, by its status."""


def split_address(url: bytes) -> tuple[bytes, bytes]:
    """Returns the path and the query of the address in a request line. Raises httptools.HttpParserInvalidURLError.

    The parser has checked the characters already: only an address that does not begin with its path is parsed again.
    """
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path, parsed.query or b""


def unquoted(path: bytes) -> str:
    """Returns a path, or a whole address, as characters. Raises UnicodeDecodeError for bytes beyond ASCII."""
    text = path.decode("ascii")
    return unquote(text) if "%" in text else text


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
    return b"".join([STATUS_LINES[status], *[b"%b: %b\r\n" % field for field in headers], b"\r\n", body])
