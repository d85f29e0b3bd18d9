"""The commands of `ledger`, and how a command ends that cannot run: with one line on standard error.

Import nothing heavy outside the body of a command, so that `ledger --help` and the start of a service stay fast.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from ledger.cli import (
    archive,
    audit,
    demo,
    events,
    export,
    jobs,
    keys,
    log,
    merchants,
    messages,
    operations,
    payouts,
    processors,
    rebuild,
    reconcile,
    replay,
    seed,
    service,
)
from ledger.cli.output import discard_output
from ledger.settings import CannotRun

_PIPE_CLOSED: Final = 128 + signal.SIGPIPE
"""The exit status of a program that the signal of a closed pipe ends."""
_CONNECT_TIMEOUT_S: Final = "5"
"""How long a server may leave a new connection unanswered, unless the connection string or the environment names
another time. psycopg's own is 130 seconds, and a command opens several connections: a frozen server that is named
before the primary would hold it up for minutes.
"""
_STORE_LIBRARY: Final = "obstore"
"""A thread of this library that lets go of an object while the interpreter ends aborts the process: a command that had
asked an object store in vain ended with SIGABRT in one of three runs.
"""
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a full disk."""


class _Commands(TyperGroup):
    """The commands, of which each ends in silence once its output is no longer read, as after `| head -1`."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Runs the program."""
        _prepare_help(self)
        return super().main(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that the arguments name."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            discard_output()
            raise typer.Exit(_PIPE_CLOSED) from None
        except OSError as refusal:
            if refusal.errno not in _NO_ROOM:
                raise
            discard_output()
            raise CannotRun(f"{refusal.filename or 'the output'} cannot be written: {refusal.strerror}") from None
        return result


def _prepare_help(command: Any) -> None:
    """Prepares the help of a command and of those below it: paragraphs fill the terminal's lines, and a flag, which has
    no value, shows no type.
    """
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n"))
    for parameter in (*command.params, command.get_help_option(typer.Context(command))):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    for child in getattr(command, "commands", {}).values():
        _prepare_help(child)


app = typer.Typer(
    name="ledger",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
_RUN, _CHECK, _SERVE_MERCHANTS, _KEEP = "Run the service", "Check and repair", "Merchants", "Keep the data"
for panel, command in (
    (_RUN, service.serve),
    (_RUN, service.api),
    (_RUN, service.worker),
    (_RUN, service.migrate),
    (_RUN, service.settings),
    (_RUN, demo.demo),
    (_RUN, seed.seed),
    (_CHECK, service.doctor),
    (_CHECK, audit.audit),
    (_CHECK, reconcile.reconcile),
    (_CHECK, replay.replay),
    (_CHECK, rebuild.rebuild),
    (_SERVE_MERCHANTS, payouts.payouts),
    (_KEEP, service.backup),
    (_KEEP, service.restore),
    (_KEEP, export.export),
    (_KEEP, archive.archive),
    (_KEEP, service.distribute),
):
    app.command(rich_help_panel=panel)(command)
for panel, name, group in (
    (_CHECK, "jobs", jobs),
    (_CHECK, "messages", messages),
    (_CHECK, "operations", operations),
    (_SERVE_MERCHANTS, "merchants", merchants),
    (_SERVE_MERCHANTS, "keys", keys),
    (_SERVE_MERCHANTS, "processors", processors),
    (_SERVE_MERCHANTS, "events", events),
    (_KEEP, "log", log),
):
    app.add_typer(group.app, name=name, rich_help_panel=panel)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ledger {version('payment-ledger')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A payment-order ledger. Every option is also a setting: see `ledger settings`."""


def _replace_closed() -> None:
    """Opens the null device for each standard stream that the caller has closed, as `>&-` does. Otherwise the next file
    that is opened takes the place of the stream, and gets what is printed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)  # for the processes of a service
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def main() -> None:
    """Runs the console command. Exits 1 with one line on standard error if the command cannot run."""
    _replace_closed()
    os.environ.setdefault("PGCONNECT_TIMEOUT", _CONNECT_TIMEOUT_S)
    try:
        app()
    except CannotRun as reason:
        sys.stderr.write(f"ledger: {reason}\n")
        status = 1
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        status = ended.code
    else:
        return
    if _STORE_LIBRARY in sys.modules:
        with suppress(BrokenPipeError):
            sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
