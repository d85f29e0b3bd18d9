"""Checks an installation for an operator: one finding per check, with what to do.

Change nothing: `doctor` runs while something is wrong, so it applies no migration and makes no key, role or data
directory. It starts the embedded Postgres if that does not run, and stops it again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal
from uuid import UUID

import psycopg
from msgspec import Struct
from msgspec.json import decode
from psycopg.conninfo import make_conninfo

from ledger.background.inbox.pending import pending_messages
from ledger.background.scheduler.failed_jobs import failed_jobs
from ledger.domain.streams import TOPICS
from ledger.invoicing.files import DocumentFiles, FilesUnavailable, files_address
from ledger.invoicing.logos import LogoWrong, encode_logo
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.journal.event_archive import ArchiveUnavailable, EventArchive, file_key
from ledger.postgres import archive_state
from ledger.postgres.connection import TIMEOUTS, Connection, TakesNoWrites, connect
from ledger.postgres.connection_count import (
    api_connections,
    connections_max,
    replica_connections,
    worker_connections,
)
from ledger.postgres.distribution import DISTRIBUTED, DISTRIBUTED_NOW, HEADS, MOVES, NODES
from ledger.postgres.embedded.account import name_of
from ledger.postgres.embedded.data_dir import database
from ledger.postgres.embedded.wal_store import WalStore, is_store
from ledger.postgres.faults import one_line
from ledger.postgres.migrate import migrations
from ledger.postgres.pooling import SessionsShared, is_pooled, pooler_limits, require_sessions
from ledger.postgres.prepare import connections_allowed, own_role_url
from ledger.postgres.registration import CLOCK, CLOCK_MAX_S, CLOCK_WARN_S, RUNNING, RunningProcess, ahead_s
from ledger.postgres.replica import (
    WRITTEN,
    ReplicaBehind,
    TimelineApart,
    connect_replica,
    reason_of,
    replayed,
    require_replayed,
    written_in,
)
from ledger.postgres.replication import STANDBYS, SURE, Standbys
from ledger.postgres.shards import is_divided
from ledger.security.secrets import (
    MASTER_KEY_NAME,
    Purpose,
    Secrets,
    generates_master_key,
    load_processor_keys,
    load_sealing_keys,
    load_secrets,
)
from ledger.settings import CannotRun, Settings, api_processes, likely_typos, read_settings
from ledger.tlog.checkpoint_files import CheckpointFiles, CheckpointsUnavailable, checkpoints_address
from ledger.write_once_store import WriteOnceStore
from projections.orders import open_calls

_DISK_WARN: Final = 5 << 30
_DISK_FAIL: Final = 512 << 20
_VERSION_MIN: Final = 150000
_LAG_WARN_S: Final = 60.0
_OVERDUE_WARN_S: Final = 120.0
_WAITING_WARN_S: Final = 3600.0

# Which settings that make commits durable are off at the server.
_NOT_DURABLE: Final = """
select coalesce(string_agg(name, ', ' order by name), '') from pg_settings
 where name in ('fsync', 'full_page_writes') and reset_val = 'off'
"""
# How far a commit of this role goes, whatever this session has set.
_COMMITS: Final = "select reset_val from pg_settings where name = 'synchronous_commit'"
_APPLIED: Final = "select number, checksum from schema_migration"
_REACTED: Final = "select as_of from reaction_progress"

# What the roles are called that the owner makes, those of them that are there, and whether it may make them.
_OWN_ROLES: Final = """
select 'ledger_app_' || d.oid, 'ledger_vault_' || d.oid,
       array(select rolname from pg_roles where rolname in ('ledger_app_' || d.oid, 'ledger_vault_' || d.oid)),
       r.rolsuper or r.rolcreaterole
  from pg_database d, pg_roles r where d.datname = current_database() and r.rolname = current_user
"""
_FINGERPRINT: Final = "select fingerprint from master_key_fingerprint"

# The sealing keys under which a table's keys are wrapped, with their number.
_SEALING_KEYS: Final = """
select sealing_key_id, count(*) from {table} where sealing_key_id is not null group by sealing_key_id order by 1
"""
_SEALED: Final = (
    ("data_key", "customers", Purpose.DATA_KEY_WRAPPING),
    ("fiscal_issuer", "issuers of invoices", Purpose.ISSUER_KEY_WRAPPING),
    ("processor_account_key", "accounts with processors", Purpose.PROCESSOR_KEY_WRAPPING),
    ("webhook_secret", "webhook endpoints", Purpose.WEBHOOK_KEY_WRAPPING),
)
"""The tables with wrapped keys that their owner may read, what owns the keys, and the purpose of the sealing keys."""

_CARD_KEYS: Final = _SEALING_KEYS.format(table="vault_card")
_VAULT_ROLE: Final = """
select has_table_privilege('vault_card', 'select'), 'ledger_vault_' || oid from pg_database
 where datname = current_database()
