"""Writes the reference pages that can be read off the code: `make docs`. With `--check` it only names those that are stale.

The rule a stranger would break: a generated page is never edited. What is wrong on it is wrong in the code, or in the words
beside it in `docs/generation`.

    python -m docs.generate [--check]
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generation import commands, errors, events, http, metrics, openapi, sandbox, settings, statuses

REFERENCE = Path(__file__).parent / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "http.md": http.page,
    "statuses.md": statuses.page,
    "errors.md": errors.page,
    "openapi.json": openapi.page,
    "events.md": events.page,
    "settings.md": settings.page,
    "cli.md": commands.page,
    "sandbox.md": sandbox.page,
    "metrics.md": metrics.page,
}


def stale() -> list[str]:
    """The pages that differ from what the code says."""
    return [name for name, text in PAGES.items() if _written(name) != text()]


def write() -> None:
    """Write every page."""
    for name, text in PAGES.items():
        (REFERENCE / name).write_text(text(), encoding="utf-8")


def _written(name: str) -> str | None:
    place = REFERENCE / name
    return place.read_text(encoding="utf-8") if place.exists() else None


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        write()
    elif behind := stale():
        sys.exit(f"behind the code: {', '.join(behind)}; run `make docs`")
