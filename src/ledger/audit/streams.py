"""The audit of the streams within a range: each is folded, checked after every event, rendered, compared and dropped.

Never keep anything for each stream or event: the log of a merchant has no bound, and an audit must not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from psycopg import sql

from ledger.audit.faults import reason_of
from ledger.audit.invariants.broken import Broken
from ledger.audit.invariants.documents import broken_documents
from ledger.audit.invariants.logs import has_card_number
from ledger.audit.invariants.orders import broken_order
from ledger.audit.invariants.subscriptions import broken_subscription
from ledger.audit.leaves import LeafFile
from ledger.audit.report import EVENT, ROW, Findings, Violation
from ledger.audit.snapshot import Connection, pages
from ledger.audit.sums import Details, MerchantPart
from ledger.audit.tables import END, KEYS, MERGED, KeyRange, StoredRows, differences, wrong_rows_of_lines
from ledger.domain.customers.state import Customer
from ledger.domain.orders.state import Order
from ledger.domain.streams import STREAM_OF, STREAMS, TOPICS, ClaimKind
from ledger.domain.subscriptions.state import Subscription
from ledger.domain.webhooks.state import WebhookEndpoint
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.codec import CODEC, postgres_micros
from ledger.journal.encryption.data_keys import DataKey, key_in
from ledger.journal.encryption.sealing import Seal, customer_of
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.journal.event_archive import NO_ARCHIVE, ArchiveUnavailable, EventArchive, reference_in, unreadable
from ledger.journal.inline import Row
from projections.inline import rows_of

EVENTS: Final = sql.SQL("""
select merchant_id, stream_id, version, position, command_id, recorded_at, topic, data, context from event
 where (merchant_id, stream_id) >= (%s, %s) and (merchant_id, stream_id) <= (%s, %s)
 order by merchant_id, stream_id, version
""")
# The keys of customers, those of a page of events.
_KEYS: Final = """
select d.merchant_id, d.customer_id, d.sealing_key_id, d.wrapped
  from unnest(%s::uuid[], %s::uuid[]) as q(merchant_id, customer_id)
  join data_key d on d.merchant_id = q.merchant_id and d.customer_id = q.customer_id
