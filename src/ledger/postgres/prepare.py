"""What must be true of a database before anything runs on it: its schema, the application's role, and that it keeps its word.

The rule a stranger would break: the application never runs as the owner. Its role may insert and read events and do
nothing else to them, so that no bug of ours can rewrite the log. The vault's role may do nothing until a table is its own,
and on such a table the application may do nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ledger.postgres.embedded.data_dir import database
from ledger.postgres.migrate import migrate
from ledger.security.secrets import Purpose, Secrets, load_processor_keys, load_secrets
from ledger.settings import CannotRun, Settings

_INSERT_ONLY: Final = ("event", "claim", "schema_migration")
_NEVER_DELETED: Final = ("data_key",)  # a destroyed key is an empty row, not a missing one
_MUST_BE_ON: Final = ("fsync", "full_page_writes", "synchronous_commit")


@contextmanager
def ready_database(settings: Settings) -> Iterator[Settings]:
    """For a command: the settings with a database that is up to date, as the application's role, while the block lasts.

    Raises CannotRun with the reason.
    """
    with database(settings.database_url, settings.data_dir) as owner_url:
        yield prepare(settings, owner_url)


def prepare(settings: Settings, owner_url: str) -> Settings:
    """Bring the schema up to date and return the settings on which the application runs: `database_url` is then its own.

    Raises CannotRun: no connection, a migration that fails, no master key in production, or a database in production
    that could forget what it has acknowledged.
    """
    secrets = load_secrets(settings)
    load_processor_keys(settings)  # read by whoever serves; a wrong one stops the start here, with one line
    try:
        migrate(owner_url)
        application_url = settings.database_app_url or _application_url(owner_url, secrets)
        require_durability(application_url, settings.environment)
    except psycopg.OperationalError as failure:
        raise CannotRun(f"the database does not answer: {' '.join(str(failure).split())}") from failure
    return msgspec.structs.replace(settings, database_url=application_url, database_app_url=application_url)


def require_durability(database_url: str, environment: str) -> None:
    """Look whether a commit is on disk when it is acknowledged. Raises CannotRun in production, warns in the sandbox."""
    with psycopg.connect(database_url) as connection:
        query = "select name from pg_settings where name = any(%s) and setting = 'off' order by name"
        off = [name for (name,) in connection.execute(query, [list(_MUST_BE_ON)])]
    if not off:
        return
    reason = f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off on this database: a crash would lose payments"
    if environment == "production":
        raise CannotRun(f"{reason}; production refuses to start")
    _warn(reason)


def _application_url(owner_url: str, secrets: Secrets) -> str:
    """The connection string of the application's role, made or brought up to date where the owner may do so."""
    password = secrets.key(Purpose.DATABASE_APP_ROLE).hex()
    with psycopg.connect(owner_url, autocommit=True) as connection:
        row = connection.execute(
            "select rolsuper or rolcreaterole, 'ledger_app_' || d.oid, 'ledger_vault_' || d.oid, current_schema()"
            "  from pg_roles, pg_database d where rolname = current_user and datname = current_database()"
        ).fetchone()
        assert row is not None, "every session has a role and a database"
        may_create, role, vault_role, schema = row
        if not may_create:
            _warn("the owner may not create roles, so the application runs as the owner: set LEDGER_DATABASE_APP_URL")
            return owner_url
        with connection.transaction():
            _provide_role(connection, role, schema, password)
            _grant_application(connection, role, schema)
            _grant_jobs(connection, role, schema)
            _provide_role(connection, vault_role, schema, secrets.key(Purpose.DATABASE_VAULT_ROLE).hex())
    application_url = make_conninfo(owner_url, user=role, password=password)
    try:
        psycopg.connect(application_url, connect_timeout=5).close()
    except psycopg.OperationalError:
        _warn(f"the role {role} cannot log in, so the application runs as the owner: set LEDGER_DATABASE_APP_URL")
        return owner_url
    return application_url


def _provide_role(connection: psycopg.Connection, role: str, schema: str, password: str) -> None:
    """A role that may log in and enter the schema, and nothing more."""
    connection.execute("select pg_advisory_xact_lock(hashtext(%s))", [role])
    known = connection.execute("select 1 from pg_roles where rolname = %s", [role]).fetchone()
    name, place = sql.Identifier(role), sql.Identifier(schema)
    verb = sql.SQL("alter" if known else "create")
    connection.execute(sql.SQL("{} role {} login password {}").format(verb, name, sql.Literal(password)))
    connection.execute(sql.SQL("grant usage on schema {} to {}").format(place, name))


def _grant_application(connection: psycopg.Connection, role: str, schema: str) -> None:
    name, place = sql.Identifier(role), sql.Identifier(schema)
    for grant in (
        "grant select, insert, update, delete on all tables in schema {place} to {name}",
        "grant usage, select on all sequences in schema {place} to {name}",
    ):
        connection.execute(sql.SQL(grant).format(place=place, name=name))
    for table in (*_INSERT_ONLY, *_NEVER_DELETED):
        if connection.execute("select to_regclass(%s)", [f"{schema}.{table}"]).fetchone() != (None,):
            rights = "delete, truncate" if table in _NEVER_DELETED else "update, delete, truncate"
            revoke = sql.SQL("revoke {} on {}.{} from {}")
            connection.execute(revoke.format(sql.SQL(rights), place, sql.Identifier(table), name))


def _grant_jobs(connection: psycopg.Connection, role: str, schema: str) -> None:
    """What the application needs of the queue of jobs, where that stands in a schema of its own."""
    name, place = sql.Identifier(role), sql.Identifier(f"{schema}_jobs")
    if connection.execute("select 1 from pg_namespace where nspname = %s", [f"{schema}_jobs"]).fetchone() is None:
        return
    for grant in (
        "grant usage on schema {place} to {name}",
        "grant select, insert, update, delete on all tables in schema {place} to {name}",
        "grant usage, select on all sequences in schema {place} to {name}",
    ):
        connection.execute(sql.SQL(grant).format(place=place, name=name))


def _warn(message: str) -> None:
    sys.stderr.write(f"ledger: warning: {message}\n")
