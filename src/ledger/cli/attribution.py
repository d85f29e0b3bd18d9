"""Who changes something by a command, and whether that is meant.

The log keeps the operator of a command beside each event that the command causes, as it keeps the API key of a request.
"""

from __future__ import annotations

import getpass
import os
import socket
import sys
from typing import Annotated, Final

import typer

from ledger.journal.operator import Operator
from ledger.settings import CannotRun

_TEXT_MAX: Final = 500
"""The characters of a name and of a reason."""

By = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Who makes the change, for the log.", show_default="the account's name and host"),
]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the log. Write no personal data.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without being asked.")]


def operator_of(command: str, by: str | None, reason: str | None) -> Operator:
    """Returns the operator of a command, which is named without `ledger`. Raises CannotRun for a wrong text."""
    return Operator(
        name=_text("--by", _account() if by is None else by),
        command=command,
        reason=None if reason is None else _text("--reason", reason),
    )


def require_confirmation(effect: str, *, yes: bool) -> None:
    """Asks on a terminal whether a change that cannot be undone is meant.

    `effect` is a sentence without its full stop. Raises CannotRun if it is not meant, and without a terminal and
    `--yes`.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CannotRun(f"{effect}: this cannot be undone; add --yes if it is meant")
    sys.stderr.write(f"{effect}. This cannot be undone. Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CannotRun("nothing was changed")


def _text(option: str, text: str) -> str:
    stripped = text.strip()
    if not 1 <= len(stripped) <= _TEXT_MAX:
        raise CannotRun(f"{option} must have 1 to {_TEXT_MAX} characters, has {len(stripped)}")
    if not stripped.isprintable():
        raise CannotRun(f"{option} must be one line of printable characters")
    return stripped


def _account() -> str:
    """Returns the account that runs the command, as name@host; by its number if the system has no name for it."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
