"""The syntax of the service's modules, for tests of rules that hold in all of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"


def nodes(*words: str) -> Iterator[tuple[Path, ast.AST]]:
    """Yields every node of the modules whose text has one of the words, with its file. The others are not parsed."""
    for path in sorted(SRC.rglob("*.py")):
        text = path.read_text()
        if any(word in text for word in words):
            for node in ast.walk(ast.parse(text)):
                yield path, node
