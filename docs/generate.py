"""Writes the reference pages that are generated from the code: `make docs`. With `--check` it only names those that are stale.

Never edit a generated page: correct the code, or the words in `docs/generation`.

    python -m docs.generate [--check]
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.generation import commands, errors, events, http, metrics, openapi, public_events, sandbox, settings, statuses

REFERENCE = Path(__file__).parent / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "http.md": http.page,
    "statuses.md": statuses.page,
    "errors.md": errors.page,
    "openapi.json": openapi.page,
    "events.md": events.page,
    "public-events.md": public_events.page,
    "settings.md": settings.page,
    "cli.md": commands.page,
    "sandbox.md": sandbox.page,
    "metrics.md": metrics.page,
}


def stale() -> list[str]:
    """Returns the names of the pages that differ from the code."""
    return [name for name, text in PAGES.items() if _written(name) != text()]


def write() -> None:
    """Writes every page."""
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
