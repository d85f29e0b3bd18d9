"""Prepares a database for the service: its schema, the application's role, and a check that its commits are durable.

Never run the application as the owner. Its role may only insert and read events, so that a bug cannot rewrite the log.
The vault's role has rights on the table of card numbers and on no other; no other role has any right on that table.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger.postgres.distribution import is_distributed
from ledger.postgres.embedded.archiving import archive_settings
from ledger.postgres.embedded.data_dir import database
from ledger.postgres.faults import one_line
from ledger.postgres.migrate import has_schema, migrate, require_migrated
from ledger.postgres.pooling import require_sessions
from ledger.postgres.primary_search import connect_now
from ledger.postgres.replication import STANDBYS, SURE, Standbys
from ledger.progress import Progress, unreported
from ledger.security.secrets import (
    MASTER_KEY_NAME,
    Purpose,
    Secrets,
    generates_master_key,
    load_checkpoint_keys,
    load_processor_keys,
    load_secrets,
    master_key_source,
)
from ledger.settings import CannotRun, Settings, SettingWrong

_INSERT_ONLY: Final = (
    "event",
    "claim",
    "log_tile",
    "archived_file",
    "api_key_lookup",
    "schema_migration",
    "master_key_fingerprint",
    "operator_command",
)
_NEVER_DELETED: Final = (
    "data_key",  # a destroyed key is an empty row, not a missing one
    "log_tree",
)
_VAULT: Final = "vault_card"
_MUST_BE_ON: Final = ("fsync", "full_page_writes", "synchronous_commit")

# How far a commit goes, where that is less than onto the disk of a synchronous standby.
_WEAK_COMMIT: Final = "select setting from pg_settings where name = 'synchronous_commit' and setting <> all(%s)"

_ARCHIVED_FILES: Final = "select count(*) from archived_file"

# What confirms commits (see `postgres.replication`), as far as this role may not call it.
_NOT_ALLOWED: Final = """
select p.oid::regprocedure::text from pg_proc p
 where pronamespace = 'pg_catalog'::regnamespace and not has_function_privilege(p.oid, 'execute')
   and (proname in ('pg_walfile_name', 'pg_current_wal_insert_lsn')
        or (proname = 'pg_logical_emit_message' and proargtypes[2] = 'text'::regtype))
 order by 1
"""

# Has a transaction's commit wait for no standby. Every start and every command repeats what it writes so, and a primary
# that has lost its standby would let them wait without end. No later commit is acknowledged before the standby has this
# one.
_WITHOUT_STANDBY: Final = "set local synchronous_commit = local"

# The master key of this database, unless it has one.
_RECORD_KEY: Final = "insert into master_key_fingerprint (fingerprint) values (%s) on conflict do nothing"

# Whether this schema has the table of the next statement.
_HAS_RECORD: Final = "select to_regclass(quote_ident(current_schema()) || '.master_key_fingerprint') is not null"

# The fingerprint of the master key that this database belongs to.
_RECORDED_KEY: Final = "select fingerprint from master_key_fingerprint"

# How many connections this role may open here, by the limits of the server, the role and the database. Those that are
# reserved for superusers are left out.
_ALLOWED: Final = """
select least(
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true), '0')::int,
  case when r.rolconnlimit >= 0 then r.rolconnlimit end,
  case when d.datconnlimit >= 0 then d.datconnlimit end)
  from pg_roles r, pg_database d where r.rolname = current_user and d.datname = current_database()
"""


class NoPrimary(CannotRun):
    """No server answers that takes writes. One may soon: a promotion takes a moment."""


@contextmanager
def away_as_no_primary() -> Iterator[None]:
    """Turns what a server raises that is away into NoPrimary."""
    try:
        yield
    except psycopg.OperationalError as failure:
        raise NoPrimary(f"the database does not answer: {one_line(failure)}") from failure


def owners_database(settings: Settings) -> AbstractContextManager[str]:
    """Returns a context with the connection string of the database's owner, with an embedded server if needed."""
    return database(settings.database_url, settings.data_dir, lambda: archive_settings(settings))


