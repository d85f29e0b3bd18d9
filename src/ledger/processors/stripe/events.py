"""What a message of Stripe's is about: asks Stripe for its object, and answers with what is true of it now.

So a message that is doubled, early, late or forged changes nothing. Nothing is found for a message of another kind, or
about what the ledger did not make. The kinds that are used are those of docs/how-to/connect-a-processor.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

import msgspec

from ledger.domain.money import ZERO
from ledger.domain.orders.processor_outcomes import Refunded, RefundPending
from ledger.processors.contract import ProcessorTimedOut
from ledger.processors.findings import Finding, PaymentState, Standing, UnrequestedRefund, VerificationState
from ledger.processors.messages import (
    DepositReceived,
    DisputeLost,
    DisputeOpened,
    DisputeWon,
    MessageNotice,
    NoticeReceived,
    OrderMessage,
    RefundConfirmed,
    RefundFailed,
)
from ledger.processors.stripe.call_keys import (
    about_of,
    capture_key_of,
    merchant_of,
    named_key,
    unrequested_refund_id,
    verification_of,
    void_key_of,
)
from ledger.processors.stripe.cards import approved
from ledger.processors.stripe.charges import REFUNDS, refunded
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.intents import CUSTOMERS, PAYMENTS, Intents, path_of
from ledger.processors.stripe.objects import (
    CashTransaction,
    Customer,
    Dispute,
    Event,
    FundingInstructions,
    Intent,
    Refund,
)
from ledger.processors.stripe.payouts import Payouts, envelope
from ledger.processors.stripe.records import BY_ITSELF, UNDONE, seconds
from ledger.processors.stripe.refund_parts import answer_of, are_all, parts_of, whole_of
from ledger.processors.stripe.signatures import NamedObject
from ledger.processors.stripe.transport import NotPermitted, Refused, Transport
from ledger.processors.stripe.units import from_units

T = TypeVar("T")

_ID: Final = re.compile(r"\w{1,255}", re.ASCII)
_FEW_REQUESTS: Final = timedelta(seconds=10)
"""How long one to three requests may take."""
_CARD: Final = "card"
_PAYMENT_KINDS: Final = frozenset(
    {
        "payment_intent.amount_capturable_updated",
        "payment_intent.canceled",
        "payment_intent.payment_failed",
        "payment_intent.succeeded",
    }
)
_SETUP_KINDS: Final = frozenset({"setup_intent.succeeded", "setup_intent.setup_failed", "setup_intent.canceled"})
_REFUND_KINDS: Final = frozenset({"refund.created", "refund.updated", "refund.failed", "charge.refund.updated"})
_DISPUTE_KINDS: Final = frozenset({"charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed"})
_PAYOUT_KINDS: Final = frozenset({"payout.paid", "payout.failed", "payout.reconciliation_completed"})
_FUNDED, _TAKEN_BACK = "funded", "funding_reversed"
"""The types of a customer's cash balance transaction that an order records."""
_TRANSFERRED: Final = "customer_cash_balance_transaction.created"
_KINDS: Final = sorted({_TRANSFERRED, *_PAYMENT_KINDS, *_SETUP_KINDS, *_REFUND_KINDS, *_DISPUTE_KINDS, *_PAYOUT_KINDS})
"""The kinds that are read from Stripe's list: at most 20 can be named (docs.stripe.com/api/events/list)."""
_LIST: Final = timedelta(seconds=60)
_TAKEN: Final = frozenset({"needs_response", "under_review", "won", "lost"})
"""The statuses of a dispute for which the bank took the money; an inquiry (`warning_…`) takes none."""


