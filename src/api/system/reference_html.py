"""The HTML of the pages of reference that the service serves beside its interface: tables, readable on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import repeat
from string import Template
from typing import Final

_PAGE: Final = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Payment ledger: $name</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<style>
:root { color-scheme: light dark; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; }
h1, h2 { line-height: 1.25; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .375rem .75rem; border-bottom: 1px solid #8888; text-align: left; vertical-align: top; }
tr:target { background: #fc05; }
code { overflow-wrap: break-word; }
@media (min-width: 60rem) {
  td code wbr { display: none; }
}
@media (max-width: 40rem) {
  thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { padding: .5rem 0; border-bottom: 1px solid #8888; }
  td { padding: 0; border: 0; }
  td:empty { display: none; }
  td::before { content: attr(data-column) " "; opacity: .7; }
}
</style>
</head>
<body>
$content
</body>
</html>
""")


_CODE: Final = re.compile(r"`([^`]*)`")
_BREAK: Final = re.compile(r"[_.]")
_MAY_BREAK: Final = r"\g<0><wbr>"


def page(name: str, content: str) -> str:
    """Returns a page of HTML with this content. `name` is a word for its title."""
    return _PAGE.substitute(name=name, content=content)


def texts(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a table of texts with code between backticks."""
    return table(columns, [[html(cell) for cell in row] for row in rows], repeat(""))


def table(columns: Sequence[str], rows: Iterable[Iterable[str]], ids: Iterable[str]) -> str:
    """Returns a table of cells of HTML. A narrow screen shows each cell on a line of its own, after its column."""
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "\n".join(f"<tr{id_}>{_cells(columns, row)}</tr>" for row, id_ in zip(rows, ids, strict=False))
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _cells(columns: Sequence[str], row: Iterable[str]) -> str:
    named = zip(columns, row, strict=True)
    return "".join(f'<td data-column="{column}">{cell}</td>' for column, cell in named)


def html(text: str) -> str:
    """Returns text with code between backticks as HTML. On a narrow screen code may break after an underscore or a
    point, and nowhere else.
    """
    return _CODE.sub(lambda code: f"<code>{_BREAK.sub(_MAY_BREAK, code[1])}</code>", escape(text))
