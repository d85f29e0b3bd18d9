"""What follows from the outcomes of attempts, and which delivery may go when: without a database or a clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.background.deliveries.delivery import (
    RETRY_DELAYS,
    Delivery,
    DeliveryStatus,
    decode_attempts,
    note_attempt,
)
from ledger.background.deliveries.health import (
    AT_ONCE,
    Health,
    after_attempt,
    at_once,
    is_failing_for_days,
    next_begin,
)
from ledger.background.deliveries.lines import WAIT_MAX, Lines, next_of
from ledger.domain.webhooks.terms import Ordering
from ledger.webhooks.attempts import Attempt, Outcome

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
S = timedelta(seconds=1)
STREAM = UUID(int=1)


def delivery(sequence: int, stream: UUID = STREAM, **facts: Any) -> Delivery:
    return Delivery(
        id=UUID(int=sequence + 1000 * facts.get("is_repeat", False)),
        event_id=uuid4(),
        sequence=sequence,
        kind="x.y",
        stream_id=stream,
        **facts,
    )


def failed(sequence: int, ago_s: float, due_in_s: float) -> Delivery:
    return delivery(sequence, first_failed_at=NOW - ago_s * S, due_at=NOW + due_in_s * S)


def attempt(outcome: Outcome = Outcome.STATUS, **facts: Any) -> Attempt:
    error = None if outcome is Outcome.DELIVERED else "The receiver answered 500."
    return Attempt(at=NOW, duration_ms=7, outcome=outcome, error=error, **facts)


def test_ten_attempts_follow_the_schedule_and_the_receivers_longer_wish() -> None:
    one, now, waits = delivery(1), NOW, []
    while one.status is DeliveryStatus.PENDING:
        note_attempt(one, attempt(), now, 0.0)
        if one.due_at is not None:
            waits.append(one.due_at - now)
            now = one.due_at
    assert waits == list(RETRY_DELAYS)
    assert [w.total_seconds() for w in waits] == [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
    assert (one.status, len(one.attempts), one.first_failed_at) == (DeliveryStatus.FAILED, 10, NOW)
    assert decode_attempts(msgspec.json.encode(one.attempts)) == one.attempts
    for jitter, wish, expected in (
        (1.0, None, 5.5), (-1.0, None, 4.5), (0.0, 2, 5), (0.0, 120, 120), (1.0, 86_400, 86_400),
    ):  # fmt: skip
        one = delivery(1)
        note_attempt(one, attempt(retry_after=None if wish is None else wish * S), NOW, jitter)
        assert one.due_at == NOW + expected * S
    note_attempt(one, attempt(Outcome.DELIVERED), NOW + S, 0.0)
    assert (one.status, one.due_at, len(one.attempts)) == (DeliveryStatus.SUCCEEDED, None, 2)


@pytest.mark.parametrize(
    ("line", "default", "strict"),
    [
        ([], (None, None), (None, None)),
        ([delivery(1), delivery(2)], (1, None), (1, None)),
        ([failed(1, 10, 300), delivery(2)], (None, 50), (None, 300)),
        ([failed(1, 1, 4), delivery(2)], (None, 4), (None, 4)),
        ([failed(1, 10, 0), delivery(2)], (1, None), (1, None)),
        ([failed(1, 60, 300), delivery(2)], (2, None), (None, 300)),
        ([failed(1, 90, 300), failed(2, 10, 100), delivery(3)], (None, 50), (None, 300)),
        ([failed(1, 90, 300), failed(2, 70, 100), delivery(3)], (3, None), (None, 300)),
        ([failed(1, 90, 300), failed(2, 70, -1)], (2, None), (None, 300)),
        ([failed(1, 90, 300), failed(2, 70, 100)], (None, 100), (None, 300)),
    ],
)
def test_an_event_waits_for_an_earlier_one_of_its_stream(line: list[Delivery], default: Any, strict: Any) -> None:
    for ordering, (sequence, at_s) in ((Ordering.DEFAULT, default), (Ordering.STRICT, strict)):
        turn = next_of(line, NOW, ordering)
        assert (turn.delivery and turn.delivery.sequence) == sequence
        assert turn.at == (None if at_s is None else NOW + at_s * S)


_STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "take", "take", "end", "pass"]), st.integers(0, 9), st.booleans()), max_size=60
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=10), _STEPS, st.sampled_from(Ordering))
def test_lines_keep_the_order_in_each_stream_and_lose_nothing(
    streams: list[int], steps: list[tuple[str, int, bool]], ordering: Ordering
) -> None:
    """Any mixture of streams, outcomes, endings out of order and passing time; then all is accepted."""
    lines, now = Lines(ordering), NOW
    coming = [delivery(n, UUID(int=stream)) for n, stream in enumerate(streams)]
    everything = list(coming)
    under_way: list[Delivery] = []
    ended: set[int] = set()
    finish = [(action, 0, True) for action in ("add", "take", "end", "pass")] * 60
    for action, which, is_accepted in steps + finish:
        if action == "add" and coming:
            lines.add(coming.pop(0), now)
        elif action == "take" and (one := lines.take()) is not None:
            assert one.stream_id not in {each.stream_id for each in under_way}, "one of a stream at a time"
            assert one.due_at is None or one.due_at <= now
            for each in everything[: one.sequence]:
                if each.stream_id == one.stream_id and each.sequence not in ended:
                    assert ordering is Ordering.DEFAULT, "STRICT waits for the end of the one before"
                    assert each.first_failed_at is not None
                    assert now - each.first_failed_at >= WAIT_MAX
            under_way.append(one)
        elif action == "end" and under_way:
            one = under_way.pop(which % len(under_way))
            note_attempt(one, attempt(Outcome.DELIVERED if is_accepted else Outcome.STATUS), now, 0.0)
            if one.status is DeliveryStatus.PENDING:
                lines.wait(one, now)
            else:
                lines.end(one, now)
                ended.add(one.sequence)
        elif action == "pass":
            now = max(now + S, (lines.wakes_at or now) if is_accepted else now)
            lines.wake(now)
        assert lines.is_ready or under_way or lines.wakes_at or not len(lines), "something waits for nothing"
    assert (len(ended), len(lines)) == (len(everything), 0)


def test_new_events_go_before_repeated_ones_and_lines_that_wait_can_be_dropped() -> None:
    lines = Lines(Ordering.STRICT)
    for each in (delivery(1, is_repeat=True), delivery(2, is_repeat=True), delivery(7), delivery(5, UUID(int=2))):
        lines.add(each, NOW)
    taken = [lines.take(), lines.take(), lines.take()]
    assert [(each.sequence, each.is_repeat) for each in taken if each] == [(5, False), (7, False), (1, True)]
    assert lines.take() is None, "the second waits for the first of its stream"
    waiting = taken[0]
    assert waiting is not None
    waiting.due_at = NOW + S
    lines.wait(waiting, NOW)
    assert lines.wakes_line_at(waiting.line) == NOW + S
    assert lines.wakes_at == NOW + S
    lines.drop_asleep({waiting.id})
    assert waiting.id in lines, "its row is not there yet"
    assert lines.wakes_at == NOW + S
    lines.drop_asleep(set())
    assert waiting.id not in lines
    assert lines.wakes_at is None
    lines.wake(NOW + 2 * S)
    assert lines.take() is None


def test_an_endpoint_that_fails_is_asked_ever_less_and_after_a_success_more_each_second() -> None:
    health, real = Health(last_success_at=NOW - 9 * S), NOW
    pauses = []
    for n in range(1, 31):
        health = after_attempt(health, is_delivered=False, now=NOW + n * S, real_now=real)
        assert at_once(health) == (AT_ONCE if n < 20 else 1)
        pauses.append((next_begin(health, real, real) - real).total_seconds())
    assert pauses == [0] * 19 + [5, 10, 20, 40, 80, 160, 320, 640, 900, 900, 900]
    assert (health.failures, health.failing_since, health.last_success_at) == (30, NOW + S, NOW - 9 * S)
    health = after_attempt(health, is_delivered=True, now=NOW, real_now=real)
    assert (health.failures, health.failing_since, health.last_success_at, at_once(health)) == (0, None, NOW, AT_ONCE)
    assert next_begin(health, None, real) == real
    for later_s, wait_s in ((0, 0.1), (1, 0.05), (2.5, 0.025), (9, 1 / 5120), (10, 0)):
        at = real + later_s * S
        assert next_begin(health, at, at) - at == pytest.approx(wait_s * S, abs=timedelta(microseconds=1))
    again = after_attempt(health, is_delivered=False, now=NOW, real_now=real)
    assert next_begin(again, real, real) == real + 0.1 * S, "one failure changes nothing of the pace"


@pytest.mark.parametrize("back_s", [1, 60, 3600, 86_400])
def test_a_clock_that_is_set_back_while_an_endpoint_recovers_limits_nothing(back_s: int) -> None:
    """A limit by the time since the recovery began would be a wait of years, or a division by zero."""
    health = Health(last_success_at=NOW, recovering_since=NOW)
    assert next_begin(health, NOW, NOW + S) == NOW + S
    assert next_begin(health, NOW, NOW - back_s * S) == NOW - back_s * S


@pytest.mark.parametrize(
    ("failures", "days", "expected"),
    [(9, 9, False), (10, 4.99, False), (10, 5, True), (400, 5.5, True), (0, 9, False)],
)
def test_five_days_without_a_success_and_ten_attempts_disable(failures: int, days: float, expected: bool) -> None:
    health = Health(failures=failures, failing_since=NOW if failures else None)
    assert is_failing_for_days(health, NOW + timedelta(days=days)) is expected
