"""The audits in the database, and the lock of the worker that carries them out.

Call `take` and what follows it only with the lock, on the connection that has it: an audit that is RUNNING was then
left by a worker that has ended.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.background.audits.messages import Progressed, Reported
from ledger.postgres.connection import Connection

KEPT: Final = 100
"""How many audits of a merchant are kept: the newest ones."""

_LOCK: Final = 0xA0D175

_IS_DUE: Final = "select exists (select from audit where ended_at is null and due_at <= now())"

# Takes the audit that has been due for longest.
_TAKE: Final = """
update audit set status = 'RUNNING', tries = tries + 1, events = 0
 where (merchant_id, audit_id) = (
   select merchant_id, audit_id from audit where ended_at is null and due_at <= now() order by due_at, audit_id limit 1)
returning merchant_id, audit_id, tries, events_total
"""
_PROGRESS: Final = """
update audit set events = %(events)s, events_total = %(events_total)s
 where merchant_id = %(merchant_id)s and audit_id = %(audit_id)s
"""
# Gives an audit back that was stopped with its worker: it was no try.
_GIVE_BACK: Final = """
update audit set status = 'QUEUED', tries = tries - 1, events = 0
 where merchant_id = %(merchant_id)s and audit_id = %(audit_id)s
"""
# Lets an audit be tried again later: those that wait come before it.
_TRY_AGAIN: Final = """
update audit set status = 'QUEUED', events = 0, due_at = now() + make_interval(secs => %(pause_s)s)
 where merchant_id = %(merchant_id)s and audit_id = %(audit_id)s
"""
_REPORT: Final = """
update audit set status = %(status)s, ended_at = now(), events = %(events)s,
                 events_total = greatest(events_total, %(events)s), violations = %(violations)s, report = %(report)s
 where merchant_id = %(merchant_id)s and audit_id = %(audit_id)s
"""
_FAIL: Final = """
update audit set status = 'FAILED', ended_at = now(), failure = %(failure)s
 where merchant_id = %(merchant_id)s and audit_id = %(audit_id)s
"""
_DELETE_OLD: Final = """
delete from audit where merchant_id = %(merchant_id)s and ended_at is not null and (created_at, audit_id) <= (
  select created_at, audit_id from audit where merchant_id = %(merchant_id)s
   order by created_at desc, audit_id desc offset %(kept)s limit 1)
"""


class TakenAudit(Struct, frozen=True):
    """An audit that a worker has taken. `tries` is how many processes have begun it, with the one that is to come."""

    merchant_id: UUID
    audit_id: UUID
    tries: int
    events_total: int

    @property
    def key(self) -> dict[str, Any]:
        return {"merchant_id": self.merchant_id, "audit_id": self.audit_id}


async def is_due(connection: Connection) -> bool:
    """Returns whether an audit may begin."""
    row = await (await connection.execute(_IS_DUE)).fetchone()
    return row == (True,)


async def lock(connection: Connection) -> bool:
    """Takes the lock of the one worker that audits, which the connection then has to its end. Returns whether it was
    free.
    """
    row = await (await connection.execute("select pg_try_advisory_lock(%s)", (_LOCK,))).fetchone()
    return row == (True,)


async def unlock(connection: Connection) -> None:
    """Gives the lock back."""
    await connection.execute("select pg_advisory_unlock(%s)", (_LOCK,))


async def take(connection: Connection) -> TakenAudit | None:
    """Takes the audit that has been due for longest, None if none is due."""
    row = await (await connection.execute(_TAKE)).fetchone()
    return None if row is None else TakenAudit(*row)


async def write_progress(connection: Connection, audit: TakenAudit, progress: Progressed) -> None:
    """Writes how far an audit is."""
    values = {"events": progress.events, "events_total": progress.events_total}
    await connection.execute(_PROGRESS, audit.key | values)


async def give_back(connection: Connection, audit: TakenAudit) -> None:
    """Lets the next worker begin an audit again that was stopped with this one."""
    await connection.execute(_GIVE_BACK, audit.key)


async def try_again(connection: Connection, audit: TakenAudit, pause_s: float) -> None:
    """Lets an audit begin again after so many seconds, behind those that wait."""
    await connection.execute(_TRY_AGAIN, audit.key | {"pause_s": pause_s})


async def report(connection: Connection, audit: TakenAudit, ending: Reported) -> None:
    """Writes the report of an audit, and deletes the merchant's old ones."""
    status = "VIOLATIONS" if ending.violations else "CLEAN"
    values = {
        "status": status,
        "events": ending.events,
        "violations": ending.violations,
        "report": bytes(ending.report),
    }
    async with connection.transaction():
        await connection.execute(_REPORT, audit.key | values)
        await _delete_old(connection, audit.merchant_id)


async def fail(connection: Connection, audit: TakenAudit, failure: str) -> None:
    """Ends an audit without a report, for a reason for people, and deletes the merchant's old ones."""
    async with connection.transaction():
        await connection.execute(_FAIL, audit.key | {"failure": failure})
        await _delete_old(connection, audit.merchant_id)


async def _delete_old(connection: Connection, merchant_id: UUID) -> None:
    await connection.execute(_DELETE_OLD, {"merchant_id": merchant_id, "kept": KEPT})
