"""How commands print."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import typer


def echo_json(content: object) -> None:
    """Prints JSON on one line, without escaping letters."""
    import msgspec

    typer.echo(msgspec.json.encode(content).decode())


def discard_output() -> None:
    """Discards what is left to print, which is flushed at the end of the process: it can no longer be written."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def echo_table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Prints rows in columns as wide as their longest cells."""
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def echo_retried(retried: Sequence[object], *, json: bool) -> None:
    """Prints what a `retry` command has had retried."""
    if json:
        echo_json({"retried": retried})
    else:
        typer.echo(f"{len(retried)} to be tried again now")


def counted(number: int, noun: str) -> str:
    """Returns a number of things in words: `1 event`, `2 events`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def day_and_time(time: datetime | None) -> str:
    """Returns a time in UTC as an operator reads it; the empty text for None."""
    return "" if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def written(value: object) -> str:
    """Returns a setting's value as `ledger merchants set` accepts it."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
