"""Races through two processes. The same request many times at once is executed once, and every client gets the same
answer. Requests for the same money never pay or refund more than there is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import cycle
from urllib.parse import quote

import pytest
from campaigns.chaos import bodies, rules
from campaigns.chaos.evidence import MerchantEvidence, gather
from campaigns.races.money import RACES, RaceService
from campaigns.races.running import wrong_in
from campaigns.races.simultaneous import RaceAnswer, RaceRequest, race, statuses
from tests.races.conftest import TwoProcesses

from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.streams import ClaimKind

pytestmark = pytest.mark.anyio

AT_ONCE, AMOUNT = 50, 10_000
ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.long) for number in range(1, 6))]


@pytest.fixture(autouse=True)
async def sound(processes: TwoProcesses) -> AsyncIterator[None]:
    """Checks after every race that the log, the read models and the processor's rows agree."""
    yield
    evidence = await evidence_of(processes)
    assert not rules.everything(evidence)


async def evidence_of(processes: TwoProcesses) -> MerchantEvidence:
    (evidence,) = await gather(processes.installation.url)
    return evidence


async def order_named(processes: TwoProcesses, name: str) -> Order:
    evidence = await evidence_of(processes)
    return evidence.orders[evidence.claims[ClaimKind.ORDER_EXTERNAL_ID, name]]


def creating(processes: TwoProcesses, *bodies_in_turn: bytes) -> list[RaceRequest]:
    """Returns the creates of a race, through all processes in turn, with these bodies in turn."""
    turns = zip(
        range(AT_ONCE),
        cycle(processes.ports),
        cycle([b for b in bodies_in_turn for _ in processes.ports]),
        strict=False,
    )
    return [
        RaceRequest(port=port, method="POST", path=bodies.ORDERS, api_key=processes.merchant.api_key, body=body)
        for _, port, body in turns
    ]


def charging(processes: TwoProcesses, name: str, body: bytes, at_once: int = AT_ONCE) -> list[RaceRequest]:
    path = f"{bodies.ORDERS}/{quote(name, safe='')}/charge"
    return [
        RaceRequest(port=port, method="POST", path=path, api_key=processes.merchant.api_key, body=body)
        for _, port in zip(range(at_once), cycle(processes.ports), strict=False)
    ]


async def one(processes: TwoProcesses, body: bytes) -> RaceAnswer:
    (answer,) = await race(creating(processes, body)[:1])
    return answer


@pytest.mark.parametrize("number", ROUNDS)
async def test_fifty_identical_orders_by_card_are_one_order_and_one_charge(
    processes: TwoProcesses, number: int
) -> None:
    name = f"card/{number}"
    answers = await race(creating(processes, bodies.create(name, AMOUNT, "approved", customer=f"new-{number}")))
    assert statuses(answers) == {201: 1, 200: AT_ONCE - 1}
    assert [answer.replayed for answer in answers if answer.status == 200] == [True] * (AT_ONCE - 1)
    assert len({(answer.order_id, answer.payment_id, answer.order_status) for answer in answers}) == 1
    assert answers[0].order_status == "COMPLETED"
    order = await order_named(processes, name)
    assert order.terms.order_id == answers[0].order_id
    assert [payment.status for payment in order.payments] == [PaymentStatus.CAPTURED]


@pytest.mark.parametrize("number", ROUNDS)
async def test_fifty_identical_pending_orders_are_one(processes: TwoProcesses, number: int) -> None:
    answers = await race(creating(processes, bodies.create(f"pending/{number}", AMOUNT)))
    assert statuses(answers) == {201: 1, 200: AT_ONCE - 1}
    assert len({answer.order_id for answer in answers}) == 1


async def test_a_declined_order_is_answered_as_declined_to_requests_that_made_a_payment_and_shown_to_the_others(
    processes: TwoProcesses,
) -> None:
    answers = await race(creating(processes, bodies.create("declined", AMOUNT, "declined")))
    declined = [answer.payment_id for answer in answers if answer.status == 422]
    assert statuses(answers) == {422: len(declined), 200: AT_ONCE - len(declined)}
    assert len({answer.order_id for answer in answers}) == 1
    # A request that arrives when the first was declined tries again (contract N26): that happens rarely, on slow
    # machines.
    order = await order_named(processes, "declined")
    assert {payment.payment_id for payment in order.payments} == set(declined)
    assert len(order.payments) == len(declined)
    assert len(declined) < AT_ONCE // 2


