"""One limit for all processes of a service, and the installation's own limits for merchants that set none."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.api.storefront import ORDERS, Storefront, opened
from tests.metric_values import metric_value
from tests.service.trees import environment
from uuid_utils.compat import uuid7

from api.errors import TooManyRequests
from api.http import dependencies
from api.http.rate_limits import RateLimiter
from ledger.operations.merchants.registration import register_merchant
from ledger.security.api_keys import new_key
from ledger.security.secrets import Purpose, load_secrets
from ledger.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def limiters(tmp_path: Path) -> Iterator[list[RateLimiter]]:
    """Three of them on one directory, as three processes have."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(RateLimiter(str(tmp_path)))) for _ in range(3)]


def admitted(limiters: list[RateLimiter], times: int, per_minute: int, per_second: int) -> int:
    """How many of so many requests of a new key, spread over the limiters, are let through."""
    key, count = uuid7(), 0
    for n in range(times):
        with suppress(TooManyRequests):
            limiters[n % len(limiters)].admit(key, per_minute, per_second)
            count += 1
    return count


def test_the_limit_holds_for_the_sum_of_the_processes(limiters: list[RateLimiter]) -> None:
    assert admitted(limiters, 300, 50, 0) in (50, 51, 52)  # one comes back each 1.2 s
    assert admitted(limiters, 40, 50, 1000) == 40
    assert 100 <= admitted(limiters, 300, 100, 200) <= 103
    assert admitted(limiters, 300, 0, 0) == 300


def test_keys_have_buckets_of_their_own_and_none_stops_another(limiters: list[RateLimiter]) -> None:
    counts = [admitted(limiters, 60, 20, 0) for _ in range(10)]
    assert all(20 <= count <= 23 for count in counts)


def test_a_refusal_says_when_to_come_back_and_costs_nothing(limiters: list[RateLimiter]) -> None:
    key = uuid7()
    before = metric_value("ledger_http_rate_limited_total")
    first = dict(limiters[0].admit(key, 2, 0))
    second = dict(limiters[1].admit(key, 2, 0))
    assert (first[b"ratelimit-remaining"], second[b"ratelimit-remaining"]) == (b"1", b"0")
    for _ in range(5):
        with pytest.raises(TooManyRequests) as caught:
            limiters[2].admit(key, 2, 0)
        assert 25 <= caught.value.retry_after <= 30
    assert metric_value("ledger_http_rate_limited_total") - before == 5


COUNT = """
import sys
from uuid import UUID
from api.errors import TooManyRequests
from api.http.rate_limits import RateLimiter
limiter, count = RateLimiter(sys.argv[1]), 0
print("ready", flush=True)
sys.stdin.read()
for _ in range(20_000):
    try:
        limiter.admit(UUID(int=7), 12_000, 0)
    except TooManyRequests:
        continue
    count += 1
print(count)
"""


def test_no_request_is_lost_or_counted_twice_where_processes_count_at_the_same_moment(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COUNT, str(tmp_path)],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    began = time.monotonic()
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    counts = [int(process.stdout.read()) for process in processes if process.stdout is not None]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert 12_000 <= sum(counts) <= 12_000 + 200 * (time.monotonic() - began)
    assert sum(count > 0 for count in counts) > 1, "one process alone took all of them"


async def test_applications_with_several_workers_count_together(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependencies, "SHARED_DIRECTORY", str(tmp_path))
    several = replace(settings, workers=2)
    async with opened(several) as one, opened(several) as other:
        merchant = await one.register(requests_per_minute=3, requests_per_second=0)
        statuses = [
            (await client.get(ORDERS, headers=merchant.key)).status_code
            for client in (one.client, other.client, one.client, other.client)
        ]
    assert statuses == [200, 200, 200, 429]


async def test_merchants_without_limits_of_their_own_have_the_installations(settings: Settings) -> None:
    async with opened(replace(settings, requests_per_minute=7, requests_per_second=0)) as store:
        merchant = await register_without_limits(store)
        answer = await store.client.get(ORDERS, headers=merchant)
        assert answer.headers["ratelimit-limit"] == "7"
        own = await store.register(requests_per_minute=9, requests_per_second=0)
        assert (await own.get(ORDERS)).headers["ratelimit-limit"] == "9"
        free = await store.register()
        assert "ratelimit-limit" not in (await free.get(ORDERS)).headers


async def register_without_limits(store: Storefront) -> dict[str, str]:
    """The header of a merchant that never changed a setting."""
    key = new_key(store.settings.environment, load_secrets(store.settings).key(Purpose.API_KEY_PEPPER))
    await register_merchant(store.ledger, "Usual", key, settings={})
    return {"x-api-key": key.secret}
