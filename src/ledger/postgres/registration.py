"""The register of the processes of all services on a database, also on several machines, and their clocks.

Each process writes its own row on a connection that it has anyway. A row that is lost in a failover is written again.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final
from uuid import uuid4

import psycopg
import structlog
from msgspec import Struct

from ledger.postgres.connection import WITHOUT_WAIT, Connection, QueryTimeout, SharedClient
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.primary_search import connect_now
from ledger.settings import CannotRun
from ledger.telemetry.metrics import CLOCK_AHEAD_SECONDS, PROCESS

_log = structlog.get_logger()

BEAT_S: Final = 5.0
CLOCK_WARN_S: Final = 1.0
CLOCK_MAX_S: Final = 5.0
"""How far the clocks of a machine and of the database may be apart, in seconds, while the machine is ready."""

CLOCK: Final = "select clock_timestamp()"

# Registers a process, or updates its row.
_REGISTER: Final = """
insert into service_process (process_id, host, role, release, files, clock_ahead_s, started_at, seen_at)
values (%(process_id)s, %(host)s, %(role)s, %(release)s, %(files)s, %(clock_ahead_s)s, now(), now())
on conflict (process_id) do update set clock_ahead_s = excluded.clock_ahead_s, seen_at = excluded.seen_at
"""

_LEAVE: Final = "delete from service_process where process_id = %s"

# Forgets processes that were killed.
_FORGET: Final = "delete from service_process where seen_at < now() - interval '1 day'"

# A process that runs was seen within thirty seconds, six times as long as the pause between two updates. After a
# failover to a server with an earlier clock, those that were killed before have been seen in the future.
_RUNS: Final = "seen_at between now() - interval '30 seconds' and now() + interval '30 seconds'"

# The processes that run.
RUNNING: Final = f"""
select host, role, release, files, clock_ahead_s, started_at,
       extract(epoch from now() - seen_at)::float8
  from service_process where {_RUNS} order by host, role, started_at
"""  # noqa: S608 - constants

# How many processes run, by host, role and release.
COUNT: Final = f"""
select host, role, release, count(*)
  from service_process where {_RUNS} group by host, role, release
"""  # noqa: S608 - constants

# Where other processes that run store the files of documents, and how long ago one was seen. Where this machine's own
# processes are registered already, only processes that started before them count: of two services, one may stay.
_OTHER_FILES: Final = f"""
with running as (
  select host, files, started_at, seen_at, substring(files from '[^#]*$') = %s as is_own
    from service_process where files <> '' and {_RUNS})
select host, files, extract(epoch from now() - seen_at)::float8 from running
 where not is_own and started_at < coalesce((select min(started_at) from running where is_own), 'infinity')
 order by seen_at desc limit 1