"""

# Every stamped document, as its event has its files.
_STAMPED: Final = "select merchant_id, data from event where topic = any(%s)"
# Every file of archived events.
_ARCHIVED: Final = "select merchant_id, file_id, sha256 from archived_file order by merchant_id, file_id"
_NEWEST_ARCHIVED: Final = "select merchant_id, file_id, sha256 from archived_file order by archived_at desc limit 1"
_FILES_AT_ONCE: Final = 16
_ARCHIVE_MAX_S: Final = 60.0
"""How long a page of archived events may take: no request waits for it."""
_NAMED_MAX: Final = 10
_PDF_END: Final = b"%%EOF\n"

State = Literal["ok", "warn", "fail"]


class Finding(Struct, frozen=True):
    """The result of a check. `text` is what was found and, unless that is `ok`, what to do."""

    check: str
    state: State
    text: str


class _Stored(Struct, frozen=True, rename="camel"):
    """The files of a stamped document in its event."""

    xml_key: str
    pdf_key: str
    xml_sha256: str


def examine(
    environ: Mapping[str, str], *, files: bool = False, pooler: bool = False, **flags: object
) -> Iterator[Finding]:
    """Yields a finding per check, in the order in which each needs the one before.

    With `files`, checks the files of every stamped document and every logo, which reads all of them. With `pooler`,
    asks pgbouncer for its limits.
    """
    try:
        settings = read_settings(environ, **flags)
    except CannotRun as wrong:
        yield Finding("settings", "fail", str(wrong))
        return
    typos = [f"{variable} is no setting; did you mean {meant}?" for variable, meant in likely_typos(environ)]
    yield Finding("settings", "warn" if typos else "ok", " ".join(typos) or f"read, for {settings.environment}")
    if unusable := _unusable(settings):
        todo = "correct that, or set LEDGER_DATA_DIR to another directory; the other checks need it"
        yield Finding("disk", "fail", f"{unusable}: {todo}")
        return
    yield _disk(settings.data_dir)
    yield _keys(settings)
    if settings.files_url:
        yield _files(settings.files_url)
    yield _checkpoints(settings)
    if settings.database_url is None and not (settings.data_dir / "pg" / "PG_VERSION").exists():
        yield Finding(
            "database", "warn", f"{settings.data_dir} has none yet: `ledger serve` or `ledger migrate` makes it"
        )
        return
    findings = list[Finding]()
    with _fault_as_finding() as faults, database(settings.database_url, settings.data_dir) as url:
        require_sessions(url)
        asyncio.run(_examine_database(settings, url, findings, files=files, pooler=pooler))
    yield from findings  # those before a fault too
    yield from faults


def worst(findings: list[Finding]) -> State:
    """Returns the worst state among the findings."""
    states: set[State] = {finding.state for finding in findings}
    return "fail" if "fail" in states else "warn" if "warn" in states else "ok"


@contextmanager
def _fault_as_finding() -> Iterator[list[Finding]]:
    faults: list[Finding] = []
    try:
        yield faults
    except (TakesNoWrites, SessionsShared) as refusal:
        faults.append(Finding("database", "fail", str(refusal)))
    except (CannotRun, psycopg.OperationalError) as failure:
        reason = one_line(failure)
        todo = "check LEDGER_DATABASE_URL, and that the server runs"
        faults.append(Finding("database", "fail", f"it does not answer: {reason}; {todo}"))
    except psycopg.Error as refusal:
        reason = one_line(refusal)
        todo = "check that LEDGER_DATABASE_URL names the role that owns the database"
        faults.append(Finding("database", "fail", f"it refuses a check: {reason}; {todo}"))


def _unusable(settings: Settings) -> str:
    """Returns why a data directory can neither be used nor made, empty if it can."""
    place = settings.data_dir.absolute()
    try:
        while not place.exists():
            place = place.parent
    except OSError as refusal:
        return f"{place} cannot be read: {refusal.strerror}"
    if not place.is_dir():
        return f"{place} is not a directory"
    if settings.database_url is None and not os.access(place, os.W_OK | os.X_OK):
        return f"{place} belongs to {_owner(place)} and cannot be written by this account"
    return ""


def _disk(data_dir: Path) -> Finding:
    place = data_dir.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{free / (1 << 30):.1f} GiB are free for {data_dir}"
    if free < _DISK_WARN:
        return Finding(
            "disk", "fail" if free < _DISK_FAIL else "warn", f"{text}: make room, a full disk refuses writes"
        )
    return Finding("disk", "ok", text)


def _keys(settings: Settings) -> Finding:
    own = settings.data_dir / MASTER_KEY_NAME
    is_named = settings.master_key or settings.master_key_file
    if not is_named and settings.environment == "sandbox" and not own.exists():
        return Finding("keys", "warn", f"there is no master key yet: the sandbox makes {own} at its first start")
    try:
        load_secrets(settings)
        count = len(load_sealing_keys(settings))
        load_processor_keys(settings)
    except CannotRun as wrong:
        return Finding("keys", "fail", f"{wrong}: bring the key back from where it is kept")
    place = settings.master_key_file or "the settings" if is_named else own
    return Finding("keys", "ok", f"the master key is in {place}; sealing keys: {count}")


def _files(url: str) -> Finding:
    """Returns whether the object store of invoices' files can be read. Only storing shows whether it can be written."""
    try:
        asyncio.run(DocumentFiles(url, b"", "").read("ledger-doctor"))
    except FilesUnavailable as fault:
        return Finding("files", "fail", str(fault))
    return Finding("files", "ok", f"{url} answers")


