"""The parameters `asOf` and `version` of reads: which past state of a resource is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

import msgspec

from api.decoding.field_errors import FieldErrors
from api.decoding.query import (
    SHORT_PLACE_PARAMETERS,
    Parameters,
    Place,
    described_parameters,
    parse_parameters,
    parse_place,
    parse_short_place,
    parse_whole,
)
from api.errors import conflicting, invalid
from api.fields.values import moment, with_plus_sign
from api.http.dependencies import Dependencies
from api.http.request import ApiRequest
from api.operation import Codes
from projections.as_of.points import Asked
from projections.lists.cursor import Cursor, parse_past_cursor

_VERSION_MAX: Final = 2**31 - 1

_OF_CLOCK: Final = " of the merchant's clock, to the millisecond; without an offset, in the merchant's time zone"
PARAMETERS: Final[Parameters] = {
    "asOf": (
        f"The resource as it was at this time{_OF_CLOCK}. Not together with `version`.",
        {"type": "string", "format": "date-time", "examples": ["2026-01-31T12:00:00.000Z"]},
    ),
    "version": (
        "The resource as it was after so many of its own events. Not together with `asOf`.",
        {"type": "integer", "minimum": 1, "maximum": _VERSION_MAX},
    ),
}
DESCRIBED: Final = described_parameters(PARAMETERS)
LIST_PARAMETER: Final[Parameters] = {
    "asOf": (
        f"The list as it was at this time{_OF_CLOCK}. A cursor belongs to its time.",
        PARAMETERS["asOf"][1],
    )
}
"""The parameter of a list."""
PART_PARAMETERS: Final[Parameters] = {**PARAMETERS, **SHORT_PLACE_PARAMETERS}
"""The parameters of a list of the parts of a resource."""
CODES: Final[Codes] = {400: ("CONFLICTING_FIELDS",), 404: ("VERSION_NOT_FOUND",)}
"""The codes of a read that takes both parameters."""


async def past_asked(deps: Dependencies, request: ApiRequest) -> Asked | None:
    """Returns the past state that a request asks for, None if it asks for the present. Raises ApiError (400)."""
    return await asked_in(deps, request, *parse_parameters(request.query, PARAMETERS)) if request.query else None


async def past_parts_asked(deps: Dependencies, request: ApiRequest) -> tuple[Asked | None, Place[UUID] | None]:
    """Returns the past state, as `past_asked` does, and the page of the resource's parts; None for all of them."""
    given, errors = parse_parameters(request.query, PART_PARAMETERS)
    place = parse_short_place(given, errors)
    return await asked_in(deps, request, given, errors), place


async def asked_in(
    deps: Dependencies, request: ApiRequest, given: Mapping[str, str], errors: FieldErrors
) -> Asked | None:
    """Returns what `past_asked` does, from parameters that may have further ones and errors about them. Raises ApiError
    (400), with every wrong parameter.
    """
    merchant_id = request.principal.merchant_id
    now = deps.ledger.clock.now(merchant_id)
    as_of = errors.check(parse_as_of, given, now.astimezone(request.principal.zone))
    version = errors.check(parse_whole, given, "version", 0, 1, _VERSION_MAX) or None
    if "asOf" in given and "version" in given:
        errors.add(conflicting("asOf", "version", "cannot be sent together: each names a state of the resource"))
    errors.refuse()
    if as_of is None and version is None:
        return None
    if as_of is not None:
        await refuse_future(deps, merchant_id, as_of)
    return Asked(as_of, version)


async def refuse_future(deps: Dependencies, merchant_id: UUID, as_of: datetime) -> None:
    """Raises ApiError (400) for a time in the future of the merchant's clock at which nothing is recorded yet."""
    if as_of > deps.ledger.clock.now(merchant_id) and not await deps.past.is_recorded(merchant_id, as_of):
        raise invalid("asOf", "must not be in the future", "OUT_OF_RANGE")


def parse_as_of(given: Mapping[str, str], now: datetime) -> datetime | None:
    """Returns the time `asOf` in UTC, cut to the millisecond; None if it is absent. One without an offset is in the
    time zone of `now`. Raises ApiError (400).
    """
    text = given.get("asOf")
    if text is None:
        return None
    try:
        sent = msgspec.convert(with_plus_sign(text), datetime)
    except (ValueError, msgspec.ValidationError):
        raise invalid("asOf", "must be an ISO 8601 date-time such as 2026-01-31T12:00:00Z", "INVALID_FORMAT") from None
    at = moment(sent, "asOf", now)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def parse_list_place(
    given: Mapping[str, str], as_of: datetime | None, parse_cursor: Callable[[str], Cursor | None]
) -> Place[Cursor]:
    """Returns the page that a list is asked for. Cursors of the present are read by `parse_cursor`; one of the past
    belongs to its `asOf`. `as_of` is None in a query whose `asOf` is refused. Raises ApiError (400).
    """
    if "asOf" not in given:
        return parse_place(given, parse_cursor, "must be the nextCursor of another page, sent with the asOf of that")
    of_then = partial(parse_past_cursor, as_of=as_of)
    return parse_place(given, of_then, "must be the nextCursor of another page with the same asOf")
