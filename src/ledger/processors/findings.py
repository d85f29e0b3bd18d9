"""What a processor answers when it is asked for the object of one of its messages.

A processor's messages are not believed: they only name an object. `Finding`s are what is true of the object now, so a
message that is doubled, early, late or forged changes nothing that a look-up would not.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from ledger.domain.money import ZERO
from ledger.domain.orders.processor_outcomes import CardReference, RefundAnswer
from ledger.processors.messages import OrderMessage


class Standing(StrEnum):
    """The state of a payment by card at its processor."""

    WAITING = "WAITING"
    """It waits for its payer, or for a card."""
    FAILED = "FAILED"
    """Its last try was declined, or its payer was not authenticated."""
    HELD = "HELD"
    """It is authorised, and nothing is captured."""
    CAPTURED = "CAPTURED"
    VOIDED = "VOIDED"
    """It was cancelled by a call, or on the processor's own pages."""
    LAPSED = "LAPSED"
    """It ended by itself, because it was authorised too long ago."""


class PaymentState(Struct, frozen=True, kw_only=True):
    """A payment by card as its processor has it now, by whatever moved it. Amounts are in minor units.

    `capture_key` and `void_key` name the call that has captured or cancelled it; what was done on the processor's own
    pages has keys that follow from the processor's ids, so that it has the same ones each time.
    """

    merchant_id: UUID
    order_id: UUID
    payment_id: UUID
    processor_reference: str
    standing: Standing
    capture_key: str
    void_key: str
    captured: Decimal = ZERO
    released: Decimal = ZERO


class UnrequestedRefund(Struct, frozen=True, kw_only=True):
    """A refund of a payment that no call has asked for: the merchant made it on the processor's own pages.

    `refund_id` follows from the processor's id. `processor_reference` is the payment's, None if the money
    came from another object than that.
    """

    merchant_id: UUID
    order_id: UUID
    payment_id: UUID
    refund_id: UUID
    amount: Decimal
    outcome: RefundAnswer
    processor_reference: str | None = None


class VerificationState(Struct, frozen=True, kw_only=True):
    """The verification of a card without a payment, as its processor has it now.

    `processor_reference` names its session. `saved_card` is the card that the processor keeps since, None if it keeps
    none.
    """

    merchant_id: UUID
    customer_id: UUID
    verification_id: UUID
    processor_reference: str
    is_waiting: bool
    saved_card: CardReference | None = None


Finding = OrderMessage | PaymentState | UnrequestedRefund | VerificationState
