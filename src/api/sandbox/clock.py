"""GET and POST {base}/sandbox/clock: shows and moves the merchant's clock.

Answer a move only after everything that became due up to the time in the answer has run. That time then holds for every
request to any process of the service.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Meta, Struct

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.errors import conflicting, invalid
from api.fields.durations import duration
from api.fields.values import moment
from api.http.dependencies import Dependencies
from api.http.endpoint import READ, WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, SANDBOX, OperationSpec, codes_of
from api.response import ApiResponse, json_response
from api.sandbox.once import respond_once
from ledger.operations.context.clock import DUE_MAX, WORK_MAX_S
from projections import formats

_DURATION: Final = r"^P(?=[0-9]|T[0-9])([0-9]+Y)?([0-9]+M)?([0-9]+W)?([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,6})?S)?)?$"
_Duration = Annotated[str, Meta(max_length=64, examples=["PT72H"], extra_json_schema={"pattern": _DURATION})]


_Now = Annotated[str, Meta(description="The merchant's current time.", extra={"format": "date-time"})]


class ClockReading(Struct, rename="camel"):
    """The merchant's clock."""

    now: _Now


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET {base}/sandbox/clock: the merchant's current time."""
    return json_response(200, ClockReading(now=formats.moment(deps.ledger.clock.now(request.principal.merchant_id))))


SHOW_CLOCK: Final = ScopedOperation(
    show,
    READ,
    OperationSpec(
        name="getClock",
        summary="Read the merchant's clock",
        description="The current time of the merchant: real time, or later where the clock was moved. Sandbox only.",
        tag=SANDBOX,
        answers={200: ("The clock.", ClockReading)},
        codes=ANY,
    ),
)


class MoveClock(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The new time of the clock, by one of the two fields."""

    advance_to: Annotated[
        datetime | None, Meta(description="The time to move to. Without an offset: in the merchant's time zone.")
    ] = None
    advance_by: Annotated[
        _Duration | None,
        Meta(
            description="The duration to move by, in ISO 8601. Years, months and days are those of the "
            "merchant's calendar."
        ),
    ] = None


_decode: Final = BodyDecoder(MoveClock)


def _target(body: bytes, zone: ZoneInfo) -> tuple[str, Callable[[datetime], datetime]]:
    """Returns the field that was sent, and a function from the current time to the time to move to. Raises ApiError
    (400), with every wrong field.
    """
    sent, errors = _decode.gather(body)
    until = by = None
    with BAD_INPUT_AS_400:
        if sent.advance_to is not None:
            until = errors.check(moment, sent.advance_to, "advanceTo", datetime.now(UTC).astimezone(zone))
        if sent.advance_by is not None:
            by = errors.check(duration, sent.advance_by, "advanceBy")
    errors.refuse()
    if until is not None and by is not None:
        raise conflicting("advanceTo", "advanceBy", "cannot be sent together: send one of them")
    if until is not None:
        return "advanceTo", lambda _: until
    if by is not None:
        return "advanceBy", lambda now: by.after(now.astimezone(zone))
    raise invalid("advanceTo", "is required if advanceBy is absent", "REQUIRED")


class ClockMoved(Struct, rename="camel"):
    """The merchant's clock after a move."""

    now: _Now
    jobs_run: Annotated[int, Meta(ge=0, description="The number of jobs that became due during the move and were run.")]
    more: Annotated[
        bool,
        Meta(
            description="Whether the move ended before the time that was asked for. Then send another one with "
            "`advanceTo` as it is here, until this is false."
        ),
    ] = False
    advance_to: Annotated[
        str | None,
        Meta(
            description="The time that was asked for: the clock has reached it once `more` is false.",
            extra_json_schema={"format": "date-time"},
        ),
    ] = None


async def move(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/clock: 200 once what became due on the way has run, or the most that a move does; 400 for a
    time in the clock's past.
    """
    assert deps.clock_control is not None, "only the sandbox has this route"
    clock, body = deps.clock_control, await request.body(deps.body_limit)
    field, target = _target(body, request.principal.zone)

    async def act(_: UUID) -> ClockMoved:
        moved = await clock.advance(request.principal.merchant_id, field, target, request.is_awaited)
        return ClockMoved(
            now=formats.moment(moved.now),
            jobs_run=moved.jobs_run,
            more=moved.more,
            advance_to=formats.moment(moved.until),
        )

    return await respond_once(deps, request, body, ClockMoved, act)


MOVE_CLOCK: Final = ScopedOperation(
    move,
    WRITE,
    OperationSpec(
        name="moveClock",
        summary="Move the merchant's clock",
        description=f"""
Moves the clock of this merchant only, up to a time or by a duration. What becomes due on the way is carried out in the
order of time, each at its own time, including what becomes due as a result. The answer comes after all of it has run;
the new time then holds for every further request. The clock only moves forward; an `advanceTo` of the last minute is the
present time. Sandbox only.

A move ends after {DUE_MAX:,} due things or {WORK_MAX_S:.0f} seconds, or once its client has closed the connection; what has
begun is finished. Then the answer has `more: true` and the time that the clock has reached: send `advanceTo` from the
answer for the rest of the way. A repeated request under an `Idempotency-Key` gets the first answer.
""",
        tag=SANDBOX,
        parameters=(IDEMPOTENCY_KEY,),
        takes=MoveClock,
        examples={"threeDaysLater": {"summary": "Three days later", "value": {"advanceBy": "P3D"}}},
        answers={200: ("The new time of the clock, and the number of jobs that were run.", ClockMoved)},
        codes=codes_of(ANY, BODY, IDEMPOTENT, {409: ("CONCURRENT_UPDATE",)}),
        replays=True,
    ),
)
