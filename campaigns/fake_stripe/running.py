"""Starts the fake, in a process of its own or in a thread of this one, and asks it for what tests may do."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from campaigns.chaos.running import Running, environ

_START_S = 60.0


def fake_stripe(record: Path, log: Path, *options: str) -> Running:
    """Starts the fake of Stripe. Use it in a `with` block; `wait_ready` returns its address."""
    command = [sys.executable, "-P", "-m", "campaigns.fake_stripe", "--record", str(record), *options]
    return Running(command, environ({}), log)


@contextmanager
def fake_stripe_here(seed: int = 1) -> Iterator[str]:
    """Runs the fake in a thread of this process, without a file, and yields its address. It starts faster than a process."""
    from campaigns.fake_stripe.__main__ import serving

    started, addresses = threading.Event(), list[str]()

    def ready(address: str) -> None:
        addresses.append(address)
        started.set()

    server = serving(None, ["fake"], seed=seed, ready=ready)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), name="fake-of-stripe", daemon=True)
    thread.start()
    try:
        assert started.wait(_START_S), "the fake of Stripe did not start"
        yield addresses[0]
    finally:
        server.should_exit = True
        thread.join()


def control(address: str, name: str, given: Any = None, method: str = "POST") -> Any:
    """Calls a control, such as `clock`, and returns its answer. Raises HTTPError for a wrong one."""
    body = json.dumps({} if given is None else given).encode()
    with urlopen(Request(f"{address}/_test/{name}", body, method=method)) as answer:
        return json.load(answer)
