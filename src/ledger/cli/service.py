"""The commands that run the service or part of it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ledger.cli.installation import settings_from
from ledger.cli.options import AsJson, DataDir, Host, Port, Workers
from ledger.cli.output import echo_json
from ledger.settings import describe


def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    workers: Workers = None,
    demo: Annotated[bool, typer.Option("--demo", help="Begin with a demo merchant, its orders and its key.")] = False,
) -> None:
    """Run the service: API, worker and, unless LEDGER_DATABASE_URL is set, an embedded Postgres.

    Prints `ready http://…` once it answers requests. SIGTERM ends it within ten seconds, a second SIGTERM at once.
    """
    from ledger.service.supervisor import ProcessPlan
    from ledger.service.supervisor import serve as run

    settings = settings_from(host=host, port=port, data_dir=data_dir, workers=workers)
    sys.exit(run(settings, ProcessPlan(name="ledger serve", errand="ledger.seeding.demo:prepare" if demo else None)))


def api(host: Host = None, port: Port = None, data_dir: DataDir = None, workers: Workers = None) -> None:
    """Run the API alone; `ledger worker` has to run too."""
    from ledger.service.supervisor import ProcessPlan
    from ledger.service.supervisor import serve as run

    settings = settings_from(host=host, port=port, data_dir=data_dir, workers=workers)
    sys.exit(run(settings, ProcessPlan(name="ledger api", worker=None, shares_database=True)))


def worker(data_dir: DataDir = None) -> None:
    """Run the worker alone: everything that happens outside a request."""
    from ledger.service.supervisor import ProcessPlan
    from ledger.service.supervisor import serve as run

    sys.exit(run(settings_from(data_dir=data_dir), ProcessPlan(name="ledger worker", api=None, shares_database=True)))


def migrate(data_dir: DataDir = None) -> None:
    """Bring the database's schema up to date. Safe to run twice, and several times at once."""
    from ledger.postgres.embedded.data_dir import database
    from ledger.postgres.migrate import migrations
    from ledger.postgres.prepare import prepare

    settings = settings_from(data_dir=data_dir)
    with database(settings.database_url, settings.data_dir) as owner_url:
        prepare(settings, owner_url)
    typer.echo(f"the schema is current: {migrations()[-1].number:04} {migrations()[-1].name}")


def doctor(data_dir: DataDir = None, json: AsJson = False) -> None:
    """Check the installation and print a line per check: ok, warn or fail, and what to do. Exits 1 where one fails.

    Checks the settings, the disk, the keys, the database with its clock, roles and migrations, and what waits there. It
    changes nothing, and may run beside the service.
    """
    import os

    from ledger.doctor import examine, worst

    flags = {} if data_dir is None else {"data_dir": data_dir}
    findings = []
    for finding in examine(os.environ, **flags):
        findings.append(finding)
        if not json:
            typer.echo(f"{finding.state:<4}  {finding.check:<10}  {finding.text}")
    if json:
        echo_json(findings)
    if worst(findings) == "fail":
        raise typer.Exit(1)


def settings(
    json: AsJson = False,
) -> None:
    """Print every setting with its default, its meaning and its current value."""
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
