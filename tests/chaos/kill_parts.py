"""SIGKILL of one API process and the worker under load: the other API process continues, and the parent replaces both.

Five deaths of children in a minute end the service, on purpose. So the campaign stops it properly before the fifth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from tests.chaos.clients import Ended
from tests.chaos.rounds import Campaign
from tests.chaos.service import Service

_STRIKES_MAX = 2


async def _kill_two(service: Service, random: Random) -> None:
    service.kill_parts(random)


async def _restart_in_time(service: Service, number: int) -> None:
    if number and number % _STRIKES_MAX == 0:
        status = service.stop()
        assert status == 0, f"a clean stop ended with {status}: {service.last_words()}"
        service.spawn()
        await asyncio.to_thread(service.wait_ready)


def _only_what_it_was_talking_to(around: Sequence[Ended]) -> list[str]:
    """Yields wrong answers: only the connections of the killed process may be reset."""
    odd = {request.status for request in around} - {None, 200, 201, 404, 409, 422}
    return [f"a request was answered with {status}, but the database was there" for status in sorted(map(str, odd))]


KILL_PARTS = Campaign(
    name="kill-parts",
    about="SIGKILL of one API process and of the worker; the parent replaces them",
    strike=_kill_two,
    expects=_only_what_it_was_talking_to,
    before=_restart_in_time,
)
