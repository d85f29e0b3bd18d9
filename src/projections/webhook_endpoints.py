"""The rows of merchants' webhook endpoints, without their secrets, and the endpoints as they are answered.

A row has the endpoint's state, of which the answer is made when it is read. The row of a deleted endpoint stays, for
the numbers of endpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ledger.domain.webhooks.state import WebhookEndpoint
from ledger.domain.webhooks.terms import DisabledReason, EndpointStatus, Ordering, Payload
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection
from projections.binary import from_micros, micros
from projections.formats import Moment, moment, moment_or_null
from projections.lists.paging import Pagination

_DELETED: Final = b"DELETED"

# Writes the endpoint's row as it is after the commit. Its number and the time of its creation never change.
_WRITE: Final = """
insert into webhook_endpoint (merchant_id, endpoint_id, version, number, status, from_version, created_at, state)
select merchant_id, endpoint_id, version, number, status, from_version, created_at, state from {rows}
on conflict (merchant_id, endpoint_id) do update set
  version = excluded.version, status = excluded.status, from_version = excluded.from_version, state = excluded.state
"""

TABLE: Final = InlineTable(
    "webhook_endpoint",
    (
        ("merchant_id", "uuid"),
        ("endpoint_id", "uuid"),
        ("version", "int4"),
        ("number", "int4"),
        ("status", "text"),
        ("from_version", "int4"),
        ("created_at", "timestamptz"),
        ("state", "bytea"),
    ),
    _WRITE,
    is_rare=True,
)

# The number of a merchant's last public event before an event of a stream. What the worker posts is numbered lately, so
# few events are after it.
_SEQUENCE_AT: Final = """
select p.sequence from event v join public_event p on p.merchant_id = v.merchant_id and p.until_position <= v.position
 where v.merchant_id = {merchant_id} and v.stream_id = {stream_id} and v.version = {version}
 order by p.sequence desc limit 1
"""
_OF_ENDPOINT: Final = _SEQUENCE_AT.format(
    merchant_id="e.merchant_id", stream_id="e.endpoint_id", version="e.from_version"
)
_OF_VERSION: Final = _SEQUENCE_AT.format(merchant_id="%s", stream_id="%s", version="%s")

# The number of the last public event that was looked at for an endpoint: the worker's, else where it will begin.
_LOOKED_AT: Final = """
case when c.sequence is not null
      and c.origin >= (select position from event v where v.merchant_id = e.merchant_id and v.stream_id = e.endpoint_id
                                                      and v.version = e.from_version)
     then c.sequence else greatest(c.sequence, ({begins}), 0) end
"""
_SEQUENCE: Final = _LOOKED_AT.format(begins=_OF_ENDPOINT)

# The endpoints of merchants with how far the worker is, each merchant's oldest first. A row begins with the number of
# its key.
_PAGES: Final = """
select q.n, array_agg(e.state order by e.number), array_agg({sequence} order by e.number),
       array_agg((extract(epoch from c.last_success_at - timestamptz '2000-01-01Z') * 1000000)::int8 order by e.number),
       array_agg(coalesce(c.failures_in_a_row, 0) order by e.number)
  from unnest(%s::int4[], %s::uuid[]) as q(n, merchant_id)
  join webhook_endpoint e on e.merchant_id = q.merchant_id and e.status <> 'DELETED'
  left join webhook_cursor c on c.merchant_id = e.merchant_id and c.endpoint_id = e.endpoint_id
 group by q.n
"""
FIND: Final = _PAGES.format(sequence=_SEQUENCE)

# How far the worker is with one of them, and what that means: in two statements, because on Citus only the first one is
# about a table of the coordinator.
_CURSOR: Final = "select sequence, origin from webhook_cursor where merchant_id = %s and endpoint_id = %s"
_ONE: Final = """
select {sequence} from webhook_endpoint e cross join (select %s::int8 as sequence, %s::int8 as origin) c
 where e.merchant_id = %s and e.endpoint_id = %s
"""
_LAST_SEQUENCE: Final = _ONE.format(sequence=_SEQUENCE)

# How many endpoints a merchant has, and the number of the last one that it created.
_COUNT: Final = """
select (select count(*) from webhook_endpoint where merchant_id = %(merchant_id)s and status <> 'DELETED'),
       (select number from webhook_endpoint where merchant_id = %(merchant_id)s order by number desc limit 1)
