"""`ledger payouts`: lists the refunds that their merchants have to pay out themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ledger.cli.installation import on_ledger
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import day_and_time, echo_json, echo_table
from ledger.settings import Settings

if TYPE_CHECKING:
    from uuid import UUID

    from ledger.domain.orders.state import Order
    from ledger.operations.context.ledger import Ledger
    from projections.orders.pending_payouts import PendingPayout


def payouts(
    data_dir: DataDir = None,
    json: Annotated[
        bool, json_option("[{merchantId, orderId, refundId, paymentId, amount, currency, requestedAt}]")
    ] = False,
) -> None:
    """List the refunds that wait for their merchants, who pay them out and confirm it, the oldest first."""
    from ledger.background.reactions.quarantine import UNREADABLE
    from ledger.operations.pipeline.unit_of_work import load_order
    from ledger.postgres.connection import connect
    from projections.orders.pending_payouts import pending_payouts

    async def find(ledger: Ledger, settings: Settings) -> list[PendingPayout]:
        async def load(merchant_id: UUID, order_id: UUID) -> Order | None:
            try:
                return await load_order(ledger, merchant_id, order_id)
            except UNREADABLE:
                return None  # the quarantine reports it

        assert settings.database_url is not None, "the installation's settings name its database"
        async with await connect(settings.database_url, "ledger-cli") as connection:
            return await pending_payouts(connection, load)

    found = on_ledger(data_dir, find)
    if json:
        echo_json(found)
    elif found:
        rows = [
            (
                str(one.merchant_id),
                str(one.order_id),
                str(one.refund_id),
                f"{one.currency} {one.amount}",
                day_and_time(one.requested_at),
            )
            for one in found
        ]
        echo_table(("MERCHANT", "ORDER", "REFUND", "AMOUNT (MINOR UNITS)", "REQUESTED"), rows)
    else:
        typer.echo("no refund waits for its merchant")