@contextmanager
def ready_database(settings: Settings, *, makes_schema: bool = False) -> Iterator[Settings]:
    """Yields the settings of a command, with the URL of an up-to-date database for the application's role.

    A schema that is not up to date is left so, because an operator decides when it is migrated. A command that begins
    an installation `makes_schema` in an empty database. An embedded server runs until the block ends. Raises CannotRun
    with the reason.
    """
    with owners_database(settings) as owner_url:
        with away_as_no_primary():
            is_new = makes_schema and not has_schema(owner_url)
        yield prepare(settings, owner_url, migrates=is_new)


def prepare(settings: Settings, owner_url: str, progress: Progress = unreported, *, migrates: bool = True) -> Settings:
    """Brings the schema up to date and returns the application's settings, with `database_url` for its own role.

    Unless it `migrates`, a schema that is not up to date raises CannotRun.

    Raises NoPrimary: no connection, or a server that takes no writes. Raises CannotRun: a migration that fails, no
    master key in production, another master key than the database's, a role that does not own the database, a pooler
    that shares sessions, or a database in production that may lose commits after it has acknowledged them. Raises
    NoPrimary in production also if the application's own role cannot log in. A replica may be away.
    """
    if not generates_master_key(settings):
        load_secrets(settings)  # a malformed one stops the start before anything is written
        load_checkpoint_keys(settings)
    load_processor_keys(settings)  # the service loads them later; here a wrong one stops the start with one line
    try:
        with away_as_no_primary():
            named = (settings.database_app_url, settings.database_vault_url)
            for url in (owner_url, *(url for url in named if url is not None)):
                require_sessions(url)
            require_primary(owner_url)
            require_undivided(owner_url, settings.environment)
            require_own_key(settings, owner_url)
            if not migrates:
                require_migrated(owner_url)
            migrate(owner_url, progress=progress)
            secrets = _own_secrets(settings, owner_url)  # before the roles get passwords that are derived from the key
            application_url, vault_url = _role_urls(settings, owner_url, secrets)
            require_durability(application_url, settings.environment)
            require_closed_vault(application_url, settings.environment)
    except psycopg.errors.InsufficientPrivilege as refusal:
        reason = f"the database refuses a step of the start: {one_line(refusal)}"
        raise CannotRun(f"{reason}; LEDGER_DATABASE_URL has to name the role that owns the database") from refusal
    return msgspec.structs.replace(
        settings,
        database_url=application_url,
        database_app_url=application_url,
        database_vault_url=vault_url,
        read_database_url=replica_url(settings, application_url, owner_url),
    )


def replica_url(settings: Settings, application_url: str, owner_url: str) -> str | None:
    """Returns the connection string of the replica, None if there is none.

    It is as the application's role if the owner made that role, whose password the operator does not know. Raises
    SettingWrong if it names the owner, who could read the vault there, although the application has another role.
    """
    url = settings.read_database_url
    if url is None or application_url == owner_url:
        return url
    role = conninfo_to_dict(application_url)
    if settings.database_app_url is not None:
        owner, user = conninfo_to_dict(owner_url).get("user"), conninfo_to_dict(url).get("user")
        if user is not None and user == owner and user != role.get("user"):
            raise SettingWrong(
                "LEDGER_READ_DATABASE_URL", "names the owner: name the role of LEDGER_DATABASE_APP_URL, as there"
            )
        return url
    return make_conninfo(url, user=role["user"], password=role["password"])


def require_own_key(settings: Settings, owner_url: str) -> None:
    """Raises SettingWrong if the database belongs to another master key. A new one belongs to none."""
    with connect_now(owner_url) as connection:
        has_record = connection.execute(_HAS_RECORD).fetchone() == (True,)
        row = connection.execute(_RECORDED_KEY).fetchone() if has_record else None
    if row is not None:
        _secrets_of(settings, row[0])


