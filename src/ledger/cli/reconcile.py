"""`ledger reconcile`: compares what all accounts list with the log, lists each difference, and repairs the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledger.cli.attribution import By, Reason, operator_of
from ledger.cli.installation import on_ledger, time_of
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import echo_json, echo_table
from ledger.settings import CannotRun, Settings

if TYPE_CHECKING:
    from ledger.background.reconciliation.comparison import Difference
    from ledger.background.reconciliation.reconciler import Finding
    from ledger.operations.context.ledger import Ledger

_DAYS_MAX: Final = 366


def reconcile(
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Compare from this time on, with its offset; by default two days."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Compare until before this time, with its offset; by default fifteen minutes ago."
        ),
    ] = None,
    repair: Annotated[bool, typer.Option(help="Record what the processor did and the log lacks.")] = True,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[
        bool,
        json_option(
            "[{merchantId, idempotencyKey, missingIn, captured, refunded, voided, orderId, paymentId, repaired, account, "
            "kind, inLedger, atProcessor, batchId}], with {merchantId, account, unreachable} for each account and {merchantId, "
            "orderId, unread} for each order that was not compared"
        ),
    ] = False,
) -> None:
    """Compare all accounts of all merchants with the log: captures, refunds, voids and the lines of payouts.

    Lists every difference, every account that is not reachable, and every order whose events cannot be read. Exits 1 if
    one is left. What happened in the last
    fifteen minutes is not compared, and at most 366 days are compared at once.
    """
    from datetime import UTC, datetime, timedelta

    from ledger.background.reconciliation.comparison import Difference, Unreachable, Unread
    from ledger.background.reconciliation.reconciler import MARGIN, Reconciliation
    from ledger.operations.orders.payment_lookup import open_lookup
    from projections.orders.reconciliation import ReconciliationLog

    latest = datetime.now(UTC) - MARGIN
    end = latest if until is None else min(time_of(until), latest)
    default = end - min(timedelta(days=2), end - datetime.min.replace(tzinfo=UTC))
    begin = default if since is None else time_of(since)
    if begin >= end:
        raise CannotRun(
            f"nothing to compare: {begin.isoformat()} is not before {end.isoformat()}; set an earlier --since"
        )
    if end - begin > timedelta(days=_DAYS_MAX):  # a processor is asked for each hour of the time
        raise CannotRun(f"at most {_DAYS_MAX} days are compared at once: set a later --since, or an earlier --until")

    async def compare(ledger: Ledger, settings: Settings) -> list[Finding]:
        url = settings.database_url
        assert url is not None, "the installation's settings name its database"
        async with ReconciliationLog(url) as log, open_lookup(url) as names:
            findings = Reconciliation(ledger, names, log.moved).findings(begin, end, repair=repair)
            return [finding async for finding in findings]

    found = on_ledger(data_dir, compare, operator_of("reconcile", by, reason) if repair else None)
    differences = [one for one in found if isinstance(one, Difference)]
    unreachable = [one for one in found if isinstance(one, Unreachable)]
    unread = [one for one in found if isinstance(one, Unread)]
    if json:
        echo_json(found)
    elif differences:
        headings = ("ORDER", "ACCOUNT", "KEY", "DIFFERS", "LEDGER", "PROCESSOR", "STATE")
        echo_table(headings, [_row(one) for one in differences])
    elif not (unreachable or unread):
        typer.echo("the processors and the log agree")
    for one in unreachable:
        whose = "" if one.merchant_id is None else f" of the merchant {one.merchant_id}"
        typer.echo(f"the account {one.account}{whose} was not compared: {one.unreachable}", err=True)
    for order in unread:
        typer.echo(
            f"the order {order.order_id} of the merchant {order.merchant_id} was not compared: {order.unread}", err=True
        )
    if unreachable or unread or not all(one.repaired for one in differences):
        raise typer.Exit(1)


def _row(one: Difference) -> tuple[str, ...]:
    """Returns a difference as a line of the table, each side with what it has."""
    effect = "voided" if one.voided else f"captured {one.captured}" if one.captured else f"refunded {one.refunded}"
    if one.batch_id is not None:
        effect = f"payout {one.batch_id}"
    sides = (one.in_ledger or "-", one.at_processor or "-")
    state = "repaired" if one.repaired else "open"
    return (str(one.order_id or ""), one.account, one.idempotency_key, f"{one.kind}: {effect}", *sides, state)
