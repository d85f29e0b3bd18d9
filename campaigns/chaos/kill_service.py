"""SIGKILL of the whole service under load: parent, API processes and worker at once. Postgres stops with them.

Start the next service at once, as a supervisor would, and not when the old Postgres has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from campaigns.chaos.clients import Ended
from campaigns.chaos.rounds import Campaign
from campaigns.chaos.service import Service


async def _kill_and_restart(service: Service, _random: Random) -> None:
    service.kill_group()
    service.spawn()
    await asyncio.to_thread(service.wait_ready)


async def _kill_all_and_restart(service: Service, _random: Random) -> None:
    service.kill_everything()
    service.spawn()
    await asyncio.to_thread(service.wait_ready)


def _anything(_around: Sequence[Ended]) -> list[str]:
    """Returns nothing: requests to a killed service may end in any way, and the checker checks what was acknowledged."""
    return []


KILL_SERVICE = Campaign(
    name="kill-service",
    about="SIGKILL of the service's process group, then a new start on the same data directory",
    strike=_kill_and_restart,
    expects=_anything,
)
KILL_ALL = Campaign(
    name="kill-all",
    about="SIGKILL of the service's process group and of the postmaster, then a new start",
    strike=_kill_all_and_restart,
    expects=_anything,
)
