"""Carries out the audits that merchants ask for, one after the other."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

import psycopg
import structlog

from ledger.background.audits import store
from ledger.background.audits.messages import Ending, Failed, Progressed, Reason, Reported
from ledger.background.audits.process import AuditProcess, auditing
from ledger.background.audits.store import TakenAudit
from ledger.background.periodic import run_periodically
from ledger.postgres.connection import Connection, DatabaseClient
from ledger.settings import Settings

_log = structlog.get_logger()

TRIES_MAX: Final = 5
"""How many processes may begin an audit, so that one that cannot end does not take the place of the others for ever."""
_PAUSE_S: Final = 30.0
_PROGRESS_S: Final = 2.0


class AuditRunner(DatabaseClient):
    """One worker's share of the audits: it carries them out while no other worker does.

    A process that ends without a report is followed by another one, `pause_s` seconds later for each before it.
    """

    def __init__(self, settings: Settings, url: str, *, pause_s: float = _PAUSE_S) -> None:
        super().__init__(url, "ledger-audits")
        self._settings, self._pause_s = settings, pause_s

    async def run(self, stop: asyncio.Event) -> None:
        """Carries out what is due until `stop` is set, which ends the audit that has begun: it begins again later."""
        await run_periodically(lambda: self.round(stop), stop, log_waiting=_log_waiting)

    async def round(self, stop: asyncio.Event) -> None:
        """Carries out what is due. Raises a Fault of the database.

        Without the connection, another worker may have the lock: the process is ended, and its audit left to it.
        """
        async with self._connected() as connection:
            if not await store.is_due(connection) or not await store.lock(connection):
                return
            try:
                while not stop.is_set() and (audit := await store.take(connection)) is not None:
                    await self._carry_out(connection, audit, stop)
            finally:
                with suppress(psycopg.OperationalError):  # the lock has ended with the connection
                    await store.unlock(connection)

    async def _carry_out(self, connection: Connection, audit: TakenAudit, stop: asyncio.Event) -> None:
        ids = {"merchant_id": str(audit.merchant_id), "audit_id": str(audit.audit_id)}
        began = time.monotonic()
        if audit.tries > TRIES_MAX:  # each of the workers before has ended with it
            ending: Ending | None = Failed(Reason.ENDED, "the worker ended meanwhile")
        else:
            ending = await self._ending(connection, audit, stop)
        seconds = round(time.monotonic() - began, 3)
        match ending:
            case None:
                await store.give_back(connection, audit)
            case Reported(violations=0):
                await store.report(connection, audit, ending)
                _log.info("audit_clean", **ids, seconds=seconds)
            case Reported():
                await store.report(connection, audit, ending)
                _log.error("audit_violations", **ids, violations=ending.violations, seconds=seconds)
            case Failed(reason, detail):
                is_last = audit.tries >= TRIES_MAX
                if is_last:
                    await store.fail(connection, audit, _for_people(reason))
                else:
                    await store.try_again(connection, audit, self._pause_s * audit.tries)
                _log.error(
                    "audit_failed", **ids, reason=reason.value, detail=detail, tries=audit.tries, is_last=is_last
                )

    async def _ending(self, connection: Connection, audit: TakenAudit, stop: asyncio.Event) -> Ending | None:
        """Returns how a process has ended that audits, None if it was stopped. Raises psycopg.OperationalError."""
        try:
            async with auditing(self._settings, audit.merchant_id) as process:
                return await self._watched(connection, audit, process, stop)
        except OSError as refusal:  # no memory for another process, or no room for its folder
            return Failed(Reason.ENDED, f"the process could not be started: {refusal.strerror}")

    async def _watched(
        self, connection: Connection, audit: TakenAudit, process: AuditProcess, stop: asyncio.Event
    ) -> Ending | None:
        """Writes the progress of a process until it ends or `stop` is set. Returns as `_ending`."""
        ending, stopping = asyncio.create_task(process.ending()), asyncio.create_task(stop.wait())
        try:
            while not (ending.done() or stopping.done()):
                # Also without progress: the statement shows that the connection still has the lock.
                progress = process.progress or Progressed(0, audit.events_total)
                await store.write_progress(connection, audit, progress)
                await asyncio.wait([ending, stopping], timeout=_PROGRESS_S, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done() or (stop.is_set() and isinstance(ending.result(), Failed)):
                return None
            return ending.result()
        finally:
            ending.cancel()
            stopping.cancel()


def _for_people(reason: Reason) -> str:
    return f"{TRIES_MAX} times, {reason}. Tell the operator of the service, whose log has the details."


def _log_waiting(reason: str) -> None:
    _log.warning("audits_wait", reason=reason)
