"""Migrations: the numbered SQL files in `migrations`, each applied once, in order, in its own transaction.

Never edit a released file. The database records its checksum, and a file that differs from the applied one stops the
start; otherwise two installations could have two schemas.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final

import psycopg
from msgspec import Struct

from ledger.postgres.primary_search import connect_now
from ledger.progress import Progress, unreported
from ledger.settings import CannotRun

LOCK: Final = 0x1ED6E5  # an arbitrary number that must never change: it separates two migrations of one database
_INCLUDE: Final = "-- include procrastinate"  # the package contains its schema; it is pinned to one release series
_RECORDS_TABLE: Final = "select to_regclass(quote_ident(current_schema()) || '.schema_migration')"

_TABLE: Final = """
-- The migrations that were applied to this database.
create table if not exists schema_migration (
    number int primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
)"""


class MigrationFailed(CannotRun):
    """The schema cannot be brought up to date. The message names the file and the reason in one line."""


class Migration(Struct, frozen=True):
    """One numbered SQL file."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def statements(self) -> str:
        """The SQL that is executed: the file, with the schema of an installed package in place of its include line."""
        if _INCLUDE not in self.sql:
            return self.sql
        from procrastinate.schema import SchemaManager  # its import takes longer than all others of a start together

        return self.sql.replace(_INCLUDE, SchemaManager.get_schema())


def migrations() -> list[Migration]:
    """Returns the program's files in order: `0001_journal.sql` is number 1, named `journal`."""
    found = [
        Migration(number=int(match[1]), name=match[2], sql=file.read_text(encoding="utf-8"))
        for file in resources.files("ledger.postgres").joinpath("migrations").iterdir()
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    ]
    found.sort(key=lambda migration: migration.number)
    assert len({migration.number for migration in found}) == len(found), "two migrations share a number"
    return found


def migrate(
    database_url: str, files: Sequence[Migration] | None = None, progress: Progress = unreported
) -> list[Migration]:
    """Brings the schema up to date and returns the migrations that it applied: none if the schema was current.

    It may be called twice, also at the same time: the second caller waits for the advisory lock and finds the work
    done. Migrations of a newer release stay as they are, so that two releases can run side by side. A schema that is
    current is recognised by one query: every command and every start asks.

    Raises MigrationFailed if an applied file was edited or the database refuses one.
    """
    applied = []
    with connect_now(database_url, autocommit=True) as connection:
        recorded = _recorded(connection)
        known = migrations() if files is None else files
        for number, migration in enumerate(known, 1):
            if recorded.get(migration.number) == migration.checksum:
                continue
            with connection.transaction():  # the lock ends with the transaction, which works through any pooler
                connection.execute("select pg_advisory_xact_lock(%s)", [LOCK])
                if _apply(connection, migration):
                    applied.append(migration)
            progress("applying migrations", number, len(known))
    return applied


def has_schema(database_url: str) -> bool:
    """Returns whether a migration was ever applied to this database."""
    with connect_now(database_url) as connection:
        return bool(_recorded(connection))


def require_migrated(database_url: str) -> None:
    """Raises CannotRun if the schema lacks a migration of this release. Applies none."""
    with connect_now(database_url) as connection:
        recorded = _recorded(connection)
    if not recorded:
        raise CannotRun(
            "the database has no schema of the ledger: name the service's database, or run `ledger migrate`"
        )
    if lacking := [each for each in migrations() if each.number not in recorded]:
        first = lacking[0]
        raise CannotRun(
            f"the schema lacks {len(lacking)} migration{'' if len(lacking) == 1 else 's'} of this release, from "
            f"{first.number:04} {first.name} on: run `ledger migrate`"
        )


def _recorded(connection: psycopg.Connection) -> Mapping[int, str]:
    """Returns the checksums of the applied migrations by number: of none where the schema is still empty.

    Looks only in the schema in which the tables are created: another one on the search path may be another ledger's.
    """
    found = connection.execute(_RECORDS_TABLE).fetchone()
    if found is None or found[0] is None:
        return {}
    return dict(connection.execute("select number, checksum from schema_migration").fetchall())


def _apply(connection: psycopg.Connection, migration: Migration) -> bool:
    connection.execute("set local client_min_messages = warning")
    connection.execute(_TABLE)
    row = connection.execute("select checksum from schema_migration where number = %s", [migration.number]).fetchone()
    if row is not None:
        if row[0] != migration.checksum:
            raise MigrationFailed(f"migration {migration.number:04} {migration.name} was edited after it was applied")
        return False
    try:
        connection.execute(migration.statements)
    except psycopg.Error as refusal:
        raise MigrationFailed(f"migration {migration.number:04} {migration.name}: {refusal}") from refusal
    connection.execute(
        "insert into schema_migration (number, name, checksum) values (%s, %s, %s)",
        [migration.number, migration.name, migration.checksum],
    )
    return True
