"""Audits of the installations that tests make."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.sealing import MASTER_KEY

from ledger.audit.auditor import audit
from ledger.audit.report import Report
from ledger.settings import Settings


def settings_of(url: str) -> Settings:
    """Returns the settings of a test's installation. Its owner reads the vault too."""
    return Settings(database_url=url, database_vault_url=url, master_key=MASTER_KEY)


def audit_of(url: str, merchant_id: UUID | None = None, **options: Any) -> Report:
    return audit(settings_of(url), url, merchant_id, **options)


def wrong_in(report: Report) -> list[str]:
    """Returns the violations of a report, each as a line."""
    return [
        f"{each.invariant} {each.table or ''} {each.column or ''} {each.message} {each.expected} {each.found}"
        for each in report.violations
    ]
