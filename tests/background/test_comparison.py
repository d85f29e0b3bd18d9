"""Which calls of a payment are asked for when a record of it is looked up, and how a line is recorded in turn."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.action_builders import record_refund
from tests.domain.builders import (
    authentication_requested,
    authorization_requested,
    authorized,
    capture_requested,
    captured,
    created,
    deposited,
    folded,
    key,
    payer_action_required,
    payment_id,
    refund_id,
    refund_requested,
    scheduled,
    started,
)
from tests.domain.transition_rows import awaiting_deposit

from ledger.background.reconciliation.comparison import (
    Contrast,
    Kind,
    Missing,
    contrast,
    listed_under,
    possible_actions,
    records_of,
    reports_of,
)
from ledger.domain.fold import fold
from ledger.domain.orders.decide.refunds import decide_refund_outcome
from ledger.domain.orders.events import LateRefundReported
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import RefundRefused
from ledger.processors.contract import ProcessorRecord
from ledger.processors.messages import SettlementListed, SettlementMatched

NOW = datetime(2026, 11, 26, tzinfo=UTC)
ABOUT: dict[str, Any] = {"merchant_id": payment_id(9), "processor_reference": "ref"}
BEGUN = (created(10_000), started(1, 10_000), authorization_requested(1, 10_000))


@pytest.mark.parametrize(
    ("history", "name", "actions"),
    [
        (authorized(1, 10_000), key(1), (EntryAction.AUTHORIZATION, EntryAction.CAPTURE)),
        (authorized(1, 10_000), "capture-1", (EntryAction.CAPTURE,)),
        (payer_action_required(1), "validate-1", (EntryAction.CAPTURE, EntryAction.AUTHENTICATION)),
    ],
)
def test_an_authorisation_is_asked_for_by_its_own_key_alone(history: Any, name: str, actions: object) -> None:
    """Stripe makes what is looked up under a key that it does not know: another call's key would make a payment."""
    [payment] = folded((*BEGUN, history)).payments
    record = ProcessorRecord(idempotency_key=name, captured=Decimal(10_000), recorded_at=NOW, **ABOUT)
    assert possible_actions(payment, record) == actions


def test_what_the_end_of_an_authentication_captured_may_be_listed_under_the_authorisation() -> None:
    """Its own key is in the log, the authorisation's may be the processor's: both are asked for by none then."""
    record = ProcessorRecord(idempotency_key="key-1-challenge", captured=Decimal(10_000), recorded_at=NOW, **ABOUT)
    asked = (*BEGUN, payer_action_required(1), authentication_requested(1, 10_000))
    assert listed_under(folded(asked), record) == ("key-1-challenge", key(1))
    plain = ProcessorRecord(idempotency_key=key(1), captured=Decimal(10_000), recorded_at=NOW, **ABOUT)
    assert listed_under(folded(BEGUN), plain) == (key(1),)


def test_a_refund_that_failed_in_part_agrees_once_the_log_has_what_went_back() -> None:
    failed = RefundRefused(code="FAILED", returned=Decimal(1500), returned_reference="re-2")
    pending = folded((*awaiting_deposit(created()), deposited(1, 10_000), refund_requested(1, 6000)))
    key = f"{refund_id(1)}:{payment_id(1)}"
    about = {**ABOUT, "refunded": Decimal(6000), "recorded_at": NOW, "is_pending": False}
    record = ProcessorRecord(idempotency_key=key, returned=Decimal(1500), **about)
    [payment] = pending.payments
    assert contrast(pending, payment, record) is None, "the recovery ends an open call"
    accepted = replace(payment, intent=None)
    found = contrast(replace(pending, payments=(accepted,)), accepted, record)
    assert found == Contrast(Kind.STATUS, in_ledger="PENDING", at_processor="FAILED")
    order = fold(evolve, pending, decide_refund_outcome(pending, record_refund(failed)))
    assert contrast(order, order.payments[0], record) is None
    other = ProcessorRecord(idempotency_key=key, returned=Decimal(1600), **about)
    assert contrast(order, order.payments[0], other) == Contrast(Kind.AMOUNT, Missing.IN_LEDGER, "1500", "1600")
    [expected] = records_of(order, payment_id(9), order.payments[0].account, {})
    assert (expected.refunded, key in listed_under(order, expected)) == (1500, True)


def test_a_capture_on_the_processors_own_pages_is_in_the_log_under_the_key_of_the_call_that_has_found_it() -> None:
    """Recorded once more under the key that follows from the processor's id, the same money would count twice."""
    about = {**ABOUT, "idempotency_key": "pi_1:capture", "recorded_at": NOW, "captured": Decimal(10_000)}
    elsewhere = ProcessorRecord(**about, is_unrequested=True)
    held = (*BEGUN, authorized(1, 10_000), scheduled(1, 10_000))
    missing = Contrast(Kind.MISSING, at_processor="10000")
    for history, expected in (
        (held, missing),
        ((*BEGUN, payer_action_required(1)), None),
        ((*held, capture_requested(1, 10_000)), None),
        ((*held, capture_requested(1, 10_000), captured(1, 10_000)), None),
        ((*held, capture_requested(1, 10_000), captured(1, 4_000)), missing),
    ):
        order = folded(history)
        assert contrast(order, order.payments[0], elsewhere) == expected
        own = ProcessorRecord(**about)
        assert contrast(order, order.payments[0], own) == missing, "each call of the ledger's has money of its own"


def test_a_refund_that_is_recorded_by_its_end_alone_is_compared_as_any_other() -> None:
    """It was made on the processor's own pages, before a bank took the money: no call of the log has its key."""
    refunded = {"refund_id": refund_id(1), "payment_id": payment_id(1), "amount": Decimal(4_000), "at": NOW}
    late = LateRefundReported(**refunded, processor_reference="re_1", reason="Refunded elsewhere.")
    order = folded((*BEGUN, authorized(1, 10_000), captured(1, 10_000), late))
    [_, expected] = records_of(order, payment_id(9), order.payments[0].account, {})
    assert (expected.refunded, listed_under(order, expected)) == (4_000, (f"{refund_id(1)}:{payment_id(1)}",))
    assert contrast(order, order.payments[0], expected) is None


def test_a_line_is_recorded_as_its_messages_would_be() -> None:
    about = {**ABOUT, "processor": "stripe", "message_id": "1", "occurred_at": NOW, "batch_id": "po_1"}
    about |= {"fee": Decimal(36)}
    assert reports_of(SettlementMatched(**about)) == [SettlementListed(**about), SettlementMatched(**about)]
    assert reports_of(SettlementListed(**about)) == [SettlementListed(**about)]
