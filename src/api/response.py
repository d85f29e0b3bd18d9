"""An answer: its status, its JSON bytes and its headers.

Read models are rendered when they are committed. Pass their bytes on: to decode and encode them again would cost more
than everything else that a request does here.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

Headers = tuple[tuple[bytes, bytes], ...]

REPLAYED: Final[Headers] = ((b"idempotent-replayed", b"true"),)
"""Marks an answer that the request received before: this time nothing was done."""

ERRORS_PAGE: Final = "/docs/errors"
"""The path of the page about errors. Its address is that of the service followed by this."""

_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


JSON_TYPE: Final = (b"content-type", b"application/json")


class ApiResponse(Struct, frozen=True):
    """The answer to a request. `body` is JSON unless `content_type`, a header, names another type."""

    status: int
    body: bytes
    headers: Headers = ()
    content_type: tuple[bytes, bytes] = JSON_TYPE


def json_response(status: int, content: Struct, headers: Headers = ()) -> ApiResponse:
    """Returns an answer with a struct as its body. Decimals become JSON numbers."""
    return ApiResponse(status, _encode(content), headers)


def rendered(document: bytes) -> Any:
    """Returns JSON that a read model has rendered, as a member of a struct that is encoded around it.

    The struct describes the member by the type of the document; the encoder copies the bytes.
    """
    return Raw(document)