def _checkpoints(settings: Settings) -> Finding:
    """Returns whether the signed checkpoints can be read, and are elsewhere than the database that they are about."""
    address = checkpoints_address(settings.checkpoints_url, settings.data_dir)
    if not address.startswith("file://"):
        try:
            asyncio.run(CheckpointFiles(address).read("ledger-doctor"))
        except CheckpointsUnavailable as fault:
            return Finding("checkpoints", "fail", str(fault))
        return Finding("checkpoints", "ok", f"{address} answers")
    folder, cluster = Path(address.removeprefix("file://")), settings.data_dir / "pg"
    if not os.access(place := _existing(folder), os.W_OK | os.X_OK):
        todo = "let this account write there, or name another folder in LEDGER_CHECKPOINTS_URL"
        return Finding("checkpoints", "fail", f"{place} belongs to {_owner(place)} and cannot be written: {todo}")
    is_beside = settings.database_url is None and cluster.exists() and _device(folder) == _device(cluster)
    if is_beside and settings.environment == "production":
        todo = "set LEDGER_CHECKPOINTS_URL to another machine's disk or an object store, so that a person who changes one cannot change both"
        return Finding("checkpoints", "warn", f"{folder} is on the disk of the database: {todo}")
    return Finding("checkpoints", "ok", f"signed checkpoints are written to {folder}")


def _device(place: Path) -> int:
    """Returns the device of a file or directory, or of the first directory above it that exists."""
    return _existing(place).stat().st_dev


def _existing(place: Path) -> Path:
    """Returns a file or directory, or the first directory above it that exists, as far as this account may look."""
    place = place.absolute()
    while not os.path.exists(place):  # noqa: PTH110 - Path.exists raises where this account may not look
        place = place.parent
    return place


def _owner(place: Path) -> str:
    return name_of(place.stat().st_uid) or f"user {place.stat().st_uid}"


async def _examine_database(
    settings: Settings, url: str, findings: list[Finding], *, files: bool, pooler: bool
) -> None:
    """Adds a finding per check to `findings`. Raises psycopg.Error at the first one that the database refuses."""
    async with await connect(url, "ledger-doctor") as connection:
        findings.append(_version(connection))
        findings.append(await _durability(connection, settings, url))
        findings.append(await _standbys(connection))
        findings.append(await _clock(connection))
        if settings.read_database_url is not None:
            findings.append(await _replica(connection, settings, settings.read_database_url))
        schema = await _schema(connection)
        findings.append(schema)
        findings.append(await _roles(connection, settings, url))
        findings.append(await _archive(connection, settings))
        if is_pooled(connection, connection.server_pid):
            findings.append(await _pooler(connection, settings, url if pooler else None))
        if schema.state == "ok":
            if await is_divided(connection):
                findings.append(await _shards(connection))
            findings.append(await _own_keys(connection, settings, url))
            findings.append(await _services(connection))
            findings += await _queues(connection, settings)
            if files:
                findings.append(await _documents(connection, settings))
                findings.append(await _logos(connection))
                findings.append(await _archived(connection, settings))
            elif (newest := await _newest_archived(connection, settings)) is not None:
                findings.append(newest)


def _version(connection: Connection) -> Finding:
    number = connection.info.server_version
    text = f"Postgres {number // 10000}.{number % 10000}"
    if number < _VERSION_MIN:
        return Finding("database", "fail", f"{text} is too old: use Postgres 15 or newer")
    return Finding("database", "ok", text)


