"""The words of pages, docstrings and comments: the actor is named, programs answer and report, and lines fit a screen.

`python -m tests.docs.test_prose` prints every place at once, with its line.
"""

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from docs.generation.markdown import NOTICE
from tests.docs.pages import PAGES, ROOT

SRC = ROOT / "src"
MODULES = sorted(SRC.rglob("*.py"))
COLUMNS = 120

UNNAMED = (
    "whoever",
    "whomever",
    "somebody",
    "someone",
    "nobody",
    "no one",
    "anybody",
    "anyone",
    "everybody",
    "everyone",
)
"""Instead: the caller, the merchant, the client, the writer, the worker, the processor, the operator."""
SPEAKING = ("tell", "tells", "told", "telling", "say", "says", "said", "saying", "speak", "speaks", "spoke", "spoken")
"""Instead: return, raise, report, record, answer, log, name, show."""
OTHERS = ("stands", "stood", "the rule a stranger would break", "errand", "errands", "story", "stories")
"""Instead: is, exists; the invariant itself, as an imperative sentence; set-up; scenario."""

CONDITION = re.compile(
    r"\b(?:Raises [^.;]*?|None|no events?|nothing|also|even|Exits \d|exits \d|True|False) where\b", re.ASCII
)
"""Where a place is meant, `where` is right; behind these words it is a condition: if."""

FORBIDDEN = re.compile(rf"\b({'|'.join((*UNNAMED, *SPEAKING, *OTHERS))})\b", re.IGNORECASE)

ALLOWED: Mapping[str, str] = {
    "`errand`": "decision 0027 names it as a word that was replaced",
    "`nobody`": "the account of the operating system that Postgres ran as in earlier releases where root starts the service",
}
"""Texts that may contain such a word, with the reason. A text that no file contains is taken out of this list."""

_FENCE = re.compile(r" *(```|~~~)")
_TARGET = re.compile(r"\]\([^()\s]+\)")
_PRAGMA = re.compile(r"  # (type: ignore|noqa|fmt: skip).*")


