"""The sandbox's records of what it carried out, for reconciliation: what a processor offers as a report or an API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from ledger.domain.money import SCALE, shortest
from ledger.processors.contract import ProcessorRecord
from ledger.processors.sandbox.books import owner_of
from ledger.processors.sandbox.call_executor import CallExecutor

# Captures in an authorisation's own call, and the accepted calls that move or release money: those in one book, or
# those of the account that every merchant has, which are in no opened book.
_RECORDS: Final = """
select merchant_id, idempotency_key, reference, booked_at, captured, 0::int8, false
  from sandbox_charge where captured > 0 and booked_at >= %(since)s and booked_at < %(until)s and {book}
union all
select merchant_id, idempotency_key, reference, booked_at,
       case when kind = 'CAPTURE' then moved else 0 end,
       case when kind in ('REFUND', 'PAY_OUT') then moved else 0 end,
       kind = 'VOID'
  from sandbox_call
 where accepted and kind in ('CAPTURE', 'REFUND', 'PAY_OUT', 'VOID') and booked_at >= %(since)s and booked_at < %(until)s
   and {book}
 order by 4, 2
"""


_OF_ONE_BOOK: Final = _RECORDS.format(book="merchant_id = %(book)s")
_OF_THE_OTHERS: Final = _RECORDS.format(book="merchant_id not in (select book_id from sandbox_account)")


async def records(
    executor: CallExecutor, since: datetime, until: datetime, book_id: UUID | None = None
) -> AsyncIterator[ProcessorRecord]:
    """Yields what was carried out in this time, the oldest first: in one book, or for all merchants' `sandbox`.

    Raises ProcessorTimedOut or ProcessorUnavailable.
    """
    async with (
        executor.connection() as connection,
        connection.transaction(),
        connection.cursor("records") as cursor,
    ):
        owner = None if book_id is None else await owner_of(connection, book_id)
        statement = _OF_THE_OTHERS if book_id is None else _OF_ONE_BOOK
        await cursor.execute(statement, {"since": since, "until": until, "book": book_id})
        async for merchant_id, key, reference, recorded_at, captured, refunded, voided in cursor:
            yield ProcessorRecord(
                merchant_id=merchant_id if owner is None else owner.merchant_id,
                idempotency_key=key,
                processor_reference=reference,
                recorded_at=recorded_at,
                captured=shortest(Decimal(captured) / SCALE),
                refunded=shortest(Decimal(refunded) / SCALE),
                voided=voided,
            )