async def _durability(connection: Connection, settings: Settings, url: str) -> Finding:
    """Returns whether commits are on disk, for the application's role as a start checks it. `url` is the owner's."""
    state: State = "fail" if settings.environment == "production" else "warn"
    off = await _value(connection, _NOT_DURABLE)
    if off:
        return Finding("durability", state, f"off: {off}; switch it on, a crash would lose payments")
    commit = await _commits(connection, settings, url)
    if commit == "off":
        return Finding("durability", state, "off: synchronous_commit; switch it on, a crash would lose payments")
    if commit not in SURE:
        lost = f"synchronous_commit is {commit}; set it to {' or '.join(SURE)}, a promoted standby would lack payments"
        return Finding("durability", state, lost)
    return Finding("durability", "ok", "a commit is on disk before it is acknowledged")


async def _commits(connection: Connection, settings: Settings, url: str) -> Any:
    """Returns synchronous_commit of the application's role; of the owner, as whom it runs where that cannot log in."""
    application = settings.database_app_url
    if application is None:
        role, _, there, _ = await _row(connection, _OWN_ROLES)
        application = _own_url(settings, url, role, Purpose.DATABASE_APP_ROLE) if role in there else None
    if application is not None:
        try:
            async with await connect(application, "ledger-doctor") as session:
                return await _value(session, _COMMITS)
        except (CannotRun, psycopg.OperationalError):
            pass  # the finding about the roles names it
    return await _value(connection, _COMMITS)


async def _standbys(connection: Connection) -> Finding:
    found = Standbys.of(await (await connection.execute(STANDBYS)).fetchall())
    is_doubtful = found.hidden or found.is_asynchronous
    return Finding("standbys", "fail" if found.is_missing else "warn" if is_doubtful else "ok", found.text)


async def _replica(primary: Connection, settings: Settings, url: str) -> Finding:
    """Returns whether the replica can answer lists, and has room for the connections of this machine's processes."""
    unused = "the primary answers all lists, because the replica is not used"
    try:
        await asyncio.to_thread(require_sessions, make_conninfo(url, **TIMEOUTS))
        async with await connect_replica(url, "ledger-doctor") as replica:
            (row,) = await (await primary.execute(WRITTEN, binary=True)).fetchall()
            written = written_in(row)
            behind = max(0, written.byte - (await replayed(replica)).byte)
            await require_replayed(replica, written)
        allowed = await asyncio.to_thread(connections_allowed, url)
    except TimelineApart as fault:
        return Finding("replica", "warn", f"{unused}: {fault}; look at its replication, and let it follow the primary")
    except ReplicaBehind:
        return Finding("replica", "warn", f"{unused}: it is {behind:,} bytes of log behind; look at its replication")
    except psycopg.OperationalError as fault:
        reason = f"it does not answer: {one_line(fault)}"
        return Finding("replica", "warn", f"{unused}: {reason}; check LEDGER_READ_DATABASE_URL, and that it runs")
    except (CannotRun, psycopg.Error) as fault:
        return Finding("replica", "warn", f"{unused}: {reason_of(fault)}; check LEDGER_READ_DATABASE_URL")
    needed = api_processes(settings) * sum(replica_connections().values())
    if needed > allowed:
        return Finding(
            "replica",
            "warn",
            f"it allows {allowed} connections, and this machine's API processes may open {needed}: raise max_connections",
        )
    return Finding("replica", "ok", "it answers lists, searches and reports")


async def _pooler(connection: Connection, settings: Settings, url: str | None) -> Finding:
    """Returns whether the pooler behind `url` has room for the connections of this machine's processes, and of all that
    run; without `url`, how many it needs room for.
    """
    api, worker = (sum(count(settings.environment).values()) for count in (api_connections, worker_connections))
    running = list[RunningProcess]()
    if not await _value(connection, "select to_regclass('service_process') is null"):
        running = [RunningProcess(*row) for row in await _rows(connection, RUNNING)]
    open_at_most = sum(api if process.role == "api" else worker for process in running)
    needed = max(connections_max(settings), open_at_most)
    role = await _value(connection, "select session_user")
    if url is None:
        asked = f"`ledger doctor --pooler` compares them, once {role} is in pgbouncer's stats_users and auth_file"
        return Finding("pooler", "warn", f"each of the pooler's limits has to be at least {needed}; {asked}")
    limits = await asyncio.to_thread(pooler_limits, url)
    if limits is None:
        unseen = f"the pooler does not show {role} its limits: each has to be at least {needed}"
        return Finding("pooler", "warn", f"{unseen}; name {role} in pgbouncer's stats_users to have them compared here")
    small = [f"{name} is {limit}" for name, limit in limits.items() if limit < needed]
    if small:
        room = (
            f"the pooler has no room for the {needed} connections that the services may open, and the rest would wait"
        )
        return Finding("pooler", "fail", f"{room}: {', '.join(small)}; raise each to {needed} or more")
    return Finding("pooler", "ok", f"it has room for the {needed} connections that the services may open")


