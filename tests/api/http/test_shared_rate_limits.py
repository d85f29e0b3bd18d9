"""One limit for all processes of an installation, and the installation's own limits for merchants that set none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace
from tests.api.storefront import ORDERS, Storefront, opened
from uuid_utils.compat import uuid7

from api.http.errors import TooManyRequests
from api.http.rate_limits import SharedRateLimiter
from ledger.operations.merchants import register_merchant
from ledger.operations.rate_limits import SharedRateLimits
from ledger.security.api_keys import new_key
from ledger.security.secrets import Purpose, load_secrets
from ledger.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def limiters(settings: Settings) -> AsyncIterator[list[SharedRateLimiter]]:
    """Three of them on one database, as three processes have."""
    assert settings.database_url is not None
    rates = [SharedRateLimits(settings.database_url) for _ in range(3)]
    for one in rates:
        await one.start()
    yield [SharedRateLimiter(one.take) for one in rates]
    for one in rates:
        await one.stop()


async def admitted(limiters: list[SharedRateLimiter], times: int, per_minute: int, per_second: int) -> int:
    """How many of so many requests of a new key, spread over the limiters and all at once, are let through."""
    merchant, key = uuid7(), uuid7()
    asking = [limiters[n % len(limiters)].admit(merchant, key, per_minute, per_second) for n in range(times)]
    answers = await asyncio.gather(*asking, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert all(isinstance(answer, TooManyRequests) for answer in refused)
    return times - len(refused)


async def test_the_limit_holds_for_the_sum_of_the_processes(limiters: list[SharedRateLimiter]) -> None:
    assert await admitted(limiters, 300, 50, 0) in (50, 51, 52)  # one comes back each 1.2 s
    assert await admitted(limiters, 40, 50, 1000) == 40
    assert 100 <= await admitted(limiters, 300, 100, 200) <= 103
    assert await admitted(limiters, 300, 0, 0) == 300


async def test_keys_have_buckets_of_their_own_and_none_stops_another(limiters: list[SharedRateLimiter]) -> None:
    counts = await asyncio.gather(*[admitted(limiters, 60, 20, 0) for _ in range(10)])
    assert all(20 <= count <= 23 for count in counts)


async def test_a_refusal_says_when_to_come_back_and_costs_nothing(limiters: list[SharedRateLimiter]) -> None:
    merchant, key = uuid7(), uuid7()
    first = dict(await limiters[0].admit(merchant, key, 2, 0))
    second = dict(await limiters[1].admit(merchant, key, 2, 0))
    assert (first[b"ratelimit-remaining"], second[b"ratelimit-remaining"]) == (b"1", b"0")
    for _ in range(5):
        with pytest.raises(TooManyRequests) as caught:
            await limiters[2].admit(merchant, key, 2, 0)
        assert 25 <= caught.value.retry_after <= 30
    assert limiters[2].refused == 5


async def test_applications_with_several_workers_count_together(settings: Settings) -> None:
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
