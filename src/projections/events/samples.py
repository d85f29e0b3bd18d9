"""A sample of each kind of public event, for a merchant that tests its endpoint.

`samples.json` has them, one a line: what a sandbox announced, without what belongs to a merchant. A new kind, and a new
member of a resource, needs a change there; the tests compare each sample with the described answer of `GET`.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.public_events.kinds import Kind, ResourceType
from projections.events.bodies import EventResourceDocument
from projections.formats import moment

_FILE: Final = "samples.json"
_MERCHANT: Final = b"00000000-0000-7000-8000-000000000000"
"""The merchant of the samples, which is replaced by the one that asks."""


class Sample(Struct, frozen=True, rename="camel"):
    """A sample of a kind. The `url` of its resource lacks the path of the service."""

    stream_version: int
    resource: EventResourceDocument
    data: Raw
    previous_status: str | UnsetType = UNSET


class _SampleEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of a sample: that of a public event without a number, marked as a test."""

    id: UUID
    type: str
    timestamp: str
    sequence: None = None
    stream_version: int
    merchant_id: UUID
    environment: str
    resource: EventResourceDocument
    previous_status: str | UnsetType = UNSET
    data: Any = UNSET
    test: Literal[True] = True


_encode: Final = msgspec.json.Encoder().encode


@cache
def samples() -> dict[str, Sample]:
    """Returns the samples by the names of their kinds."""
    found: dict[str, Sample] = msgspec.json.decode(
        files(__package__).joinpath(_FILE).read_bytes(), type=dict[str, Sample]
    )
    return found


class SampleRenderer:
    """Renders the samples of one installation, with its paths as those of `BodyRenderer`."""

    def __init__(self, environment: Literal["sandbox", "production"], base_path: str, products_path: str) -> None:
        self._environment = environment
        self._base, self._products = base_path, products_path

    def render(self, merchant_id: UUID, kind: Kind, event_id: UUID, at: datetime, *, is_thin: bool) -> bytes:
        """Returns the body of a sample of a kind. `at` is the merchant's time."""
        sample = samples()[kind.name]
        resource = sample.resource
        base = self._products if resource.type is ResourceType.PRODUCT else self._base
        data = bytes(sample.data).replace(_MERCHANT, str(merchant_id).encode())
        return _encode(
            _SampleEvent(
                id=event_id,
                type=kind.name,
                timestamp=moment(at),
                stream_version=sample.stream_version,
                merchant_id=merchant_id,
                environment=self._environment,
                resource=msgspec.structs.replace(resource, url=f"{base}{resource.url}"),
                previous_status=sample.previous_status,
                data=UNSET if is_thin else Raw(data),
            )
        )
