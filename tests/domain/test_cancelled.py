"""What a cancelled order answers. No event cancels one yet, so the state is written down as such."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.domain.story import approved, charge, create, created, folded, late, new_payment, settle, started

from ledger.domain.orders.decide.authorizations import decide_authorization_outcome
from ledger.domain.orders.decide.payments import decide_charge, decide_resubmission
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.rejections import DuplicateExternalId, OrderNotPayable

CANCELLED = replace(folded([created()]), closed=True)


def with_payment(status):
    order = folded([created(), started(1, 10000)])
    payment = replace(order.payments[0], status=status)
    return replace(order, payments=(payment,), closed=True)


def test_the_external_id_of_a_cancelled_order_is_used_up():
    with pytest.raises(DuplicateExternalId) as refused:
        decide_resubmission(CANCELLED, create(payment=new_payment()))
    assert refused.value.facts == {"field": "externalId"}


def test_a_cancelled_order_cannot_be_charged():
    with pytest.raises(OrderNotPayable) as refused:
        decide_charge(CANCELLED, charge())
    assert refused.value.facts["currentStatus"] == "CANCELLED"


@pytest.mark.parametrize("status", [PaymentStatus.CANCELLED, PaymentStatus.EXPIRED])
def test_money_that_was_taken_after_all_revives_a_cancelled_order(status):
    cancelled = with_payment(status)
    assert cancelled.status is OrderStatus.CANCELLED
    events = decide_authorization_outcome(cancelled, settle(1, approved(10000)))
    assert events == [late(1, 10000)]
    order = evolve(cancelled, events[0])
    assert order.status is OrderStatus.COMPLETED
    assert order.payments[0].status is PaymentStatus.CAPTURED
    assert decide_authorization_outcome(order, settle(1, approved(10000))) == []
