"""A report as a page of HTML without script, for a screen or a printer: its frame, its style and its tables.

A screen shows it in the colours that the browser prefers, a printer in light ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final


def page(title: str, content: str) -> str:
    """Returns a page of HTML with a heading and this content."""
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{_STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{content}</body>
</html>
"""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int, kind: str) -> str:
    """Returns a table of cells of HTML. The columns from `numbers_from` on are aligned as numbers.

    `kind` are its classes: each row of `days` is a card on a phone, and `events` leaves out unchanged amounts there.
    """

    def cells(tag: str, each: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{_NUMBER if n >= numbers_from else ''} data-name={name!r}>{cell}</{tag}>"
            for n, (name, cell) in enumerate(zip(columns, each, strict=True))
        )

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = cells("th", columns)
    return f'<table class="{kind}">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'


_NUMBER: Final = ' class="number"'
_STYLE: Final = """\
:root { --ink: #1c2129; --soft: #4d5a66; --line: #d6dde2; --mark: #fff1cc; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: var(--ink); }
a { color: inherit; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
.value { font-size: 2rem; font-weight: 600; margin: 1rem 0 0; font-variant-numeric: tabular-nums;
         overflow-wrap: anywhere; }
.value + table { margin-top: 1rem; }
h2, h3 { font-size: 1.1rem; margin: 1.5rem 0 .5rem; break-after: avoid; }
.note { color: var(--soft); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; text-align: left; }
table { border-collapse: collapse; width: 100%; }
th { background: #174e61; color: #fff; print-color-adjust: exact; }
th, td { padding: .35rem .8rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
td strong { background: var(--mark); padding: 0 .2rem; print-color-adjust: exact; }
tr { break-inside: avoid; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.terms { width: auto; min-width: min(100%, 24rem); }
@media (min-width: 64rem) {
  .events th { width: 8.5rem; }
  .events th.number { width: 5.5rem; }
  .events th:nth-child(-n+2) { width: 1.5rem; }
  .events th:nth-child(3) { width: auto; }
}
@media (max-width: 48rem) {
  body { margin: 1rem; }
  .value { font-size: 1.5rem; }
  .days thead { display: none; }
  .days, .days tbody, .days tr { display: block; }
  .days tr { border: 1px solid var(--line); border-radius: .4rem; margin-bottom: .8rem; padding: .3rem 0; }
  .days td { border: 0; display: flex; gap: 1rem; justify-content: space-between; padding: .15rem .8rem;
             text-align: right; }
  .days td::before { content: attr(data-name); color: var(--soft); text-align: left; white-space: nowrap; }
  .days td:empty, .events td.number:not(:has(strong)) { display: none; }
}
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #f0f4fa; --soft: #b6c1d1; --line: #3b4758; --mark: #4a3908; color-scheme: dark; }
  body { background: #0e141d; }
}
"""
