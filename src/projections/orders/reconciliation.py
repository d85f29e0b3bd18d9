"""The queries of reconciliation: the orders that moved money in a time, and the time up to which it has compared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ledger.postgres.connection import SharedClient

_TOPICS: Final = [
    "payment-captured.v1",
    "payment-refunded.v1",
    "payment-cancelled.v1",
    "late-capture-reported.v1",
    "late-refund-reported.v1",
    "settlement-listed.v1",
    "settlement-matched.v1",
    "settlement-refused.v1",
]

_SHARED: Final = UUID(int=0)

# The orders with such an event in this time. The index of times leaves out the rows of all other days.
_MOVED: Final = """
select distinct merchant_id, stream_id from event where topic = any(%s) and recorded_at >= %s and recorded_at < %s
"""

# Takes the next day, if one has passed: one worker's update finds the old time, the others wait and find none.
_TAKE: Final = """
update reconciliation r set compared_until = %(until)s from (select compared_until from reconciliation for update) o
 where o.compared_until <= %(before)s returning o.compared_until
"""

_GIVE_BACK: Final = "update reconciliation set compared_until = %s where compared_until = %s"

# An account waits since the earliest time that was not compared. The shared account of a sandbox has no merchant.
_PUT_OFF: Final = """
insert into reconciliation_waiting (merchant_id, account, since) values (%(merchant)s, %(account)s, %(since)s)
    on conflict (merchant_id, account) do update set since = least(reconciliation_waiting.since, excluded.since)
"""

# One worker takes an account for an hour: if the worker ends, another one tries the account then.
_TAKE_DUE: Final = """
update reconciliation_waiting set next_try_at = current_timestamp + interval '1 hour'
 where next_try_at <= current_timestamp returning merchant_id, account, since
"""

_CAUGHT_UP: Final = "delete from reconciliation_waiting where merchant_id = %s and account = %s"


class ReconciliationLog(SharedClient):
    """The log as reconciliation reads it. Every method raises DatabaseUnavailable."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "ledger-reconciliation")

    async def moved(self, since: datetime, until: datetime) -> Sequence[tuple[UUID, UUID]]:
        """Returns the (merchant, order) with captured, refunded or released money recorded in this time."""
        async with self.turn() as connection:
            rows = await connection.execute(_MOVED, (_TOPICS, since, until), binary=True)
            return [(merchant_id, order_id) for merchant_id, order_id in await rows.fetchall()]

    async def take_day(self, until: datetime) -> datetime | None:
        """Returns the time since which this caller compares up to `until`; None if less than a day has passed."""
        async with self.turn() as connection:
            parameters = {"until": until, "before": until - timedelta(days=1)}
            row = await (await connection.execute(_TAKE, parameters)).fetchone()
            return None if row is None else row[0]

    async def give_back(self, since: datetime, until: datetime) -> None:
        """Gives back a time that `take_day` returned and that was not compared, so that it is taken again."""
        async with self.turn() as connection:
            await connection.execute(_GIVE_BACK, (since, until))

    async def put_off(self, account: tuple[UUID | None, str], since: datetime) -> None:
        """Notes since when an account that was not reachable is not compared: it is tried again after an hour."""
        async with self.turn() as connection:
            parameters = {"merchant": account[0] or _SHARED, "account": account[1], "since": since}
            await connection.execute(_PUT_OFF, parameters)

    async def take_due(self) -> Sequence[tuple[tuple[UUID | None, str], datetime]]:
        """Takes the accounts that were put off an hour ago, each with the time since which it waits."""
        async with self.turn() as connection:
            rows = await (await connection.execute(_TAKE_DUE)).fetchall()
            return [((None if merchant == _SHARED else merchant, name), since) for merchant, name, since in rows]

    async def caught_up(self, account: tuple[UUID | None, str]) -> None:
        """Notes that an account that was put off is compared."""
        async with self.turn() as connection:
            await connection.execute(_CAUGHT_UP, (account[0] or _SHARED, account[1]))