"""  # noqa: S608 - constants


class FilesNotShared(CannotRun):
    """Two machines would store the files of documents in two places, and each would lack those of the other."""


class ClockApart(CannotRun):
    """The machine's clock is too far from the database's. It may be set right while the start waits."""

    def __init__(self, ahead_s: float) -> None:
        super().__init__(
            f"this machine's clock is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} the database's: "
            "synchronise both by NTP"
        )


class RunningProcess(Struct, frozen=True):
    """A process that runs, as it has registered itself."""

    host: str
    role: str
    release: str
    files: str
    clock_ahead_s: float
    started_at: datetime
    seen_s: float

    @property
    def files_id(self) -> str:
        """The store of its files; a folder has an id of its own, by which it is recognised on every machine."""
        return address_and_id(self.files)[1]

    @property
    def files_address(self) -> str:
        """Where its files are, for people; empty if it has named no store."""
        return address_and_id(self.files)[0]


class Registration:
    """The registration of this process, which stores the files of documents in `files` and reads archived events there
    (empty if that is its folder, and it stamps no documents).

    `clock_ahead_s` is how far this machine's clock is ahead of the database's, in seconds; negative if it is behind.
    """

    def __init__(self, client: SharedClient, files: str) -> None:
        self._client = client
        self._row = {
            "process_id": uuid4(),
            "host": socket.gethostname(),
            "role": PROCESS.partition("-")[0],
            "release": version("payment-ledger"),
            "files": files,
        }
        self._waits = False
        self.clock_ahead_s = 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps the process registered while the block runs."""
        with suppress(DatabaseUnavailable, psycopg.Error):  # the task tries again, and reports it
            await self._beat()
        task = asyncio.create_task(self._keep(), name="registration")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            with suppress(DatabaseUnavailable, psycopg.Error):
                async with self._client.turn() as connection:
                    with QueryTimeout(connection, 1.0):
                        await _execute(connection, _LEAVE, (self._row["process_id"],))

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                await self._beat()
            except (DatabaseUnavailable, psycopg.Error) as fault:
                if not self._waits:
                    _log.warning("registration_waits", reason=type(fault).__name__)
                self._waits = True
            else:
                self._waits = False

    async def _beat(self) -> None:
        """Writes the row, and measures the clock. Raises DatabaseUnavailable; psycopg.Error without a right."""
        async with self._client.turn() as connection:
            with QueryTimeout(connection):
                before = datetime.now(UTC)
                row = await (await connection.execute(CLOCK)).fetchone()
                assert row is not None, "a select without from has one row"
                self._note(ahead_s(before, row[0], datetime.now(UTC)))
                values = self._row | {"clock_ahead_s": self.clock_ahead_s}
                await _execute(connection, _REGISTER, values)
                await _execute(connection, _FORGET)

    def _note(self, clock_ahead_s: float) -> None:
        was_apart, is_apart = abs(self.clock_ahead_s) > CLOCK_MAX_S, abs(clock_ahead_s) > CLOCK_MAX_S
        if is_apart and not was_apart:
            _log.error("clock_apart", seconds=round(clock_ahead_s, 1))
        elif was_apart and not is_apart:
            _log.warning("clock_together", seconds=round(clock_ahead_s, 1))
        self.clock_ahead_s = clock_ahead_s
        CLOCK_AHEAD_SECONDS.labels(PROCESS).set(clock_ahead_s)


def address_and_id(files: str) -> tuple[str, str]:
    """Returns the address of a store as it is registered, and its id. An object store is known by its address; a folder
    has its id behind the last `#`, for its path may have one too.
    """
    address, _, id_ = files.rpartition("#")
    return address or id_, id_


async def _execute(
    connection: Connection, statement: str, values: Sequence[Any] | Mapping[str, Any] | None = None
) -> None:
    async with connection.transaction():
        await connection.execute(WITHOUT_WAIT)  # the next row is written in seconds
        await connection.execute(statement, values)


def ahead_s(before: datetime, theirs: datetime, after: datetime) -> float:
    """Returns how far this machine's clock is ahead of the database's, which read `theirs` between the two readings.

    0 if the readings leave it open.
    """
    if before > theirs:
        return (before - theirs).total_seconds()
    return (after - theirs).total_seconds() if after < theirs else 0.0


def require_clock(database_url: str) -> None:
    """Raises ClockApart if this machine's clock is more than five seconds from the database's."""
    with connect_now(database_url, autocommit=True) as connection:
        before = datetime.now(UTC)
        row = connection.execute(CLOCK).fetchone()
        assert row is not None, "a select without from has one row"
        apart = ahead_s(before, row[0], datetime.now(UTC))
    if abs(apart) > CLOCK_MAX_S:
        raise ClockApart(apart)


def require_shared_files(database_url: str, files: str) -> None:
    """Raises FilesNotShared if a service would store files in a folder while another one stores them elsewhere.

    Ask before its processes start, and once they are registered: two services that start at the same time do not see
    each other before.
    """
    if not files.startswith("file:"):
        return
    address, id_ = address_and_id(files)
    try:
        with connect_now(database_url, autocommit=True) as connection:
            other = connection.execute(_OTHER_FILES, [id_]).fetchone()
    except psycopg.OperationalError:
        return  # the database has just gone: `ledger doctor` compares the processes when they are registered again
    if other is not None:
        host, theirs, seen_s = other
        raise FilesNotShared(
            f"the invoices of this machine would be in {address}, those of {host} are in "
            f"{address_and_id(theirs)[0]}: name one object store for all machines in LEDGER_FILES_URL. If that service has "
            f"ended (it was seen {seen_s:.0f} s ago), start again in half a minute"
        )
