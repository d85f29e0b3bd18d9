"""What a processor tells us unasked: money that came in, refunds and disputes that ended, settlements.

The rule a stranger would break: a message is known by (processor, message id) and may come twice, late, or before the
answer to the call that it is about. Nothing in one is believed before its signature was verified.

Amounts are minor units of the currency, `occurred_at` is the merchant's clock. `order_id` and `payment_id` are what we
said with the call, echoed; they are absent where the processor does not know what its message belongs to.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterable
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

REPLAY_WINDOW: Final = timedelta(minutes=5)
"""How far a signature's time may be from ours, either way."""

_SCHEME: Final = "v1,"
_TEXT_MAX: Final = 255


class _Sent(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type"):
    processor: str
    message_id: str
    merchant_id: UUID
    occurred_at: datetime
    order_id: UUID | None = None
    payment_id: UUID | None = None


class DepositReceived(_Sent, frozen=True, kw_only=True, tag="deposit-received"):
    """`amount` arrived at a reference: a CLABE, or a cash reference. `processor_reference` names this one deposit."""

    reference: str
    amount: Decimal
    currency: str
    processor_reference: str


class RefundConfirmed(_Sent, frozen=True, kw_only=True, tag="refund-confirmed"):
    """A refund or payout that was pending is done. `idempotency_key` is the one that it was asked for under."""

    idempotency_key: str
    processor_reference: str
    amount: Decimal


class RefundFailed(_Sent, frozen=True, kw_only=True, tag="refund-failed"):
    """A refund or payout that was pending came to nothing."""

    idempotency_key: str
    processor_reference: str
    code: str
    message: str | None = None


class DisputeOpened(_Sent, frozen=True, kw_only=True, tag="dispute-opened"):
    """The payer's bank took `amount` of a payment back until it is decided. `processor_reference` is the payment's."""

    dispute_id: str
    processor_reference: str
    amount: Decimal
    reason: str | None = None


class DisputeWon(_Sent, frozen=True, kw_only=True, tag="dispute-won"):
    """The dispute was decided for the merchant: the money is there again."""

    dispute_id: str
    processor_reference: str


class DisputeLost(_Sent, frozen=True, kw_only=True, tag="dispute-lost"):
    """The dispute was decided for the payer: `amount` is gone."""

    dispute_id: str
    processor_reference: str
    amount: Decimal


class SettlementListed(_Sent, frozen=True, kw_only=True, tag="settlement-listed"):
    """A payment is a line of a settlement batch. `processor_reference` is the payment's."""

    batch_id: str
    processor_reference: str


class SettlementMatched(_Sent, frozen=True, kw_only=True, tag="settlement-matched"):
    """The line was paid out to the merchant's account."""

    batch_id: str
    processor_reference: str


class SettlementRefused(_Sent, frozen=True, kw_only=True, tag="settlement-refused"):
    """The batch was refused: the payment will stand in another."""

    batch_id: str
    processor_reference: str


Message = (
    DepositReceived
    | RefundConfirmed
    | RefundFailed
    | DisputeOpened
    | DisputeWon
    | DisputeLost
    | SettlementListed
    | SettlementMatched
    | SettlementRefused
)

_encoder: Final = msgspec.json.Encoder(decimal_format="string")
_decoder: Final[msgspec.json.Decoder[Message]] = msgspec.json.Decoder(Message)


class Signed(Struct, frozen=True, kw_only=True):
    """A message as it travels: its bytes, when they were signed (Unix seconds, as text), and one signature or several."""

    body: bytes
    timestamp: str
    signature: str


class InvalidSignature(Exception):
    """The message was not signed with a key of ours, or not now."""


class MessageUnreadable(Exception):
    """The message is signed and is none that we know."""


def encode(message: Message) -> bytes:
    """The message's bytes, which `decode` reads back."""
    return _encoder.encode(message)


def decode(body: bytes) -> Message:
    """The message in verified bytes. Raises MessageUnreadable."""
    try:
        message = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as fault:
        raise MessageUnreadable(type(fault).__name__) from None
    if not _is_a_moment(message.occurred_at) or not _is_plain(getattr(message, "amount", None)):
        raise MessageUnreadable("a time or an amount that is none")
    if not all(_is_text(value) for value in msgspec.structs.astuple(message) if isinstance(value, str)):
        raise MessageUnreadable("a text that is none")
    return message


def sign(body: bytes, keys: Iterable[bytes], now: datetime) -> Signed:
    """Sign bytes with every key: two of them while one is replaced by the other."""
    timestamp = str(int(now.timestamp()))
    return Signed(body=body, timestamp=timestamp, signature=" ".join(_signature(body, timestamp, key) for key in keys))


def verify(signed: Signed, keys: Iterable[bytes], now: datetime) -> Message:
    """The message, where one of its signatures is by one of our keys and its time is now.

    Raises InvalidSignature without saying which of them is wrong, MessageUnreadable.
    """
    given = [signature.encode() for signature in signed.signature.split(" ")]
    right = False
    for key in keys:
        expected = _signature(signed.body, signed.timestamp, key).encode()
        for signature in given:
            right |= hmac.compare_digest(expected, signature)  # every pair is compared: the time tells nothing
    if not right or not _is_now(signed.timestamp, now):
        raise InvalidSignature
    message = decode(signed.body)
    if not _is_named(message):
        raise MessageUnreadable("an id that is empty, or an amount with an exponent")
    return message


def _signature(body: bytes, timestamp: str, key: bytes) -> str:
    # The time is digits only when verified, so the first dot ends it: no two (time, body) sign the same bytes.
    return _SCHEME + b64encode(hmac.new(key, timestamp.encode() + b"." + body, sha256).digest()).decode()


def _is_now(timestamp: str, now: datetime) -> bool:
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
        return False
    return abs(int(timestamp) - now.timestamp()) <= REPLAY_WINDOW.total_seconds()


def _is_a_moment(at: datetime) -> bool:
    """Whether a time has a zone and can be moved into another one."""
    return at.tzinfo is not None and MINYEAR < at.year < MAXYEAR


def _is_named(message: Message) -> bool:
    """Whether it says what it is about: two messages, or two deposits, without a name would be taken for one."""
    values = {field.name: getattr(message, field.name) for field in msgspec.structs.fields(message) if field.required}
    amount = values.get("amount")
    return "" not in values.values() and (amount is None or "E" not in str(amount))


def _is_text(text: str) -> bool:
    """Whether a text can be kept and compared: no control characters, and not longer than any id is."""
    return len(text) <= _TEXT_MAX and text.isprintable()


def _is_plain(amount: Decimal | None) -> bool:
    """Whether an amount can be calculated with; what is absent can."""
    if amount is None:
        return True
    exponent = amount.as_tuple().exponent
    return isinstance(exponent, int) and amount > 0 and exponent >= -4 and amount.adjusted() <= 12
