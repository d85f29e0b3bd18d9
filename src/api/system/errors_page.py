"""GET /docs/errors: every error code with its status and its cause, a page to which the `docUrl` of each error leads.

The words are those of docs/reference/errors.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from html import escape
from itertools import repeat
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
code { overflow-wrap: break-word; }
@media (max-width: 40rem) {
  thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { padding: .5rem 0; border-bottom: 1px solid #8888; }
  td { padding: 0; border: 0; }
  td::before { content: attr(data-column) " "; opacity: .7; }
}
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
        (
            _lines(str(status) for status, _ in found),
            _html(f"`{code}`"),
            _lines(dict.fromkeys(_html(text) for _, text in found)),
        )
        for code, found in codes
    ]
    declines = [
        (f"`{each.code}`", "yes" if each.retryable else "no", f"`{each.advice}`", each.message)
        for each in DECLINES.values()
    ]
    return _PAGE.substitute(
        codes=_table(("status", "code", "when"), rows, [f' id="{code}"' for code, _ in codes]),
        fields=_texts(("code", "meaning"), ((f"`{code}`", FIELD_WORDS[code]) for code in sorted(FIELD_WORDS))),
        declines=_texts(("declineCode", "retryable", "advice", "message"), declines),
        advice=_texts(("advice", "what to do"), ((f"`{each}`", text) for each, text in ADVICE_WORDS.items())),
    )


def _texts(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a table of texts with code between backticks."""
    return _table(columns, [[_html(cell) for cell in row] for row in rows], repeat(""))


def _table(columns: Sequence[str], rows: Iterable[Iterable[str]], ids: Iterable[str]) -> str:
    """Returns a table of cells of HTML. A narrow screen shows each cell on a line of its own, after its column."""
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "\n".join(f"<tr{id_}>{_cells(columns, row)}</tr>" for row, id_ in zip(rows, ids, strict=False))
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _cells(columns: Sequence[str], row: Iterable[str]) -> str:
    named = zip(columns, row, strict=True)
    return "".join(f'<td data-column="{column}">{cell}</td>' for column, cell in named)


def _lines(texts: Iterable[str]) -> str:
    return "<br>".join(texts)


def _html(text: str) -> str:
    """Returns text with code between backticks as HTML. Code may break after an underscore, and nowhere else."""
    return re.sub(r"`([^`]*)`", lambda code: f"<code>{code[1].replace('_', '_<wbr>')}</code>", escape(text))