"""
_FIRST_US: Final = postgres_micros(datetime.min.replace(tzinfo=UTC))
_LAST_US: Final = postgres_micros(datetime.max.replace(tzinfo=UTC))
"""The first and the last time that an event can have: Postgres has others, and infinity."""
_KEYS_MAX: Final = 2_000
"""How many opened keys are kept: customers come in no order."""

_STREAM: Final = itemgetter(0, 1)
"""Returns the merchant and the stream of a row of an event."""
_SEALED: Final = b'{"sealed":"'
_TOPICS: Final = {topic.encode(): topic for topic in TOPICS}
_FOLDS: Final[Mapping[type[Struct], Callable[[Any, Any], Any]]] = {
    kind: stream.evolve for stream in STREAMS for kind in stream.topics.values()
}
_TABLES: Final = {table.name: table for table in MERGED}


class StreamsAudited(Struct, kw_only=True):
    """What a range of streams adds up to by merchant, how many rows were compared, and the violations."""

    merchants: dict[UUID, MerchantPart]
    rows: int
    total: int
    listed: list[Violation]


class _Stream:
    """A stream that is being read, with its state after the events so far.

    Streams of other applications are not folded (`is_ours`), nor is one further behind an event that cannot be
    (`is_broken`).
    """

    __slots__ = ("is_broken", "is_ours", "key", "merchant", "position", "seals", "state", "stream", "version")

    def __init__(self, merchant: bytes, stream: bytes, *, is_ours: bool) -> None:
        self.key, self.merchant, self.stream, self.is_ours = merchant + stream, merchant, stream, is_ours
        self.version, self.position, self.is_broken = 0, 0, False
        self.state: Any = None
        self.seals: dict[bytes, Seal | None] = {}


class StreamAuditor:
    """Audits ranges of streams on one connection.

    `erasing` are the customers whose erasure the worker has not finished. The leaf hashes of the events up to the
    positions `sealed` of each merchant are written to `leaves`. What sums are over is added to `details`. `archive` has
    the contents of archived events.
    """

    def __init__(
        self,
        connection: Connection,
        keys: SealingKeys,
        erasing: frozenset[tuple[UUID, UUID]],
        sealed: Mapping[UUID, int],
        leaves: LeafFile | None,
        details: Details | None = None,
        archive: EventArchive = NO_ARCHIVE,
    ) -> None:
        self._connection, self._keys, self._erasing = connection, keys, erasing
        self._archive = archive
        self._sealed = {merchant_id.bytes: size for merchant_id, size in sealed.items()}
        self._leaves, self._details = leaves, details
        self._opened: dict[bytes, DataKey] = {}
        self._findings = Findings()
        self._merchants: dict[UUID, MerchantPart] = {}
        self._part = MerchantPart()
        self._merchant_id = UUID(int=0)
        self._merchant = self._context = b""

    def audit(self, within: KeyRange, progress: Callable[[int], None]) -> StreamsAudited:
        """Audits the streams of a range. `progress` takes how many events were read.

        Raises psycopg.OperationalError, ArchiveUnavailable.
        """
        self._findings, self._merchants, self._merchant = Findings(), {}, b""
        stored = [StoredRows(self._connection, table, within) for table in MERGED]
        current: _Stream | None = None
        for stored_page in pages(self._connection, EVENTS, within.parameters):
            page = self._with_contents(stored_page)
            self._load_keys(page)
            if self._leaves is not None:
                self._leaves.write_page(stored_page, self._sealed)
            for (merchant, stream), group in groupby(page, _STREAM):
                events = list(group)
                if current is None or current.stream != stream or current.merchant != merchant:
                    if current is not None:
                        self._compare(current, self._stored_rows(current.key, stored))
                    if merchant != self._merchant:
                        self._enter(merchant)
                    current = _Stream(merchant, stream, is_ours=events[0][6] in _TOPICS)
                self._take(current, events)
            progress(len(page))
        if current is not None:
            self._compare(current, self._stored_rows(current.key, stored))
        for rows in stored:
            self._pass_rows(rows, END)
        for violation in wrong_rows_of_lines(self._connection, within):
            self._findings.add(violation)
        return StreamsAudited(
            merchants=self._merchants,
            rows=sum(each.count for each in stored),
            total=self._findings.total,
            listed=self._findings.listed,
        )

    def _with_contents(self, page: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Returns a page of events with the contents of those that are archived and can be read."""
        archived = [(row[0], row[7]) for row in page if row[7][:1] == b"\0"]
        if not archived:
            return page
        contents = self._archive.read(archived)
        return [(*row[:7], contents.get((row[0], row[7]), row[7]), row[8]) for row in page]

    def _enter(self, merchant: bytes) -> None:
        self._merchant, self._merchant_id = merchant, UUID(bytes=merchant)
        self._part = self._merchants[self._merchant_id] = MerchantPart()

    def _take(self, current: _Stream, events: Iterable[tuple[Any, ...]]) -> None:
        """Takes the next events of a stream, and checks what holds after each."""
        note_position = self._part.note_position
        for _, _, version, position, _, at, topic, data, context in events:
            note_position(position)
            if version != current.version + 1:
                what = f"version {version} follows {current.version}"
                self._report(current, Broken("I10", f"in stream {UUID(bytes=current.stream)} {what}"), position)
            current.version, current.position = version, position
            if not _FIRST_US <= at <= _LAST_US:
                self._report(current, Broken(EVENT, "the time of the event is none of the calendar"), position)
            if has_card_number(data) or (context != self._context and has_card_number(context)):
                self._report(current, Broken("I13", "the event has a card number"), position)
            self._context = context  # the events of a command have one
            if current.is_ours and not current.is_broken:
                self._fold(current, version, position, topic, data)

    def _fold(self, current: _Stream, version: int, position: int, topic: bytes, data: bytes) -> None:
        """Folds an event, and checks the rules of its stream after it."""
        before = current.state
        if before is None and version != 1:  # its beginning is missing, which is reported
            current.is_broken = True
            return
        try:
            if data[:1] == b"\0" or data.startswith(_SEALED):
                data = self._opened_content(current, version, position, topic, data)
            event = CODEC.decode(_TOPICS.get(topic) or topic.decode(), data)
            after = _FOLDS[type(event)](before, event)
            found = _broken(before, event, after)
        except (KeyUnavailable, SealBroken, ArchiveUnavailable) as closed:
            self._unreadable(current, position, str(closed))
        except Exception as fault:  # noqa: BLE001 - an event that was changed can fail in any way
            self._unreadable(current, position, f"the event cannot be read or folded: {reason_of(fault)}")
        else:
            current.state = after
            for broken in found:
                self._report(current, broken, position)

    def _unreadable(self, current: _Stream, position: int, what: str) -> None:
        self._report(current, Broken(EVENT, what), position)
        current.is_broken = True

    def _opened_content(self, current: _Stream, version: int, position: int, topic: bytes, data: bytes) -> bytes:
        """Returns the content of an event that is sealed, or not in the table. Without its customer's key, the personal
        data stays out.
        """
        if (reference := reference_in(data)) is not None:
            raise unreadable(current.merchant, reference)
        customer = customer_of(data)
        if customer is None:
            return data
        if customer not in current.seals:
            current.seals[customer] = self._opened[current.merchant + customer].seal(current.stream)
        seal = current.seals[customer]
        if seal is None:
            return data
        content = seal.opened(topic, version, data)
        if has_card_number(content):
            self._report(current, Broken("I13", "the event's personal data has a card number"), position)
        return content

    def _load_keys(self, page: Sequence[tuple[Any, ...]]) -> None:
        """Reads the data keys of a page of events."""
        owners = set()
        for row in page:
            if row[7].startswith(_SEALED):
                try:
                    customer = customer_of(row[7])
                except SealBroken:  # raised again where this event is read
                    continue
                if customer is not None:
                    owners.add(row[0] + customer)
        missing = [owner for owner in owners if owner not in self._opened]
        if not missing:
            return
        if len(self._opened) + len(missing) > _KEYS_MAX:
            self._opened = {owner: key for owner in owners if (key := self._opened.get(owner)) is not None}
        ids = [UUID(bytes=owner[:16]) for owner in missing], [UUID(bytes=owner[16:]) for owner in missing]
        rows = self._connection.execute(_KEYS, ids, binary=True)
        found = {merchant.bytes + customer.bytes: (name, key) for merchant, customer, name, key in rows}
        self._opened |= {owner: key_in(self._keys, owner, found.get(owner)) for owner in missing}

    def _pass_rows(self, rows: StoredRows, until: bytes) -> None:
        """Reports the rows of a table before a key: they are of streams that are not there."""
        while rows.key < until:
            key = rows.key
            surplus = rows.take(key)
            if rows.table is KEYS:  # a key without a customer opens nothing
                continue
            merchant_id, about = UUID(bytes=key[:16]), {"stream_id": UUID(bytes=key[16:])}
            for violation in differences(rows.table, merchant_id, about, (), surplus):
                self._findings.add(violation)

    def _stored_rows(self, key: bytes, stored: Sequence[StoredRows]) -> dict[str, Sequence[Row]]:
        """Returns the rows of a stream by their table."""
        found: dict[str, Sequence[Row]] = {}
        for rows in stored:
            if rows.key < key:
                self._pass_rows(rows, key)
            if rows.key == key:
                found[rows.table.name] = rows.take(key)
        return found

    def _compare(self, current: _Stream, there: dict[str, Sequence[Row]]) -> None:
        """Compares the rows of a stream that has ended with those that follow from its state."""
        state = current.state
        keys = there.pop(KEYS.name, ())
        if current.is_broken:
            return
        expected: dict[str, Sequence[Row]] = {}
        is_excused = False
        if state is not None:
            try:
                expected = dict(rows_of(self._merchant_id, current.version, None, state))
            except Exception as fault:  # noqa: BLE001 - a state of events that were changed can fail in any way
                what = f"the rows after it cannot be computed: {reason_of(fault)}"
                self._report(current, Broken(EVENT, what), current.position)
                return
            expected["claim"] = self._claims(current, state)
            self._part.take(state, expected, self._details)
            if isinstance(state, Customer):
                self._check_key(current, state, keys)
            is_excused = self._is_excused(state)
            if is_excused and isinstance(state, Customer):  # of whom everything is personal
                return
        for name, should in expected.items():
            found = there.pop(name, ())
            if should != found and list(should) != list(found):
                self._differ(current, name, should, found, is_excused=is_excused)
        for name, found in there.items():
            self._differ(current, name, (), found)

    @staticmethod
    def _claims(current: _Stream, state: Any) -> list[Row]:
        """Returns the claims that a stream is to have."""
        claim = _claim_of(state)
        return [] if claim is None else [(current.merchant, claim[0], claim[1], current.stream)]

    def _differ(
        self, current: _Stream, name: str, should: Sequence[Row], found: Sequence[Row], *, is_excused: bool = False
    ) -> None:
        """Reports how rows differ; if that `is_excused`, not the cells that may have a person's data."""
        for violation in differences(_TABLES[name], self._merchant_id, self._about(current), should, found):
            if not is_excused or violation.column is None or violation.expected is not None:
                self._findings.add(violation)

    def _is_excused(self, state: Any) -> bool:
        """Returns whether the worker has not yet taken an erased customer out of the stream's rows."""
        customer_of = STREAM_OF[type(state)].customer_of
        return (
            bool(self._erasing) and customer_of is not None and (self._merchant_id, customer_of(state)) in self._erasing
        )

    def _check_key(self, current: _Stream, customer: Customer, keys: Sequence[Row]) -> None:
        """Checks the row of a customer's data key: it is destroyed if the customer is erased, and opens otherwise."""
        for _, customer_id, sealing_key, wrapped, destroyed_at, forgotten_at in keys:
            if forgotten_at is not None and destroyed_at is None:  # an erasure would count as finished before it began
                what = "forgotten before it is destroyed"
                self._cell(current, "forgotten_at", f"the key of customer {UUID(bytes=customer_id)} is {what}")
            if (destroyed_at is not None) != customer.erased:
                what = "destroyed" if destroyed_at is not None else "not destroyed"
                self._cell(current, "destroyed_at", f"the key of customer {UUID(bytes=customer_id)} is {what}")
            elif wrapped is not None:
                key = key_in(self._keys, current.merchant + customer_id, (sealing_key.decode(), wrapped))
                if key.fault is not None:
                    self._cell(current, "wrapped", f"the key of customer {UUID(bytes=customer_id)}: {key.fault}")

    def _cell(self, current: _Stream, column: str, message: str) -> None:
        self._findings.add(
            Violation(
                invariant=ROW,
                merchant_id=self._merchant_id,
                message=message,
                table=KEYS.name,
                column=column,
                **self._about(current),
            )
        )

    def _about(self, current: _Stream) -> dict[str, Any]:
        stream_id = UUID(bytes=current.stream)
        return {"order_id": stream_id} if isinstance(current.state, Order) else {"stream_id": stream_id}

    def _report(self, current: _Stream, broken: Broken, position: int) -> None:
        self._findings.add(
            Violation(
                invariant=broken.invariant,
                merchant_id=self._merchant_id,
                message=broken.message,
                position=position,
                **self._about(current),
            )
        )


def _broken(before: Any, event: Any, after: Any) -> Sequence[Broken]:
    """Returns the rules of a stream that do not hold after an event."""
    if type(after) is Order:
        found = broken_order(before, event, after)
        if after.invoices is not None and (
            before is None or before.invoices is not after.invoices or before.payments is not after.payments
        ):
            found += broken_documents(after)
        return found
    return list(broken_subscription(before, event, after)) if type(after) is Subscription else ()


def _claim_of(state: Any) -> tuple[ClaimKind, bytes] | None:
    """Returns the key that a stream owns, None if it has none."""
    kind = STREAM_OF[type(state)].claim
    if isinstance(state, WebhookEndpoint):
        return ClaimKind.WEBHOOK_ENDPOINT_NUMBER, str(state.number).encode()
    if kind is None:
        return None
    if kind is ClaimKind.PRODUCT_ID:
        return kind, state.id.encode()
    external_id = state.terms.external_id if isinstance(state, Order) else state.external_id
    return None if external_id is None else (kind, external_id.encode())
