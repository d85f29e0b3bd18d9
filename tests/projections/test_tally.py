"""What a change of an order adds to the counters."""

from __future__ import annotations

from datetime import date, timedelta
from uuid import UUID

from tests.domain.builders import NOON, authorization_requested, created, declined, folded, paid, started, unanswered

from projections.binary import days
from projections.lists.tally import moves

MERCHANT = UUID(int=5)
TODAY = days(date(2026, 1, 31))


def test_a_new_order_is_counted_once_in_its_status() -> None:
    assert moves(MERCHANT, None, folded((created(),))) == [(MERCHANT.bytes, TODAY, b"PENDING", 1)]


def test_an_order_that_is_created_and_paid_at_once_is_counted_in_its_final_status() -> None:
    order = folded((created(pending=False), *paid(1, 10_000)))
    assert moves(MERCHANT, None, order) == [(MERCHANT.bytes, TODAY, b"COMPLETED", 1)]


def test_a_status_change_lowers_one_counter_and_raises_another() -> None:
    before = (created(), started(1, 10_000), authorization_requested(1, 10_000))
    assert moves(MERCHANT, folded(before), folded((*before, declined(1)))) == [
        (MERCHANT.bytes, TODAY, b"PROCESSING", -1),
        (MERCHANT.bytes, TODAY, b"FAILED", 1),
    ]


def test_a_change_that_keeps_the_status_changes_no_counter() -> None:
    before = (created(), started(1, 10_000), authorization_requested(1, 10_000))
    assert moves(MERCHANT, folded(before), folded((*before, unanswered(1)))) == []


def test_the_day_is_the_utc_day_of_creation_at_any_time_of_the_change() -> None:
    midnight = NOON.replace(hour=0)
    for at, day in ((midnight, TODAY), (midnight - timedelta(microseconds=1), TODAY - 1)):
        before = folded((created(at=at),))
        after = folded((created(at=at), *paid(1, 10_000)))
        assert {move[1] for move in moves(MERCHANT, before, after)} == {day}
