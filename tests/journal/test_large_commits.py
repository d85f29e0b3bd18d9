"""The writer of large commits: it is replaced once it has ended, and makes no connection after the journal's stop."""

from __future__ import annotations

from functools import partial

import pytest
from tests.journal.small_log import SEEN, assert_log_is_whole, command, open_log, open_writer
from uuid_utils.compat import uuid7

from ledger.journal.commit.large_commits import LargeCommits
from ledger.journal.commit.shard_writers import ShardWriters
from ledger.journal.commit.writer import Writer
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = pytest.mark.anyio


async def test_a_writer_that_has_ended_is_replaced(log_url: str) -> None:
    merchant, made = open_log(log_url), list[Writer | ShardWriters]()

    def new_writer() -> Writer | ShardWriters:
        made.append(open_writer(log_url))
        return made[-1]

    large = LargeCommits(new_writer)
    for position in (1, 2):
        assert await (await large.submit(command(merchant, (uuid7(), 0, 1)))) == position
    await made[0].stop()
    assert await (await large.submit(command(merchant, (uuid7(), 0, 1)))) == 3
    assert len(made) == 2
    await large.stop()
    assert_log_is_whole(log_url)


async def test_nothing_is_committed_after_the_stop(log_url: str) -> None:
    merchant = open_log(log_url)
    large = LargeCommits(partial(Writer, log_url, [SEEN]))
    await large.stop()
    with pytest.raises(DatabaseUnavailable):
        await large.submit(command(merchant, (uuid7(), 0, 1)))
