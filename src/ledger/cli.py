"""The command line `ledger`: every command parses, says what is wrong in one line, and leaves the work to the package.

The rule a stranger would break: nothing heavy is imported above a command's own body, so that `ledger --help` and the
start of a service stay quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ledger import cli_bench, cli_jobs, cli_keys, cli_merchants, cli_messages, cli_replay, cli_seed
from ledger.cli_ledger import DataDir
from ledger.settings import CannotRun, Settings, describe, likely_typos, read_settings

Host = Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")]
Port = Annotated[int | None, typer.Option(help="The port to listen on; 0 takes a free one.", show_default="8000")]
Workers = Annotated[int | None, typer.Option(help="How many API processes share the port.", show_default="1")]

app = typer.Typer(
    name="ledger",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A payment-order ledger. Every option is a setting too: see `ledger settings`.",
)
app.add_typer(cli_merchants.app, name="merchants")
app.add_typer(cli_keys.app, name="keys")
app.add_typer(cli_jobs.app, name="jobs")
app.add_typer(cli_messages.app, name="messages")
app.command()(cli_seed.seed)
app.command()(cli_replay.replay)
app.command()(cli_bench.bench)


def main() -> None:
    """The console command. Exits 1 with one line on standard error where something of the surroundings is wrong."""
    try:
        app()
    except CannotRun as reason:
        sys.stderr.write(f"ledger: {reason}\n")
        sys.exit(1)


def settings_from(**flags: object) -> Settings:
    """The settings of a command, its flags first; variables that look misspelt are pointed out."""
    for variable, meant in likely_typos(os.environ):
        sys.stderr.write(f"ledger: warning: {variable} is no setting; did you mean {meant}?\n")
    return read_settings(os.environ, **flags)


@app.command()
def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    workers: Workers = None,
    demo: Annotated[bool, typer.Option("--demo", help="Begin with a demo merchant, its story and its key.")] = False,
) -> None:
    """Serve: API, worker and, unless LEDGER_DATABASE_URL is set, an embedded Postgres.

    Prints `ready http://…` once it answers. SIGTERM ends it within ten seconds, a second one at once.
    """
    from ledger.serve import Tree
    from ledger.serve import serve as run

    settings = settings_from(host=host, port=port, data_dir=data_dir, workers=workers)
    sys.exit(run(settings, Tree(name="ledger serve", errand="ledger.demo:prepare" if demo else None)))


@app.command()
def api(host: Host = None, port: Port = None, data_dir: DataDir = None, workers: Workers = None) -> None:
    """Serve the API alone; run `ledger worker` beside it."""
    from ledger.serve import Tree
    from ledger.serve import serve as run

    settings = settings_from(host=host, port=port, data_dir=data_dir, workers=workers)
    sys.exit(run(settings, Tree(name="ledger api", worker=None, shares_database=True)))


@app.command()
def worker(data_dir: DataDir = None) -> None:
    """Run the worker alone: recovery and everything that follows an event."""
    from ledger.serve import Tree
    from ledger.serve import serve as run

    sys.exit(run(settings_from(data_dir=data_dir), Tree(name="ledger worker", api=None, shares_database=True)))


@app.command()
def migrate(data_dir: DataDir = None) -> None:
    """Bring the database up to date. Safe to run twice, and at once."""
    from ledger.data_dir import database
    from ledger.database import prepare
    from ledger.migrate import migrations

    settings = settings_from(data_dir=data_dir)
    with database(settings.database_url, settings.data_dir) as owner_url:
        prepare(settings, owner_url)
    typer.echo(f"the schema is current: {migrations()[-1].number:04} {migrations()[-1].name}")


@app.command()
def settings(
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print every setting with its default, its meaning and the value that it has now."""
    rows = describe(settings_from())
    if json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return
    for row in rows:
        now = f", now {row.value}" if row.value != row.default else ""
        unit = f" {row.unit}" if row.unit else ""
        default = f"{row.default}{unit}" if row.default else "unset"
        typer.echo(f"{typer.style(row.variable, bold=True)}  {row.kind}, default {default}{now}\n    {row.description}")