async def _clock(connection: Connection) -> Finding:
    before = datetime.now(UTC)
    theirs = await _value(connection, CLOCK)
    apart_s = ahead_s(before, theirs, datetime.now(UTC))
    if abs(apart_s) > CLOCK_WARN_S:
        state: State = "fail" if abs(apart_s) > CLOCK_MAX_S else "warn"
        away = "ahead of" if apart_s > 0 else "behind"
        return Finding(
            "clock", state, f"this machine's is {abs(apart_s):.1f} s {away} the database's: synchronise both by NTP"
        )
    return Finding("clock", "ok", f"this machine's and the database's are {abs(apart_s):.1f} s apart")


async def _schema(connection: Connection) -> Finding:
    if await _value(connection, "select to_regclass('schema_migration') is null"):
        return Finding("migrations", "warn", "none is applied: run `ledger migrate`")
    applied: dict[int, str] = dict(await (await connection.execute(_APPLIED)).fetchall())
    own = migrations()
    edited = [one for one in own if applied.get(one.number, one.checksum) != one.checksum]
    if edited:
        names = ", ".join(f"{one.number:04} {one.name}" for one in edited)
        return Finding("migrations", "fail", f"{names} differs from what was applied: install the released program")
    pending = [one for one in own if one.number not in applied]
    if pending:
        return Finding("migrations", "warn", f"{len(pending)} of {len(own)} are not applied: run `ledger migrate`")
    newer = len(set(applied) - {one.number for one in own})
    if newer:
        return Finding("migrations", "ok", f"all {len(own)} are applied, and {newer} of a newer release")
    return Finding("migrations", "ok", f"all {len(own)} are applied")


async def _shards(connection: Connection) -> Finding:
    """Returns on which nodes of Citus the shards are, how many of them move, and which tables are not divided yet."""
    nodes = await (await connection.execute(NODES, (HEADS,))).fetchall()
    placed = ", ".join(f"{count} on {host}:{port}" for host, port, _, count in nodes)
    moving = await _value(connection, MOVES)
    text = f"{sum(count for *_, count in nodes)} shards: {placed}; {moving or 'none'} to be moved"
    if away := [f"{host}:{port}" for host, port, is_active, _ in nodes if not is_active]:
        return Finding("shards", "fail", f"{text}. {' and '.join(away)} takes no part: bring it back")
    done = {name for (name,) in await _rows(connection, DISTRIBUTED_NOW)}
    if rest := [table for table in DISTRIBUTED if table not in done]:
        return Finding("shards", "warn", f"{text}. {', '.join(rest)} is not divided yet: run `ledger distribute`")
    return Finding("shards", "ok", text)


async def _own_keys(connection: Connection, settings: Settings, url: str) -> Finding:
    """Returns whether the keys of the settings are those of this database: the master key, and every sealing key.

    `url` is the owner's connection string, from which that of the vault's role follows.
    """
    recorded = next(iter(await _rows(connection, _FINGERPRINT)), (None,))[0]
    if generates_master_key(settings):
        if recorded is None:
            return Finding("seals", "ok", "nothing is sealed yet")
        lost = (
            f"the master key with the fingerprint {recorded}, to which the database belongs, is missing: bring it back"
        )
        return Finding("seals", "fail", lost)
    try:
        secrets = load_secrets(settings)
        load_sealing_keys(settings)
    except CannotRun as wrong:
        return Finding("seals", "fail", str(wrong))
    own = secrets.fingerprint
    if recorded not in (None, own):
        wrong_key = (
            f"the master key is the wrong one: its fingerprint is {own}, and the database belongs to the one with"
        )
        return Finding("seals", "fail", f"{wrong_key} {recorded}; bring that key back")
    lacking = list[str]()
    for table, holder, purpose in _SEALED:
        rows = await _rows(connection, _SEALING_KEYS.format(table=table))
        lacking += _lacking(settings, purpose, holder, rows)
    unread = ""
    try:
        rows = await _card_keys(connection, settings, url, secrets)
        lacking += _lacking(settings, Purpose.CARD_KEY_WRAPPING, "saved cards", rows)
    except psycopg.Error as fault:
        unread = f"; those of saved cards were not read, because the vault's role cannot: {one_line(fault)}"
    if lacking:
        lost = f"LEDGER_SEALING_KEYS lacks keys: {'; '.join(lacking)}. Bring them back{unread}"
        return Finding("seals", "fail", lost)
    if unread:
        return Finding("seals", "warn", f"the master key and the other sealing keys are there{unread}")
    return Finding("seals", "ok", "the master key and every sealing key are there")


