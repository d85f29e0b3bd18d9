"""A process that writes long logs by COPY: orders with their events, claims, rows and search lines, 30,000 a second.

One order that is paid by card and one that is not are decided, folded, encoded and rendered by the service's own code.
Every other order is a copy of their bytes with its own ids, names and times, so that the rows are those of the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import psycopg
import uuid_utils
from msgspec import Struct
from msgspec.structs import replace
from psycopg import sql

from benchmarks.load import order_body
from benchmarks.load.fill import card_payment, decided
from benchmarks.load.processes import Go, work
from benchmarks.measure.samples import Sample
from ledger.domain.ids import entry_id
from ledger.domain.streams import ClaimKind
from ledger.journal.codec import CODEC, postgres_micros
from ledger.journal.inline import Row
from ledger.postgres.arrays import ENCODE_ARRAY
from projections.inline import rows_of
from projections.lists import tally
from projections.orders import table
from projections.search.lines import LineKind, order_line

PENDING_EACH: Final = 10
"""Every tenth order is not paid."""
LINES: Final = 64
"""How many search lines a row has, as if so many orders had been one batch."""
_CHUNK: Final = 4_096

_COPY: Final = {
    name: sql.SQL("copy {} ({}) from stdin (format binary)").format(
        sql.Identifier(name), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    for name, columns in {
        "event": [
            "merchant_id",
            "stream_id",
            "version",
            "position",
            "command_id",
            "recorded_at",
            "topic",
            "data",
            "context",
        ],
        "payment_order": [column for column, _ in table.TABLE.columns],
        "claim": ["merchant_id", "kind", "key", "stream_id"],
        "search_block": ["merchant_id", "kind", "first_id", "ids", "ats", "texts"],
    }.items()
}
_BEGIN, _END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_HEAD: Final = "update merchant_head set position = %s where merchant_id = %s"

# Placeholders of an order's own values in the bytes that are copied. None of them occurs in an order by chance.
_MERCHANT, _ORDER, _CUSTOMER, _PAYMENT, _COMMAND = [UUID(int=0xA1B2C3D4E5F607008090A0B0C0D0E000 + n) for n in range(5)]
_AT: Final = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
_EXTERNAL_ID, _NUMBER = "pedido-2026-0000000", "POZZZZZZZZZZ"
_POSITION: Final = 0x5A5B5C5D5E5F6061
_ENTRIES: Final = 9


class LogPlan(Struct, frozen=True, kw_only=True):
    """So many orders of a merchant's customers, `step_s` apart, the newest at `ends_at`, after `position` of its log.

    `number` is part of the ids, so that those of two merchants differ.
    """

    merchant_id: UUID
    number: int
    position: int
    customers: list[UUID]
    orders: int
    step_s: int
    ends_at: datetime


class HistoryPlan(Struct, frozen=True, kw_only=True):
    """The logs that one process writes."""

    url: str
    logs: list[LogPlan]


class _Template:
    """The bytes that an order adds to each table, with places for its own values."""

    def __init__(self, *, is_paid: bool) -> None:
        template = order_body.command(_ORDER, _CUSTOMER, _EXTERNAL_ID, _NUMBER)
        terms = replace(template.terms, invoice_number=None, line_items=(), metadata=None, billing_address=None)
        payment = replace(card_payment(_AT), payment_id=_PAYMENT, idempotency_key=str(_PAYMENT)) if is_paid else None
        order, events = decided(replace(template, terms=terms, at=_AT, payment=payment))
        self.events = len(events)
        rows = []
        for version, event in enumerate(events, 1):
            encoded = CODEC.encode_sealed(event, version, None)
            types = ("uuid", "uuid", "int4", "int8", "uuid", "timestamptz", "text", "bytea", "bytea")
            row = (_MERCHANT.bytes, _ORDER.bytes, version, _POSITION + version, _COMMAND.bytes, encoded.recorded_at)
            rows.append(_binary(types, (*row, encoded.topic, encoded.data, b"{}")))
        found = rows_of(_MERCHANT, self.events, None, order)
        [order_row] = found[table.TABLE.name]
        columns = [type_ for _, type_ in table.TABLE.columns]
        claim = (_MERCHANT.bytes, ClaimKind.ORDER_EXTERNAL_ID, _EXTERNAL_ID.encode(), _ORDER.bytes)
        self.tables = {
            "event": _with_places(b"".join(rows)),
            "payment_order": _with_places(_binary(columns, order_row)),
            "claim": _with_places(_binary(("uuid", "int4", "text", "uuid"), claim)),
        }
        [(_, _, self.status, _)] = found[tally.TABLE.name]


def _binary(types: Sequence[str], row: Row) -> bytes:
    """Returns a row of COPY's binary form."""
    parts = [len(row).to_bytes(2, "big")]
    for type_, value in zip(types, row, strict=True):
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
            continue
        size = {"bool": 1, "int4": 4, "date": 4, "int8": 8, "timestamptz": 8}.get(type_)
        field = value if size is None else int(value).to_bytes(size, "big", signed=True)
        parts += (len(field).to_bytes(4, "big"), field)
    return b"".join(parts)


