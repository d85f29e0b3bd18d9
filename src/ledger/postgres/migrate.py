"""The schema: numbered SQL files of `ledger/postgres/migrations`, each applied once, in order, each in its own transaction.

The rule a stranger would break: a file that has been released is never edited. What is recorded is its checksum, and a
file that differs from what was applied stops the start instead of leaving two installations with two schemas.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib import resources
from typing import Final

import psycopg
from msgspec import Struct

from ledger.settings import CannotRun

_LOCK: Final = 0x1ED6E5  # any number, the same for ever: it keeps two migrations of one database apart
_INCLUDE: Final = "-- include procrastinate"  # its package brings its schema; the release is pinned to one series
_TABLE: Final = """
-- What has been applied here.
create table if not exists schema_migration (
    number int primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
)"""


class MigrationFailed(CannotRun):
    """The schema cannot be brought up to date; the message names the file and the reason in one line."""


class Migration(Struct, frozen=True):
    """One numbered file."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def statements(self) -> str:
        """What is executed: the file, with what it includes from an installed package in its place."""
        if _INCLUDE not in self.sql:
            return self.sql
        from procrastinate.schema import SchemaManager  # takes longer to import than everything else that a start needs

        return self.sql.replace(_INCLUDE, SchemaManager.get_schema())


def migrations() -> list[Migration]:
    """The files that come with the program, in order: `0001_journal.sql` is number 1, named `journal`."""
    found = [
        Migration(number=int(match[1]), name=match[2], sql=file.read_text(encoding="utf-8"))
        for file in resources.files("ledger.postgres").joinpath("migrations").iterdir()
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    ]
    found.sort(key=lambda migration: migration.number)
    assert len({migration.number for migration in found}) == len(found), "two migrations share a number"
    return found


def migrate(database_url: str, files: Sequence[Migration] | None = None) -> list[Migration]:
    """Bring the schema up to date and return what was applied now: an empty list where it was current.

    Safe to call twice and at once: whoever comes second waits for the advisory lock and finds the work done. Files that
    a newer release has applied are left alone, so that two releases can run side by side.

    Raises MigrationFailed: an applied file was edited, or the database refused one.
    """
    applied = []
    with psycopg.connect(database_url, autocommit=True) as connection:
        for migration in migrations() if files is None else files:
            with connection.transaction():  # the lock lives as long as the transaction, which any pooler respects
                connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
                if _apply(connection, migration):
                    applied.append(migration)
    return applied


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
