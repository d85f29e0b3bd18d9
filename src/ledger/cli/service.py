"""The commands about an installation: run it or part of it, migrate it, back it up, restore it."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ledger.cli.attribution import By, Reason, Yes, operator_of, require_confirmation
from ledger.cli.audit import line_of
from ledger.cli.installation import Recorded, errors_as_cannot_run, record, settings_from, settings_of_command, time_of
from ledger.cli.options import DataDir, Host, Port, Workers, json_option
from ledger.cli.output import counted, day_and_time, echo_json
from ledger.cli.progress_bar import progress_bar
from ledger.settings import CannotRun, Settings, SettingWrong, describe

if TYPE_CHECKING:
    from ledger.backup.base_backup import Taken

_NAMED_MAX: Final = 5
"""How many lost files a message names."""
_DEMO: Final = "the demo's merchant and five months of its orders"

ReadyJson = Annotated[bool, json_option("{ready}, the URL, once it answers requests")]


def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    workers: Workers = None,
    demo: Annotated[bool, typer.Option("--demo", help="Begin with a demo merchant, its orders and its key.")] = False,
    json: ReadyJson = False,
) -> None:
    """Run the service: API, worker and, unless LEDGER_DATABASE_URL is set, an embedded Postgres.

    Prints `ready http://…` once it answers requests. SIGTERM ends it within ten seconds, a second SIGTERM at once.
    """
    from ledger.service.supervisor import ProcessPlan
    from ledger.service.supervisor import serve as run

    settings = _settings_to_run(host=host, port=port, data_dir=data_dir, workers=workers)
    setup = f"ledger.seeding.demo:{'prepare_as_json' if json else 'prepare'}" if demo else None
    sys.exit(run(settings, ProcessPlan(name="ledger serve", setup=setup, setup_name=_DEMO, prints_json=json)))


def api(
    host: Host = None, port: Port = None, data_dir: DataDir = None, workers: Workers = None, json: ReadyJson = False
) -> None:
    """Run the API alone; `ledger worker` has to run too."""
    from ledger.service.supervisor import ProcessPlan
    from ledger.service.supervisor import serve as run

    settings = _settings_to_run(host=host, port=port, data_dir=data_dir, workers=workers)
    sys.exit(run(settings, ProcessPlan(name="ledger api", worker=None, shares_database=True, prints_json=json)))


def worker(
    data_dir: DataDir = None, json: Annotated[bool, json_option("{ready}, which is null, once it works")] = False
) -> None:
    """Run the worker alone: everything that happens outside a request."""
    from ledger.service.supervisor import ProcessPlan
    from ledger.service.supervisor import serve as run

    settings = _settings_to_run(data_dir=data_dir)
    sys.exit(run(settings, ProcessPlan(name="ledger worker", api=None, shares_database=True, prints_json=json)))


def migrate(
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("{number, name} of the newest migration")] = False,
) -> None:
    """Bring the database's schema up to date. Safe to run twice, and several times at once."""
    import asyncio

    from ledger.postgres.migrate import migrations
    from ledger.postgres.prepare import owners_database, prepare

    settings = settings_of_command(data_dir)
    recorded = Recorded(operator_of("migrate", by, reason), f"{migrations()[-1].number:04} {migrations()[-1].name}")
    with owners_database(settings) as owner_url, errors_as_cannot_run(), progress_bar() as progress:
        ready = prepare(settings, owner_url, progress)
        asyncio.run(record(ready, recorded))  # afterwards: before the first migration there is no table for it
    newest = migrations()[-1]
    if json:
        echo_json({"number": newest.number, "name": newest.name})
    else:
        typer.echo(f"the schema is current: {newest.number:04} {newest.name}")


def distribute(
    shards: Annotated[
        int, typer.Option(min=1, max=1024, help="How many shards each table has: about four for each node.")
    ] = 8,
    yes: Yes = False,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[
        bool, json_option("{tables, triggers}: what is distributed now, and the triggers that went")
    ] = False,
) -> None:
    """Divide the tables of a database with Citus among its nodes, by merchant. A preview, for the sandbox.

    Stop every service before. It may be run again: then it distributes the tables that a newer release has added.
    """
    import asyncio

    from ledger.postgres.distribution import CannotDistribute
    from ledger.postgres.distribution import distribute as run
    from ledger.postgres.prepare import owners_database, prepare

    settings = settings_of_command(data_dir)
    if settings.environment == "production":
        raise CannotDistribute("production does not run on Citus yet: docs/explanation/scale.md has what is missing")
    require_confirmation("the tables are divided among the nodes, and no command puts them together again", yes=yes)
    recorded = Recorded(operator_of("distribute", by, reason), f"{shards} shards")
    with owners_database(settings) as owner_url, errors_as_cannot_run(), progress_bar() as progress:
        asyncio.run(record(prepare(settings, owner_url), recorded))
        done = run(owner_url, shards, progress)
    if json:
        echo_json(done)
    elif done.tables:
        typer.echo(f"distributed {len(done.tables)} tables: {', '.join(done.tables)}")
    else:
        typer.echo("every table is distributed already")


