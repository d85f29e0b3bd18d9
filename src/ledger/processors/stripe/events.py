"""What an event at Stripe is about, as messages of the contract.

A message of Stripe's only names an event. Ask Stripe for the event and for its object, and answer with what is true of
it now: so a message that is doubled, early, late or forged changes nothing. An event of another kind, or about what the
ledger did not make, has no messages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

import msgspec

from ledger.processors.contract import ProcessorTimedOut
from ledger.processors.messages import (
    DepositReceived,
    DisputeLost,
    DisputeOpened,
    DisputeWon,
    Message,
    RefundConfirmed,
    RefundFailed,
)
from ledger.processors.stripe.call_keys import WHOLE_AMOUNT, merchant_of, named_key
from ledger.processors.stripe.charges import REFUNDS, refunded
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.intents import Intents
from ledger.processors.stripe.objects import (
    CashTransaction,
    Customer,
    Dispute,
    Event,
    FundingInstructions,
    Intent,
    Payout,
    Refund,
)
from ledger.processors.stripe.payouts import Payouts, envelope
from ledger.processors.stripe.references import CUSTOMERS
from ledger.processors.stripe.transport import Refused, Transport
from ledger.processors.stripe.units import from_units

T = TypeVar("T")

_ID: Final = re.compile(r"\w{1,255}", re.ASCII)
_HOUR_S, _DAY_S = 3_600, 86_400
_TAKEN: Final = frozenset({"needs_response", "under_review", "won", "lost"})
"""The statuses of a dispute for which the bank took the money; an inquiry (`warning_…`) takes none."""


class Events(Intents):
    """The events of one account."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._payouts = Payouts(transport)

    async def messages(self, merchant_id: UUID, event_id: str, deadline_at: datetime) -> Sequence[Message]:
        """Returns what an event means for a merchant's payments. Raises ProcessorTimedOut, ProcessorUnavailable."""
        if not _ID.fullmatch(event_id):
            return []
        try:
            event = await self.transport.get(f"/v1/events/{event_id}", {}, Event, deadline_at=deadline_at)
            found = await self._about(event, deadline_at)
        except Refused as refusal:
            if refusal.error.code == "resource_missing":
                return []
            raise ProcessorTimedOut(f"Stripe does not show what the event is about: {refusal}") from None
        return [message for message in found if message.merchant_id == merchant_id]

    async def _about(self, event: Event, deadline_at: datetime) -> Sequence[Message]:
        at = datetime.fromtimestamp(event.created, UTC)
        match event.type:
            case "customer_cash_balance_transaction.created":
                return await self._transfer(_object(event, CashTransaction), at, deadline_at)
            case "payment_intent.succeeded":
                return await self._voucher(_object(event, Intent).id, at, deadline_at)
            case "refund.updated" | "refund.failed" | "charge.refund.updated":
                return await self._refund(_object(event, Refund).id, at, deadline_at)
            case _ if event.type.startswith("charge.dispute."):
                return await self._dispute(_object(event, Dispute).id, at, deadline_at)
            case _ if event.type.startswith("payout."):
                return await self._payout(_object(event, Payout).id, deadline_at)
            case _:
                return []

    async def _transfer(self, moved: CashTransaction, at: datetime, deadline_at: datetime) -> Sequence[Message]:
        """Returns the deposit of a transfer that came to the CLABE of a reference."""
        if moved.type != "funded":
            return []
        path = f"{CUSTOMERS}/{moved.customer}"
        customer = await self.transport.get(path, {}, Customer, deadline_at=deadline_at)
        if merchant_of(customer.metadata) is None:
            return []
        form: Form = {
            "currency": moved.currency,
            "funding_type": "bank_transfer",
            "bank_transfer": {"type": "mx_bank_transfer"},
        }
        key = str(uuid4())  # the CLABE is there already: a request that Stripe fails at is another one the next time
        shown = await self.transport.post(
            f"{path}/funding_instructions", form, FundingInstructions, key=key, deadline_at=deadline_at
        )
        clabes = [each.spei.clabe for each in shown.bank_transfer.financial_addresses if each.spei is not None]
        if not clabes:
            return []
        return [
            DepositReceived(
                **envelope(customer.metadata, moved.id, at),
                reference=clabes[0],
                amount=from_units(moved.net_amount),
                currency=moved.currency.upper(),
                processor_reference=moved.id,
            )
        ]

    async def _voucher(self, intent_id: str, at: datetime, deadline_at: datetime) -> Sequence[Message]:
        """Returns the deposit of cash that was paid under a voucher; a card's intent has none."""
        intent = await self.read(intent_id, deadline_at)
        charge = intent.charge
        details = None if charge is None else charge.payment_method_details
        voucher = None if details is None else details.oxxo
        if charge is None or voucher is None or voucher.number is None or merchant_of(intent.metadata) is None:
            return []
        return [
            DepositReceived(
                **envelope(intent.metadata, charge.id, at),
                reference=voucher.number,
                amount=from_units(intent.amount_received),
                currency=intent.currency.upper(),
                processor_reference=charge.id,
            )
        ]

    async def _refund(self, refund_id: str, at: datetime, deadline_at: datetime) -> Sequence[Message]:
        """Returns the end of a refund. One that was made in parts ends when all of them have ended in the same way."""
        refund = await self.transport.get(f"{REFUNDS}/{refund_id}", {}, Refund, deadline_at=deadline_at)
        key, metadata = named_key(refund.metadata), refund.metadata or {}
        if key is None:
            return []
        parts = [refund]
        stated = metadata.get(WHOLE_AMOUNT, "")
        whole = int(stated) if stated.isascii() and stated.isdecimal() else refund.amount
        if whole != refund.amount:
            made: Form = {"created": {"gte": refund.created - _HOUR_S, "lte": refund.created + _DAY_S}}
            listed = self.transport.list(REFUNDS, made, Refund, deadline_at=deadline_at)
            parts = [each async for each in listed if named_key(each.metadata) == key]
        statuses = {part.status for part in parts}
        if sum(part.amount for part in parts) != whole or len(statuses) > 1:
            return []
        first = min(parts, key=lambda part: part.id)
        about = {**envelope(metadata, f"{first.id}:{first.status}", at), "idempotency_key": key[1]}
        if first.status == "succeeded":
            return [RefundConfirmed(**about, processor_reference=first.id, amount=from_units(whole))]
        if first.status in {"failed", "canceled"}:
            answer: Any = refunded(first)
            return [RefundFailed(**about, processor_reference=first.id, code=answer.code, message=answer.message)]
        return []

    async def _dispute(self, dispute_id: str, at: datetime, deadline_at: datetime) -> Sequence[Message]:
        """Returns that the bank took the money of a payment, and how the dispute ended if it has."""
        dispute = await self.transport.get(f"/v1/disputes/{dispute_id}", {}, Dispute, deadline_at=deadline_at)
        if dispute.payment_intent is None or dispute.status not in _TAKEN:
            return []
        intent = await self.read(dispute.payment_intent, deadline_at)
        if merchant_of(intent.metadata) is None:
            return []
        about: dict[str, Any] = {"dispute_id": dispute.id, "processor_reference": intent.id}
        amount = from_units(dispute.amount)
        opened = envelope(intent.metadata, f"{dispute.id}:opened", at)
        messages: list[Message] = [DisputeOpened(**opened, **about, amount=amount, reason=dispute.reason.upper())]
        ended = envelope(intent.metadata, f"{dispute.id}:{dispute.status}", at)
        if dispute.status == "won":
            messages.append(DisputeWon(**ended, **about))
        elif dispute.status == "lost":
            messages.append(DisputeLost(**ended, **about, amount=amount))
        return messages

    async def _payout(self, payout_id: str, deadline_at: datetime) -> Sequence[Message]:
        """Returns the payments that a payout lists, and how it has ended if it has."""
        return await self._payouts.settlement(payout_id, deadline_at)


def _object(event: Event, type_: type[T]) -> T:
    """Returns the object of an event as it was then, of which only the names are used."""
    try:
        return msgspec.json.decode(event.data.object, type=type_)
    except msgspec.DecodeError as fault:
        raise ProcessorTimedOut(f"the object of the event {event.id} is unreadable") from fault
