"""Reads of rows of several merchants by one statement.

On Citus such a statement would ask every node. There, the keys of each merchant have a statement of their own, which
names the merchant: its node alone is asked, and a node that is down leaves the other merchants their rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus

from ledger.postgres.connection import Connection
from ledger.postgres.faults import DatabaseUnavailable

Parameters = Callable[[Sequence[int]], Sequence[Any]]
"""Returns the columns of keys, whose numbers they begin with, by their numbers."""


async def rows_of_merchants(
    connection: Connection, statement: str, merchants: Sequence[bytes], parameters: Parameters
) -> tuple[Sequence[tuple[Any, ...]], Mapping[int, DatabaseUnavailable]]:
    """Returns the rows of a statement for keys of these merchants, each of which begins with the number of its key; and
    the faults of the keys whose node cannot be reached, by their numbers.

    The statement names the merchant of a key `q.merchant_id`. Raises psycopg.Error.
    """
    if not connection.has_citus:
        cursor = await connection.cursor(binary=True).execute(statement, parameters(range(len(merchants))))
        return await cursor.fetchall(), {}
    numbers_of: dict[bytes, list[int]] = {}
    for number, merchant_id in enumerate(merchants):
        numbers_of.setdefault(merchant_id, []).append(number)
    try:
        return await _rows(connection, statement, numbers_of, parameters), {}
    except (psycopg.OperationalError, psycopg.InternalError) as fault:
        if len(numbers_of) == 1 or not _can_go_on(connection):
            raise
        return await _rows_one_by_one(connection, statement, numbers_of, parameters, fault)


async def _rows_one_by_one(
    connection: Connection,
    statement: str,
    numbers_of: Mapping[bytes, Sequence[int]],
    parameters: Parameters,
    first: Exception,
) -> tuple[Sequence[tuple[Any, ...]], Mapping[int, DatabaseUnavailable]]:
    """Returns what `rows_of_merchants` does, after it met the fault `first` with all merchants together."""
    rows, faults = list[tuple[Any, ...]](), dict[int, DatabaseUnavailable]()
    for merchant_id, numbers in numbers_of.items():
        try:
            rows += await _rows(connection, statement, {merchant_id: numbers}, parameters)
        except (psycopg.OperationalError, psycopg.InternalError) as fault:
            if not _can_go_on(connection):
                raise
            faults |= dict.fromkeys(numbers, DatabaseUnavailable(type(fault).__name__))
    if not rows and len(faults) == sum(map(len, numbers_of.values())):
        raise first
    return rows, faults


async def _rows(
    connection: Connection, statement: str, numbers_of: Mapping[bytes, Sequence[int]], parameters: Parameters
) -> list[tuple[Any, ...]]:
    """Returns the rows of keys of these merchants, in one round trip."""
    cursors, named = [], _naming_its_merchant(statement)
    async with connection.pipeline() if len(numbers_of) > 1 else nullcontext():
        for merchant_id, numbers in numbers_of.items():
            values = {f"c{n}": column for n, column in enumerate(parameters(numbers))}
            values["merchant_id"] = UUID(bytes=merchant_id)
            cursors.append(await connection.cursor(binary=True).execute(named, values))
    return [row for cursor in cursors for row in await cursor.fetchall()]


def _can_go_on(connection: Connection) -> bool:
    """Returns whether a connection on which a statement has failed can take another one."""
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE


@cache
def _naming_its_merchant(statement: str) -> str:
    numbers = count()
    named = re.sub("%s", lambda _: f"%(c{next(numbers)})s", statement)
    return named.replace("q.merchant_id", "%(merchant_id)s")