def _lacking(settings: Settings, purpose: Purpose, holder: str, rows: list[tuple[Any, ...]]) -> list[str]:
    """Returns what the settings lack. `rows` has the id of each sealing key, and how many keys it wraps."""
    known = SealingKeys(load_sealing_keys(settings, purpose)).ids
    return [f"{holder} are sealed under {key} ({count})" for key, count in rows if key not in known]


async def _card_keys(connection: Connection, settings: Settings, url: str, secrets: Secrets) -> list[tuple[Any, ...]]:
    """Returns the sealing keys of saved cards, read as the vault's role: an owner that is no superuser may not.

    Raises psycopg.Error.
    """
    may_read, role = await _row(connection, _VAULT_ROLE)
    if may_read:
        return await _rows(connection, _CARD_KEYS)
    vault_url = settings.database_vault_url or own_role_url(url, role, secrets, Purpose.DATABASE_VAULT_ROLE)
    async with await connect(vault_url, "ledger-doctor") as vault:
        return await _rows(vault, _CARD_KEYS)


async def _documents(connection: Connection, settings: Settings) -> Finding:
    """Returns whether the files of every stamped document are in the store, and each XML as it was stamped."""
    address = files_address(settings.files_url, settings.data_dir)
    store, archive = DocumentFiles(address, b"", ""), EventArchive(address)
    total, wrong = 0, list[str]()
    topics = [topic for topic, kind in TOPICS.items() if "xml_key" in kind.__struct_fields__]
    async with connection.transaction():
        await connection.execute("set local statement_timeout = 0")
        await connection.execute("set local idle_in_transaction_session_timeout = 0")  # while files are read
        await connection.execute("set local enable_seqscan = on")
        async with connection.cursor("stamped") as cursor:
            await cursor.execute(_STAMPED, [topics])
            while rows := await cursor.fetchmany(_FILES_AT_ONCE):
                total += len(rows)
                try:
                    stored = ((merchant_id.bytes, data) for merchant_id, data in rows)
                    contents = await archive.contents(stored, within_s=_ARCHIVE_MAX_S)
                    stamped = [archive.content(contents, merchant_id.bytes, data) for merchant_id, data in rows]
                    found = await asyncio.gather(*[_file_fault(store, decode(data, type=_Stored)) for data in stamped])
                except (FilesUnavailable, ArchiveUnavailable) as fault:
                    return Finding("documents", "fail", str(fault))
                wrong += [fault for fault in found if fault]
    if wrong:
        named = "; ".join(wrong[:_NAMED_MAX]) + ("; …" if len(wrong) > _NAMED_MAX else "")
        text = f"{len(wrong)} of {total} stamped documents lack their files: {named}. Bring them back from a backup"
        return Finding("documents", "fail", text)
    return Finding("documents", "ok", f"the files of {total} stamped documents are there and unchanged")


async def _archived(connection: Connection, settings: Settings) -> Finding:
    """Returns whether every file of archived events is in the store, as it was written."""
    store = EventArchive(files_address(settings.files_url, settings.data_dir)).store
    total, wrong = 0, list[str]()
    async with connection.transaction(), connection.cursor("archived") as cursor:
        await connection.execute("set local idle_in_transaction_session_timeout = 0")  # while files are read
        await cursor.execute(_ARCHIVED)
        while rows := await cursor.fetchmany(_FILES_AT_ONCE):
            total += len(rows)
            for merchant_id, id_, digest in rows:
                try:
                    fault = await _archive_fault(store, merchant_id, id_, digest)
                except ArchiveUnavailable as refusal:
                    return Finding("archived", "fail", str(refusal))
                wrong += [fault] if fault else []
    if wrong:
        named = "; ".join(wrong[:_NAMED_MAX]) + ("; …" if len(wrong) > _NAMED_MAX else "")
        text = f"{len(wrong)} of {total} files of archived events are not as they were: {named}. Bring them back from a backup"
        return Finding("archived", "fail", text)
    return Finding("archived", "ok", f"the {total} files of archived events are there and unchanged")


async def _newest_archived(connection: Connection, settings: Settings) -> Finding | None:
    """Returns whether the newest file of archived events is in the store, None if there is none.

    Where the settings name another store than `ledger archive` wrote to, no file is.
    """
    newest = await _rows(connection, _NEWEST_ARCHIVED)
    if not newest:
        return None
    address = files_address(settings.files_url, settings.data_dir)
    try:
        fault = await _archive_fault(EventArchive(address).store, *newest[0])
    except ArchiveUnavailable as refusal:
        return Finding("archived", "fail", str(refusal))
    if fault:
        todo = "bring it back, or name the store in LEDGER_FILES_URL to which `ledger archive` wrote"
        return Finding("archived", "fail", f"{fault}, in {address}: {todo}; `ledger doctor --files` reads all files")
    return Finding("archived", "ok", f"the newest file of archived events is in {address}")


