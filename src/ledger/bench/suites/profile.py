"""Where the time of a create goes: the service's own application in this process, under Python's profiler.

The profiler makes every call slower, and calls into C least. The shares show where to look; the benchmark over HTTP
shows what a create costs.
"""

from __future__ import annotations

import asyncio
import cProfile
import os
import pstats
from collections import Counter
from collections.abc import Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from msgspec.structs import replace

from ledger.bench.load import order_body
from ledger.bench.load.order_body import Way
from ledger.bench.load.processes import event_loop
from ledger.bench.measure.report import Report
from ledger.bench.measure.samples import show_progress
from ledger.bench.suites.http import new_merchant
from ledger.settings import Settings

CREATES: Final = 2_000
_IN_FLIGHT: Final = 64
_HERE: Final = Path(__file__).parents[3]
_PACKAGES: Final = "site-packages"
_PARTS: Final = (
    ("api/fields", "body: decode, check, draft"),
    ("api/orders/create.py", "body: decode, check, draft"),
    ("api/http/decoding.py", "body: decode, check, draft"),
    ("api", "request: key, limits, errors, answer"),
    ("ledger/domain/orders", "core: decide and evolve"),
    ("ledger/domain/customers", "core: decide and evolve"),
    ("ledger/personal_data.py", "journal: seal"),
    ("ledger/journal/encryption", "journal: seal"),
    ("ledger/journal", "journal: encode, pack, commit"),
    ("ledger/postgres", "journal: encode, pack, commit"),
    ("ledger/processors", "sandbox processor"),
    ("ledger/operations", "operations"),
    ("projections", "read models: render rows and answer"),
    ("ledger", "money, ids, logs"),
)
"""The part of the work that a path belongs to; the first prefix that fits counts."""


def report(url: str, settings: Settings, folder: Path, creates: int = CREATES) -> Report:
    """Returns the shares of both creates, as facts. Raises CannotRun."""
    key = new_merchant(url, folder)[1]
    settings = replace(settings, database_url=url, data_dir=folder, log_level="warning", environment="sandbox")
    facts: dict[str, str] = {}
    ways: dict[str, Way] = {"create": "pending", "create with card": "card"}
    for name, way in ways.items():
        show_progress(f"profiling: {name}")
        profile = cProfile.Profile()
        event_loop()(_drive(settings, key, creates, profile, way))
        facts |= {f"{name}, {part}": share for part, share in _shares(profile, creates)}
    return Report(
        name=f"Profile of {creates:,} creates in process, {_IN_FLIGHT} in flight", samples={}, ratios=[], facts=facts
    )


async def _drive(settings: Settings, key: str, creates: int, profile: cProfile.Profile, way: Way) -> None:
    app = import_module("api.app").create_app(settings)
    async with _lifespan(app):
        await _create(app, settings, key, _IN_FLIGHT, way)
        profile.enable()
        try:
            await _create(app, settings, key, creates, way)
        finally:
            profile.disable()


async def _create(app: Any, settings: Settings, key: str, creates: int, way: Way) -> None:
    names = iter([f"profile-{uuid4().hex}" for _ in range(creates)])

    async def client() -> None:
        for name in names:
            await _post(app, settings.base_path, key, order_body.body(name, way).encode())

    await asyncio.gather(*[client() for _ in range(_IN_FLIGHT)])


async def _post(app: Any, base_path: str, key: str, body: bytes) -> None:
    path = f"{base_path}/v2/payment-orders"
    headers = [(b"x-api-key", key.encode()), (b"content-type", b"application/json")]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 201) == 201, f"a create was answered {message}"

    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    await app({**scope, "headers": headers, "root_path": "", "http_version": "1.1", "scheme": "http"}, receive, send)


@asynccontextmanager
async def _lifespan(app: Any) -> Any:
    """Starts the application and stops it in the end, as a server would."""
    messages: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    sent: asyncio.Queue[str] = asyncio.Queue()

    async def send(message: dict[str, str]) -> None:
        sent.put_nowait(message["type"])

    running = asyncio.create_task(app({"type": "lifespan", "state": {}}, messages.get, send))
    messages.put_nowait({"type": "lifespan.startup"})
    assert await sent.get() == "lifespan.startup.complete", "the application did not start"
    try:
        yield
    finally:
        messages.put_nowait({"type": "lifespan.shutdown"})
        await running


def _shares(profile: cProfile.Profile, creates: int) -> Iterator[tuple[str, str]]:
    """Yields each part with its share of the time, and the calls of Python functions.

    C functions count for their callers.
    """
    spent: Counter[str] = Counter()
    calls = 0
    # The library documents `stats`; its stubs lack it.
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, _), (_, times, own, _, callers) in stats.items():
        if file != "~":
            spent[_part(file)] += own
            calls += times
            continue
        for (calling_file, _, _), (_, _, share, _) in callers.items():
            spent[_part(calling_file)] += share
    total = sum(spent.values())
    for part, own in spent.most_common():
        if own > total / 200:
            yield part, f"{own / total:.0%}"
    yield "Python functions called", f"{calls / creates:.0f} for each"


def _part(file: str) -> str:
    path = Path(file)
    if path.is_relative_to(_HERE):
        inside = path.relative_to(_HERE).as_posix()
        return next((name for beginning, name in _PARTS if inside.startswith(beginning)), inside)
    parts = path.parts
    if _PACKAGES in parts:
        return parts[parts.index(_PACKAGES) + 1].removesuffix(".py")
    return "event loop and standard library" if file != os.devnull else "none"
