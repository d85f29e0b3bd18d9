"""The commands of operators that change something without an event: each is recorded, as an event has its operator.

Record a command before it changes anything: a row shows that a change was begun, and no change is without its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

import psycopg
from msgspec import Struct
from psycopg.rows import class_row

from ledger.journal.operator import Operator
from ledger.postgres.connection import QueryTimeout, connect

_RECORD: Final = """
insert into operator_command (command_id, operator, command, subject, reason) values (%s, %s, %s, %s, %s)
"""

# The newest commands, the newest first.
_NEWEST: Final = """
select at, operator, command, subject, reason from operator_command order by at desc limit %s
"""


class RecordedCommand(Struct, frozen=True, kw_only=True, rename="camel"):
    """A command that an operator ran. `subject` is what it was about; empty for the installation."""

    at: datetime
    operator: str
    command: str
    subject: str
    reason: str | None


async def record_command(url: str, operator: Operator, subject: str = "") -> None:
    """Records that an operator begins a command about a subject. Raises psycopg.OperationalError, also if the
    synchronous standby is away for longer than `QueryTimeout` waits.
    """
    values = (uuid4(), operator.name, operator.command, subject, operator.reason)
    async with await connect(url, "ledger-cli") as connection:
        with QueryTimeout(connection):
            await connection.execute(_RECORD, values)


async def recorded_commands(connection: psycopg.AsyncConnection[Any], limit: int) -> Sequence[RecordedCommand]:
    """Returns the newest recorded commands, the newest first. Raises psycopg.OperationalError."""
    cursor = connection.cursor(row_factory=class_row(RecordedCommand))
    return await (await cursor.execute(_NEWEST, (limit,))).fetchall()
