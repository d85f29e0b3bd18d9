"""The same request many times at once, through two processes: it is carried out once, and everybody is told the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import cycle
from urllib.parse import quote

import pytest
from tests.chaos import bodies, rules
from tests.chaos.evidence import MerchantEvidence, gather
from tests.races.conftest import Track
from tests.races.starting_line import Finish, Runner, race, statuses

from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.journal.append import ClaimKind

pytestmark = pytest.mark.anyio

AT_ONCE, ROUNDS, AMOUNT = 50, 6, 10_000


@pytest.fixture(autouse=True)
async def sound(track: Track) -> AsyncIterator[None]:
    """After every race the log, the views and the book agree."""
    yield
    evidence = await evidence_of(track)
    assert not rules.everything(evidence)


async def evidence_of(track: Track) -> MerchantEvidence:
    (evidence,) = await gather(track.installation.url)
    return evidence


async def order_called(track: Track, name: str) -> Order:
    evidence = await evidence_of(track)
    return evidence.orders[evidence.claims[ClaimKind.ORDER_EXTERNAL_ID, name]]


def creating(track: Track, *bodies_in_turn: bytes) -> list[Runner]:
    """As many creates as race, through all processes in turn, with these bodies in turn."""
    turns = zip(
        range(AT_ONCE), cycle(track.ports), cycle([b for b in bodies_in_turn for _ in track.ports]), strict=False
    )
    return [
        Runner(port=port, method="POST", path=bodies.ORDERS, api_key=track.merchant.api_key, body=body)
        for _, port, body in turns
    ]


def charging(track: Track, name: str, body: bytes, at_once: int = AT_ONCE) -> list[Runner]:
    path = f"{bodies.ORDERS}/{quote(name, safe='')}/charge"
    return [
        Runner(port=port, method="POST", path=path, api_key=track.merchant.api_key, body=body)
        for _, port in zip(range(at_once), cycle(track.ports), strict=False)
    ]


async def one(track: Track, body: bytes) -> Finish:
    (finish,) = await race(creating(track, body)[:1])
    return finish


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_fifty_identical_orders_by_card_are_one_order_and_one_charge(track: Track, number: int) -> None:
    name = f"card/{number}"
    finishes = await race(creating(track, bodies.create(name, AMOUNT, "approved", customer=f"new-{number}")))
    assert statuses(finishes) == {201: 1, 200: AT_ONCE - 1}
    assert [finish.replayed for finish in finishes if finish.status == 200] == [True] * (AT_ONCE - 1)
    assert len({(finish.order_id, finish.payment_id, finish.order_status) for finish in finishes}) == 1
    assert finishes[0].order_status == "COMPLETED"
    order = await order_called(track, name)
    assert order.terms.order_id == finishes[0].order_id
    assert [payment.status for payment in order.payments] == [PaymentStatus.CAPTURED]


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_fifty_identical_pending_orders_are_one(track: Track, number: int) -> None:
    finishes = await race(creating(track, bodies.create(f"pending/{number}", AMOUNT)))
    assert statuses(finishes) == {201: 1, 200: AT_ONCE - 1}
    assert len({finish.order_id for finish in finishes}) == 1


async def test_a_declined_order_is_declined_to_whoever_made_a_payment_and_shown_to_the_others(track: Track) -> None:
    finishes = await race(creating(track, bodies.create("declined", AMOUNT, "declined")))
    declined = [finish.payment_id for finish in finishes if finish.status == 422]
    assert statuses(finishes) == {422: len(declined), 200: AT_ONCE - len(declined)}
    assert len({finish.order_id for finish in finishes}) == 1
    # Who comes when the first has been declined tries again, as the contract says (N26): seldom, but on a slow machine.
    order = await order_called(track, "declined")
    assert {payment.payment_id for payment in order.payments} == set(declined)
    assert len(order.payments) == len(declined)
    assert len(declined) < AT_ONCE // 2


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_racing_retries_of_a_failed_order_make_exactly_one_new_payment(track: Track, number: int) -> None:
    name = f"retry/{number}"
    declined = await one(track, bodies.create(name, AMOUNT, "declined"))
    assert declined.status == 422
    finishes = await race(creating(track, bodies.create(name, AMOUNT, "approved")))
    assert statuses(finishes) == {201: 1, 200: AT_ONCE - 1}
    assert {finish.order_id for finish in finishes} == {declined.order_id}
    assert len({finish.payment_id for finish in finishes}) == 1
    order = await order_called(track, name)
    assert [payment.status for payment in order.payments] == [PaymentStatus.FAILED, PaymentStatus.CAPTURED]


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_racing_charges_of_one_order_charge_it_once(track: Track, number: int) -> None:
    name = f"charge/{number}"
    await one(track, bodies.create(name, AMOUNT))
    finishes = await race(charging(track, name, bodies.charge("approved")))
    assert statuses(finishes) == {200: 1, 409: AT_ONCE - 1}
    assert {finish.code for finish in finishes if finish.status == 409} == {"ORDER_NOT_PAYABLE"}
    assert [payment.status for payment in (await order_called(track, name)).payments] == [PaymentStatus.CAPTURED]


async def test_racing_charges_that_the_merchant_calls_the_same_are_one_payment(track: Track) -> None:
    await one(track, bodies.create("called", AMOUNT))
    finishes = await race(charging(track, "called", bodies.charge("approved", "attempt-1")))
    assert statuses(finishes) == {200: AT_ONCE}
    assert [finish.replayed for finish in finishes].count(False) == 1
    assert len({finish.payment_id for finish in finishes}) == 1


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_one_name_for_two_amounts_is_the_order_of_whoever_came_first(track: Track, number: int) -> None:
    name = f"amounts/{number}"
    amounts = (AMOUNT, AMOUNT + 1)
    racing = creating(track, *(bodies.create(name, amount, "approved") for amount in amounts))
    finishes = await race(racing)
    won = (await order_called(track, name)).terms.amount
    for runner, finish in zip(racing, finishes, strict=True):
        wanted = f'"amount": {won}'.encode() in runner.body
        assert finish.status in ((200, 201) if wanted else (409,))
        assert finish.code == (None if wanted else "IDEMPOTENCY_MISMATCH")
    assert statuses(finishes)[201] == 1


async def test_creating_and_charging_the_same_order_at_once_charges_it_once(track: Track) -> None:
    await one(track, bodies.create("both", AMOUNT, "declined"))
    creates = creating(track, bodies.create("both", AMOUNT, "approved"))[: AT_ONCE // 2]
    finishes = await race(creates + charging(track, "both", bodies.charge("approved"), AT_ONCE // 2))
    assert set(statuses(finishes)) <= {200, 201, 409}
    order = await order_called(track, "both")
    assert [payment.status for payment in order.payments] == [PaymentStatus.FAILED, PaymentStatus.CAPTURED]
