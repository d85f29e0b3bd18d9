"""The commands of an account with a processor."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct

from ledger.domain.processor_accounts.terms import AccountTerms


class ConnectAccount(Struct, frozen=True, kw_only=True):
    """Connects an account whose keys the processor has accepted, changes it, or connects it again."""

    account_id: UUID
    name: str
    processor: str
    terms: AccountTerms
    at: datetime


class DisconnectAccount(Struct, frozen=True, kw_only=True):
    """Disconnects an account."""

    at: datetime


class EraseAccountKeys(Struct, frozen=True, kw_only=True):
    """Erases the keys of an account that was disconnected at least `kept` before `at`."""

    at: datetime
    kept: timedelta
