"""`ledger reconcile`: compares the processor's records with the log, lists each difference, and repairs the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ledger.cli.installation import on_ledger, time_of
from ledger.cli.options import AsJson, DataDir
from ledger.cli.output import echo_json, echo_table
from ledger.settings import Settings

if TYPE_CHECKING:
    from ledger.background.reconciliation.comparison import Difference
    from ledger.operations.context.ledger import Ledger


def reconcile(
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Compare from this time on, with its offset; by default two days."),
    ] = None,
    repair: Annotated[bool, typer.Option(help="Record what the processor did and the log lacks.")] = True,
    data_dir: DataDir = None,
    json: AsJson = False,
) -> None:
    """Compare captures, refunds and voids of the processor with the log, and list every difference.

    Exits 1 if one is left. What happened in the last fifteen minutes is not compared.
    """
    from datetime import UTC, datetime, timedelta

    from ledger.background.reconciliation.reconciler import MARGIN, Reconciliation
    from ledger.operations.orders.payment_lookup import open_lookup
    from projections.orders.reconciliation import ReconciliationLog

    until = datetime.now(UTC) - MARGIN
    begin = until - timedelta(days=2) if since is None else time_of(since)

    async def compare(ledger: Ledger, settings: Settings) -> list[Difference]:
        url = settings.database_url
        assert url is not None, "the installation's settings name its database"
        async with ReconciliationLog(url) as log, open_lookup(url) as lookup:
            differences = Reconciliation(ledger, lookup.find, log.moved).differences(begin, until, repair=repair)
            return [difference async for difference in differences]

    found = on_ledger(data_dir, compare)
    if json:
        echo_json(found)
    elif found:
        rows = [
            (
                str(one.order_id or ""),
                one.idempotency_key,
                one.missing_in,
                str(one.captured or ""),
                str(one.refunded or ""),
                "yes" if one.voided else "",
                "repaired" if one.repaired else "open",
            )
            for one in found
        ]
        echo_table(("ORDER", "KEY", "MISSING IN", "CAPTURED", "REFUNDED", "VOIDED", "STATE"), rows)
    else:
        typer.echo("the processor and the log agree")
    if not all(one.repaired for one in found):
        raise typer.Exit(1)
