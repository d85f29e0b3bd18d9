"""What is counted of orders, payments, money and calls: once, after the commit, with labels that are bounded."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from tests.metric_values import Counted
from tests.operations.conftest import SILENT, an_order, by_card

from ledger.domain.orders.events import PaymentAuthorized, PaymentDeclined
from ledger.domain.orders.processor_outcomes import Declined
from ledger.domain.orders.terms import MethodType
from ledger.journal.append import Change, VersionConflict
from ledger.operations.context.inputs import Actor, PaymentInput, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline import payment_metrics
from ledger.operations.pipeline.processor_metrics import observed
from ledger.processors.contract import AuthorizationRequest, ProcessorTimedOut, ProcessorUnavailable

pytestmark = pytest.mark.anyio

CARD = ("CARD", "MXN", "sandbox")


async def test_a_sale_is_counted_by_method_currency_and_processor(ledger: Ledger, merchant: Actor) -> None:
    counted = Counted()
    await create_order(ledger, merchant, an_order("1", by_card()))
    assert counted("ledger_orders_created_total", "ledger_payment_events_total", "ledger_captured_amount_total") == {
        ("ledger_orders_created_total", "MXN"): 1,
        ("ledger_payment_events_total", "payment-started", *CARD): 1,
        ("ledger_payment_events_total", "payment-authorized", *CARD): 1,
        ("ledger_payment_events_total", "payment-captured", *CARD): 1,
        ("ledger_captured_amount_total", *CARD): 10_000,
    }
    assert counted("ledger_processor_call_seconds_count") == {
        ("ledger_processor_call_seconds_count", "sandbox", "authorization", "done"): 1
    }


async def test_a_conflict_and_a_repeated_request_count_nothing_twice(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, conflicts = ledger.journal.commit, iter(range(3))

    async def overtaken(merchant_id: UUID, command_id: UUID, changes: Sequence[Change], *rest: Any) -> int:
        if isinstance(changes[0].events[0], PaymentAuthorized) and next(conflicts, None) is not None:
            raise VersionConflict(changes[0].stream_id)
        return await commit(merchant_id, command_id, changes, *rest)

    monkeypatch.setattr(ledger.journal, "commit", overtaken)
    counted = Counted()
    for _ in range(2):
        await create_order(ledger, merchant, an_order("1", by_card()))
    assert next(conflicts, None) is None
    assert set(counted("ledger_orders_created_total", "ledger_payment_events_total").values()) == {1}
    assert set(counted("ledger_captured_amount_total").values()) == {10_000}


async def test_a_refund_moves_its_amount_and_not_what_was_captured(ledger: Ledger, merchant: Actor) -> None:
    order = (await create_order(ledger, merchant, an_order("1", by_card()))).order
    counted = Counted()
    await refund_order(ledger, merchant, str(order.terms.order_id), RefundInput(amount=Decimal(4_000)))
    assert counted("ledger_refunded_amount_total", "ledger_captured_amount_total") == {
        ("ledger_refunded_amount_total", *CARD): 4_000
    }
    assert counted("ledger_charged_back_amount_total") == {}


async def test_a_decline_is_counted_by_its_code(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def declines(_: AuthorizationRequest) -> Declined:
        return Declined(code="INSUFFICIENT_FUNDS")

    monkeypatch.setattr(ledger.processors.sandbox, "authorize", declines)
    counted, name = Counted(), "ledger_payment_declines_total"
    order = (await create_order(ledger, merchant, an_order("1", by_card()))).order
    assert counted(name) == {(name, "INSUFFICIENT_FUNDS", "ISSUER", *CARD): 1}
    assert counted("ledger_processor_call_seconds_count") == {
        ("ledger_processor_call_seconds_count", "sandbox", "authorization", "refused"): 1
    }
    for text in ("05 4242", "51 ana@example.com"):
        event = PaymentDeclined(payment_id=order.payments[0].payment_id, code=text, at=order.updated_at)
        payment_metrics.count(order.terms.order_id, Change(order.terms.order_id, 4, [event], order, order))
    assert counted(name) == {(name, "INSUFFICIENT_FUNDS", "ISSUER", *CARD): 1, (name, "other", "ISSUER", *CARD): 2}


async def test_a_transfer_is_counted_by_its_method(ledger: Ledger, merchant: Actor) -> None:
    counted = Counted()
    await create_order(ledger, merchant, an_order("1", PaymentInput(type=MethodType.SPEI)))
    assert counted("ledger_payment_events_total") == {
        ("ledger_payment_events_total", "payment-started", "SPEI", "MXN", "sandbox"): 1
    }
    assert counted("ledger_processor_call_seconds_count") == {
        ("ledger_processor_call_seconds_count", "sandbox", "reference", "done"): 1
    }


async def test_a_call_without_an_answer_is_counted_as_that(ledger: Ledger, merchant: Actor) -> None:
    counted = Counted()
    await create_order(ledger, merchant, an_order("1", by_card(SILENT)))
    assert counted("ledger_processor_call_seconds_count") == {
        ("ledger_processor_call_seconds_count", "sandbox", "authorization", "unanswered"): 1
    }


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (ProcessorUnavailable("away"), "not-sent"),
        (ProcessorTimedOut("late"), "unanswered"),
        (TimeoutError(), "unanswered"),
        (asyncio.CancelledError(), "unanswered"),
        (ValueError("4242 4242"), "unreadable"),
    ],
)
async def test_a_call_that_raises_is_counted_and_raises(fault: BaseException, outcome: str) -> None:
    async def call() -> None:
        raise fault

    counted = Counted()
    with pytest.raises(type(fault)):
        await observed("sandbox", "capture", call())
    name = "ledger_processor_call_seconds_count"
    assert counted(name) == {(name, "sandbox", "capture", outcome): 1}
