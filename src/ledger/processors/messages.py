"""Messages that a processor sends unasked: received money, the end of refunds and disputes, settlements, notices.

A message is identified by (processor, account, merchant, message id). It may arrive twice, late, or before the answer
to the call that it is about. Verify the signature before you use anything in a message.

Amounts are minor units of the currency, `occurred_at` is the time of the merchant's clock. `order_id` and `payment_id`
repeat those of the call; they are absent if the processor cannot assign its message to a call.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from decimal import Decimal
from functools import cache
from hashlib import sha256
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from ledger.domain.money import ZERO
from ledger.processors.card_data import masked

REPLAY_WINDOW: Final = timedelta(minutes=5)
"""How far the time of a signature may differ from the ledger's, either way."""

_SCHEME: Final = "v1,"
_TEXT_MAX: Final = 255


class _Sent(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type"):
    processor: str
    message_id: str
    merchant_id: UUID
    occurred_at: datetime
    order_id: UUID | None = None
    payment_id: UUID | None = None
    account: str | None = None

    @property
    def account_name(self) -> str:
        """The merchant's account that the message is about: without one, the account that is named as the processor."""
        return self.account or self.processor


class DepositReceived(_Sent, frozen=True, kw_only=True, tag="deposit-received"):
    """`amount` arrived at a reference: a CLABE, or a cash reference.

    `processor_reference` identifies this one deposit, `sender_clabe` the account that it came from, if the network
    names it.
    """

    reference: str
    amount: Decimal
    currency: str
    processor_reference: str
    sender_clabe: str | None = None


class RefundConfirmed(_Sent, frozen=True, kw_only=True, tag="refund-confirmed"):
    """A pending refund or payout succeeded. `idempotency_key` is that of its call."""

    idempotency_key: str
    processor_reference: str
    amount: Decimal


class RefundFailed(_Sent, frozen=True, kw_only=True, tag="refund-failed"):
    """A pending refund or payout failed.

    `returned` is the part of it that went back all the same, and `returned_reference` the processor's id of that part.
    With `is_final` it failed even if it was reported as succeeded before: the money is the merchant's again, and it
    never succeeds after that.
    """

    idempotency_key: str
    processor_reference: str
    code: str
    message: str | None = None
    returned: Decimal = Decimal(0)
    returned_reference: str | None = None
    is_final: bool = False


class DisputeOpened(_Sent, frozen=True, kw_only=True, tag="dispute-opened"):
    """The payer's bank took `amount` of a payment back until the dispute is decided.

    `processor_reference` is the payment's.
    """

    dispute_id: str
    processor_reference: str
    amount: Decimal
    reason: str | None = None


class DisputeWon(_Sent, frozen=True, kw_only=True, tag="dispute-won"):
    """The dispute was decided for the merchant, who has the money again."""

    dispute_id: str
    processor_reference: str


class DisputeLost(_Sent, frozen=True, kw_only=True, tag="dispute-lost"):
    """The dispute was decided for the payer, who keeps `amount`."""

    dispute_id: str
    processor_reference: str
    amount: Decimal


class _BatchLine(_Sent, frozen=True, kw_only=True):
    """The line of a settlement batch about one payment. `processor_reference` is the payment's.

    `fee` is what the processor keeps for the payment, its tax included; `fee_tax` is that tax. Both are minor units of
    `fee_currency`, without it of the payment's currency, and absent if the processor does not show them.
    """

    batch_id: str
    processor_reference: str
    fee: Decimal | None = None
    fee_tax: Decimal | None = None
    fee_currency: str | None = None


class SettlementListed(_BatchLine, frozen=True, kw_only=True, tag="settlement-listed"):
    """A settlement batch lists a payment."""


class SettlementMatched(_BatchLine, frozen=True, kw_only=True, tag="settlement-matched"):
    """The listed payment was paid out to the merchant's account."""


class SettlementRefused(_BatchLine, frozen=True, kw_only=True, tag="settlement-refused"):
    """The batch was refused, or the bank sent it back. Another batch will list the payment."""


SettlementLine = SettlementListed | SettlementMatched | SettlementRefused


class NoticeReceived(_Sent, frozen=True, kw_only=True, tag="notice-received"):
    """A processor's message in the processor's own form, of which only what it is about is kept.

    `kind` and `object_id` are the processor's names; `body_hash` is the SHA-256 of the bytes that were signed. Record
    nothing from it: ask the processor for the object. It is no message of `verify`: an account's own address takes it.
    """

    kind: str
    object_id: str
    body_hash: str


class MessageNotice(Struct, frozen=True, kw_only=True):
    """What a processor's message is about, in the processor's names. `object_id` is empty if it names no object."""

    message_id: str
    kind: str
    object_id: str
    occurred_at: datetime


OrderMessage = (
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
"""The messages that an order records."""

Message = OrderMessage | NoticeReceived

_encoder: Final = msgspec.json.Encoder(decimal_format="string")
_decoder: Final[msgspec.json.Decoder[Message]] = msgspec.json.Decoder(Message)


class Signed(Struct, frozen=True, kw_only=True):
    """A message in transit: its bytes, when they were signed (Unix seconds, as text), and one or several signatures."""

    body: bytes
    timestamp: str
    signature: str


class InvalidSignature(Exception):
    """The signature is of an unknown key, or its time is outside the replay window."""


class MessageUnreadable(Exception):
    """The message is signed, but it is of an unknown kind or holds a value that the ledger refuses."""


def encode(message: Message) -> bytes:
    """Returns the message's bytes, which `decode` reads back."""
    return _encoder.encode(message)


def decode(body: bytes) -> Message:
    """Returns the message in verified bytes, without card data in its texts. Raises MessageUnreadable."""
    try:
        message = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as fault:
        raise MessageUnreadable(type(fault).__name__) from None
    if not _is_valid_time(message.occurred_at) or not _is_plain(getattr(message, "amount", None)):
        raise MessageUnreadable("a time without a zone, or an amount outside the allowed range")
    if isinstance(message, _BatchLine) and not _has_valid_fee(message):
        raise MessageUnreadable("a fee outside the allowed range, a tax above it, or no currency of ISO 4217")
    if not all(_is_text(value) for value in msgspec.structs.astuple(message) if isinstance(value, str)):
        raise MessageUnreadable(f"a text with control characters, or of more than {_TEXT_MAX} characters")
    return masked(message)


def sign(body: bytes, keys: Iterable[bytes], now: datetime) -> Signed:
    """Signs bytes with every key. There are two while one replaces the other."""
    timestamp = str(int(now.timestamp()))
    return Signed(body=body, timestamp=timestamp, signature=" ".join(_signature(body, timestamp, key) for key in keys))


def verify(signed: Signed, keys: Iterable[bytes], now: datetime) -> Message:
    """Returns the message, if one of its signatures is by one of `keys` and its time is within the replay window.

    Raises InvalidSignature, which does not reveal which of the two is wrong; MessageUnreadable.
    """
    signatures = [signature.encode() for signature in signed.signature.split(" ")]
    is_valid = False
    for key in keys:
        expected = _signature(signed.body, signed.timestamp, key).encode()
        for signature in signatures:
            is_valid |= hmac.compare_digest(expected, signature)  # compares every pair: the duration reveals nothing
    if not is_valid or not _is_now(signed.timestamp, now):
        raise InvalidSignature
    message = decode(signed.body)
    if isinstance(message, NoticeReceived) or not _is_named(message):
        raise MessageUnreadable("an id that is empty, an amount with an exponent, or what only an account may report")
    return message


def _signature(body: bytes, timestamp: str, key: bytes) -> str:
    # The time consists of digits only (`_is_now`), so the first dot ends it: two (time, body) never sign the same
    # bytes.
    return _SCHEME + b64encode(hmac.new(key, timestamp.encode() + b"." + body, sha256).digest()).decode()


def _is_now(timestamp: str, now: datetime) -> bool:
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
        return False
    return abs(int(timestamp) - now.timestamp()) <= REPLAY_WINDOW.total_seconds()


def _is_valid_time(at: datetime) -> bool:
    """Returns whether a time has a zone and can be converted to another one."""
    return at.tzinfo is not None and MINYEAR < at.year < MAXYEAR


def _is_named(message: Message) -> bool:
    """Returns whether every required field is filled: two messages or deposits with empty ids would count as one."""
    values = {name: getattr(message, name) for name in _required(type(message))}
    amounts = [getattr(message, name, None) for name in ("amount", "fee", "fee_tax")]
    return "" not in values.values() and not any("E" in str(each) for each in amounts if each is not None)


@cache
def _required(kind: type[Struct]) -> Sequence[str]:
    return [field.name for field in msgspec.structs.fields(kind) if field.required]


def _is_text(text: str) -> bool:
    """Returns whether a text can be stored and compared: no control characters, and at most as long as an id."""
    return len(text) <= _TEXT_MAX and text.isprintable()


def _is_plain(amount: Decimal | None) -> bool:
    """Returns whether an amount is absent, or positive with at most four decimals and thirteen digits before them."""
    if amount is None:
        return True
    exponent = amount.as_tuple().exponent
    return isinstance(exponent, int) and amount > 0 and exponent >= -4 and amount.adjusted() <= 12


def _has_valid_fee(line: _BatchLine) -> bool:
    """Returns whether fee and tax are absent, zero or plain, the tax is in the fee, and the currency is a code."""
    fees = [each for each in (line.fee, line.fee_tax) if each is not None]
    if not all(_is_zero(each) or _is_plain(each) for each in fees):
        return False
    code, tax = line.fee_currency, line.fee_tax or ZERO
    is_currency = code is None or (len(code) == 3 and code.isascii() and code.isalpha() and code.isupper())
    return is_currency and tax <= (line.fee or ZERO)


def _is_zero(amount: Decimal) -> bool:
    return amount.is_finite() and amount == 0
