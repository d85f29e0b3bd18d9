"""What Stripe carried out for the ledger, for the daily comparison: captures and refunds from its list of balance
transactions, voids from its list of events.

The list of events goes back 30 days (docs.stripe.com/api/events): older voids are not compared.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from ledger.processors.contract import ProcessorRecord, ProcessorTimedOut
from ledger.processors.stripe.call_keys import CAPTURE_KEY, VOID_KEY, WHOLE_AMOUNT, merchant_of, named_key
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.intents import Intents
from ledger.processors.stripe.objects import BalanceTransaction, Charge, Event, Intent, Refund
from ledger.processors.stripe.transport import Refused
from ledger.processors.stripe.units import from_units

T = TypeVar("T")

TRANSACTIONS: Final = "/v1/balance_transactions"
EVENTS: Final = "/v1/events"
_CAPTURED: Final = "charge"
"""The type of a card's transaction; transfers and cash are "payment", and arrive as deposits."""
_REFUNDED: Final = frozenset({"refund", "payment_refund"})
_UNDONE: Final = frozenset({"failed", "canceled"})
_UNDER_WAY: Final = frozenset({"pending", "requires_action"})
_SLICE: Final = timedelta(hours=1)
LIST_S: Final = 300.0
"""How long the lists of one slice may take."""


class Records(Intents):
    """The records of one account."""

    async def records(self, since: datetime, until: datetime) -> AsyncIterator[ProcessorRecord]:
        """Yields what was carried out from `since` until before `until`, the oldest first, hour by hour.

        Raises ProcessorTimedOut, ProcessorUnavailable.
        """
        start = since
        while start < until:
            end = min(start + _SLICE, until)
            for record in await self._slice(start, end):
                yield record
            start = end

    async def _slice(self, start: datetime, end: datetime) -> list[ProcessorRecord]:
        deadline_at = datetime.now(UTC) + timedelta(seconds=LIST_S)
        made = {"created": {"gte": seconds(start), "lt": seconds(end)}}
        transactions: Form = {**made, "expand": ["data.source"]}
        cancelled: Form = {**made, "type": "payment_intent.canceled"}
        found = list[ProcessorRecord]()
        try:
            async for transaction in self.transport.list(
                TRANSACTIONS, transactions, BalanceTransaction, deadline_at=deadline_at
            ):
                record = await self._moved(transaction, deadline_at)
                if record is not None:
                    found.append(record)
            async for event in self.transport.list(EVENTS, cancelled, Event, deadline_at=deadline_at):
                record = _voided(_cancelled(event), _time(event.created))
                if record is not None:
                    found.append(record)
        except Refused as refusal:
            raise ProcessorTimedOut(f"Stripe refuses the list: {refusal}") from None
        return sorted(found, key=lambda record: record.recorded_at)

    async def _moved(self, transaction: BalanceTransaction, deadline_at: datetime) -> ProcessorRecord | None:
        """Returns the record of a transaction, None if it is not about a call of the ledger's."""
        if transaction.type == _CAPTURED:
            return await self._captured(source_of(transaction, Charge), _time(transaction.created), deadline_at)
        if transaction.type in _REFUNDED:
            return _refunded(source_of(transaction, Refund), _time(transaction.created))
        return None

    async def _captured(self, charge: Charge, at: datetime, deadline_at: datetime) -> ProcessorRecord | None:
        """Returns the record of a charge. One that a call of its own has captured has that call's key at its intent."""
        if charge.payment_intent is None or named_key(charge.metadata) is None:
            return None
        key = _capture_key(charge.metadata)
        if key is None:
            key = _capture_key((await self.read(charge.payment_intent, deadline_at)).metadata)
        if key is None:
            return None
        return ProcessorRecord(
            merchant_id=key[0],
            idempotency_key=key[1],
            processor_reference=charge.payment_intent,
            recorded_at=at,
            captured=from_units(charge.amount_captured),
        )


def source_of(transaction: BalanceTransaction, type_: type[T]) -> T:
    """Returns what a transaction is about. Raises ProcessorTimedOut if Stripe did not expand it."""
    try:
        return msgspec.json.decode(transaction.source, type=type_)
    except msgspec.DecodeError as fault:
        raise ProcessorTimedOut(f"the source of the transaction {transaction.id} is unreadable") from fault


def _refunded(refund: Refund, at: datetime) -> ProcessorRecord | None:
    key = named_key(refund.metadata)
    if key is None or refund.status in _UNDONE:
        return None
    return ProcessorRecord(
        merchant_id=key[0],
        idempotency_key=key[1],
        processor_reference=refund.payment_intent or refund.id,
        recorded_at=at,
        refunded=from_units(_whole(refund)),
        is_pending=refund.status in _UNDER_WAY if _whole(refund) == refund.amount else None,
    )


def _whole(refund: Refund) -> int:
    """Returns what the call of a refund gives back in all: it may need several refunds, each with the sum."""
    stated = (refund.metadata or {}).get(WHOLE_AMOUNT, "")
    return int(stated) if stated.isascii() and stated.isdecimal() else refund.amount


def _capture_key(metadata: dict[str, str]) -> tuple[UUID, str] | None:
    merchant, key = merchant_of(metadata), metadata.get(CAPTURE_KEY)
    return None if merchant is None or key is None else (merchant, key)


def _cancelled(event: Event) -> Intent:
    try:
        return msgspec.json.decode(event.data.object, type=Intent)
    except msgspec.DecodeError as fault:
        raise ProcessorTimedOut(f"the intent of the event {event.id} is unreadable") from fault


def _voided(intent: Intent, at: datetime) -> ProcessorRecord | None:
    """Returns the record of an intent that a call has voided."""
    merchant, key = merchant_of(intent.metadata), intent.metadata.get(VOID_KEY)
    if merchant is None or key is None:
        return None
    return ProcessorRecord(
        merchant_id=merchant, idempotency_key=key, processor_reference=intent.id, recorded_at=at, voided=True
    )


def seconds(at: datetime) -> int:
    """Returns a time in whole seconds, rounded up: adjoining slices neither overlap nor leave a gap."""
    return -int(-at.timestamp() // 1)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
