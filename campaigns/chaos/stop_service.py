"""SIGTERM under load: every accepted connection is answered, none is cut off, and the service ends in time.

A connection that could be opened counts as accepted. Only a refused connection proves that the service did not accept it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from random import Random

from campaigns.chaos.clients import Ended
from campaigns.chaos.rounds import NOTICED, RECOVERED, UNKNOWN, Campaign, Unmet
from campaigns.chaos.service import Service

_END_MAX_S = 10.0
_EXPLAINED = frozenset({200, 201, 404, 409, 422})


async def _stop_and_start(service: Service, _random: Random) -> None:
    began = time.monotonic()
    status = await asyncio.to_thread(service.stop)
    took = time.monotonic() - began
    service.spawn()
    await asyncio.to_thread(service.wait_ready)
    if status != 0 or took > _END_MAX_S:
        raise Unmet(f"its end took {took:.1f} s and it ended with {status}: {service.last_words()}")


def _every_accepted_request_is_answered(around: Sequence[Ended]) -> list[str]:
    odd = Counter(request.status for request in around if request.status not in _EXPLAINED)
    return [f"{n} requests were answered with {status or 'nothing'} while it stopped" for status, n in odd.items()]


STOP_SERVICE = Campaign(
    name="stop-service",
    about="SIGTERM under load, then a new start: each request that was accepted is answered",
    strike=_stop_and_start,
    expects=_every_accepted_request_is_answered,
    beyond=frozenset({NOTICED, UNKNOWN, RECOVERED}),
)
