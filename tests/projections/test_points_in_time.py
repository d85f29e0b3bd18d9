"""Where a time is in a log whose events are not in the order of their times."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from tests.tlog.logs import append, execute

from ledger.postgres.connection import connect
from projections.as_of.points import find_position

pytestmark = pytest.mark.anyio


async def test_a_command_that_a_move_of_the_clock_overtakes_changes_no_earlier_time(database_url: str) -> None:
    """However many events the log has: the search looks at other ones of them each time."""
    merchant = uuid4()
    append(database_url, merchant, 20, at="2026-03-01T10:00:00Z")
    append(database_url, merchant, 3, at="2026-03-11T10:00:00Z")  # behind a move of ten days
    append(database_url, merchant, 2, at="2026-03-01T10:00:01Z")  # of a command that had begun before it
    execute(
        database_url, "insert into merchant_clock (merchant_id, ahead_us) values (%s, %s)", merchant, 864_000_000_000
    )
    connection = await connect(database_url, "test")
    between = datetime(2026, 3, 5, tzinfo=UTC)
    found = set()
    for _ in range(40):
        append(database_url, merchant, 1, at="2026-03-11T10:00:02Z")
        found.add((await find_position(connection, merchant, between, between)).position)
    await connection.close()
    assert found == {20}
