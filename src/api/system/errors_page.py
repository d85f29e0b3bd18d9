"""GET /docs/errors: every error code with its status and its cause, a page to which the `docUrl` of each error leads.

The words are those of docs/reference/errors.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from html import escape
from string import Template
from typing import Final

from starlette.types import ASGIApp

from api.openapi.error_descriptions import ADVICE_WORDS, FIELD_WORDS, WORDS, words
from api.system.docs_page import Static
from ledger.domain.orders.declines import DECLINES

_PAGE: Final = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Payment ledger: errors</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<style>
:root { color-scheme: light dark; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; }
h1, h2 { line-height: 1.25; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .375rem .75rem; border-bottom: 1px solid #8888; text-align: left; vertical-align: top; }
tr:target { background: #fc05; }
code { overflow-wrap: anywhere; }
</style>
</head>
<body>
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
</body>
</html>
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
        f'<tr id="{code}"><td>{_lines(str(status) for status, _ in found)}</td><td><code>{code}</code></td>'
        f"<td>{_lines(dict.fromkeys(_html(text) for _, text in found))}</td></tr>"
        for code, found in codes
    ]
    declines = [
        (f"`{each.code}`", "yes" if each.retryable else "no", f"`{each.advice}`", each.message)
        for each in DECLINES.values()
    ]
    return _PAGE.substitute(
        codes=_table(("status", "code", "when"), rows),
        fields=_table(("code", "meaning"), _rows((f"`{code}`", FIELD_WORDS[code]) for code in sorted(FIELD_WORDS))),
        declines=_table(("declineCode", "retryable", "advice", "message"), _rows(declines)),
        advice=_table(("advice", "what to do"), _rows((f"`{each}`", text) for each, text in ADVICE_WORDS.items())),
    )


def _table(columns: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{column}</th>" for column in columns)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table>"


def _rows(rows: Iterable[Iterable[str]]) -> list[str]:
    return ["<tr>" + "".join(f"<td>{_html(cell)}</td>" for cell in row) + "</tr>" for row in rows]


def _lines(texts: Iterable[str]) -> str:
    return "<br>".join(texts)


def _html(text: str) -> str:
    """Returns text with code between backticks as HTML."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