class Events(Intents):
    """The messages of one account."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._payouts = Payouts(transport)

    async def findings(self, notice: NoticeReceived, deadline_at: datetime) -> Sequence[Finding] | None:
        """Returns what is true of a message's object; None if Stripe knows no such object, or no such event.

        Raises ProcessorTimedOut, ProcessorUnavailable.
        """
        try:
            found = await self._about(notice, deadline_at)
        except Refused as refusal:
            if refusal.error.code == "resource_missing":
                return None
            raise ProcessorTimedOut(f"Stripe does not show what the message is about: {refusal}") from None
        return [finding for finding in found if finding.merchant_id == notice.merchant_id]

    async def notices(self, since: datetime, until: datetime) -> Sequence[MessageNotice]:
        """Returns what Stripe has reported in a time, whether a message arrived or not.

        Raises ProcessorTimedOut, ProcessorUnavailable.
        """
        deadline_at = datetime.now(UTC) + _LIST
        form: Form = {"created": {"gte": seconds(since), "lt": seconds(until)}, "types": _KINDS}
        try:
            listed = self.transport.list("/v1/events", form, Event, deadline_at=deadline_at)
            return [_notice(event) async for event in listed]
        except Refused as refusal:
            raise ProcessorTimedOut(f"Stripe refuses the list: {refusal}") from None

    async def _about(self, notice: NoticeReceived, deadline_at: datetime) -> Sequence[Finding]:
        if not (_ID.fullmatch(notice.object_id) and _ID.fullmatch(notice.message_id)):
            return []
        if notice.kind.startswith("payout."):
            return await self._payout(notice.object_id, deadline_at)
        deadline_at = min(deadline_at, datetime.now(UTC) + _FEW_REQUESTS)
        match notice.kind:
            case kind if kind == _TRANSFERRED:
                event = await self.transport.get(
                    f"/v1/events/{notice.message_id}", {}, Event, deadline_at=deadline_at
                )  # it alone names the customer, whose id the path of the transaction needs
                return await self._transfer(_object(event, CashTransaction), deadline_at)
            case kind if kind in _PAYMENT_KINDS:
                return await self._payment(notice.object_id, deadline_at)
            case kind if kind in _SETUP_KINDS:
                return await self._verification(notice.object_id, deadline_at)
            case kind if kind in _REFUND_KINDS:
                return await self._refund(notice.object_id, deadline_at)
            case kind if kind.startswith("charge.dispute."):
                return await self._dispute(notice.object_id, deadline_at)
            case _:
                return []

    async def _transfer(self, moved: CashTransaction, deadline_at: datetime) -> Sequence[OrderMessage]:
        """Returns the deposit of a transfer that came to the CLABE of a reference, or that a bank took it back.

        What a bank takes back leaves the payment as a lost dispute does. Stripe takes what the customer's balance lacks
        from the merchant's (docs.stripe.com/payments/customer-balance, "Types").
        """
        if moved.type not in {_FUNDED, _TAKEN_BACK}:
            return []
        path = f"{CUSTOMERS}/{moved.customer}"
        customer = await self.transport.get(path, {}, Customer, deadline_at=deadline_at)
        if merchant_of(customer.metadata) is None:
            return []
        if moved.type == _TAKEN_BACK:
            about = envelope(customer.metadata, moved.id, _time(moved.created))
            amount = from_units(-moved.net_amount)
            if amount <= 0:
                return []
            return [DisputeLost(**about, dispute_id=moved.id, processor_reference=moved.customer, amount=amount)]
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
                **envelope(customer.metadata, moved.id, _time(moved.created)),
                reference=clabes[0],
                amount=from_units(moved.net_amount),
                currency=moved.currency.upper(),
                processor_reference=moved.id,
            )
        ]

    async def _payment(self, intent_id: str, deadline_at: datetime) -> Sequence[Finding]:
        """Returns the state of a payment by card, or the deposit of cash that was paid under a voucher.

        Money at a CLABE has messages of its own: an intent shows only what was applied to it.
        """
        intent = await self.read(intent_id, deadline_at)
        about = about_of(intent.metadata)
        if any(named is None for named in about.values()):
            return []
        if _CARD in intent.payment_method_types:
            return [_state(intent, about)]
        charge = intent.charge
        details = None if charge is None else charge.payment_method_details
        voucher = None if details is None else details.oxxo
        if charge is None or voucher is None or voucher.number is None or intent.status != "succeeded":
            return []
        return [
            DepositReceived(
                **envelope(intent.metadata, charge.id, _time(charge.created)),
                reference=voucher.number,
                amount=from_units(intent.amount_received),
                currency=intent.currency.upper(),
                processor_reference=charge.id,
            )
        ]

    async def _verification(self, intent_id: str, deadline_at: datetime) -> Sequence[Finding]:
        """Returns the state of the verification of a card that is saved without a payment.

        A key that may not read setup intents has made none: the others of the account are none of the ledger's.
        """
        try:
            intent = await self.read(intent_id, deadline_at)
        except NotPermitted:
            return []
        about = verification_of(intent.metadata)
        if any(named is None for named in about.values()) or path_of(intent.id).startswith(PAYMENTS):
            return []
        return [
            VerificationState(
                **about,  # type: ignore[arg-type]
                processor_reference=intent.id,
                is_waiting=_standing(intent) is Standing.WAITING,
                saved_card=approved(intent).saved_card if intent.status == "succeeded" else None,
            )
        ]

    async def _refund(self, refund_id: str, deadline_at: datetime) -> Sequence[Finding]:
        """Returns the end of a refund. One that was made in parts ends when all of them have ended.

        Its parts can fail one after another, each time with less that stays with the payer: these are messages of their
        own. A refund that fails is over, also if it had succeeded: Stripe has the money back then
        (docs.stripe.com/refunds#failed-refunds).
        """
        refund = await self.transport.get(f"{REFUNDS}/{refund_id}", {}, Refund, deadline_at=deadline_at)
        key, metadata = named_key(refund.metadata), refund.metadata or {}
        if key is None:
            return await self._unrequested(refund, deadline_at)
        parts = await parts_of(self.transport, refund, deadline_at)
        if not are_all(parts):
            return []
        whole = from_units(whole_of(refund))
        answer = answer_of(whole, parts)
        if isinstance(answer, RefundPending):
            return []
        has_ended = isinstance(answer, Refunded)
        named = next((part for part in parts if has_ended or part.status in UNDONE), parts[0])
        about: dict[str, Any] = envelope(metadata, f"{named.id}:{named.status}", _time(named.created))
        about |= {"idempotency_key": key[1], "processor_reference": named.id}
        if isinstance(answer, Refunded):
            return [RefundConfirmed(**about, amount=whole)]
        if len(parts) > 1:
            about["message_id"] += f":{answer.returned}"
        about |= {"returned": answer.returned, "returned_reference": answer.returned_reference}
        return [RefundFailed(**about, code=answer.code, message=answer.message, is_final=True)]

    async def _unrequested(self, refund: Refund, deadline_at: datetime) -> Sequence[Finding]:
        """Returns a refund made on Stripe's own pages: of a payment of the ledger's, or of a reference's money."""
        about = about_of(await self.metadata_behind(refund, deadline_at))
        order_id = about["order_id"]
        if order_id is None or any(named is None for named in about.values()):
            return []
        return [
            UnrequestedRefund(
                **about,  # type: ignore[arg-type]
                refund_id=unrequested_refund_id(order_id, refund.id),
                processor_reference=refund.payment_intent,
                amount=from_units(refund.amount),
                outcome=refunded(refund),
            )
        ]

    async def _dispute(self, dispute_id: str, deadline_at: datetime) -> Sequence[OrderMessage]:
        """Returns that the bank took the money of a payment, and how the dispute ended if it has."""
        dispute = await self.transport.get(f"/v1/disputes/{dispute_id}", {}, Dispute, deadline_at=deadline_at)
        if dispute.payment_intent is None or dispute.status not in _TAKEN:
            return []
        intent = await self.read(dispute.payment_intent, deadline_at)
        if merchant_of(intent.metadata) is None:
            return []
        about: dict[str, Any] = {"dispute_id": dispute.id, "processor_reference": intent.id}
        amount = from_units(dispute.amount)
        opened = envelope(intent.metadata, f"{dispute.id}:opened", _time(dispute.created))
        messages: list[OrderMessage] = [DisputeOpened(**opened, **about, amount=amount, reason=dispute.reason.upper())]
        ended = envelope(intent.metadata, f"{dispute.id}:{dispute.status}", _time(dispute.created))
        if dispute.status == "won":
            messages.append(DisputeWon(**ended, **about))
        elif dispute.status == "lost":
            messages.append(DisputeLost(**ended, **about, amount=amount))
        return messages

    async def _payout(self, payout_id: str, deadline_at: datetime) -> Sequence[OrderMessage]:
        """Returns the payments that a payout settles, and whether it has reached the merchant's bank."""
        return await self._payouts.settlement(payout_id, deadline_at)


def _notice(event: Event) -> MessageNotice:
    return MessageNotice(
        message_id=event.id,
        kind=event.type,
        object_id=_object(event, NamedObject).asked_about,
        occurred_at=_time(event.created),
    )


def _object(event: Event, type_: type[T]) -> T:
    """Returns the object of an event as it was then, of which only the names are used."""
    try:
        return msgspec.json.decode(event.data.object, type=type_)
    except msgspec.DecodeError as fault:
        raise ProcessorTimedOut(f"the object of the event {event.id} is unreadable") from fault


def _state(intent: Intent, about: dict[str, UUID | None]) -> PaymentState:
    is_captured = intent.status == "succeeded"
    return PaymentState(
        **about,  # type: ignore[arg-type]
        processor_reference=intent.id,
        standing=_standing(intent),
        capture_key=capture_key_of(intent.id, intent.metadata),
        void_key=void_key_of(intent.id, intent.metadata),
        captured=from_units(intent.amount_received) if is_captured else ZERO,
        released=from_units(intent.amount - intent.amount_received) if is_captured else ZERO,
    )


def _standing(intent: Intent) -> Standing:
    match intent.status:
        case "requires_capture":
            return Standing.HELD
        case "succeeded":
            return Standing.CAPTURED
        case "canceled" if intent.cancellation_reason in BY_ITSELF:
            return Standing.LAPSED
        case "canceled":
            return Standing.VOIDED
        case "requires_payment_method" if intent.last_error is not None:
            return Standing.FAILED
        case _:
            return Standing.WAITING


def _time(seconds: int) -> datetime:
    """Returns when an object was made. Messages have this time, so that each about the object has the same one."""
    return datetime.fromtimestamp(seconds, UTC)
