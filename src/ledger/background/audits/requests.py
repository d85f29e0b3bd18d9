"""Audits that merchants ask for: one at a time of each merchant."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.rejections import AuditRunning
from ledger.operations.context.audits import RequestedAudit
from ledger.postgres.connection import SharedClient

_HEAD: Final = "select position from merchant_head where merchant_id = %s"

# Inserts an audit, unless one of the merchant has not ended.
_REQUEST: Final = """
insert into audit (merchant_id, audit_id, status, created_at, due_at, events_total)
values (%(merchant_id)s, %(audit_id)s, 'QUEUED', now(), now(), %(events_total)s)
on conflict (merchant_id) where ended_at is null do nothing
returning audit_id, created_at, events_total
"""


class Audits:
    """Inserts audits, at one connection, at which requests take turns (see `operations.context.audits`)."""

    def __init__(self, url: str) -> None:
        self._client = SharedClient(url, "ledger-audits")

    async def stop(self) -> None:
        """Disconnects."""
        await self._client.stop()

    async def request(self, merchant_id: UUID) -> RequestedAudit:
        """Lets the merchant's log be audited. Raises AuditRunning, a Fault."""
        async with self._client.turn() as connection:
            head = await (await connection.execute(_HEAD, (merchant_id,))).fetchone()
            values = {
                "merchant_id": merchant_id,
                "audit_id": uuid7(),
                "events_total": 0 if head is None else head[0],
            }
            row = await (await connection.execute(_REQUEST, values)).fetchone()
        if row is None:
            raise AuditRunning("An audit of the merchant waits or runs: wait for its end, which GET /v1/audits shows.")
        audit_id, created_at, events_total = row
        return RequestedAudit(audit_id=audit_id, created_at=created_at, events_total=events_total)