async def _archive_fault(store: WriteOnceStore, merchant_id: UUID, id_: bytes, digest: bytes) -> str:
    """Returns what is wrong with a file of archived events, empty if nothing is. Raises ArchiveUnavailable."""
    key = file_key(merchant_id.bytes, id_)
    content = await store.read(key)
    if content is None:
        return f"{key} is missing"
    return "" if sha256(content).digest() == digest else f"{key} is another file than was written"


async def _file_fault(store: DocumentFiles, stamped: _Stored) -> str:
    """Returns what is wrong with the files of a document, empty if nothing is."""
    xml = await store.read(stamped.xml_key)
    if xml is None:
        return f"{stamped.xml_key} is missing"
    if sha256(xml).hexdigest() != stamped.xml_sha256:
        return f"{stamped.xml_key} is another file than was stamped"
    pdf = await store.read(stamped.pdf_key)
    if pdf is None:
        return f"{stamped.pdf_key} is missing"
    # No event has a hash of the PDF, which is rendered from the XML: what can be seen is whether it is whole.
    is_whole = pdf.startswith(b"%PDF-") and pdf.endswith(_PDF_END)
    return "" if is_whole else f"{stamped.pdf_key} is no whole PDF"


async def _logos(connection: Connection) -> Finding:
    """Returns whether every logo can be printed."""
    wrong, total = [], 0
    for merchant_id, png in await _rows(connection, "select merchant_id, png from fiscal_logo order by 1"):
        total += 1
        try:
            await asyncio.to_thread(encode_logo, png)
        except LogoWrong as fault:
            wrong.append(f"that of merchant {merchant_id} {fault}")
    if wrong:
        return Finding("logos", "fail", f"{len(wrong)} of {total} cannot be printed: {'; '.join(wrong[:_NAMED_MAX])}")
    return Finding("logos", "ok", f"{total} can be printed")


async def _services(connection: Connection) -> Finding:
    """Returns the finding about the processes of services on all machines, and where they differ."""
    running = [RunningProcess(*row) for row in await _rows(connection, RUNNING)]
    if not running:
        return Finding("services", "ok", "none runs")
    by_host: dict[str, list[RunningProcess]] = {}
    for process in running:
        by_host.setdefault(process.host, []).append(process)
    text = "; ".join(_host(host, processes) for host, processes in by_host.items())
    state: State = "ok"
    differences = list[str]()
    if len(releases := sorted({process.release for process in running})) > 1:
        differences.append(f"The releases {' and '.join(releases)} run side by side: finish the upgrade")
    for host, processes in by_host.items():
        ahead = max((process.clock_ahead_s for process in processes), key=abs)
        if abs(ahead) > CLOCK_WARN_S:
            away = "ahead of" if ahead > 0 else "behind"
            differences.append(
                f"The clock of {host} is {abs(ahead):.1f} s {away} the database's: synchronise it by NTP"
            )
    if differences:
        is_unready = any(abs(process.clock_ahead_s) > CLOCK_MAX_S for process in running)
        state = "fail" if is_unready else "warn"
    places = {process.files_id: process for process in running if process.files}
    if len(places) > 1:
        stores = " and ".join(f"{each.files_address} of {each.host}" for each in places.values())
        differences.append(f"Invoices are kept apart in {stores}: name one object store in LEDGER_FILES_URL")
        state = "fail"
    return Finding("services", state, ". ".join([text, *differences]))


def _host(host: str, processes: list[RunningProcess]) -> str:
    """Returns what runs on a host: `app1: api of 0.1.0 (2, the first since 2026-11-02 03:14 UTC, seen 3 s ago)`."""
    groups: dict[tuple[str, str], list[RunningProcess]] = {}
    for process in processes:
        groups.setdefault((process.role, process.release), []).append(process)
    return f"{host}: " + ", ".join(
        f"{role} of {release} ({len(some)}, since {min(each.started_at for each in some):%Y-%m-%d %H:%M} UTC, seen "
        f"{max(each.seen_s for each in some):.0f} s ago)"
        for (role, release), some in groups.items()
    )


