"""What the accounts with processors list otherwise than the log, over all time and in both directions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from ledger.audit.report import LISTED_MAX, Report, Violation
from ledger.background.reconciliation.comparison import Difference, Kind, Missing, Unread
from ledger.background.reconciliation.reconciler import MARGIN, Finding, Reconciliation
from ledger.operations.orders.payment_lookup import open_lookup
from ledger.postgres.connection import connect
from ledger.settings import Settings
from ledger.wiring import open_ledger
from projections.merchants import list_merchants
from projections.orders.reconciliation import ReconciliationLog

PROCESSOR: Final = "PROCESSOR"
_NAMES: Final = {Kind.AMOUNT: "amount", Kind.STATUS: "outcome", Kind.FEE: "fee", Kind.BATCH: "payout"}
_SLICE: Final = timedelta(days=31)


async def with_processors(settings: Settings, report: Report, merchant_id: UUID | None) -> Report:
    """Returns a report with the differences between the processors' records and the log. Nothing is repaired.

    Raises a Fault, psycopg.OperationalError.
    """
    url = settings.database_url
    assert url is not None, "the installation's settings name its database"
    found: list[Violation] = []
    async with open_ledger(settings) as ledger, ReconciliationLog(url) as log, open_lookup(url) as names:
        async with await connect(url, "ledger-audit") as connection:
            merchants = await list_merchants(connection)
        begin = min((each.created_at for each in merchants), default=report.snapshot_at)
        end = min(report.snapshot_at, datetime.now(UTC) - MARGIN)
        reconciliation = Reconciliation(ledger, names, log.moved)
        while begin < end:
            until = min(begin + _SLICE, end)
            async for finding in reconciliation.findings(begin, until, repair=False):
                violation = _violation(finding)
                if violation is not None and merchant_id in {None, violation.merchant_id}:
                    found.append(violation)
            begin = until
    listed = [*report.violations, *found][:LISTED_MAX]
    return replace(report, violations=listed, violations_total=report.violations_total + len(found))


def _violation(finding: Finding) -> Violation | None:
    if isinstance(finding, Unread):
        message = f"the order was not compared: {finding.unread}"
        return Violation(
            invariant=PROCESSOR, merchant_id=finding.merchant_id, order_id=finding.order_id, message=message
        )
    if not isinstance(finding, Difference):
        if finding.merchant_id is None:
            return None
        message = f"the account {finding.account} was not compared: {finding.unreachable}"
        return Violation(invariant=PROCESSOR, merchant_id=finding.merchant_id, message=message)
    return Violation(
        invariant=PROCESSOR,
        merchant_id=finding.merchant_id,
        order_id=finding.order_id,
        message=_message(finding),
        expected=finding.in_ledger,
        found=finding.at_processor,
    )


def _message(difference: Difference) -> str:
    what = f"the call under the key {difference.idempotency_key}"
    if difference.batch_id is not None:
        what = f"the line {difference.idempotency_key} of the payout {difference.batch_id}"
    if difference.kind is not Kind.MISSING:
        return f"{what} has another {_NAMES[difference.kind]} at the account {difference.account} than in the log"
    if difference.missing_in is Missing.IN_LEDGER:
        return f"the log has not {what}, which the account {difference.account} lists"
    return f"the account {difference.account} does not list {what}, which the log has"