class Found(NamedTuple):
    """What is wrong in a file, and where."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.what}"


@cache
def published() -> tuple[str, ...]:
    """Returns the texts of the published description that contain a forbidden word, the longest first.

    Generated pages and docstrings of published shapes repeat them. They are a part of the interface and change with it.
    A text of a few words is not exempt: any sentence could contain it by chance.
    """

    def texts(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            for name, value in part.items():
                if name in {"description", "summary"} and isinstance(value, str):
                    yield from re.split(r"\n+- `[A-Z_]+`: |^- `[A-Z_]+`: ", value)
                    yield value
                else:
                    yield from texts(value)
        elif isinstance(part, list):
            for value in part:
                yield from texts(value)

    document = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())
    found = {plain for text in texts(document) if FORBIDDEN.search(plain := " ".join(text.split()))}
    return tuple(sorted((text for text in found if len(text) >= 25), key=len, reverse=True))


def conditions_in(text: str) -> list[str]:
    """Returns the places of a text in which `where` begins a condition."""
    return [match[0] for match in CONDITION.finditer(" ".join(text.split()))]


def words_in(text: str) -> list[str]:
    """Returns the forbidden words of a text, without those that are allowed or published."""
    plain = " ".join(text.split())
    if not FORBIDDEN.search(plain):
        return []
    for exception in (*ALLOWED, *published()):
        plain = plain.replace(exception, "")
    return [match[0].lower() for match in FORBIDDEN.finditer(plain)]


def paragraphs(page: Path) -> Iterator[tuple[int, str]]:
    """Yields the paragraphs and rows of a page with the number of their first line, without blocks of code."""
    start, lines, fence = 1, list[str](), ""
    for number, line in enumerate([*page.read_text().splitlines(), ""], 1):
        mark = _FENCE.match(line)
        if mark and fence in {"", mark[1]}:
            fence = "" if fence else mark[1]
        if fence or mark or not line.strip() or line.startswith("|"):
            if lines:
                yield start, "\n".join(lines)
            lines = []
            if line.startswith("|") and not fence:
                yield number, line
            continue
        if not lines:
            start = number
        lines.append(line)


def prose_of(module: Path) -> Iterator[tuple[int, str]]:
    """Yields the docstrings of a module, those of attributes included, and its blocks of comments, with their first line."""
    source = module.read_text()
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, "\n".join(lines[node.lineno - 1 : node.end_lineno])
    if "#" not in source:
        return
    block, last = list[tokenize.TokenInfo](), -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != last + 1:
            yield block[0].start[0], "\n".join(each.string.lstrip("# ") for each in block)
            block = []
        block.append(token)
        last = token.start[0]
    if block:
        yield block[0].start[0], "\n".join(each.string.lstrip("# ") for each in block)


def wrong_in_page(page: Path) -> list[Found]:
    """Returns the forbidden words of a page and, where it is not generated, its lines of prose beyond 120 columns.

    The targets of links are names of files, and the text of an image is one line.
    """
    wrong = [Found(page, line, word) for line, text in paragraphs(page) for word in words_in(_TARGET.sub("]", text))]
    if page.read_text().startswith(NOTICE):
        return wrong
    for first, text in paragraphs(page):
        lines = enumerate([] if text.startswith(("|", "![")) else text.splitlines(), first)
        wrong += [Found(page, number, f"{len(line)} columns") for number, line in lines if len(line) > COLUMNS]
    wrong += [Found(page, first, each) for first, text in paragraphs(page) for each in conditions_in(text)]
    return wrong


def wrong_in_module(module: Path) -> list[Found]:
    """Returns the forbidden words of a module's docstrings and comments, its conditions with `where`, and long lines."""
    lines = module.read_text().splitlines()
    wrong = []
    for first, text in prose_of(module):
        wrong += [Found(module, first, word) for word in words_in(text)]
        if module.name != "events.py":  # its docstrings are the published page of events
            wrong += [Found(module, first, each) for each in conditions_in(text)]
        numbers = range(first, first + text.count("\n") + 1)
        widths = [(number, len(_PRAGMA.sub("", lines[number - 1]))) for number in numbers]
        wrong += [Found(module, number, f"{width} columns") for number, width in widths if width > COLUMNS]
    return sorted(set(wrong))


def test_pages_have_no_forbidden_word_and_fit_120_columns():
    assert [str(each) for page in PAGES for each in wrong_in_page(page)] == []


def test_docstrings_and_comments_have_no_forbidden_word_and_fit_120_columns():
    assert [str(each) for module in MODULES for each in wrong_in_module(module)] == []


def test_every_exception_is_needed():
    everything = " ".join(" ".join(path.read_text().split()) for path in (*PAGES, *MODULES))
    assert [text for text in ALLOWED if text not in everything] == []


def test_words_are_found_whole_in_any_case_and_over_the_end_of_a_line():
    assert words_in("Nobody is told. Essays and untold, understood, gainsaid.") == ["nobody", "told"]
    assert words_in("No\none answers.") == ["no one"]
    assert words_in("The server runs as `nobody`, and the writer answers.") == []


def test_where_is_found_if_it_begins_a_condition_and_left_where_it_is_a_place():
    assert conditions_in("Raises OrderNotFound where there is none; None\nwhere it ended.") == [
        "Raises OrderNotFound where",
        "None where",
    ]
    assert conditions_in("Returns where a line is found. It also shows where to look.") == []


def test_blocks_of_code_are_left_out_of_a_page_and_code_out_of_a_module(tmp_path):
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text("One.\n\n```sh\nsay it\n```\n\n| two | says |\n")
    assert [text for _, text in paragraphs(page)] == ["One.", "| two | says |"]
    module.write_text('"""A module."""\n\nsaid = "told"  # a comment\n# that goes on\n"""An attribute."""\n')
    assert [line for line, _ in prose_of(module)] == [1, 5, 3]


if __name__ == "__main__":
    everything = [
        *(each for page in PAGES for each in wrong_in_page(page)),
        *(each for module in MODULES for each in wrong_in_module(module)),
    ]
    sys.stdout.writelines(f"{each}\n" for each in everything)
    sys.exit(bool(everything))
