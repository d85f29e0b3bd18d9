"""GET /docs/errors: every error code with its status and its cause, a page to which the `docUrl` of each error leads.

The words are those of docs/reference/errors.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from string import Template
from typing import Final

from starlette.types import ASGIApp

from api.openapi.error_descriptions import ADVICE_WORDS, FIELD_WORDS, WORDS, words
from api.system import reference_html
from api.system.docs_page import Static
from api.system.reference_html import html, table, texts
from ledger.domain.orders.declines import DECLINES

_CONTENT: Final = Template("""\
<h1>Errors</h1>
<p>Every answer except a 2xx has <code>message</code>, <code>code</code>, <code>requestId</code> and <code>docUrl</code>.
Codes are permanent; messages are for people and may change. Match on <code>code</code>. The operations are on the
<a href="/docs">reference page</a>.</p>
<h2>Codes</h2>
$codes
<h2 id="fields">Codes of single fields</h2>
<p>A 400 names every wrong field in <code>errors</code>, up to twenty.</p>
$fields
<h2 id="declines">Declines</h2>
<p>A declined payment is answered 422, and the order exists: it has the failed payment and can be read.</p>
$declines
$advice
""")


def page(statuses: Callable[[], Mapping[str, Collection[int]]]) -> ASGIApp:
    """Returns the endpoint.

    `statuses` returns the HTTP statuses of each code. The page is rendered on the first request.
    """
    encoded = cache(lambda: _page(statuses()).encode())
    return Static(lambda _: (b"text/html; charset=utf-8", encoded()))


def _page(statuses: Mapping[str, Collection[int]]) -> str:
    codes = [(code, [(status, words(code, status)) for status in sorted(statuses[code])]) for code in sorted(WORDS)]
    rows = [
        (
            _lines(str(status) for status, _ in found),
            html(f"`{code}`"),
            _lines(dict.fromkeys(html(text) for _, text in found)),
        )
        for code, found in codes
    ]
    declines = [
        (f"`{each.code}`", "yes" if each.retryable else "no", f"`{each.advice}`", each.message)
        for each in DECLINES.values()
    ]
    content = _CONTENT.substitute(
        codes=table(("status", "code", "when"), rows, [f' id="{code}"' for code, _ in codes]),
        fields=texts(("code", "meaning"), ((f"`{code}`", FIELD_WORDS[code]) for code in sorted(FIELD_WORDS))),
        declines=texts(("declineCode", "retryable", "advice", "message"), declines),
        advice=texts(("advice", "what to do"), ((f"`{each}`", text) for each, text in ADVICE_WORDS.items())),
    )
    return reference_html.page("errors", content)


def _lines(texts: Iterable[str]) -> str:
    return "<br>".join(texts)
