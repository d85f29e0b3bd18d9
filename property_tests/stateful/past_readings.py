"""The readings of a run, asked for again at its end by version and by time: each must be the same, byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
from property_tests.stateful.ledger_access import RegisteredMerchant
from property_tests.stateful.service import Service

_ASKED_AGAIN: Final = 12
"""How many of a run's readings are asked for again."""


class Reading(NamedTuple):
    """What a path answered when its order had `version` events and the log `position`."""

    path: str
    content: bytes
    version: int
    position: int


class _Place(msgspec.Struct, rename="camel"):
    as_of: str
    position: int
    version: int


def assert_read_again(
    service: Service, merchant: RegisteredMerchant, readings: list[Reading], times: list[datetime]
) -> None:
    """Asks for readings again. `times` has when each event of the log was recorded, by position.

    A time is asked for only if no later event was recorded in its millisecond.
    """
    for reading in readings[:: max(1, len(readings) // _ASKED_AGAIN)]:
        place = _assert_same(service, merchant, reading, f"version={reading.version}")
        assert (place.version, times[place.position - 1]) <= (reading.version, max(times[: reading.position]))
        then = _to_the_millisecond(max(times[: reading.position]))
        if all(_to_the_millisecond(later) > then for later in times[reading.position :]):
            place = _assert_same(service, merchant, reading, f"asOf={then.isoformat().replace('+00:00', 'Z')}")
            assert (place.version, place.position) == (reading.version, reading.position)


def _assert_same(service: Service, merchant: RegisteredMerchant, reading: Reading, query: str) -> _Place:
    answer = service.request(merchant, "GET", f"{reading.path}?{query}")
    assert answer.status == 200, answer
    place = msgspec.json.decode(answer.content, type=_Place)
    expected = b"%b,%b" % (reading.content[:-1], msgspec.json.encode(place)[1:])
    assert answer.content == expected, f"{reading.path}?{query}: {answer.content!r} instead of {expected!r}"
    return place


def _to_the_millisecond(at: datetime) -> datetime:
    at = at.astimezone(UTC)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)