def _with_places(row: bytes) -> bytes:
    """Returns the bytes as a template for `%` with a dictionary, in which every value of an order's own has a place."""
    places: dict[bytes, bytes] = {
        _AT.isoformat()[:19].encode(): b"at",
        postgres_micros(_AT).to_bytes(8, "big"): b"at_us",
        _EXTERNAL_ID.encode(): b"external_id",
        _NUMBER.encode(): b"number",
    }
    for name, marker in (("merchant", _MERCHANT), ("order", _ORDER), ("customer", _CUSTOMER), ("payment", _PAYMENT)):
        places |= {marker.bytes: f"{name}_raw".encode(), str(marker).encode(): name.encode()}
    places[_COMMAND.bytes] = b"command_raw"
    for n in range(1, _ENTRIES + 1):
        places[(_POSITION + n).to_bytes(8, "big")] = b"position_%d" % n
        places[str(entry_id(_PAYMENT, n)).encode()] = b"entry_%d" % n
    any_place = re.compile(b"|".join(re.escape(one) for one in places), re.DOTALL)
    return any_place.sub(lambda found: b"%%(%b)b" % places[found[0]], row.replace(b"%", b"%%"))


class _Orders:
    """The orders of one log, in turn."""

    def __init__(self, plan: LogPlan, paid: _Template, pending: _Template) -> None:
        self._plan, self._paid, self._pending = plan, paid, pending
        self._begins_at = plan.ends_at.replace(microsecond=0) - timedelta(seconds=plan.step_s * plan.orders)
        self._customers = [(customer.bytes, str(customer).encode()) for customer in plan.customers]
        self.position = plan.position

    def chunk(self, first: int, last: int) -> tuple[dict[str, list[bytes]], Mapping[tuple[int, bytes], int]]:
        """Returns the rows of these orders by table, and how many orders each day and status has."""
        rows: dict[str, list[bytes]] = {name: [] for name in _COPY}
        days: dict[tuple[int, bytes], int] = {}
        lines: list[tuple[bytes, int, str]] = []
        for n in range(first, last):
            template = self._pending if n % PENDING_EACH == PENDING_EACH - 1 else self._paid
            values, at_us = self._values(n, template.events)
            for name, bytes_ in template.tables.items():
                rows[name].append(bytes_ % values)
            line = order_line(values[b"number"].decode(), values[b"external_id"].decode(), None)
            lines.append((values[b"order_raw"], at_us, line))
            day = at_us // 86_400_000_000, template.status
            days[day] = days.get(day, 0) + 1
        rows["search_block"] = [self._block(lines[n : n + LINES]) for n in range(0, len(lines), LINES)]
        return rows, days

    def _values(self, n: int, events: int) -> tuple[dict[bytes, bytes], int]:
        plan = self._plan
        at = self._begins_at + timedelta(seconds=plan.step_s * (n + 1))
        at_us = postgres_micros(at)
        raw = [order_id_bytes(plan.number, n, at, kind) for kind in range(3)]
        customer_raw, customer = self._customers[n * len(self._customers) // plan.orders]
        payment = uuid_utils.UUID(bytes=raw[1])
        values = {
            b"merchant_raw": plan.merchant_id.bytes,
            b"order_raw": raw[0],
            b"order": str(uuid_utils.UUID(bytes=raw[0])).encode(),
            b"customer_raw": customer_raw,
            b"customer": customer,
            b"payment": str(payment).encode(),
            b"command_raw": raw[2],
            b"external_id": external_id(n).encode(),
            b"number": order_number(plan.number, n).encode(),
            b"at": at.isoformat()[:19].encode(),
            b"at_us": at_us.to_bytes(8, "big", signed=True),
        }
        for version in range(1, events + 1):
            self.position += 1
            values[b"position_%d" % version] = self.position.to_bytes(8, "big")
        if events > 1:
            for entry in (1, 2, 3):
                values[b"entry_%d" % entry] = str(uuid_utils.uuid5(payment, str(entry))).encode()
        return values, at_us

    def _block(self, lines: Sequence[tuple[bytes, int, str]]) -> bytes:
        ids, ats, texts = zip(*lines, strict=True)
        row = (
            self._plan.merchant_id.bytes,
            LineKind.ORDER,
            ids[0],
            ENCODE_ARRAY["uuid"](ids),
            ENCODE_ARRAY["timestamptz"](ats),
            "\n".join(texts).encode(),
        )
        return _binary(("uuid", "int4", "uuid", "bytea", "bytea", "text"), row)


def order_id_bytes(log: int, n: int, at: datetime, kind: int = 0) -> bytes:
    """Returns the id of an order, or of its payment (kind 1) or command (2): in the order of time, as UUIDs 7 are."""
    ms = int(at.timestamp() * 1000)
    return b"%b%b%b%b" % (
        ms.to_bytes(6, "big"),
        (0x7000 + kind).to_bytes(2, "big"),
        (0x8000 + log).to_bytes(2, "big"),
        n.to_bytes(6, "big"),
    )


def external_id(n: int) -> str:
    """Returns the external id of a merchant's n-th order."""
    return f"pedido-2026-{n:07}"


def order_number(log: int, n: int) -> str:
    """Returns the number of an order. Neighbours differ in most letters, as real ones do."""
    return f"PO{(log << 24 | n) * 0x9E3779B97F % 2**40:010X}"


def write(connection: psycopg.Connection[Any], plan: LogPlan, paid: _Template, pending: _Template) -> None:
    """Writes the orders of a log, in transactions of some thousand, and moves its head."""
    orders = _Orders(plan, paid, pending)
    for first in range(0, plan.orders, _CHUNK):
        rows, days = orders.chunk(first, min(plan.orders, first + _CHUNK))
        with connection.transaction():
            for name, statement in _COPY.items():
                with connection.cursor().copy(statement) as copy:
                    copy.write(_BEGIN)
                    for piece in _pieces(rows[name]):
                        copy.write(piece)
                    copy.write(_END)
            for (day, status), n in days.items():
                connection.execute(_COUNT, [plan.merchant_id, day, status.decode(), n])
            connection.execute(_HEAD, [orders.position, plan.merchant_id])


# The day in the wire form, days since 2000-01-01.
_COUNT: Final = """
insert into tally as t (merchant_id, day, status, n) values (%s, '2000-01-01'::date + %s, %s, %s)
on conflict (merchant_id, day, status) do update set n = t.n + excluded.n
"""


def _pieces(rows: Sequence[bytes], size: int = 256) -> Iterator[bytes]:
    for n in range(0, len(rows), size):
        yield b"".join(rows[n : n + size])


async def run(plan: HistoryPlan, go: Go) -> Sample:
    """Writes the logs. Raises psycopg.Error."""
    paid, pending = _Template(is_paid=True), _Template(is_paid=False)
    go()
    began = datetime.now(UTC)
    with psycopg.connect(plan.url, autocommit=True) as connection:
        connection.execute("set synchronous_commit = off")
        for log in plan.logs:
            write(connection, log, paid, pending)
    seconds = (datetime.now(UTC) - began).total_seconds()
    return Sample(done=sum(log.orders for log in plan.logs), seconds=seconds, p50_ms=0, p99_ms=0)


if __name__ == "__main__":
    work(HistoryPlan, run)