def _own_secrets(settings: Settings, owner_url: str) -> Secrets:
    """Returns the secrets of the database's master key, whose fingerprint the first start records.

    Raises SettingWrong if the master key is another one, or is missing from a sandbox's data directory.
    """
    with connect_now(owner_url, autocommit=True) as connection:
        row = connection.execute(_RECORDED_KEY).fetchone()
        if row is None:
            connection.execute(_RECORD_KEY, (load_secrets(settings).fingerprint,))
            row = connection.execute(_RECORDED_KEY).fetchone()  # of two first starts, one records
    assert row is not None, "it was recorded"
    return _secrets_of(settings, row[0])


def _secrets_of(settings: Settings, fingerprint: str) -> Secrets:
    """Returns the secrets of the master key with this fingerprint. Raises SettingWrong if that is another one, or is
    missing.
    """
    if generates_master_key(settings):
        raise SettingWrong(master_key_source(settings), f"is missing. {_bring_back(settings, fingerprint)}")
    secrets = load_secrets(settings)
    if not hmac.compare_digest(fingerprint, secrets.fingerprint):
        wrong = (
            f"is the wrong master key: its fingerprint is {secrets.fingerprint}. {_bring_back(settings, fingerprint)}"
        )
        raise SettingWrong(master_key_source(settings), wrong)
    return secrets


def _bring_back(settings: Settings, fingerprint: str) -> str:
    place = "" if settings.environment == "production" else f", or put it into {settings.data_dir / MASTER_KEY_NAME}"
    return (
        f"The database belongs to the master key with the fingerprint {fingerprint}: set LEDGER_MASTER_KEY or "
        f"LEDGER_MASTER_KEY_FILE to that key{place}"
    )


def require_primary(database_url: str) -> None:
    """Raises NoPrimary at a standby, and at a server that an operator has made read-only."""
    with connect_now(database_url) as connection:
        row = connection.execute("select pg_is_in_recovery(), current_setting('transaction_read_only')").fetchone()
    assert row is not None, "a select without from has one row"
    is_standby, is_read_only = row
    if is_standby:
        raise NoPrimary(
            "the database is a standby, which takes no writes: name the primary in LEDGER_DATABASE_URL, or every server "
            "and target_session_attrs=read-write"
        )
    if is_read_only == "on":
        raise NoPrimary("the database is read-only: set default_transaction_read_only to off for its owner")


def require_undivided(database_url: str, environment: str) -> None:
    """Raises CannotRun in production if Citus divides the tables: not everything of the service runs there yet."""
    with connect_now(database_url) as connection:
        if environment == "production" and is_distributed(connection):
            raise CannotRun("production does not run on Citus yet: docs/explanation/scale.md has what is missing")


def require_durability(database_url: str, environment: str) -> None:
    """Checks that acknowledged commits are on disk, and on the disk of a synchronous standby.

    Raises CannotRun in production, warns in the sandbox. Raises CannotRun in both if the role cannot confirm commits.
    """
    with connect_now(database_url) as connection:
        query = "select name from pg_settings where name = any(%s) and setting = 'off' order by name"
        off = [name for (name,) in connection.execute(query, [list(_MUST_BE_ON)])]
        weak = connection.execute(_WEAK_COMMIT, [list(SURE)]).fetchall()
        refused = connection.execute(_NOT_ALLOWED).fetchall()
    if refused:
        functions = ", ".join(name for (name,) in refused)
        raise CannotRun(
            f"the application's role may not execute {functions}, which confirm commits after a lost connection: grant "
            "it execute on them"
        )
    if off:
        reason = (
            f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off on this database: a crash would lose payments"
        )
    elif weak:
        reason = (
            f"synchronous_commit is {weak[0][0]} for the application's role: a promoted standby would lack payments; "
            f"set it to {' or '.join(SURE)}"
        )
    else:
        return
    if environment == "production":
        raise CannotRun(f"{reason}; production refuses to start")
    _warn(reason)


