"""What a processor writes for people is stored without card numbers and security codes; everything else stays."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from ledger.domain.orders.processor_outcomes import Approved, CaptureRefused, Declined, NotFound, RefundRefused
from ledger.processors.card_data import masked
from ledger.processors.messages import DisputeOpened, RefundFailed, decode, encode

WITH_CARD = "card 4242,4242,4242,4242 refused"
MASKED = "card ****,****,****,**** refused"


@pytest.mark.parametrize("kind", [Declined, CaptureRefused, RefundRefused])
def test_a_card_number_in_an_outcomes_text_becomes_stars(kind):
    assert masked(kind(code="05", message=WITH_CARD)) == kind(code="05", message=MASKED)
    assert masked(kind(code="05", message="cvv=123")) == kind(code="05", message="cvv=***")


def test_ids_and_other_texts_of_an_outcome_stay():
    approved = Approved(authorized=Decimal(1), captured=Decimal(1), processor_reference="4242424242424242")
    with_id = Declined(code="05", message="Refused: transaction ba30303221964663")
    for outcome in (approved, Declined(code="05", message="Try again after 2026-11-22."), with_id, NotFound()):
        assert masked(outcome) is outcome


def test_a_card_number_in_a_message_becomes_stars_before_it_is_stored():
    ids = {
        "processor": "stp",
        "message_id": "m",
        "merchant_id": UUID(int=1),
        "occurred_at": datetime(2026, 3, 1, tzinfo=UTC),
        "processor_reference": "4242424242424242",
    }
    failed = RefundFailed(idempotency_key="k", code="R1", message=WITH_CARD, **ids)
    assert decode(encode(failed)) == RefundFailed(idempotency_key="k", code="R1", message=MASKED, **ids)
    disputed = DisputeOpened(dispute_id="d", amount=Decimal(5), reason="PAN +378282246310005", **ids)
    assert decode(encode(disputed)).reason == "PAN +***************"
