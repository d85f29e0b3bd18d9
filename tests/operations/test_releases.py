"""The release of a rest at the processor: found by the recovery after a crash, and by what the processor says."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.operations.conftest import Open, an_order, by_card
from tests.operations.test_action_recovery import (
    GIVEN_UP,
    calls_booked,
    commit_fails,
    not_received,
    order_named,
    recover,
    unanswered,
    wrap,
)
from tests.operations.test_actions import KEY, MANUAL

from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.rejections import CaptureExceedsAuthorized, InvalidOrderState
from ledger.operations.context.inputs import Actor, CaptureInput, RefundInput, ReleaseInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.create import create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.orders.release import release_rest
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.contract import ProcessorUnavailable

pytestmark = pytest.mark.anyio

PART = CaptureInput(amount=Decimal(4_000))


async def half_taken(ledger: Ledger, merchant: Actor) -> Order:
    await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))
    return (await capture_order(ledger, merchant, "1", PART)).order


async def release(ledger: Ledger, merchant: Actor) -> Any:
    return await release_rest(ledger, merchant, "1", ReleaseInput(), KEY)


def rest(order: Order) -> tuple[Decimal, Decimal]:
    """Returns what was released of the payment, and what can still be captured of it."""
    return order.amount_released, order.payments[0].capturable


async def test_a_release_is_repeated_under_its_key_and_made_once(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    before = await half_taken(ledger, merchant)
    first, again = await release(ledger, merchant), await release(ledger, merchant)
    assert (first.repeated, again.repeated) == (False, True)
    assert rest(first.order) == rest(again.order) == (before.amount - 4_000, 0)
    assert calls_booked(database_url) == [("CAPTURE", 1), ("RELEASE", 1)]


@pytest.mark.parametrize("end", ["no answer", "after the answer"])
async def test_a_release_that_the_processor_made_is_found_by_the_recovery(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, end: str
) -> None:
    before = await half_taken(ledger, merchant)
    dying, other = await open_another(), await open_another()
    if end == "no answer":
        wrap(dying, "release", unanswered)
        waits = await release(dying, merchant)
        assert rest(waits.order) == (0, before.amount - 4_000)
    else:
        commit_fails(dying, 2)
        with pytest.raises(DatabaseUnavailable):
            await release(dying, merchant)
    for refused in (capture_order(ledger, merchant, "1", CaptureInput()), refund_order(ledger, merchant, "1", _REFUND)):
        with pytest.raises(InvalidOrderState):
            await refused
    await recover(database_url, ledger, other)
    order = await order_named(ledger, merchant, "1")
    assert rest(order) == (before.amount - 4_000, 0)
    assert order.open_intent is None
    assert calls_booked(database_url) == [("CAPTURE", 1), ("RELEASE", 1)]
    assert (await refund_order(ledger, merchant, "1", _REFUND)).order.amount_refunded == 1_000


async def test_a_release_that_never_arrived_leaves_the_rest_to_be_captured(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    before = await half_taken(ledger, merchant)
    dying = await open_another()
    wrap(dying, "release", not_received)
    with pytest.raises(asyncio.CancelledError):
        await release(dying, merchant)
    await recover(database_url, ledger, windows=GIVEN_UP)
    assert rest(await order_named(ledger, merchant, "1")) == (0, before.amount - 4_000)
    done = await capture_order(ledger, merchant, "1", CaptureInput())
    assert done.order.status is OrderStatus.COMPLETED


async def test_a_release_that_was_not_sent_is_sent_again(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    before = await half_taken(ledger, merchant)
    down = await open_another()
    wrap(down, "release", lambda _: _unavailable)
    assert rest((await release(down, merchant)).order) == (0, before.amount - 4_000)
    await recover(database_url, ledger)
    assert rest(await order_named(ledger, merchant, "1")) == (before.amount - 4_000, 0)


async def test_captures_and_a_release_at_once_lose_no_money(
    ledger: Ledger, merchant: Actor, open_another: Open
) -> None:
    await half_taken(ledger, merchant)
    other = await open_another()
    ended = await asyncio.gather(
        *(capture_order(ledger, merchant, "1", PART) for _ in range(2)),
        release_rest(other, merchant, "1", ReleaseInput()),
        return_exceptions=True,
    )
    refused = (InvalidOrderState, CaptureExceedsAuthorized)  # the second, if both captures came before the release
    assert all(isinstance(each, refused) for each in ended if isinstance(each, BaseException))
    order = await order_named(ledger, merchant, "1")
    [payment] = order.payments
    assert payment.captured + payment.released + payment.capturable == payment.authorized


async def test_a_final_capture_without_an_answer_is_found_with_its_release(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    held = (await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))).order
    dying = await open_another()
    wrap(dying, "capture", unanswered)
    await capture_order(dying, merchant, "1", replace(PART, final=True))
    await recover(database_url, ledger)
    assert rest(await order_named(ledger, merchant, "1")) == (held.amount - 4_000, 0)


async def test_every_capture_is_final_at_a_processor_whose_capture_releases_the_rest(
    ledger: Ledger, merchant: Actor, open_another: Open
) -> None:
    other: Any = await open_another()
    other.processors.sandbox.capabilities = replace(other.processors.sandbox.capabilities, capture_releases_rest=True)
    order = await half_taken(other, merchant)
    assert rest(order) == (order.amount - 4_000, 0)


_REFUND = RefundInput(amount=Decimal(1_000))


async def _unavailable(_: Any) -> Any:
    raise ProcessorUnavailable("nothing was sent")
