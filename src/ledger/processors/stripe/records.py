"""What Stripe carried out for the ledger, for the daily comparison: captures and refunds from its list of balance
transactions, voids from its list of events.

The list of events goes back 30 days (docs.stripe.com/api/events): older voids are not compared.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import msgspec

from ledger.processors.contract import ProcessorRecord, ProcessorTimedOut
from ledger.processors.stripe.call_keys import (
    CAPTURE_KEY,
    VOID_KEY,
    about_of,
    capture_key_of,
    merchant_of,
    named_key,
    unrequested_refund_id,
    void_key_of,
)
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.intents import Intents
from ledger.processors.stripe.objects import BalanceTransaction, Charge, Event, Intent, Refund
from ledger.processors.stripe.refund_parts import parts_of, returned_of, whole_of
from ledger.processors.stripe.transport import Refused
from ledger.processors.stripe.units import from_units

T = TypeVar("T")

TRANSACTIONS: Final = "/v1/balance_transactions"
EVENTS: Final = "/v1/events"
_CAPTURED: Final = "charge"
"""The type of a card's transaction; transfers and cash are "payment", and arrive as deposits."""
_REFUNDED: Final = frozenset({"refund", "payment_refund"})
UNDONE: Final = frozenset({"failed", "canceled"})
BY_ITSELF: Final = frozenset({"automatic", "expired"})
"""Why Stripe cancels an intent by itself. Source: docs.stripe.com/api/payment_intents/object (cancellation_reason)."""
_FAILED: Final = "failed"
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
                record = await self._voided(_cancelled(event), _time(event.created), deadline_at)
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
            return await self._refunded(source_of(transaction, Refund), _time(transaction.created), deadline_at)
        return None

    async def _captured(self, charge: Charge, at: datetime, deadline_at: datetime) -> ProcessorRecord | None:
        """Returns the record of a charge. One that a call of its own has captured has that call's key at its intent."""
        if charge.payment_intent is None or named_key(charge.metadata) is None:
            return None
        metadata = charge.metadata
        if CAPTURE_KEY not in metadata:
            metadata = (await self.read(charge.payment_intent, deadline_at)).metadata
        merchant = merchant_of(metadata)
        if merchant is None:
            return None
        return ProcessorRecord(
            merchant_id=merchant,
            idempotency_key=capture_key_of(charge.payment_intent, metadata),
            processor_reference=charge.payment_intent,
            recorded_at=at,
            captured=from_units(charge.amount_captured),
            is_unrequested=CAPTURE_KEY not in metadata,
        )

    async def _refunded(self, refund: Refund, at: datetime, deadline_at: datetime) -> ProcessorRecord | None:
        """Returns the record of a refund. One that no call has made has the key under which the log records it."""
        if refund.status in UNDONE:
            return None
        key = named_key(refund.metadata)
        if key is None:
            about = about_of(await self.metadata_behind(refund, deadline_at))
            merchant, order_id, payment_id = about["merchant_id"], about["order_id"], about["payment_id"]
            if merchant is not None and order_id is not None and payment_id is not None:
                key = (merchant, f"{unrequested_refund_id(order_id, refund.id)}:{payment_id}")
        if key is None:
            return None
        is_pending: bool | None = refund.status in _UNDER_WAY
        returned = None
        if whole_of(refund) != refund.amount:
            returned = returned_of(await parts_of(self.transport, refund, deadline_at))
            is_pending = None if returned is None else False
        return ProcessorRecord(
            merchant_id=key[0],
            idempotency_key=key[1],
            processor_reference=refund.payment_intent or refund.id,
            recorded_at=at,
            refunded=from_units(whole_of(refund)),
            is_pending=is_pending,
            returned=returned,
        )

    async def _voided(self, intent: Intent, at: datetime, deadline_at: datetime) -> ProcessorRecord | None:
        """Returns the record of an intent that was voided: by a call, or on Stripe's own pages after it was authorised.

        The latest charge of an intent that is given up after a decline has failed: it held nothing.
        """
        merchant = merchant_of(intent.metadata)
        if merchant is None:
            return None
        if VOID_KEY not in intent.metadata:
            if intent.cancellation_reason in BY_ITSELF or intent.latest_charge is None:
                return None
            charge = (await self.read(intent.id, deadline_at)).charge
            if charge is None or charge.status == _FAILED:
                return None
        return ProcessorRecord(
            merchant_id=merchant,
            idempotency_key=void_key_of(intent.id, intent.metadata),
            processor_reference=intent.id,
            recorded_at=at,
            voided=True,
        )


def source_of(transaction: BalanceTransaction, type_: type[T]) -> T:
    """Returns what a transaction is about. Raises ProcessorTimedOut if Stripe did not expand it."""
    try:
        return msgspec.json.decode(transaction.source, type=type_)
    except msgspec.DecodeError as fault:
        raise ProcessorTimedOut(f"the source of the transaction {transaction.id} is unreadable") from fault


def _cancelled(event: Event) -> Intent:
    try:
        return msgspec.json.decode(event.data.object, type=Intent)
    except msgspec.DecodeError as fault:
        raise ProcessorTimedOut(f"the intent of the event {event.id} is unreadable") from fault


def seconds(at: datetime) -> int:
    """Returns a time in whole seconds, rounded up: adjoining slices neither overlap nor leave a gap."""
    return -int(-at.timestamp() // 1)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
