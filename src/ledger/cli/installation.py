"""What a command runs on: the server of the data directory, the one that LEDGER_DATABASE_URL names, or its own.

Every error that an operation can raise becomes `CannotRun` here, which ends as one line on standard error and exit
status 1, or 2 in a command that exits 1 for what it finds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar
from uuid import UUID

import typer
from msgspec import Struct

from ledger.cli.output import discard_output
from ledger.journal.operator import Operator
from ledger.settings import CannotRun, Settings, likely_typos, read_settings

if TYPE_CHECKING:
    from ledger.operations.context.ledger import Ledger
    from ledger.postgres.connection import Connection

T = TypeVar("T")

_COULD_NOT_RUN: Final = 2


class Recorded(Struct, frozen=True):
    """What is recorded of a command that changes something without an event: its operator, and what it is about."""

    operator: Operator
    subject: str = ""


def on_ledger(
    data_dir: Path | None,
    work: Callable[[Ledger, Settings], Awaitable[T]],
    operator: Operator | None = None,
    *,
    recorded: Recorded | None = None,
    makes_database: bool = False,
) -> T:
    """Runs `work` on a ledger of the installation and returns its result. Raises CannotRun with one line.

    A command that appends events passes its `operator`, whom the log keeps beside each. One that changes something else
    passes what is `recorded` of it before. One that begins an installation `makes_database` where there is none.
    """
    from ledger.wiring import open_ledger

    async def opened(settings: Settings) -> T:
        if operator is not None:
            await warn_of_clock(settings)
        async with open_ledger(settings, operator=operator) as ledger:
            return await work(ledger, settings)

    return with_database(data_dir, opened, recorded=recorded, makes_database=makes_database)


async def warn_of_clock(settings: Settings) -> None:
    """Warns if this machine's clock is too far from the database's for a service to start. The command goes on: a key
    that has leaked can be revoked there too.
    """
    import asyncio

    from ledger.postgres.registration import ClockApart, require_clock

    assert settings.database_url is not None, "the installation's settings name its database"
    try:
        await asyncio.to_thread(require_clock, settings.database_url)
    except ClockApart as apart:
        sys.stderr.write(f"ledger: warning: {apart}. The log keeps the wrong time of this command\n")


def on_connection(
    data_dir: Path | None, query: Callable[[Connection], Awaitable[T]], *, recorded: Recorded | None = None
) -> T:
    """Runs `query` on a connection to the installation's database and returns its result. Raises CannotRun with one
    line.
    """
    from ledger.postgres.connection import connect

    async def opened(settings: Settings) -> T:
        assert settings.database_url is not None, "the installation's settings name its database"
        async with await connect(settings.database_url, "ledger-cli") as connection:
            return await query(connection)

    return with_database(data_dir, opened, recorded=recorded)


def with_database(
    data_dir: Path | None,
    work: Callable[[Settings], Coroutine[Any, Any, T]],
    *,
    recorded: Recorded | None = None,
    makes_database: bool = False,
) -> T:
    """Runs `work` while the installation's database is up, with the settings that name it, and returns its result.

    What is `recorded` of a command is written before. Raises CannotRun with one line. A database is made by a command
    that `makes_database`; for every other one, a missing one is an error. No command but `ledger migrate` upgrades one.
    """
    import asyncio

    from ledger.postgres.prepare import ready_database

    async def run(settings: Settings) -> T:
        if recorded is not None:
            await record(settings, recorded)
        return await work(settings)

    asked = settings_of_command(data_dir)
    if not makes_database:
        require_database(asked)
    with ready_database(asked, makes_schema=makes_database) as settings, errors_as_cannot_run():
        return asyncio.run(run(settings))


def require_database(settings: Settings) -> None:
    """Raises CannotRun if the data directory of a command has no database: an empty one would be made there, of which
    everything that a command asks is true.
    """
    from ledger.postgres.embedded.cluster import has_cluster

    if settings.database_url is None and not has_cluster(settings.data_dir):
        raise CannotRun(f"{settings.data_dir} has no database: name the service's by --data-dir or LEDGER_DATA_DIR")


async def record(settings: Settings, recorded: Recorded) -> None:
    """Records a command in the database of the settings. Raises psycopg.OperationalError."""
    from ledger.journal.operator_commands import record_command

    assert settings.database_url is not None, "the installation's settings name its database"
    await record_command(settings.database_url, recorded.operator, recorded.subject)


@contextmanager
def errors_as_cannot_run() -> Iterator[None]:
    """Turns what operations raise into CannotRun."""
    import psycopg

    from ledger.domain.rejections import Rejected
    from ledger.journal.append import KeyUnavailable, SealBroken
    from ledger.journal.event_archive import ArchiveUnavailable
    from ledger.postgres.faults import Fault, one_line

    try:
        yield
    except Rejected as rejection:
        raise CannotRun(rejection.message) from None
    except (KeyUnavailable, SealBroken, ArchiveUnavailable) as unopened:
        raise CannotRun(str(unopened)) from unopened
    except (Fault, psycopg.OperationalError) as failure:
        raise CannotRun(f"the database does not answer: {one_line(failure)}") from failure
    except psycopg.errors.InsufficientPrivilege as refusal:
        reason = f"the database refuses this command: {one_line(refusal)}"
        raise CannotRun(f"{reason}; docs/how-to/use-your-own-postgres.md has the rights of each role") from refusal


@contextmanager
def exits_2_if_it_cannot_run() -> Iterator[None]:
    """Ends a command that cannot run with one line and exit status 2, where 1 is for what the command finds."""
    import psycopg

    from ledger.postgres.faults import one_line

    try:
        yield
    except CannotRun as reason:
        _end(str(reason))
    except psycopg.Error as failure:  # one that is no lost connection: a damaged page, a missing right
        _end(f"the database cannot be read: {one_line(failure)}")
    except BrokenPipeError:
        raise
    except OSError as refusal:
        discard_output()  # if it is what cannot be written
        where = refusal.filename or "the output, or a file in the folder for temporary files (TMPDIR),"
        _end(f"{where} cannot be written: {refusal.strerror or refusal}")


def _end(reason: str) -> NoReturn:
    typer.echo(f"ledger: {reason}", err=True)
    raise typer.Exit(_COULD_NOT_RUN)


def uuid_of(text: str, what: str) -> UUID:
    """Returns the id in an argument. Raises CannotRun."""
    from ledger.domain.ids import parse_uuid

    found = parse_uuid(text)
    if found is None:
        raise CannotRun(f"{text!r} is not the id of a {what}: ids look like 01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44")
    return found


def time_of(text: str) -> datetime:
    """Returns the time in an argument, in UTC. Raises CannotRun."""
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise CannotRun(f"{text!r} is not a time with an offset; it needs an offset, as in 2027-01-31T12:00:00Z")


def settings_of_command(data_dir: Path | None) -> Settings:
    """Returns the settings of a command that works on the database, and silences the log: the command prints what it
    finds, and structlog would print to the same output.
    """
    from ledger.telemetry.logs import configure_logs

    configure_logs("critical")
    return settings_from(data_dir=data_dir)


def settings_from(**flags: object) -> Settings:
    """Returns the settings of the environment, flags first. Warns of environment variables that look misspelt."""
    for variable, meant in likely_typos(os.environ):
        sys.stderr.write(f"ledger: warning: {variable} is no setting; did you mean {meant}?\n")
    return read_settings(os.environ, **flags)
