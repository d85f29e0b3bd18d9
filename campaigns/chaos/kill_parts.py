"""SIGKILL of one API process and the worker under load: the other API process continues, and the parent replaces both."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from campaigns.chaos.clients import Ended
from campaigns.chaos.rounds import Campaign
from campaigns.chaos.service import Service


async def _kill_two(service: Service, random: Random) -> None:
    service.kill_parts(random)


def _only_what_it_was_talking_to(around: Sequence[Ended]) -> list[str]:
    """Yields wrong answers: only the connections of the killed process may be reset."""
    odd = {request.status for request in around} - {None, 200, 201, 404, 409, 422}
    return [f"a request was answered with {status}, but the database was there" for status in sorted(map(str, odd))]


KILL_PARTS = Campaign(
    name="kill-parts",
    about="SIGKILL of one API process and of the worker; the parent replaces them",
    strike=_kill_two,
    expects=_only_what_it_was_talking_to,
)