def require_archived_events(database_url: str, settings: Settings) -> None:
    """Raises CannotRun in production if events are archived and LEDGER_FILES_URL is unset: production archives to an
    object store alone, and a service without it would answer 503 for each of their orders.
    """
    if settings.environment != "production" or settings.files_url:
        return
    with connect_now(database_url) as connection:
        row = connection.execute(_ARCHIVED_FILES).fetchone()
    assert row is not None, "an aggregate without groups has one row"
    if row[0]:
        raise CannotRun(
            f"the content of archived events is in {row[0]} files of an object store: name that store in LEDGER_FILES_URL"
        )


def standbys_of(database_url: str) -> Standbys:
    """Returns the standbys that the role of this connection string sees."""
    with connect_now(database_url) as connection:
        return Standbys.of(connection.execute(STANDBYS).fetchall())


def require_closed_vault(database_url: str, environment: str) -> None:
    """Checks that this role cannot read card numbers. Raises CannotRun in production, warns in the sandbox.

    A superuser can read everything, which the sandbox accepts without a warning.
    """
    query = "select has_table_privilege(to_regclass(%s)::oid, 'select'), rolsuper from pg_roles where rolname = current_user"
    with connect_now(database_url) as connection:
        row = connection.execute(query, [_VAULT]).fetchone()
    assert row is not None, "every session has a role"
    can_read, is_superuser = row
    if not can_read:
        return
    reason = f"the application's role can read {_VAULT}, which only the vault's role may: revoke all on it"
    if environment == "production":
        raise CannotRun(f"{reason}; production refuses to start")
    if not is_superuser:
        _warn(reason)


def connections_allowed(database_url: str) -> int:
    """Returns how many connections the role of this connection string may open, those that are open included."""
    with connect_now(database_url) as connection:
        row = connection.execute(_ALLOWED).fetchone()
    assert row is not None, "every session has a role and a database"
    return int(row[0])


def _role_urls(settings: Settings, owner_url: str, secrets: Secrets) -> tuple[str, str | None]:
    """Returns the connection strings of the application's role and of the vault's, None if there is no vault.

    Creates or updates the roles that the settings do not name if the owner may do so. Otherwise, and if a role cannot
    log in, logs a warning: the application runs as the owner and no card can be saved.
    """
    application_url, vault_url = settings.database_app_url, settings.database_vault_url
    with connect_now(owner_url, autocommit=True) as connection:
        row = connection.execute(
            "select rolsuper or rolcreaterole, 'ledger_app_' || d.oid, 'ledger_vault_' || d.oid, current_schema()"
            "  from pg_roles, pg_database d where rolname = current_user and datname = current_database()"
        ).fetchone()
        assert row is not None, "every session has a role and a database"
        may_create, role, vault_role, schema = row
        with connection.transaction():
            connection.execute(_WITHOUT_STANDBY)
            if application_url is None and may_create:
                _provide_role(connection, role, schema, secrets.key(Purpose.DATABASE_APP_ROLE).hex())
                _grant_tables(connection, role, schema)
                _revoke_history(connection, role, schema)
                if connection.execute("select 1 from pg_namespace where nspname = %s", [f"{schema}_jobs"]).fetchone():
                    _grant_tables(connection, role, f"{schema}_jobs")  # the queue of jobs, if it has its own schema
                application_url = own_role_url(owner_url, role, secrets, Purpose.DATABASE_APP_ROLE)
            if vault_url is None and may_create:
                _provide_role(connection, vault_role, schema, secrets.key(Purpose.DATABASE_VAULT_ROLE).hex())
                vault_url = own_role_url(owner_url, vault_role, secrets, Purpose.DATABASE_VAULT_ROLE)
            _close_vault(connection, schema, _user_of(application_url), _user_of(vault_url))
    if refusal := _refusal_of(application_url, owner_url):
        if application_url is not None and settings.environment == "production":
            raise NoPrimary(f"{refusal}, and production does not run the application as the owner")
        _warn(f"{refusal}, so the application runs as the owner: set LEDGER_DATABASE_APP_URL")
        application_url = owner_url
    if refusal := _refusal_of(vault_url, owner_url):
        _warn(f"{refusal}, so no card can be saved: set LEDGER_DATABASE_VAULT_URL")
        vault_url = None
    assert application_url is not None, "the owner can log in"
    return application_url, vault_url


