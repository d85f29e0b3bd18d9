"""Commands that depend on each other share no batch: the statement judges each by the log as it was before the batch."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.journal.small_log import command

from ledger.domain.streams import ClaimKind
from ledger.journal.append import Append, Claim, ClaimTaken, Conflict, VersionConflict
from ledger.journal.commit.batch import Batch, Overtaken

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


def settled(sent: Append, result: int | Conflict, waiting: Append) -> type[Conflict] | None:
    conflict = Overtaken([sent], [result]).conflict_of(waiting)
    return None if conflict is None else type(conflict)


def test_a_command_that_waits_is_overtaken_by_what_a_batch_has_committed() -> None:
    first = command(MERCHANT, (LEFT, 3, 2))
    assert settled(first, 9, command(MERCHANT, (LEFT, 4, 1))) is VersionConflict
    assert settled(first, 9, command(MERCHANT, (RIGHT, 0, 1), (LEFT, 3, 0))) is VersionConflict, "a checked version too"
    assert settled(first, 9, command(MERCHANT, (LEFT, 5, 1))) is None, "it was decided on what is committed"
    assert settled(first, 9, command(OTHER, (LEFT, 3, 1))) is None
    assert settled(claiming("a"), 9, claiming("a")) is ClaimTaken
    assert settled(claiming("a"), 9, claiming("b")) is None
    assert settled(claiming("a"), 9, claiming("a", ClaimKind.CUSTOMER_EXTERNAL_ID)) is None
    assert settled(claiming("a"), 9, claiming("a", merchant=OTHER)) is None


def test_a_command_that_waits_is_overtaken_by_the_conflict_of_a_command_like_it() -> None:
    lost = command(MERCHANT, (LEFT, 3, 2), (RIGHT, 1, 1), claims=[Claim(ClaimKind.PRODUCT_ID, "a", LEFT)])
    outdated = VersionConflict(LEFT)
    assert settled(lost, outdated, command(MERCHANT, (LEFT, 3, 1))) is VersionConflict
    assert settled(lost, outdated, command(MERCHANT, (LEFT, 4, 1))) is None, "how much newer the stream is, is unknown"
    assert settled(lost, outdated, command(MERCHANT, (RIGHT, 1, 1))) is None, "nothing of a loser was written"
    assert settled(lost, outdated, claiming("a", ClaimKind.PRODUCT_ID)) is None
    taken = ClaimTaken(lost.claims[0])
    assert settled(lost, taken, claiming("a", ClaimKind.PRODUCT_ID)) is ClaimTaken
    assert settled(lost, taken, command(MERCHANT, (LEFT, 3, 1))) is None
    assert settled(lost, Conflict("the merchant has no log"), command(MERCHANT, (LEFT, 3, 1))) is None