@pytest.mark.parametrize("number", ROUNDS)
async def test_racing_retries_of_a_failed_order_make_exactly_one_new_payment(
    processes: TwoProcesses, number: int
) -> None:
    name = f"retry/{number}"
    declined = await one(processes, bodies.create(name, AMOUNT, "declined"))
    assert declined.status == 422
    answers = await race(creating(processes, bodies.create(name, AMOUNT, "approved")))
    assert statuses(answers) == {201: 1, 200: AT_ONCE - 1}
    assert {answer.order_id for answer in answers} == {declined.order_id}
    assert len({answer.payment_id for answer in answers}) == 1
    order = await order_named(processes, name)
    assert [payment.status for payment in order.payments] == [PaymentStatus.FAILED, PaymentStatus.CAPTURED]


@pytest.mark.parametrize("number", ROUNDS)
async def test_racing_charges_of_one_order_charge_it_once(processes: TwoProcesses, number: int) -> None:
    name = f"charge/{number}"
    await one(processes, bodies.create(name, AMOUNT))
    answers = await race(charging(processes, name, bodies.charge("approved")))
    assert statuses(answers) == {200: 1, 409: AT_ONCE - 1}
    assert {answer.code for answer in answers if answer.status == 409} == {"ORDER_NOT_PAYABLE"}
    assert [payment.status for payment in (await order_named(processes, name)).payments] == [PaymentStatus.CAPTURED]


async def test_racing_charges_with_the_same_external_id_are_one_payment(processes: TwoProcesses) -> None:
    await one(processes, bodies.create("called", AMOUNT))
    answers = await race(charging(processes, "called", bodies.charge("approved", "attempt-1")))
    assert statuses(answers) == {200: AT_ONCE}
    assert [answer.replayed for answer in answers].count(False) == 1
    assert len({answer.payment_id for answer in answers}) == 1


@pytest.mark.parametrize("number", ROUNDS)
async def test_one_external_id_for_two_amounts_is_the_order_of_the_first_request(
    processes: TwoProcesses, number: int
) -> None:
    name = f"amounts/{number}"
    amounts = (AMOUNT, AMOUNT + 1)
    racing = creating(processes, *(bodies.create(name, amount, "approved") for amount in amounts))
    answers = await race(racing)
    won = (await order_named(processes, name)).terms.amount
    for request, answer in zip(racing, answers, strict=True):
        wanted = f'"amount": {won}'.encode() in request.body
        assert answer.status in ((200, 201) if wanted else (409,))
        assert answer.code == (None if wanted else "IDEMPOTENCY_MISMATCH")
    assert statuses(answers)[201] == 1


async def test_creating_and_charging_the_same_order_at_once_charges_it_once(processes: TwoProcesses) -> None:
    await one(processes, bodies.create("both", AMOUNT, "declined"))
    creates = creating(processes, bodies.create("both", AMOUNT, "approved"))[: AT_ONCE // 2]
    answers = await race(creates + charging(processes, "both", bodies.charge("approved"), AT_ONCE // 2))
    assert set(statuses(answers)) <= {200, 201, 409}
    order = await order_named(processes, "both")
    assert [payment.status for payment in order.payments] == [PaymentStatus.FAILED, PaymentStatus.CAPTURED]


# `python -m campaigns races` runs hundreds of rounds of each.
@pytest.mark.parametrize("rounds", [1, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", RACES)
async def test_no_race_pays_or_refunds_more_than_there_is(processes: TwoProcesses, name: str, rounds: int) -> None:
    service = RaceService(processes.ports, processes.merchant.api_key)
    for number in range(rounds):
        assert await RACES[name](service, f"{name}/{rounds}/{number}") == []
    assert await wrong_in(processes.installation) == []
