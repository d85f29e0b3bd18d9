"""SIGKILL of the postmaster alone, under load: the service stays, answers 503 meanwhile, and recovers by itself.

Restart nothing here: the service restarts the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from campaigns.chaos.clients import Ended
from campaigns.chaos.rounds import Campaign
from campaigns.chaos.service import Service

_EXPLAINED = frozenset({200, 201, 404, 409, 422, 503})


async def _kill(service: Service, _random: Random) -> None:
    service.kill_postgres()


def _only_503(around: Sequence[Ended]) -> list[str]:
    """Yields wrong answers: every request is answered, and those that cannot be executed with 503."""
    odd = Counter("nothing" if request.status is None else str(request.status) for request in around)
    for status in _EXPLAINED:
        odd.pop(str(status), None)
    return [f"{n} requests were answered with {status} while Postgres was away" for status, n in odd.items()]


KILL_POSTGRES = Campaign(
    name="kill-postgres",
    about="SIGKILL of the postmaster alone; the service restarts it",
    strike=_kill,
    expects=_only_503,
)
