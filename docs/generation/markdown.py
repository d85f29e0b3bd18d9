"""The Markdown of generated pages.

Write each cell of a table on one line and escape every bar in it: otherwise the table breaks without an error.
"""

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Written by `make docs` from the code. Do not edit: change the code, or the words in docs/generation. -->"


def page(title: str, *parts: str) -> str:
    """Returns a whole page with its title and the notice that it is generated."""
    return "\n\n".join([NOTICE, f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table. Columns without any text are left out."""
    filled = [list(row) for row in rows]
    kept = [n for n in range(len(headings)) if any(row[n] for row in filled)]
    lines = [[headings[n] for n in kept], ["---"] * len(kept), *([row[n] for n in kept] for row in filled)]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines)


def code(text: str) -> str:
    """Returns a name as it is typed."""
    return f"`{text}`" if text else ""


def codes(names: Iterable[str]) -> str:
    """Returns several names as they are typed."""
    return ", ".join(code(name) for name in names)


def block(text: str, language: str = "") -> str:
    """Returns a block of lines as they are typed or printed."""
    return f"```{language}\n{text.strip()}\n```"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
