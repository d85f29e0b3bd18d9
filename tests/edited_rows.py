"""Changes of a merchant's rows by hand, which the program never makes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ledger.postgres.connection import connect
from ledger.postgres.merchant_transactions import MerchantTransactions


async def edit_rows(url: str, merchant_id: UUID, statement: str, *values: Any) -> None:
    """Changes the merchant's rows by hand: on Citus, on its node, because Citus refuses some of these statements."""
    async with await connect(url, "by-hand") as connection, MerchantTransactions(url, "by-hand") as transactions:
        await transactions.execute(connection, merchant_id, statement, values)
