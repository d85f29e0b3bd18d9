"""`python -m campaigns.fake_processor.service PORT`: the service, with the fake processor instead of the sandbox.

The product has no setting for this. This module replaces the name under which the service's processes find the sandbox
processor. FAKE_PROCESSOR_PORT is the port of the fake processor. It fences keys if FAKE_PROCESSOR_FENCES is set.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from campaigns.chaos.running import Running
from campaigns.chaos.service import Service
from campaigns.fake_processor.client import FakeCards
from ledger import wiring
from ledger.service.supervisor import ProcessPlan, serve
from ledger.settings import Settings, read_settings

PORT = "FAKE_PROCESSOR_PORT"
FENCES = "FAKE_PROCESSOR_FENCES"
_HERE = "campaigns.fake_processor.service"


def create_app(settings: Settings) -> Any:
    """Creates the API, in its child process."""
    _use_the_fake(settings)
    from api.app import create_app as make

    return make(settings)


async def run(settings: Settings, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Runs the worker, in its child process."""
    _use_the_fake(settings)
    from ledger.background.worker import run as work

    await work(settings, ready, stop)


def _use_the_fake(settings: Settings) -> None:
    assert settings.environment == "sandbox", "the fake processor is only for sandbox environments"
    made = partial(FakeCards, port=int(os.environ[PORT]), can_fence=FENCES in os.environ)
    vars(wiring)["SandboxProcessor"] = made


class FakedService(Service):
    """`ledger serve` under test, with cards charged by the fake processor at `fake_port`."""

    def __init__(self, fake_port: int, *, can_fence: bool = False, **given: Any) -> None:
        super().__init__(**given)
        self._environ = {**self._environ, PORT: str(fake_port), **({FENCES: "yes"} if can_fence else {})}

    def spawn(self) -> None:
        assert self._running is None or not self._running.runs, "it runs already"
        command = [sys.executable, "-P", "-m", _HERE, str(self.port)]
        self._running = Running(command, self._environ, self._log)


def fake_processor(record: Path, log: Path, environment: dict[str, str], *options: str) -> Running:
    """Starts the fake processor in a process of its own."""
    command = [sys.executable, "-P", "-m", "campaigns.fake_processor", "--record", str(record), *options]
    return Running(command, environment, log)


if __name__ == "__main__":
    tree = ProcessPlan(name="ledger serve", api=f"{_HERE}:create_app", worker=f"{_HERE}:run")
    sys.exit(serve(read_settings(os.environ, port=int(sys.argv[1])), tree))
