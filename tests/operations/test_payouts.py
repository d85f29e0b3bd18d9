"""A payout to an account that is named later: made once, to that account, by the recovery if its process has ended."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.operations.conftest import Open, an_order
from tests.operations.test_action_recovery import GIVEN_UP, calls_booked, commit_fails, order_named, recover, wrap
from tests.operations.test_actions import KEY, SPEI
from tests.operations.test_repeated_calls import CLABE, deposit, recording

from ledger.domain.orders.refund import RefundStatus
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.rejections import InvalidOrderState
from ledger.operations.context.inputs import Actor, ConfirmationInput, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.orders.payout import change_refund_destination, confirm_payout
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.postgres.connection import connect
from ledger.postgres.faults import DatabaseUnavailable
from ledger.processors.contract import ProcessorUnavailable
from projections.orders import open_calls
from projections.orders.pending_payouts import PendingPayout, pending_payouts

pytestmark = pytest.mark.anyio


def real(ledger: Ledger) -> Ledger:
    """Lets the sandbox be a processor that pays nothing out without an account."""
    processor: Any = ledger.processors.sandbox
    processor.capabilities = replace(processor.capabilities, is_simulated=False)
    return ledger


async def waiting(ledger: Ledger, merchant: Actor) -> None:
    order = (await create_order(real(ledger), merchant, an_order("1", SPEI))).order
    await deposit(ledger, merchant, order)
    await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(4_000), external_id="back"))


async def name_account(ledger: Ledger, merchant: Actor) -> Any:
    return await change_refund_destination(ledger, merchant, "1", "back", CLABE, KEY)


async def listed(database_url: str, ledger: Ledger) -> list[PendingPayout]:
    async def load(merchant_id: UUID, order_id: UUID) -> Order:
        return await load_order(ledger, merchant_id, order_id)

    async with await connect(database_url, "test") as connection:
        return await pending_payouts(connection, load)


@pytest.mark.parametrize("end", ["before the call", "after the call"])
async def test_a_payout_of_a_process_that_ended_is_made_once(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, end: str
) -> None:
    await waiting(ledger, merchant)
    assert dict(calls_booked(database_url)).get("PAY_OUT") is None, "no processor is asked"
    dying, sent = real(await open_another()), list[Any]()
    if end == "before the call":
        wrap(dying, "pay_out", lambda _: _down)
        await name_account(dying, merchant)
    else:
        commit_fails(dying, 2)
        with pytest.raises(DatabaseUnavailable):
            await name_account(dying, merchant)
    with pytest.raises(InvalidOrderState):
        await confirm_payout(ledger, merchant, "1", "back", ConfirmationInput())
    wrap(ledger, "pay_out", recording(sent))
    await recover(database_url, ledger)
    order = await order_named(ledger, merchant, "1")
    [part] = order.refunds[0].parts
    assert (part.status, part.processor_reference is not None, order.open_intent) == (RefundStatus.PENDING, True, None)
    assert dict(calls_booked(database_url))["PAY_OUT"] == 1
    assert [each.destination.clabe for each in sent] == ([CLABE.clabe] if end == "before the call" else [])


async def test_a_payout_that_never_arrived_fails_and_nothing_is_paid(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    await waiting(ledger, merchant)
    down = real(await open_another())
    wrap(down, "pay_out", lambda _: _down)
    await name_account(down, merchant)
    await recover(database_url, ledger, windows=GIVEN_UP)
    order = await order_named(ledger, merchant, "1")
    assert (order.refunds[0].status, order.amount_refunded) == (RefundStatus.FAILED, 0)


async def test_either_the_merchant_or_the_processor_pays_out(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    await waiting(ledger, merchant)
    other = real(await open_another())
    ended = await asyncio.gather(
        confirm_payout(ledger, merchant, "1", "back", ConfirmationInput()),
        change_refund_destination(other, merchant, "1", "back", CLABE),
        return_exceptions=True,
    )
    assert [type(each) for each in ended if isinstance(each, BaseException)] == [InvalidOrderState]
    confirmed = not isinstance(ended[0], BaseException)
    assert dict(calls_booked(database_url)).get("PAY_OUT", 0) == (0 if confirmed else 1)


async def test_operators_see_what_waits_for_a_merchant(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    await waiting(ledger, merchant)
    [payout] = await listed(database_url, ledger)
    assert (payout.merchant_id, payout.amount, payout.currency) == (merchant.merchant_id, Decimal(4_000), "MXN")
    await confirm_payout(ledger, merchant, "1", "back", ConfirmationInput())
    assert await listed(database_url, ledger) == []


async def test_operators_see_what_waits_of_money_that_came_in_after_a_full_refund(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    order = (await create_order(real(ledger), merchant, an_order("1", SPEI))).order
    for n in (1, 2):
        await deposit(ledger, merchant, order, f"deposit-{n}")
        await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(10_000), external_id=f"back-{n}"))
        if n == 1:
            await confirm_payout(ledger, merchant, "1", "back-1", ConfirmationInput())
    assert (await order_named(ledger, merchant, "1")).status is OrderStatus.PARTIALLY_REFUNDED
    assert [each.amount for each in await listed(database_url, ledger)] == [10_000]
    await confirm_payout(ledger, merchant, "1", "back-2", ConfirmationInput())
    assert await listed(database_url, ledger) == []


async def test_an_open_payout_is_as_old_as_its_account(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    await waiting(ledger, merchant)
    down = real(await open_another())
    wrap(down, "pay_out", lambda _: _down)
    await name_account(down, merchant)
    async with await connect(database_url, "test") as connection:
        announced = await (await connection.execute(open_calls.ANNOUNCED)).fetchall()
        asked = await connection.execute("select command_id from event where topic = 'payout-requested.v1'")
        assert announced == await asked.fetchall(), "not as old as the refund, which waited for the merchant"


async def _down(_: Any) -> Any:
    raise ProcessorUnavailable("nothing was sent")
