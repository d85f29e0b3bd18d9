"""Commands that depend on each other share no batch: the statement judges each by the log as it was before the batch."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.journal.small_log import command

from ledger.domain.streams import ClaimKind
from ledger.journal.append import Append, Claim
from ledger.journal.commit.batch import Batch

MERCHANT, OTHER = UUID(int=1), UUID(int=2)
LEFT, RIGHT = UUID(int=3), UUID(int=4)


def share_a_batch(first: Append, second: Append) -> bool:
    batch = Batch()
    assert batch.admit(first)
    return batch.admit(second)


def claiming(key: str, kind: ClaimKind = ClaimKind.ORDER_EXTERNAL_ID, merchant: UUID = MERCHANT) -> Append:
    return command(merchant, claims=[Claim(kind, key, LEFT)])


@pytest.mark.parametrize(
    ("first", "second"),
    [((LEFT, 0, 1), (LEFT, 0, 1)), ((LEFT, 0, 1), (LEFT, 1, 0)), ((LEFT, 1, 0), (LEFT, 1, 1))],
    ids=["written twice", "written, then checked", "checked, then written"],
)
def test_a_stream_that_is_written_is_touched_by_one_command(
    first: tuple[UUID, int, int], second: tuple[UUID, int, int]
) -> None:
    assert not share_a_batch(command(MERCHANT, first), command(MERCHANT, second))
    assert share_a_batch(command(MERCHANT, first), command(OTHER, second))


def test_a_stream_may_be_checked_by_many_commands() -> None:
    assert share_a_batch(command(MERCHANT, (LEFT, 1, 0)), command(MERCHANT, (LEFT, 1, 0), (RIGHT, 0, 1)))


def test_a_key_is_claimed_by_one_command() -> None:
    assert not share_a_batch(claiming("a"), claiming("a"))
    assert share_a_batch(claiming("a"), claiming("b"))
    assert share_a_batch(claiming("a"), claiming("a", ClaimKind.CUSTOMER_EXTERNAL_ID))
    assert share_a_batch(claiming("a"), claiming("a", merchant=OTHER))
