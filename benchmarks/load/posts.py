"""The limit of deliveries: a bare `aiohttp` client that posts bodies to a receiver.

Never tune it: it is what `aiohttp` costs for these requests, without signatures, addresses to check or outcomes to keep.
"""

from __future__ import annotations

import asyncio
import time
from itertools import cycle

import aiohttp
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.load.processes import Go, work
from benchmarks.measure.samples import Sample, sample


class PostPlan(Struct, frozen=True, kw_only=True):
    """Posts of these bodies in turn to `url`, for `seconds` after `warm_up_s`, so many at once."""

    url: str
    bodies: list[str]
    in_flight: int
    seconds: float
    warm_up_s: float = 0.3


async def run(plan: PostPlan, go: Go) -> Sample:
    """Does what the plan describes."""
    bodies = cycle([each.encode() for each in plan.bodies])
    latencies: list[float] = []
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Content-Type": "application/json"},
    ) as session:
        go()
        begins_at = time.perf_counter() + plan.warm_up_s
        ends_at = begins_at + plan.seconds

        async def post_until_the_end() -> None:
            while (began := time.perf_counter()) < ends_at:
                async with session.post(plan.url, data=next(bodies)) as response:
                    response.raise_for_status()
                    await response.read()
                ended = time.perf_counter()
                if begins_at <= ended <= ends_at:
                    latencies.append(ended - began)

        used = time.process_time()
        await asyncio.gather(*[post_until_the_end() for _ in range(plan.in_flight)])
        used = time.process_time() - used
    return replace(sample(latencies, plan.seconds, cpu_s=used), ended=len(latencies))


if __name__ == "__main__":
    work(PostPlan, run)