def own_role_url(owner_url: str, role: str, secrets: Secrets, purpose: Purpose) -> str:
    """Returns the connection string of a role as the owner makes it, with a password from the master key."""
    return make_conninfo(owner_url, user=role, password=secrets.key(purpose).hex())


def _close_vault(connection: psycopg.Connection, schema: str, application: str | None, vault: str | None) -> None:
    """Grants the table of card numbers to the vault's role and revokes it from the application's."""
    table = sql.SQL("{}.{}").format(sql.Identifier(schema), sql.Identifier(_VAULT))
    if connection.execute("select to_regclass(%s)", [f"{schema}.{_VAULT}"]).fetchone() == (None,):
        return  # an older schema
    if application is not None and application != vault:
        connection.execute(sql.SQL("revoke all on {} from {}").format(table, sql.Identifier(application)))
    if vault is not None:
        grant = sql.SQL("grant select, insert, update, delete on {} to {}")
        connection.execute(grant.format(table, sql.Identifier(vault)))


def _user_of(url: str | None) -> str | None:
    """Returns the role that a connection string names, None if it names none."""
    user = None if url is None else conninfo_to_dict(url).get("user")
    return None if user is None else str(user)


def _refusal_of(url: str | None, owner_url: str) -> str:
    """Returns why a role cannot be used, empty if it can log in.

    A server that is just being replaced refuses every role, and what the application runs under is decided here until
    its end. So a role that is refused is tried again once the owner could log in. Raises psycopg.OperationalError if
    the owner cannot.
    """
    if url is None:
        return "the owner may not create roles"
    if _can_log_in(url):
        return ""
    connect_now(owner_url, connect_timeout=5).close()
    return "" if _can_log_in(url) else f"the role {_user_of(url)} cannot log in"


def _can_log_in(url: str) -> bool:
    try:
        connect_now(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _provide_role(connection: psycopg.Connection, role: str, schema: str, password: str) -> None:
    """Creates or updates a role that may log in and use the schema, without further rights."""
    connection.execute("select pg_advisory_xact_lock(hashtext(%s))", [role])
    exists = connection.execute("select 1 from pg_roles where rolname = %s", [role]).fetchone()
    name, verb = sql.Identifier(role), sql.SQL("alter" if exists else "create")
    connection.execute(sql.SQL("{} role {} login password {}").format(verb, name, sql.Literal(password)))
    connection.execute(sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(schema), name))


def _grant_tables(connection: psycopg.Connection, role: str, schema: str) -> None:
    """Grants a role the use of all tables and sequences of a schema."""
    for grant in (
        "grant usage on schema {schema} to {role}",
        "grant select, insert, update, delete on all tables in schema {schema} to {role}",
        "grant usage, select on all sequences in schema {schema} to {role}",
    ):
        connection.execute(sql.SQL(grant).format(schema=sql.Identifier(schema), role=sql.Identifier(role)))


def _revoke_history(connection: psycopg.Connection, role: str, schema: str) -> None:
    """Revokes the rights to change or delete rows that must stay."""
    for table in (*_INSERT_ONLY, *_NEVER_DELETED):
        if connection.execute("select to_regclass(%s)", [f"{schema}.{table}"]).fetchone() != (None,):
            rights = sql.SQL("delete, truncate" if table in _NEVER_DELETED else "update, delete, truncate")
            revoke = sql.SQL("revoke {} on {}.{} from {}")
            names = sql.Identifier(schema), sql.Identifier(table), sql.Identifier(role)
            connection.execute(revoke.format(rights, *names))


def _warn(message: str) -> None:
    sys.stderr.write(f"ledger: warning: {message}\n")
