"""The one reader that every query goes through: point reads that wait together become one round trip, lists have a pool.

The rule a stranger would break: the merchant of every question comes from the caller's key, never from a path or a body.
An id of another merchant is answered like one that nobody ever used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader
from projections import customers, merchants, open_calls
from projections.lists.pages import OrderQuery, page_body
from projections.lists.pool import ListPool
from projections.lists.related_customers import customers_found, customers_statement
from projections.lists.statements import page_statements
from projections.merchants import FoundKey
from projections.orders import table
from projections.orders.table import OrderRow

Key = tuple[int, Any]
"""Which of the questions below, and about what."""


class _Question(Struct, frozen=True):
    """One kind of point read: a statement that answers many of them, each of its rows beginning with which."""

    statement: str
    parameters: Callable[[Sequence[Any]], Sequence[Any]]
    answer: Callable[[Sequence[Any]], Any]


# What waits in the inbox (see `gateways.inbox`) and since when, and how many of those wait for an operator.
_WAITING_MESSAGES: Final = """
select count(*), min(received_at), count(*) filter (where next_try_at = 'infinity') from processor_message where handled_at is null
"""

_ORDER, _CUSTOMER, _API_KEY = range(3)
_QUESTIONS: Final = (
    _Question(table.FIND, table.find_parameters, table.found),
    _Question(customers.FIND, customers.find_parameters, customers.found),
    _Question(merchants.FIND_KEY, merchants.find_key_parameters, merchants.found_key),
)


class Queries:
    """Answers what is true now, over connections of its own. `start` before, `stop` after.

    Every read raises DatabaseUnavailable while the database is away, and another Fault where too many reads wait.
    """

    def __init__(self, url: str) -> None:
        self.points = DataLoader[Key, Any](url, "ledger-reads", _fetch)
        self._lists = ListPool(url)

    @property
    def alive(self) -> bool:
        """Whether point reads are being answered."""
        return self.points.alive

    async def start(self) -> None:
        """Connect. Raises psycopg.OperationalError."""
        await self.points.start()
        await self._lists.start()

    async def stop(self) -> None:
        await self.points.stop()
        await self._lists.stop()

    async def order(self, merchant_id: UUID, reference: str) -> OrderRow | None:
        """The merchant's order with this service id, else with this external id."""
        if not _storable(reference):
            return None
        found: OrderRow | None = await self.points.get((_ORDER, (merchant_id.bytes, reference)))
        return found

    async def customer(self, merchant_id: UUID, customer_id: UUID) -> bytes | None:
        """The JSON object of the merchant's customer as it stands inside an order."""
        found: bytes | None = await self.points.get((_CUSTOMER, (merchant_id.bytes, customer_id.bytes)))
        return found

    async def find_key(self, key_hash: bytes) -> FoundKey | None:
        """The API key with this keyed hash, whether it still speaks or not."""
        found: FoundKey | None = await self.points.get((_API_KEY, key_hash))
        return found

    async def open_calls(self) -> tuple[int, datetime | None]:
        """How many calls to processors have no outcome, over all merchants, and until when the oldest was to be answered."""
        ((number, oldest),) = await self._lists.rows(open_calls.COUNT, {})
        return number, oldest

    async def waiting_messages(self) -> tuple[int, datetime | None, int]:
        """How many messages of processors no order has taken in, since when (real time) the oldest waits, how many were set aside."""
        ((number, oldest, set_aside),) = await self._lists.rows(_WAITING_MESSAGES, {})
        return number, oldest, set_aside

    async def reacted_until(self) -> datetime:
        """Up to when (real time) everything that was appended has been reacted to."""
        rows: list[tuple[datetime]] = await self._lists.rows("select as_of from reaction_progress", {})
        return rows[0][0]

    async def orders(self, merchant_id: UUID, query: OrderQuery, now: datetime) -> bytes:
        """One page of the merchant's orders as the JSON that is served. `now` by the merchant's clock.

        Raises InvalidField where too many customers are related.
        """
        customers = None
        if query.customer is not None:
            customers = await self._customers(merchant_id, query.customer, related=query.related)
        statements, parameters = page_statements(merchant_id, query, now, customers)
        return page_body(query, await self._lists.first_rows(statements, parameters), now)

    async def _customers(self, merchant_id: UUID, reference: str, *, related: bool) -> list[UUID]:
        if not _storable(reference):
            return []
        return customers_found(await self._lists.rows(*customers_statement(merchant_id, reference, related=related)))


def _storable(text: str) -> bool:
    """Whether a text can stand in the database at all: one that cannot would spoil the round trip of everybody else."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


async def _fetch(connection: Connection, keys: Sequence[Key]) -> Mapping[Key, Any]:
    """Answer all keys in one round trip, with one statement for each kind among them."""
    asked: dict[int, list[Any]] = {}
    for kind, about in keys:
        asked.setdefault(kind, []).append(about)
    cursors = {kind: connection.cursor(binary=True) for kind in asked}
    if len(asked) == 1:
        await _ask(cursors, asked)
    else:
        async with connection.pipeline():
            await _ask(cursors, asked)
    found: dict[Key, Any] = {}
    for kind, cursor in cursors.items():
        abouts, answer = asked[kind], _QUESTIONS[kind].answer
        for row in await cursor.fetchall():
            found[kind, abouts[row[0]]] = answer(row)
    return found


async def _ask(cursors: Mapping[int, Any], asked: Mapping[int, Sequence[Any]]) -> None:
    for kind, cursor in cursors.items():
        question = _QUESTIONS[kind]
        await cursor.execute(question.statement, question.parameters(asked[kind]))