"""

_encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(WebhookEndpoint).decode
"""Returns the endpoint of a row's `state`."""


class EndpointProgress(Struct, frozen=True, kw_only=True):
    """How far the worker is with an endpoint: the number of the last event that it has looked at.

    `last_success_at` is by the merchant's clock.
    """

    last_sequence: int = 0
    last_success_at: datetime | None = None
    failures_in_a_row: int = 0


class FoundEndpoint(Struct, frozen=True):
    """An endpoint, and how far the worker is with it."""

    endpoint: WebhookEndpoint
    progress: EndpointProgress


class SkippedEvents(Struct, frozen=True, kw_only=True, rename="camel"):
    """The events that an endpoint does not get, because it was enabled to go on with the newest ones."""

    from_sequence: Annotated[int, Meta(description="The number of the first one.")]
    to_sequence: Annotated[int, Meta(description="The number of the last one.")]


class EndpointDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """An endpoint of the merchant, to which its events are posted."""

    id: Annotated[UUID, Meta(description="The service's id of the endpoint.")]
    url: Annotated[str, Meta(description="Where events are posted.", examples=["https://shop.example.com/webhooks"])]
    events: Annotated[
        tuple[str, ...] | None,
        Meta(description="The kinds that it gets. Null: all, those of later releases too.", examples=[["payment.*"]]),
    ]
    description: Annotated[str | None, Meta(description="Free text.")]
    ordering: Annotated[
        Ordering,
        Meta(
            description="How long an event waits for an earlier one of the same order or subscription. DEFAULT: 60 seconds. "
            "STRICT: until that one is accepted, or given up."
        ),
    ]
    payload: Annotated[Payload, Meta(description="THIN: the messages have no `data`.")]
    status: Annotated[EndpointStatus, Meta(description="Nothing is posted to a DISABLED endpoint.")]
    disabled_reason: Annotated[
        DisabledReason | None,
        Meta(
            description="MERCHANT: a request disabled it. GONE: it answered 410. FAILING: it accepted nothing for five days."
        ),
    ]
    last_sequence: Annotated[
        int,
        Meta(
            description="The number of the last event that was looked at for it. 0 until the merchant's past has numbers."
        ),
    ]
    last_success_at: Annotated[Moment | None, Meta(description="When it last accepted a message.")]
    failures_in_a_row: Annotated[int, Meta(description="The attempts that have failed since then.")]
    created_at: Annotated[Moment, Meta(description="When it was created. It gets what happens from then on.")]
    updated_at: Annotated[Moment, Meta(description="When it was last changed, enabled or disabled.")]
    skipped: Annotated[
        SkippedEvents | UnsetType,
        Meta(description="In the answer that enables it without what it missed: the events that it does not get."),
    ] = UNSET
    secret: Annotated[
        str | None | UnsetType,
        Meta(
            description="The secret that signs its messages. In the answers to creation and rotation alone: null in a "
            "repeated answer to the same Idempotency-Key. If the answer was lost, rotate the secret."
        ),
    ] = UNSET


class LoggedEndpointDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """An endpoint as its stream has it, in an event about it: how far it got its events is not in the log."""

    id: Annotated[UUID, Meta(description="The service's id of the endpoint.")]
    url: Annotated[str, Meta(description="Where events are posted.", examples=["https://shop.example.com/webhooks"])]
    events: Annotated[
        tuple[str, ...] | None,
        Meta(description="The kinds that it gets. Null: all, those of later releases too.", examples=[["payment.*"]]),
    ]
    description: Annotated[str | None, Meta(description="Free text.")]
    ordering: Annotated[
        Ordering,
        Meta(
            description="How long an event waits for an earlier one of the same order or subscription. DEFAULT: 60 seconds. "
            "STRICT: until that one is accepted, or given up."
        ),
    ]
    payload: Annotated[Payload, Meta(description="THIN: the messages have no `data`.")]
    status: Annotated[EndpointStatus, Meta(description="Nothing is posted to a DISABLED endpoint.")]
    disabled_reason: Annotated[
        DisabledReason | None,
        Meta(
            description="MERCHANT: a request disabled it. GONE: it answered 410. FAILING: it accepted nothing for five days."
        ),
    ]
    created_at: Annotated[Moment, Meta(description="When it was created. It gets what happens from then on.")]
    updated_at: Annotated[Moment, Meta(description="When it was last changed, enabled or disabled.")]


