"""The command line `ledger`: every command parses, says what is wrong in one line, and leaves the work to the package.

The rule a stranger would break: nothing heavy is imported above a command's own body, so that `ledger --help` and the
start of a service stay quick.
"""

from __future__ import annotations

import sys

import typer

from ledger.cli import bench, jobs, keys, merchants, messages, replay, seed, service
from ledger.settings import CannotRun

app = typer.Typer(
    name="ledger",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A payment-order ledger. Every option is a setting too: see `ledger settings`.",
)
app.add_typer(merchants.app, name="merchants")
app.add_typer(keys.app, name="keys")
app.add_typer(jobs.app, name="jobs")
app.add_typer(messages.app, name="messages")
app.command()(seed.seed)
app.command()(replay.replay)
app.command()(bench.bench)
for command in (service.serve, service.api, service.worker, service.migrate, service.settings):
    app.command()(command)


def main() -> None:
    """The console command. Exits 1 with one line on standard error where something of the surroundings is wrong."""
    try:
        app()
    except CannotRun as reason:
        sys.stderr.write(f"ledger: {reason}\n")
        sys.exit(1)
