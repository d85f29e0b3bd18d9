"""Both buckets of a key, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from uuid import UUID

import pytest
from tests.api.storefront import ORDERS, Storefront
from uuid_utils.compat import uuid7

from api.errors import TooManyRequests
from api.http.rate_limits import RateLimiter

KEY = uuid7()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limiter(clock: Clock) -> Iterator[RateLimiter]:
    with closing(RateLimiter(clock=clock)) as limiter:
        yield limiter


def test_each_machine_grants_a_key_its_whole_limit(clock: Clock) -> None:
    """Decision 0105: several machines, each of which counts alone, refuse no request within the limit."""
    with closing(RateLimiter(clock=clock)) as one, closing(RateLimiter(clock=clock)) as other:
        assert [admitted(machine, 20, 0, 10) for machine in (one, other, one)] == [10, 10, 0]


def admitted(limiter: RateLimiter, times: int, per_minute: int, per_second: int) -> int:
    """How many of so many requests are let through."""
    count = 0
    for _ in range(times):
        try:
            limiter.admit(KEY, per_minute, per_second)
        except TooManyRequests:
            continue
        count += 1
    return count


def keys_in(limiter: RateLimiter) -> int:
    """How many slots of the table belong to a key."""
    table = limiter._table
    return sum(table[slot : slot + 16] != bytes(16) for slot in range(0, len(table), 32))


def values(headers: tuple[tuple[bytes, bytes], ...]) -> tuple[int, int, int]:
    found = dict(headers)
    names = (b"ratelimit-limit", b"ratelimit-remaining", b"ratelimit-reset")
    return tuple(int(found[name]) for name in names)  # type: ignore[return-value]


def test_ten_requests_in_a_second_and_no_eleventh(limiter: RateLimiter, clock: Clock):
    assert admitted(limiter, 11, 100, 10) == 10
    clock.now += 0.09
    assert admitted(limiter, 1, 100, 10) == 0
    clock.now += 0.011
    assert admitted(limiter, 2, 100, 10) == 1
    clock.now += 1
    assert admitted(limiter, 20, 100, 10) == 10


def test_a_hundred_requests_in_a_minute_and_no_more(limiter: RateLimiter, clock: Clock):
    assert admitted(limiter, 101, 100, 0) == 100
    clock.now += 0.6
    assert admitted(limiter, 2, 100, 0) == 1
    clock.now += 60
    assert admitted(limiter, 101, 100, 0) == 100


def test_both_buckets_count_at_once(limiter: RateLimiter, clock: Clock):
    through = 0
    for _ in range(20):
        through += admitted(limiter, 10, 100, 10)
        clock.now += 1
    assert 100 <= through <= 100 + 20 / 0.6


def test_a_refused_request_costs_nothing(limiter: RateLimiter, clock: Clock):
    admitted(limiter, 10, 100, 10)
    admitted(limiter, 1000, 100, 10)
    clock.now += 1
    assert admitted(limiter, 10, 100, 10) == 10


def test_zero_is_no_limit(limiter: RateLimiter):
    assert admitted(limiter, 5000, 0, 0) == 5000
    assert limiter.admit(KEY, 0, 0) == ()
    assert keys_in(limiter) == 0


def test_keys_do_not_share_their_buckets(limiter: RateLimiter):
    assert admitted(limiter, 10, 100, 10) == 10
    assert values(limiter.admit(uuid7(), 100, 10)) == (10, 9, 1)


def test_the_keys_of_a_merchant_share_twice_the_rate_of_one(limiter: RateLimiter, clock: Clock):
    merchant_id, keys = uuid7(), [uuid7() for _ in range(99)]
    for _ in range(2):
        left = [values(limiter.admit(key, 100, 10, merchant_id))[1] for key in keys[:20]]
        assert left == [min(9, 19 - n) for n in range(20)]
        for key in keys[20:]:
            with pytest.raises(TooManyRequests, match="all API keys of the merchant together") as refused:
                limiter.admit(key, 100, 10, merchant_id)
            assert values(refused.value.headers)[:2] == (20, 0)
        clock.now += 1
    assert limiter.admit(keys[0], 100, 10, uuid7()), "another merchant has buckets of its own"


def test_what_its_merchant_is_refused_costs_a_key_nothing(limiter: RateLimiter):
    merchant_id, one, other = uuid7(), uuid7(), uuid7()
    for key in (one, other):
        limiter.admit(key, 1_000, 1, merchant_id)
    third = uuid7()
    with pytest.raises(TooManyRequests):
        limiter.admit(third, 1_000, 1, merchant_id)
    assert values(limiter.admit(third, 1_000, 1)) == (1, 0, 1)


def test_a_key_and_its_merchant_have_slots_of_their_own_where_all_are_in_use(clock: Clock):
    with closing(RateLimiter(clock=clock, slots=8)) as limiter:
        for n in range(8):
            limiter.admit(UUID(int=n + 1), 100, 10)
        key, merchant_id, through = uuid7(), uuid7(), 0
        for _ in range(20):
            with suppress(TooManyRequests):
                limiter.admit(key, 100, 10, merchant_id)
                through += 1
        assert through == 10


def test_a_creation_that_is_taken_back_does_not_count(limiter: RateLimiter):
    merchant_id = uuid7()
    for _ in range(100):
        limiter.admit_new_key(merchant_id)
        limiter.return_new_key(merchant_id)
    for _ in range(60):
        limiter.admit_new_key(merchant_id)
    with pytest.raises(TooManyRequests):
        limiter.admit_new_key(merchant_id)


def test_sixty_keys_are_created_in_an_hour(limiter: RateLimiter, clock: Clock):
    merchant_id = uuid7()
    for _ in range(60):
        limiter.admit_new_key(merchant_id)
    with pytest.raises(TooManyRequests, match="may create 60 API keys in an hour") as caught:
        limiter.admit_new_key(merchant_id)
    assert caught.value.retry_after == 60
    assert limiter.admit(KEY, 100, 10, merchant_id), "its requests have buckets of their own"
    clock.now += 60
    limiter.admit_new_key(merchant_id)


def test_the_headers_tell_of_the_bucket_with_fewer_requests_left(limiter: RateLimiter, clock: Clock):
    assert values(limiter.admit(KEY, 15, 10)) == (10, 9, 1)
    admitted(limiter, 9, 15, 10)
    clock.now += 1
    assert values(limiter.admit(KEY, 15, 10)) == (15, 4, 43)


def test_a_refusal_tells_when_to_come_back(limiter: RateLimiter, clock: Clock):
    admitted(limiter, 2, 2, 0)
    with pytest.raises(TooManyRequests) as caught:
        limiter.admit(KEY, 2, 0)
    assert caught.value.retry_after == 30
    assert values(caught.value.headers) == (2, 0, 60)
    clock.now += caught.value.retry_after
    assert limiter.admit(KEY, 2, 0)


def test_a_clock_that_stands_still_or_a_long_silence_gives_no_more_than_the_limit(limiter: RateLimiter, clock: Clock):
    clock.now += 1e6
    assert admitted(limiter, 500, 100, 0) == 100


def test_the_memory_is_bounded_and_forgets_the_silent_first(clock: Clock):
    with closing(RateLimiter(clock=clock, slots=100)) as limiter:
        for _ in range(10):
            limiter.admit(KEY, 100, 10)
        for _ in range(200):
            for _ in range(10):
                limiter.admit(uuid7(), 100, 10)
            assert admitted(limiter, 1, 100, 10) == 0
        assert keys_in(limiter) == 100


def test_a_key_whose_buckets_are_full_again_makes_room_and_leaves_nothing_behind(clock: Clock):
    with closing(RateLimiter(clock=clock, slots=8)) as limiter:
        for n in range(8):
            assert values(limiter.admit(UUID(int=n + 1), 100, 10)) == (10, 9, 1)
        clock.now += 60
        for n in range(8):
            assert values(limiter.admit(UUID(int=n + 9), 100, 10)) == (10, 9, 1)
        for n in range(8):
            assert values(limiter.admit(UUID(int=n + 9), 100, 10)) == (10, 8, 1)


@pytest.mark.anyio
async def test_a_429_is_the_interfaces_body_with_the_headers(store: Storefront):
    merchant = await store.register(requests_per_minute=2, requests_per_second=0)
    first = await merchant.get(ORDERS)
    assert first.headers["ratelimit-remaining"] == "1"
    missing = await merchant.get(f"{ORDERS}/nobody")
    assert (missing.status_code, missing.headers["ratelimit-remaining"]) == (404, "0")
    answer = await merchant.get(ORDERS)
    assert answer.status_code == 429
    body = answer.json()
    assert set(body["error"]) == {"code", "message", "retryAfter"}
    assert body["error"]["code"] == body["code"] == "RATE_LIMIT_EXCEEDED"
    assert body["error"]["retryAfter"] == int(answer.headers["retry-after"]) == 30
    assert body["message"]
    assert answer.headers["ratelimit-limit"] == "2"
    assert answer.headers["ratelimit-remaining"] == "0"
    assert answer.headers["x-request-id"] == body["requestId"]


@pytest.mark.anyio
async def test_the_default_limits_are_the_interfaces(store: Storefront):
    merchant = await store.register(requests_per_minute=100, requests_per_second=10)
    answer = await merchant.get(ORDERS)
    assert (answer.headers["ratelimit-limit"], answer.headers["ratelimit-remaining"]) == ("10", "9")
