"""GET {base}/files/{key}: a stored file of a document, by a signed link that lives fifteen minutes (contract N44).

The signed link replaces the API key. An expired, altered or unknown link is 404, so that the answer reveals nothing. A
file that was stored and is missing is 503 `FILE_MISSING`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from api.errors import ApiError, method_not_allowed
from api.http.dependencies import DependencyHolder, not_started
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest

_KINDS: Final = {".xml": b"application/xml", ".pdf": b"application/pdf"}
_QUERY_MAX: Final = 1024
_KEY: Final = re.compile(r"[0-9a-f-]{36}/[0-9a-f-]{36}/[0-9A-F-]{36}\.(xml|pdf)")
"""The keys under which documents are stored: merchant, document and SAT's id."""


class FileLinks:
    """The endpoint of signed links."""

    def __init__(self, holder: DependencyHolder) -> None:
        self._holder = holder

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers with the file. The middleware answers what this raises."""
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed("GET", "HEAD")
        deps = self._holder.deps
        if deps is None:
            raise not_started()
        key: str = scope["path_params"]["key"]
        files = deps.ledger.invoicing.files if deps.ledger.invoicing else None
        if files is None or not files.verify(key, _members(request.query), datetime.now(UTC)):
            raise _not_found()
        if not _KEY.fullmatch(key):
            raise _not_found()
        content = await files.require(key)
        name = key.rpartition("/")[2]
        headers = [
            (b"content-type", _KINDS.get(name[-4:], b"application/octet-stream")),
            (b"content-length", b"%d" % len(content)),
            (b"content-disposition", b'inline; filename="%s"' % name.encode()),
            (b"cache-control", b"private, no-store"),
            (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; sandbox"),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            *request.answer_headers,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _members(query: bytes) -> Mapping[str, str]:
    """Returns the members of a query, empty if the query cannot belong to a link."""
    if len(query) > _QUERY_MAX:
        return {}
    try:
        return dict(parse_qsl(query.decode("ascii"), max_num_fields=4))
    except ValueError:
        return {}


def _not_found() -> ApiError:
    return ApiError(404, "NOT_FOUND", "This link has expired or is wrong: ask for a new one with /cfdi-url.")
