"""The merchant's clock, shown and moved.

The rule a stranger would break: a move is answered when everything that became due on the way has run, and then it holds for
every request to any process of the service.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from api.dependencies import Dependencies
from api.fields.durations import duration
from api.fields.values import moment
from api.http.decoding import BodyDecoder
from api.http.errors import conflicting, invalid
from api.http.request import ApiRequest
from api.http.response import ApiResponse, json_response
from api.sandbox.schemas import MoveClock
from projections.orders import formats

_decode: Final = BodyDecoder(MoveClock)


async def show(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """GET {base}/sandbox/clock: the merchant's present moment."""
    return json_response(200, {"now": formats.moment(rooms.ledger.clock.now(call.principal.merchant_id))})


async def move(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/clock: the clock is moved on and what becomes due is done; 400 where it would go back."""
    assert rooms.clocks is not None, "only the sandbox has this route"
    request = _decode(await call.body(rooms.body_limit))
    field, target = _target(request, call)
    merchant_id = call.principal.merchant_id
    moved = await rooms.ledger.complete(rooms.clocks.advance(merchant_id, field, target))
    return json_response(200, {"now": formats.moment(moved.now), "jobsRun": moved.jobs_run})


def _target(request: MoveClock, call: ApiRequest) -> tuple[str, Callable[[datetime], datetime]]:
    """The field that says where to, and where that is from a present moment. Raises Refusal (400)."""
    zone = call.principal.zone
    if request.advance_to is not None and request.advance_by is not None:
        raise conflicting("advanceTo", "advanceBy", "came together, and a clock is moved by one of the two")
    if request.advance_to is not None:
        until = moment(request.advance_to, "advanceTo", datetime.now(UTC).astimezone(zone))
        return "advanceTo", lambda _: until
    if request.advance_by is not None:
        by = duration(request.advance_by, "advanceBy")
        return "advanceBy", lambda now: by.after(now.astimezone(zone))
    raise invalid("advanceTo", "is required where advanceBy is absent", "REQUIRED")
