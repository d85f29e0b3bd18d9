"""Whether the process lives, and whether it can serve: for load balancers and operators, without a key.

The rule a stranger would break: *ready* asks the database, because a connection that looks open may lead nowhere.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from api.dependencies import DependencyHolder
from api.http.errors import method_not_allowed
from api.http.middleware import REQUEST_SCOPE_KEY
from api.http.response import ApiResponse, json_response, send_response
from ledger.postgres.faults import Fault

_PATIENCE_S: Final = 2.0
_BEHIND_MAX: Final = timedelta(seconds=60)
"""Reactions look everywhere every two seconds: so far behind, none is running, or it cannot keep up."""
_NO_KEY: Final = bytes(32)


def live() -> ASGIApp:
    """GET /health/live: the process answers."""
    return _Probe(None)


def ready(house: DependencyHolder) -> ASGIApp:
    """GET /health/ready: the database answers, the journal writes, the reactions are not behind; else 503."""
    return _Probe(house)


class _Probe:
    def __init__(self, house: DependencyHolder | None) -> None:
        self._house = house

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed("GET", "HEAD")
        answer = json_response(200, {"status": "live"}) if self._house is None else await _readiness(self._house)
        await send_response(answer, send, scope[REQUEST_SCOPE_KEY].answer_headers)


async def _readiness(house: DependencyHolder) -> ApiResponse:
    checks = {"database": False, "writer": False, "reactions": False}
    if house.rooms is not None:
        checks["writer"] = house.rooms.ledger.journal.alive
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await house.rooms.reader.find_key(_NO_KEY)
                behind = datetime.now(UTC) - await house.rooms.reader.reacted_until()
            checks["database"] = True
            checks["reactions"] = behind < _BEHIND_MAX
        except (Fault, TimeoutError):
            pass
    is_ready = all(checks.values())
    return json_response(200 if is_ready else 503, {"status": "ready" if is_ready else "not ready", "checks": checks})
