"""An answer: status, JSON bytes and headers, and the way it is sent.

The rule a stranger would break: bodies are bytes that are already right. Read models were rendered when they were
committed; decoding them to encode them again would cost more than everything else here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from starlette.types import Send

Headers = tuple[tuple[bytes, bytes], ...]

REPLAYED: Final[Headers] = ((b"idempotent-replayed", b"true"),)
"""Says that nothing was done for this answer: it is the one that the request got before."""

_JSON: Final = (b"content-type", b"application/json")
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


class ApiResponse(Struct, frozen=True):
    """What a request is answered with. `body` is JSON."""

    status: int
    body: bytes
    headers: Headers = ()


def json_response(status: int, content: Any, headers: Headers = ()) -> ApiResponse:
    """An answer whose body is made here: errors and small things. Decimals become JSON numbers."""
    return ApiResponse(status, _encode(content), headers)


def rendered(document: bytes) -> Any:
    """Returns JSON that a read model has rendered, as a member of a struct that is encoded around it.

    The struct describes the member by the type of the document; the encoder copies the bytes.
    """
    return Raw(document)


async def send_response(answer: ApiResponse, send: Send, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send an answer, with further headers, in one piece."""
    length = (b"content-length", b"%d" % len(answer.body))
    await send(
        {"type": "http.response.start", "status": answer.status, "headers": [_JSON, length, *answer.headers, *headers]}
    )
    await send({"type": "http.response.body", "body": answer.body})
