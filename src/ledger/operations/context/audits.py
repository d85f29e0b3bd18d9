"""How a merchant asks for an audit of its log (see `background.audits`)."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from msgspec import Struct


class RequestedAudit(Struct, frozen=True, kw_only=True):
    """An audit that waits for the worker: its id, when it was asked for, and how many events the log had then."""

    audit_id: UUID
    created_at: datetime
    events_total: int


class AuditRequests(Protocol):
    """Lets the worker audit a merchant's log."""

    async def request(self, merchant_id: UUID) -> RequestedAudit:
        """Lets the merchant's log be audited. Raises AuditRunning, a Fault."""
        ...
