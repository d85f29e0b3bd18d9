"""Commands and outcomes for a cancelled order. The tests build the state directly."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    approved,
    charge,
    create,
    created,
    folded,
    late_capture,
    new_payment,
    record_authorization,
    started,
)

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


def test_the_external_id_of_a_cancelled_order_cannot_be_used_again():
    with pytest.raises(DuplicateExternalId) as refused:
        decide_resubmission(CANCELLED, create(payment=new_payment()))
    assert refused.value.facts == {"field": "externalId"}


def test_a_cancelled_order_cannot_be_charged():
    with pytest.raises(OrderNotPayable) as refused:
        decide_charge(CANCELLED, charge())
    assert refused.value.facts["currentStatus"] == "CANCELLED"


@pytest.mark.parametrize("status", [PaymentStatus.CANCELLED, PaymentStatus.EXPIRED])
def test_a_late_capture_reopens_a_cancelled_order(status):
    cancelled = with_payment(status)
    assert cancelled.status is OrderStatus.CANCELLED
    events = decide_authorization_outcome(cancelled, record_authorization(1, approved(10000)))
    assert events == [late_capture(1, 10000)]
    order = evolve(cancelled, events[0])
    assert order.status is OrderStatus.COMPLETED
    assert order.payments[0].status is PaymentStatus.CAPTURED
    assert decide_authorization_outcome(order, record_authorization(1, approved(10000))) == []