async def _roles(connection: Connection, settings: Settings, owner_url: str) -> Finding:
    """Returns whether the roles that the application and the vault run under can log in."""
    application, vault, there, may_create = await _row(connection, _OWN_ROLES)
    is_prepared = await _value(connection, "select to_regclass('schema_migration') is not null")
    missing, cannot = (
        list[str](),
        "cannot log in under this master key: if that is the right one, `ledger migrate` mends it",
    )
    for variable, url, name, role, purpose, effect in (
        ("APP", settings.database_app_url, "application", application, Purpose.DATABASE_APP_ROLE, ""),
        (
            "VAULT", settings.database_vault_url, "vault", vault, Purpose.DATABASE_VAULT_ROLE,
            ", so no card can be saved",
        ),
    ):  # fmt: skip
        if url is not None:
            if not await asyncio.to_thread(_can_log_in, url):
                missing.append(f"the role of LEDGER_DATABASE_{variable}_URL cannot log in")
        elif not may_create:
            missing.append(f"set LEDGER_DATABASE_{variable}_URL, because the owner may not create roles")
        elif is_prepared and role not in there:
            missing.append(f"the {name}'s role is missing{effect}: `ledger migrate` makes it")
        elif is_prepared and not await asyncio.to_thread(_can_log_in, _own_url(settings, owner_url, role, purpose)):
            missing.append(f"the {name}'s role, {role}, {cannot}")
    if missing:
        return Finding("roles", "warn", "; ".join(missing))
    if not is_prepared:
        return Finding("roles", "ok", "`ledger migrate` makes the application's and the vault's")
    return Finding("roles", "ok", "the application's and the vault's can be used")


def _own_url(settings: Settings, owner_url: str, role: str, purpose: Purpose) -> str | None:
    """Returns the connection string of a role that the owner makes, None without the master key of its password."""
    if generates_master_key(settings):
        return None
    try:
        return own_role_url(owner_url, role, load_secrets(settings), purpose)
    except CannotRun:
        return None  # the finding about the keys names it


def _can_log_in(url: str | None) -> bool:
    """Returns whether a role can log in, or its password is unknown."""
    if url is None:
        return True
    try:
        psycopg.connect(make_conninfo(url, connect_timeout=5)).close()
    except psycopg.Error:
        return False
    return True


async def _archive(connection: Connection, settings: Settings) -> Finding:
    """Returns the finding about the archive of the write-ahead log: of the server, and of the store of the settings."""
    failing_s = await _value(connection, archive_state.FAILING)
    if failing_s:
        reason = await asyncio.to_thread(_store_refusal, settings)
        kept = f"the write-ahead log has not been archived for {failing_s:.0f} s, and Postgres keeps it"
        return Finding("archive", "fail", f"{kept}: {reason or 'look for archive_command in the log of Postgres'}")
    if await _value(connection, "select current_setting('archive_mode') = 'off'"):
        return Finding("archive", "ok", "none is set: a restore reaches the end of a backup, and no later moment")
    return Finding("archive", "ok", "the write-ahead log is archived")


def _store_refusal(settings: Settings) -> str:
    if not is_store(settings.wal_archive):
        return ""
    try:
        WalStore(settings.wal_archive).get("ledger-doctor")
    except CannotRun as failure:
        return str(failure)
    return ""


async def _queues(connection: Connection, settings: Settings) -> list[Finding]:
    """Returns the findings about waiting work: events without reactions, calls, jobs, messages."""
    lag_s = _age_s(await _value(connection, _REACTED))
    calls, oldest = await _row(connection, open_calls.COUNT)
    overdue_s = _age_s(oldest) - settings.recovery_margin_s
    jobs = await failed_jobs(connection)
    given_up = sum(job.given_up for job in jobs)
    messages = await pending_messages(connection)
    aside = sum(message.set_aside for message in messages)
    waited_s = _age_s(min((message.received_at for message in messages), default=None))
    return [
        _queue("reactions", lag_s > _LAG_WARN_S, f"{lag_s:.0f} s behind", "check that `ledger serve` or `worker` runs"),
        _queue(
            "calls",
            overdue_s > _OVERDUE_WARN_S,
            f"{calls} open, the oldest overdue for {max(0.0, overdue_s):.0f} s",
            "check that the worker runs and that the processor answers look-ups",
        ),
        _queue("jobs", given_up > 0, f"{len(jobs)} failed, {given_up} given up", "see `ledger jobs list`"),
        _queue(
            "messages",
            aside > 0 or waited_s > _WAITING_WARN_S,
            f"{len(messages)} wait, {aside} set aside, the oldest for {waited_s:.0f} s",
            "see `ledger messages list`",
        ),
    ]


def _queue(check: str, is_bad: bool, text: str, todo: str) -> Finding:
    return Finding(check, "warn", f"{text}: {todo}") if is_bad else Finding(check, "ok", text)


def _age_s(moment: datetime | None) -> float:
    return 0.0 if moment is None else max(0.0, (datetime.now(UTC) - moment).total_seconds())


async def _rows(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    return await (await connection.execute(query)).fetchall()


async def _row(connection: Connection, query: str) -> tuple[Any, ...]:
    row = await (await connection.execute(query)).fetchone()
    assert row is not None, "the query has a row"
    return row


async def _value(connection: Connection, query: str) -> Any:
    return (await _row(connection, query))[0]
