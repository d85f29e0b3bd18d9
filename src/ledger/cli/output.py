"""How commands print."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import typer


def echo_json(content: object) -> None:
    """Print JSON on one line, texts as they are."""
    import msgspec

    typer.echo(msgspec.json.encode(content).decode())


def echo_table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows in columns as wide as what stands in them."""
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def day_and_time(moment: datetime | None) -> str:
    """A time in UTC as an operator reads it; empty for none."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
