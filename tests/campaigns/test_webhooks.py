"""A short campaign of webhooks, and a comparison that finds every kind of difference."""

from __future__ import annotations

import json
import sys
from typing import Any
from uuid import UUID

import pytest
from campaigns.webhooks.campaign import Plan, run
from campaigns.webhooks.comparison import UNDER_WAY, Feed, violations
from campaigns.webhooks.receiver import Arrival


@pytest.mark.anyio
@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
async def test_each_endpoint_gets_every_event_in_order_whatever_is_killed() -> None:
    result = await run(Plan(kills=3, consumer_kills=3, clients=6))
    assert result.violations == []
    assert all(result.arrived.values())
    assert sum(result.events) > 20


def _event(sequence: int, stream: int) -> dict[str, Any]:
    return {
        "id": str(UUID(int=sequence)),
        "type": "payment.captured",
        "sequence": sequence,
        "resource": {
            "id": f"payment {sequence}",
            "url": f"/api/v2/payment-orders/order-{stream}/payments/payment-{sequence}",
        },
        "data": {"status": "CAPTURED"},
    }


def _order(sequence: int, stream: int, customer: str) -> dict[str, Any]:
    return {
        "id": str(UUID(int=sequence)),
        "type": "payment_order.created",
        "sequence": sequence,
        "resource": {"id": f"order-{stream}", "url": f"/api/v2/payment-orders/order-{stream}"},
        "data": {"customer": {"id": customer}},
    }


def _of_customer(kind: str, sequence: int, customer: str) -> dict[str, Any]:
    return {
        "id": str(UUID(int=sequence)),
        "type": kind,
        "sequence": sequence,
        "resource": {"id": customer, "url": f"/api/customers/{customer}"},
        "data": {"id": customer},
    }


EVENTS = [_event(1, 1), _event(2, 1), _event(3, 2)]
FEED = Feed(EVENTS)


def _arrival(n: int, *, is_accepted: bool = True) -> Arrival:
    return Arrival(UUID(int=n), json.dumps(EVENTS[n - 1]).encode(), is_accepted)


def _found(arrivals: list[Arrival], kills: int = 0) -> list[str]:
    return list(violations("plain", arrivals, FEED, kills, is_thin=False))


def test_the_comparison_accepts_what_delivery_promises() -> None:
    one, two, three = map(_arrival, (1, 2, 3))
    assert _found([one, two, three]) == []
    assert _found([three, one, two]) == []  # another stream
    assert _found([_arrival(1, is_accepted=False), three, one, two]) == []
    assert _found([one, one, two, three], kills=1) == []


@pytest.mark.parametrize(
    ("arrivals", "wrong"),
    [
        ([1, 3], "payment.captured 2 never arrived"),
        ([2, 1, 3], "2 came before 1"),
        ([1, 1, 2, 3], "1 messages came again after 0 kills"),
    ],
)
def test_the_comparison_finds_what_is_lost_disordered_or_repeated(arrivals: list[int], wrong: str) -> None:
    assert f"plain: {wrong}" in _found([_arrival(n) for n in arrivals])


def test_the_comparison_finds_what_comes_before_its_predecessor_is_accepted() -> None:
    refused = _arrival(1, is_accepted=False)
    assert "plain: 2 came before 1" in _found([refused, _arrival(2), _arrival(1), _arrival(3)])


def test_the_comparison_finds_what_is_foreign_or_changed() -> None:
    arrivals = [_arrival(1), _arrival(2), _arrival(3)]
    foreign = Arrival(UUID(int=9), b"{}", is_accepted=True)
    changed = Arrival(UUID(int=1), json.dumps(EVENTS[0] | {"sequence": 7}).encode(), is_accepted=True)
    assert f"plain: {UUID(int=9)} is no event of the merchant" in _found([*arrivals, foreign])
    found = _found([*arrivals, changed], kills=1)
    assert f"plain: {UUID(int=1)} came with other bytes" in found
    assert "plain: payment.captured 1 is not as the feed has it: sequence 7 for 1" in found
    assert len(_found(arrivals * (UNDER_WAY + 1), kills=1)) == 1


def test_the_comparison_finds_a_payment_that_comes_before_its_order() -> None:
    order, payment = _order(1, 1, "ana"), _event(2, 1)
    arrivals = [Arrival(UUID(each["id"]), json.dumps(each).encode(), is_accepted=True) for each in (payment, order)]
    found = list(violations("plain", arrivals, Feed([order, payment]), 0, is_thin=False))
    assert found == ["plain: 2 came before 1"]


@pytest.mark.parametrize("is_erased", [True, False])
def test_a_person_may_have_arrived_before_the_erasure_alone(*, is_erased: bool) -> None:
    order, payment = _order(1, 1, "ana"), _event(2, 1) | {"data": {"billingCity": None}}
    end = _of_customer("customer.deleted" if is_erased else "customer.updated", 3, "ana")
    before = payment | {"data": {"billingCity": "Puebla"}}
    bodies = [order, before, payment, end]
    arrivals = [Arrival(UUID(each["id"]), json.dumps(each).encode(), is_accepted=True) for each in bodies]
    found = list(violations("plain", arrivals, Feed([order, payment, end]), 1, is_thin=False))
    assert found == (
        []
        if is_erased
        else [
            f"plain: {UUID(int=2)} came with other bytes",
            "plain: payment.captured 2 is not as the feed has it: data.billingCity 'Puebla' for None",
        ]
    )


def test_whatever_else_an_event_of_an_erased_customer_has_arrives_as_the_feed_has_it() -> None:
    order, gone = _order(1, 1, "ana"), _of_customer("customer.deleted", 2, "ana")
    arrivals = [
        Arrival(UUID(int=1), json.dumps(order | {"sequence": 7}).encode(), is_accepted=True),
        Arrival(UUID(int=2), json.dumps(gone).encode(), is_accepted=True),
    ]
    found = list(violations("plain", arrivals, Feed([order, gone]), 0, is_thin=False))
    assert found == ["plain: payment_order.created 1 is not as the feed has it: sequence 7 for 1"]
