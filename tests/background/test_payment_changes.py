"""How a payment stands at its processor, recorded on its order: what the payer or the merchant did elsewhere counts once,
and nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from tests.background.test_recovery import AFTERWARDS, sweep
from tests.operations.conftest import SILENT, an_order, by_card
from tests.operations.test_actions import CHALLENGED, MANUAL

from ledger.background.inbox.consumer import Applied, Disposition, RetryLater
from ledger.background.inbox.payment_changes import REFUND_REASON, record_payment_state, record_unrequested_refund
from ledger.domain.orders.commands import DisputeStage, RecordDispute
from ledger.domain.orders.decide.disputes_and_settlement import decide_dispute
from ledger.domain.orders.processor_outcomes import Refunded, RefundPending, RefundRefused
from ledger.domain.orders.refund import RefundStatus
from ledger.domain.orders.state import Order
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork, load_order
from ledger.processors.contract import ProcessorUnavailable
from ledger.processors.findings import PaymentState, Standing, UnrequestedRefund

pytestmark = pytest.mark.anyio


@dataclass
class Paid:
    """An order with one payment by card, and what its processor answers about it."""

    ledger: Ledger
    merchant: Actor
    order: Order

    @property
    def about(self) -> dict[str, Any]:
        ids = {"merchant_id": self.merchant.merchant_id, "order_id": self.order.terms.order_id}
        return ids | {"payment_id": self.order.payments[0].payment_id}

    async def stands(self, standing: Standing, captured: int = 0, account: str = "sandbox", **changes: Any) -> str:
        """Records how the payment stands; returns the order's status and, for one that waits, that it does."""
        payment = self.order.payments[0]
        own = payment.processor_reference or payment.session_reference or "pi_1"
        keys = {"capture_key": "pi_1:capture", "void_key": "pi_1:cancel", "processor_reference": own}
        state = PaymentState(**self.about | keys | {"standing": standing, "captured": Decimal(captured)} | changes)
        return await self._after(await record_payment_state(self.ledger, (account,), state))

    async def refunds(self, amount: int, outcome: Any, refund_id: Any) -> str:
        about = self.about | {"amount": Decimal(amount), "outcome": outcome, "refund_id": refund_id}
        return await self._after(await record_unrequested_refund(self.ledger, ("sandbox",), UnrequestedRefund(**about)))

    async def disputed(self, stage: DisputeStage, amount: int) -> str:
        """Records what the bank reports about the payment; returns the order's status."""
        uow, about = UnitOfWork(self.ledger, self.merchant), self.about

        async def attempt(_: Conflict | None) -> Plan:
            order = await uow.order(about["order_id"])
            command = RecordDispute(
                payment_id=about["payment_id"], dispute_id="d", stage=stage, at=uow.now, amount=Decimal(amount)
            )
            return Plan(changes=[uow.change_order(about["order_id"], decide_dispute(order, command))])

        await execute(uow, attempt, is_fact=True)
        return await self._after(Applied())

    async def _after(self, disposition: Disposition) -> str:
        self.order = await load_order(self.ledger, self.merchant.merchant_id, self.about["order_id"])
        assert isinstance(disposition, Applied | RetryLater)
        return f"{self.order.status}{'' if isinstance(disposition, Applied) else ' waits'}"


async def paid(ledger: Ledger, merchant: Actor, number: str | None = None, **terms: Any) -> Paid:
    card = by_card() if number is None else by_card(number)
    return Paid(ledger, merchant, (await create_order(ledger, merchant, an_order("1", card, **terms))).order)


