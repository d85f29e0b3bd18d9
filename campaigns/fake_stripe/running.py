"""Starts the fake in a process of its own, and asks it for what tests may do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from campaigns.chaos.running import Running, environ


def fake_stripe(record: Path, log: Path, *options: str) -> Running:
    """Starts the fake of Stripe. Use it in a `with` block; `wait_ready` returns its address."""
    command = [sys.executable, "-P", "-m", "campaigns.fake_stripe", "--record", str(record), *options]
    return Running(command, environ({}), log)


def control(address: str, name: str, given: Any = None, method: str = "POST") -> Any:
    """Calls a control, such as `clock`, and returns its answer. Raises HTTPError for a wrong one."""
    body = json.dumps({} if given is None else given).encode()
    with urlopen(Request(f"{address}/_test/{name}", body, method=method)) as answer:
        return json.load(answer)