def render_logged(endpoint: WebhookEndpoint) -> bytes:
    """Returns an endpoint as JSON, from its stream alone."""
    terms = endpoint.terms
    document = LoggedEndpointDocument(
        id=endpoint.endpoint_id,
        url=terms.url,
        events=terms.events,
        description=terms.description,
        ordering=terms.ordering,
        payload=terms.payload,
        status=endpoint.status,
        disabled_reason=endpoint.disabled_reason,
        created_at=moment(endpoint.created_at),
        updated_at=moment(endpoint.updated_at),
    )
    return _encode(document)


class EndpointPage(Struct, rename="camel"):
    """The endpoints of the merchant."""

    data: Annotated[list[EndpointDocument], Meta(description="The endpoints, oldest first, without their secrets.")]
    pagination: Pagination


class DeletedEndpoint(Struct, frozen=True, kw_only=True):
    """The endpoint that was deleted."""

    id: Annotated[UUID, Meta(description="The service's id of the endpoint.")]
    deleted: Annotated[Literal[True], Meta(description="Always true.")] = True


def row(merchant_id: UUID, version: int, endpoint: WebhookEndpoint) -> Row:
    """Returns the endpoint's row at a version of its stream."""
    return (
        merchant_id.bytes,
        endpoint.endpoint_id.bytes,
        version,
        endpoint.number,
        _DELETED if endpoint.is_deleted else endpoint.status.encode(),
        endpoint.from_version,
        micros(endpoint.created_at),
        _encode(endpoint),
    )


def find_parameters(merchant_ids: Sequence[bytes]) -> list[bytes]:
    """Returns the columns that FIND unnests, for merchants' ids as bytes."""
    return [ENCODE_ARRAY["int4"](range(len(merchant_ids))), ENCODE_ARRAY["uuid"](merchant_ids)]


def found(row: Sequence[Any]) -> tuple[FoundEndpoint, ...]:
    """Returns a merchant's endpoints from a row of FIND, oldest first."""
    return tuple(
        FoundEndpoint(
            decode(state),
            EndpointProgress(
                last_sequence=sequence,
                last_success_at=None if success_at is None else from_micros(success_at),
                failures_in_a_row=failures,
            ),
        )
        for state, sequence, success_at, failures in zip(*row[1:], strict=True)
    )


async def count_endpoints(connection: Connection, merchant_id: UUID) -> tuple[int, int]:
    """Returns how many endpoints a merchant has, and how many it has ever created."""
    row = await (await connection.execute(_COUNT, {"merchant_id": merchant_id})).fetchone()
    assert row is not None, "the statement has one row"
    return row[0], row[1] or 0


async def find_last_sequence(connection: Connection, merchant_id: UUID, endpoint_id: UUID) -> int:
    """Returns the number of the last public event that was looked at for an endpoint that exists."""
    key = (merchant_id, endpoint_id)
    cursor = await (await connection.execute(_CURSOR, key)).fetchone() or (None, None)
    row = await (await connection.execute(_LAST_SEQUENCE.encode(), (*cursor, *key))).fetchone()
    assert row is not None, "the endpoint exists"
    sequence: int = row[0]
    return sequence


async def find_sequence_at(connection: Connection, merchant_id: UUID, stream_id: UUID, version: int) -> int:
    """Returns the number of a merchant's last public event before an event of a stream, 0 if there is none."""
    row = await (await connection.execute(_OF_VERSION, (merchant_id, stream_id, version))).fetchone()
    return 0 if row is None else row[0]


def endpoint_document(
    endpoint: WebhookEndpoint,
    progress: EndpointProgress,
    *,
    secret: str | None | UnsetType = UNSET,
    skipped: SkippedEvents | UnsetType = UNSET,
) -> EndpointDocument:
    """Returns an endpoint as it is answered."""
    terms = endpoint.terms
    return EndpointDocument(
        id=endpoint.endpoint_id,
        url=terms.url,
        events=terms.events,
        description=terms.description,
        ordering=terms.ordering,
        payload=terms.payload,
        status=endpoint.status,
        disabled_reason=endpoint.disabled_reason,
        last_sequence=progress.last_sequence,
        last_success_at=moment_or_null(progress.last_success_at),
        failures_in_a_row=progress.failures_in_a_row,
        created_at=moment(endpoint.created_at),
        updated_at=moment(endpoint.updated_at),
        skipped=skipped,
        secret=secret,
    )