async def test_a_call_without_an_outcome_is_left_to_the_recovery(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    unknown = await paid(ledger, merchant, SILENT)
    assert await unknown.stands(Standing.CAPTURED, 10_000) == "PROCESSING waits"
    assert (
        await unknown.refunds(1, Refunded(amount=Decimal(1), processor_reference="re"), uuid4()) == "PROCESSING waits"
    )
    await sweep(ledger, database_url, AFTERWARDS)
    recovered = (await load_order(ledger, merchant.merchant_id, unknown.about["order_id"])).payments
    assert await unknown.stands(Standing.CAPTURED, 10_000) == "COMPLETED"
    assert (unknown.order.amount_paid, unknown.order.payments) == (10_000, recovered)


async def test_a_capture_and_a_cancellation_elsewhere_count_once(ledger: Ledger, merchant: Actor) -> None:
    held = await paid(ledger, merchant, **MANUAL)
    for standing in (Standing.HELD, Standing.WAITING, Standing.FAILED, Standing.LAPSED):
        assert await held.stands(standing) == "AUTHORIZED"
    assert await held.stands(Standing.VOIDED, account="other") == "AUTHORIZED"
    for standing in (Standing.VOIDED, Standing.CAPTURED):
        assert await held.stands(standing, 10_000, processor_reference="pi_twin") == "AUTHORIZED", "it holds no money"
    assert await held.stands(Standing.VOIDED, order_id=uuid4()) == "AUTHORIZED waits"
    for _ in range(2):
        assert await held.stands(Standing.CAPTURED, 4_000, released=Decimal(6_000)) == "PARTIALLY_PAID"
        assert (held.order.amount_paid, held.order.payments[0].capturable) == (4_000, 0)
    assert await held.stands(Standing.VOIDED) == "PARTIALLY_PAID"
    left = Paid(ledger, merchant, (await create_order(ledger, merchant, an_order("2", by_card(), **MANUAL))).order)
    for _ in range(2):
        assert await left.stands(Standing.VOIDED) == "FAILED"
    assert await left.stands(Standing.CAPTURED, 10_000) == "COMPLETED", "money that came all the same is recorded"
    assert left.order.amount_paid == 10_000


async def test_a_payer_who_never_came_back_is_asked_for_at_the_processor(ledger: Ledger, merchant: Actor) -> None:
    asked = await paid(ledger, merchant, CHALLENGED)
    assert await asked.stands(Standing.WAITING) == "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED"
    assert await asked.stands(Standing.HELD) == "AUTHORIZED"
    assert asked.order.payments[0].authenticated is not None
    assert await asked.stands(Standing.HELD) == "AUTHORIZED"


async def test_a_payer_whose_session_cannot_be_continued_now_has_paid_once(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What he has paid is recorded by the call that continues it: recorded before, it would count again then."""
    asked = await paid(ledger, merchant, CHALLENGED)

    async def away(_: Any) -> Any:
        raise ProcessorUnavailable("too many requests")

    monkeypatch.setattr(ledger.processors.sandbox, "validate_authentication", away)
    for standing in (Standing.CAPTURED, Standing.HELD, Standing.FAILED):
        assert await asked.stands(standing, 10_000) == "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED waits"
    assert asked.order.amount_paid == 0
    monkeypatch.undo()
    for _ in range(2):
        assert await asked.stands(Standing.CAPTURED, 10_000) == "COMPLETED"
        assert asked.order.payments[0].captured == 10_000


async def test_a_refund_elsewhere_counts_once_and_is_never_sent(ledger: Ledger, merchant: Actor) -> None:
    order, first, second = await paid(ledger, merchant), uuid4(), uuid4()
    sent = AssertionError("the processor has made this refund")
    ledger.processors.sandbox.refund = lambda _: (_ for _ in ()).throw(sent)  # type: ignore[union-attr, method-assign]
    pending, done = RefundPending(processor_reference="re"), Refunded(amount=Decimal(4_000), processor_reference="re")
    failed = RefundRefused(code="LOST", message=None)
    assert await order.refunds(4_000, failed, first) == "COMPLETED"
    assert await order.refunds(4_000, pending, first) == "REFUND_PROCESSING"
    for _ in range(2):
        assert await order.refunds(4_000, done, first) == "PARTIALLY_REFUNDED"
    assert await order.refunds(7_000, done, second) == "PARTIALLY_REFUNDED waits"
    assert (order.order.payments[0].refunded, order.order.payments[0].refunding) == (4_000, 0)
    assert await order.refunds(1_000, pending, second) == "REFUND_PROCESSING"
    assert await order.refunds(1_000, failed, second) == "PARTIALLY_REFUNDED"


async def test_a_refund_whose_money_a_bank_took_is_recorded_late(ledger: Ledger, merchant: Actor) -> None:
    order, refund_id = await paid(ledger, merchant), uuid4()
    done, failed = Refunded(amount=Decimal(6_000), processor_reference="re"), RefundRefused(code="LOST", message=None)
    assert await order.disputed(DisputeStage.OPENED, 9_000) == "COMPLETED"
    assert await order.refunds(6_000, done, refund_id) == "COMPLETED waits", "the dispute may be won"
    assert await order.disputed(DisputeStage.LOST, 9_000) == "PARTIALLY_REFUNDED"
    pending = RefundPending(processor_reference="re")
    assert await order.refunds(6_000, pending, refund_id) == "PARTIALLY_REFUNDED waits"
    assert await order.refunds(10_001, done, refund_id) == "PARTIALLY_REFUNDED waits", "no bank took so much"
    for _ in range(2):
        assert await order.refunds(6_000, done, refund_id) == "REFUNDED"
        [payment], [refund] = order.order.payments, order.order.refunds
        assert (payment.refunded, payment.charged_back, payment.refunding) == (10_000, 9_000, 0)
        assert (refund.refund_id, refund.status, refund.amount) == (refund_id, RefundStatus.SUCCEEDED, 6_000)
        assert (refund.reason, refund.parts[0].processor_reference) == (REFUND_REASON, "re")
    assert await order.refunds(6_000, failed, refund_id) == "PARTIALLY_REFUNDED", "it came back"
    assert (order.order.payments[0].refunded, order.order.refunds[0].status) == (9_000, RefundStatus.FAILED)


async def test_a_part_of_a_payment_that_a_bank_took_is_refunded_once(ledger: Ledger, merchant: Actor) -> None:
    order = await paid(ledger, merchant)
    assert await order.disputed(DisputeStage.LOST, 4_000) == "PARTIALLY_REFUNDED"
    done = Refunded(amount=Decimal(6_000), processor_reference="re")
    assert await order.refunds(6_000, done, uuid4()) == "REFUNDED"
    assert (order.order.payments[0].refunded, order.order.payments[0].charged_back) == (10_000, 4_000)
    assert order.order.payments[0].entries[-1].reason is None, "the payment held it: the refund is not late"
