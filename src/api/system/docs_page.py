"""GET /, /openapi.json and /docs: a first page, the description of the interface, and a page that shows it to people.

Load nothing from another host: the page's scripts and styles come from an installed package, and its policy forbids any
other origin.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from api.errors import method_not_allowed, no_such_operation
from api.http.request import REQUEST_SCOPE_KEY

FIRST: Final = "/"
DESCRIPTION: Final = "/openapi.json"
PAGE: Final = "/docs"
ASSET: Final = "/docs/{name}"

# The messages to webhook endpoints have a page of their own, docs/reference/public-events.md: as operations that no
# client can call they would be half of this one, unfolded.
_START: Final = """\
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  validatorUrl: null,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  requestSnippetsEnabled: true,
  plugins: [() => ({ wrapComponents: { Webhooks: () => () => null } })],
});
"""

# On a phone Swagger UI gives the texts of sections a column of one letter, breaks code anywhere, and has tables wider
# than the screen.
#
# Swagger UI has no dark colours. A filter on the root element inverts its own; on any other element it would move the
# dialogs, which are fixed to the window. The code is dark already, so it is inverted back.
_STYLE: Final = """\
@media (max-width: 48rem) {
  .swagger-ui .opblock-tag { flex-wrap: wrap; }
  .swagger-ui .opblock-tag small { flex: 1 0 100%; padding: 0; }
  .swagger-ui .opblock-body pre.microlight, .swagger-ui .operation-link pre { white-space: pre; overflow-x: auto; }
  .swagger-ui .highlight-code > .microlight code { white-space: pre !important; word-break: normal; }
  .swagger-ui table, .swagger-ui tbody, .swagger-ui tr, .swagger-ui td { display: block; }
  .swagger-ui thead { display: none; }
  .swagger-ui .response-col_links { padding-left: 0; }
  .swagger-ui .request-snippets div { flex-wrap: wrap; }
}
@media (prefers-color-scheme: dark) {
  html { background: #fff; filter: invert(0.9) hue-rotate(180deg); }
  .swagger-ui .dialog-ux .backdrop-ux { background: rgba(255, 255, 255, 0.8); }
  .swagger-ui .microlight, .swagger-ui .highlight-code, .swagger-ui .curl-command { filter: invert(1) hue-rotate(180deg); }
  .swagger-ui .curl-command .microlight, .swagger-ui .highlight-code .microlight { filter: none; }
}
"""

_HTML: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Payment ledger: API reference</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="stylesheet" href="/docs/page.css">
</head>
<body>
<div id="reference"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""

_FIRST_HTML: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Payment ledger</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/first.css">
</head>
<body>
<h1>Payment ledger</h1>
<p>This service keeps payment orders: it charges cards, takes SPEI transfers and cash, refunds, and stamps invoices.
Programs of merchants call it over HTTP with an API key in the header <code>x-api-key</code>.</p>
<ul>
<li><a href="/docs">/docs</a> shows every operation, with examples to try.</li>
<li><a href="/docs/errors">/docs/errors</a> lists every error code, with its cause.</li>
<li><a href="/docs/events">/docs/events</a> lists every kind of event, of the feed and of webhooks.</li>
<li><a href="/openapi.json">/openapi.json</a> describes the same for programs (OpenAPI 3.1).</li>
<li><a href="/health/ready">/health/ready</a> reports whether the service is ready.</li>
</ul>
<p>An operator creates a merchant with its first key by <code>ledger merchants create NAME</code>.</p>
</body>
</html>
"""

_FIRST_STYLE: Final = """\
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem; }
"""

# Swagger UI sets styles on its elements and draws a few icons from data URLs. Everything else must come from this
# service.
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PIECE: Final = 16 << 10
_PACKAGED: Final = {
    "swagger-ui.css": b"text/css; charset=utf-8",
    "swagger-ui-bundle.js": b"text/javascript; charset=utf-8",
    "favicon-32x32.png": b"image/png",
}


def description(make: Callable[[], dict[str, Any]]) -> ASGIApp:
    """Returns the endpoint of GET /openapi.json. The description is made for the first request."""
    encoded = cache(lambda: msgspec.json.encode(make()))
    return Static(lambda _: (b"application/json", encoded()))


def page() -> ASGIApp:
    """Returns the endpoint of GET /docs, the reference page."""
    return Static(lambda _: (b"text/html; charset=utf-8", _HTML.encode()))


def first_page() -> ASGIApp:
    """Returns the endpoint of GET /, which describes the service and links to its reference."""
    return Static(lambda _: (b"text/html; charset=utf-8", _FIRST_HTML.encode()))


def asset() -> ASGIApp:
    """Returns the endpoint of GET /docs/{name}: the page's scripts, styles and icon."""
    return Static(_asset)


class Static:
    """An endpoint that answers GET and HEAD with the same bytes and media type every time.

    `content` runs in a thread: the first description takes seconds, in which other requests are answered.
    """

    def __init__(self, content: Callable[[Scope], tuple[bytes, bytes]]) -> None:
        self._content = content

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed("GET", "HEAD")
        kind, body = await asyncio.to_thread(self._content, scope)
        tag = _tag(body)
        is_unchanged = dict(scope["headers"]).get(b"if-none-match") == tag
        headers = [
            (b"etag", tag),
            (b"cache-control", b"no-cache"),
            (b"content-security-policy", _POLICY),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            *scope[REQUEST_SCOPE_KEY].answer_headers,
        ]
        if not is_unchanged:
            headers += [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 304 if is_unchanged else 200, "headers": headers})
        if is_unchanged:
            body = b""
        for at in range(
            0, len(body) or 1, _PIECE
        ):  # so that each piece waits until the client has taken the one before
            more = at + _PIECE < len(body)
            await send({"type": "http.response.body", "body": body[at : at + _PIECE], "more_body": more})


def _asset(scope: Scope) -> tuple[bytes, bytes]:
    name = scope["path_params"]["name"]
    if name == "start.js":
        return b"text/javascript; charset=utf-8", _START.encode()
    if name == "first.css":
        return b"text/css; charset=utf-8", _FIRST_STYLE.encode()
    if name == "page.css":
        return b"text/css; charset=utf-8", _STYLE.encode()
    if name not in _PACKAGED:
        raise no_such_operation()
    return _PACKAGED[name], _packaged(name)


@cache
def _packaged(name: str) -> bytes:
    """Returns a file of the package that contains Swagger UI. Finding the package does not run it."""
    found = find_spec("swagger_ui")
    assert found is not None, "swagger-ui-py is a dependency"
    assert found.origin is not None, "swagger-ui-py is a package with files"
    return (Path(found.origin).parent / "static" / name).read_bytes()


@cache
def _tag(body: bytes) -> bytes:
    return b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