def doctor(
    files: Annotated[
        bool, typer.Option("--files", help="Read the files of every stamped document, and every logo.")
    ] = False,
    pooler: Annotated[
        bool,
        typer.Option(
            "--pooler",
            help="Ask pgbouncer for its limits, as the owner of the database, who has to be in its stats_users and "
            "auth_file: without the latter, a pgbouncer before 1.19 ends.",
        ),
    ] = False,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("[{check, state, text}]")] = False,
) -> None:
    """Check the installation and print a line per check: ok, warn or fail, and what to do. Exits 1 if one fails.

    Checks the settings, the disk, the keys, the database with its clock, roles and migrations, and what waits there. It
    changes nothing, and may run beside the service.
    """
    import os

    from ledger.doctor import examine, worst
    from ledger.telemetry.logs import configure_logs

    configure_logs("critical")
    flags = {} if data_dir is None else {"data_dir": data_dir}
    findings = []
    for finding in examine(os.environ, files=files, pooler=pooler, **flags):
        findings.append(finding)
        if not json:
            typer.echo(f"{finding.state:<4}  {finding.check:<11}  {finding.text}")
    if json:
        echo_json(findings)
    if worst(findings) == "fail":
        raise typer.Exit(1)


def settings(
    json: Annotated[bool, json_option("[{variable, kind, default, unit, description, value}]")] = False,
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


def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory for the backup.")],
    data_dir: DataDir = None,
    json: Annotated[
        bool,
        json_option(
            "{postgres, database, owner, options, masterKeyFingerprint, completeUntil, bytes, format}, as in backup.json"
        ),
    ] = False,
) -> None:
    """Back up the database while the service runs: files and write-ahead log, checked after writing.

    The master key is not in the backup. Exits 1 if a file of archived events is missing or was changed. The backup can
    be restored all the same.
    """
    from ledger.backup.base_backup import require_database, take_backup
    from ledger.postgres.prepare import owners_database

    settings = settings_of_command(data_dir)
    require_database(settings)
    with owners_database(settings) as owner_url, errors_as_cannot_run(), progress_bar() as progress:
        taken = take_backup(settings, owner_url, directory.absolute(), progress)
    record = taken.record
    if json:
        echo_json(record)
    else:
        _echo_backup(settings, directory, taken)
    if taken.lost:
        named = "; ".join(taken.lost[:_NAMED_MAX]) + ("; …" if len(taken.lost) > _NAMED_MAX else "")
        raise CannotRun(
            f"{len(taken.lost)} of {taken.archived} files of archived events are not in the backup as they were written: "
            f"{named}. Bring them back from an earlier backup; `ledger doctor --files` reads all files"
        )


def _echo_backup(settings: Settings, directory: Path, taken: Taken) -> None:
    """Writes what is in a backup, and what is not."""
    from ledger.security.secrets import master_key_source

    record = taken.record
    typer.echo(f"backed up to {directory}: {record.bytes >> 20} MB of PostgreSQL {record.postgres}, every file checked")
    typer.echo(f"complete: what was acknowledged before {day_and_time(record.complete_until)} is in it")
    typer.echo(
        f"not in it: the master key with the fingerprint {record.master_key_fingerprint}, which comes from "
        f"{master_key_source(settings).partition(',')[0]}. Keep it elsewhere: without it nothing can be restored"
    )
    if settings.files_url and taken.archived:
        typer.echo(
            f"not in it: {taken.archived} files of archived events, which are in {settings.files_url}: back that up"
        )


def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the backup.")],
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Restore up to this moment, with its offset, from LEDGER_WAL_ARCHIVE.",
            show_default="the end of the log",
        ),
    ] = None,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[
        bool, json_option("{cluster, lastCommitAt, audit}; audit is what `ledger audit --json` prints")
    ] = False,
) -> None:
    """Restore a backup into a new data directory, and audit it.

    Exits 1 if the audit finds a violation. The directory can be started all the same.
    """
    from ledger.backup.restoration import restore as run

    settings = settings_of_command(data_dir)
    moment = None if at is None else time_of(at)
    operator = operator_of("restore", by, reason)
    with errors_as_cannot_run(), progress_bar() as progress:
        restored = run(settings, directory.absolute(), moment, progress, operator)
    found = restored.audit
    if json:
        echo_json({"cluster": str(restored.cluster), "lastCommitAt": restored.last_commit, "audit": found})
    else:
        until = day_and_time(restored.last_commit) or "the end of the backup"
        typer.echo(f"restored {directory} to {restored.cluster}, up to the commit of {until}")
        typer.echo("order and event numbers continue behind every number that was given out before now")
        typer.echo(f"audited: {counted(found.events, 'event')} of {counted(found.merchants, 'merchant')}")
        for violation in found.violations:
            typer.echo(f"differs: {line_of(violation)}")
    if not found.is_clean:
        raise typer.Exit(1)


def _settings_to_run(**flags: Any) -> Settings:
    """Returns the settings of a service. Raises SettingWrong if it is to send traces and cannot."""
    settings = settings_from(**flags)
    if settings.otlp_endpoint:
        with suppress(ModuleNotFoundError):  # of a parent package
            if find_spec("opentelemetry.sdk.trace") and find_spec("opentelemetry.exporter.otlp.proto.http"):
                return settings
        raise SettingWrong(
            "OTEL_EXPORTER_OTLP_ENDPOINT", "needs OpenTelemetry's SDK: install requirements-traces.lock, or unset it"
        )
    return settings
