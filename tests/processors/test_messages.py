"""A processor's message is read only if it was signed with a key of the ledger within the replay window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest
from uuid_utils.compat import uuid7

from ledger.processors import messages
from ledger.processors.messages import InvalidSignature, MessageUnreadable, Signed, sign, verify

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OURS, OLD, THEIRS = b"k" * 32, b"o" * 32, b"x" * 32
SENT = {"processor": "sandbox", "merchant_id": uuid7(), "occurred_at": NOW, "order_id": uuid7()}
REFERENCE = {"processor_reference": "sbx_1"}

EACH = [
    messages.DepositReceived(
        **SENT, message_id="1", reference="646180000000000014", amount=Decimal("150.75"), currency="MXN", **REFERENCE
    ),
    messages.RefundConfirmed(**SENT, message_id="2", idempotency_key="r", amount=Decimal(10), **REFERENCE),
    messages.RefundFailed(**SENT, message_id="3", idempotency_key="r", code="ACCOUNT_CLOSED", **REFERENCE),
    messages.DisputeOpened(**SENT, message_id="4", dispute_id="d", amount=Decimal(10), **REFERENCE),
    messages.DisputeWon(**SENT, message_id="5", dispute_id="d", **REFERENCE),
    messages.DisputeLost(**SENT, message_id="6", dispute_id="d", amount=Decimal(10), **REFERENCE),
    messages.SettlementListed(**SENT, message_id="7", batch_id="b", **REFERENCE),
    messages.SettlementMatched(
        **SENT, message_id="8", batch_id="b", **REFERENCE, fee=Decimal("36.5"), fee_tax=Decimal(5), fee_currency="MXN"
    ),
    messages.SettlementRefused(**SENT, message_id="9", batch_id="b", **REFERENCE),
]
BODY = messages.encode(EACH[0])
GOOD = sign(BODY, [OURS], NOW)


@pytest.mark.parametrize("message", EACH, ids=lambda message: type(message).__name__)
def test_every_message_arrives_as_it_was_sent(message: messages.Message):
    assert verify(sign(messages.encode(message), [OURS], NOW), [OURS], NOW) == message


def test_either_key_is_valid_while_one_replaces_the_other():
    assert verify(sign(BODY, [OLD, OURS], NOW), [OURS], NOW) == EACH[0]
    assert verify(sign(BODY, [OLD], NOW), [OURS, OLD], NOW) == EACH[0]


@pytest.mark.parametrize(
    "forged",
    [
        sign(BODY, [THEIRS], NOW),
        msgspec.structs.replace(GOOD, body=BODY.replace(b"150.75", b"950.75")),
        msgspec.structs.replace(GOOD, timestamp=str(int(NOW.timestamp()) + 1)),
        msgspec.structs.replace(GOOD, signature=""),
        msgspec.structs.replace(GOOD, signature=GOOD.signature.removeprefix("v1,")),
        msgspec.structs.replace(GOOD, signature="ñ" * 50),
    ],
)
def test_a_message_without_a_valid_signature_is_not_read(forged: Signed):
    with pytest.raises(InvalidSignature):
        verify(forged, [OURS], NOW)


@pytest.mark.parametrize("minutes", [-6, 6, 60 * 24 * 365])
def test_an_old_message_cannot_be_replayed(minutes: int):
    with pytest.raises(InvalidSignature):
        verify(GOOD, [OURS], NOW + timedelta(minutes=minutes))
    assert verify(GOOD, [OURS], NOW + timedelta(minutes=4)) == EACH[0]


@pytest.mark.parametrize("timestamp", ["", "now", "-1", "1e9", "٣", "9" * 400])
def test_a_timestamp_that_is_not_a_number_is_invalid(timestamp: str):
    signature = messages._signature(BODY, timestamp, OURS)
    with pytest.raises(InvalidSignature):
        verify(Signed(body=BODY, timestamp=timestamp, signature=signature), [OURS], NOW)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b"{}",
        BODY.replace(b"deposit-received", b"deposit-imagined"),
        BODY.replace(b'"150.75"', b'"NaN"'),
        BODY.replace(b'"150.75"', b'"1e3000000"'),
        BODY.replace(b'"150.75"', b'"-1"'),
        BODY.replace(b'"150.75"', b'"0.00001"'),
        BODY.replace(b"12:00:00Z", b"12:00:00"),
        BODY.replace(b"2026-03-01T12:00:00Z", b"9999-12-31T23:59:59-14:00"),
    ],
)
def test_a_signed_message_with_invalid_content_is_unreadable(body: bytes):
    with pytest.raises(MessageUnreadable):
        verify(sign(body, [OURS], NOW), [OURS], NOW)


@pytest.mark.parametrize(
    ("fee", "tax", "currency", "is_read"),
    [
        ("0", "0", "MXN", True),
        ("36", None, None, True),
        ("36", "36", "USD", True),
        ("-1", None, "MXN", False),
        ("NaN", None, "MXN", False),
        ("1E+2", None, "MXN", False),
        ("0.00001", None, "MXN", False),
        ("36", "37", "MXN", False),
        (None, "1", "MXN", False),
        ("36", "5", "mxn", False),
        ("36", "5", "PESO", False),
    ],
)
def test_a_fee_is_zero_or_more_and_contains_its_tax(fee, tax, currency, is_read):
    fees = {"fee": fee, "fee_tax": tax, "fee_currency": currency}
    given = {name: Decimal(value) if name != "fee_currency" else value for name, value in fees.items() if value}
    signed = sign(messages.encode(msgspec.structs.replace(EACH[6], **given)), [OURS], NOW)
    if is_read:
        assert verify(signed, [OURS], NOW).fee == Decimal(fee)
    else:
        with pytest.raises(MessageUnreadable):
            verify(signed, [OURS], NOW)
