"""The counter of folios: no number twice, with several processes, in races and after crashes."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from tests.background.conftest import Open
from tests.background.test_recovery import AFTERWARDS, sweep
from tests.background.test_stamping import Crash, crash_at, order_of
from tests.domain.invoices.stamper import FISCAL
from tests.operations.conftest import an_order, by_card

from ledger.domain.orders.invoices.terms import InvoiceFolio
from ledger.domain.orders.state import Order
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.registration import change_settings
from ledger.operations.orders.create import create_order
from ledger.operations.orders.invoices.stamp import stamp_due

pytestmark = pytest.mark.anyio


async def sold(ledger: Ledger, merchant: Actor, name: str) -> UUID:
    return (await create_order(ledger, merchant, an_order(name, by_card(), fiscal=FISCAL))).order.terms.order_id


def folio_of(order: Order) -> str:
    assert order.invoices is not None
    assert order.invoices.invoice is not None
    assert order.invoices.invoice.stamp is not None
    return order.invoices.invoice.terms.folio


async def test_orders_that_are_stamped_at_once_by_several_processes_have_different_folios(
    ledger: Ledger, merchant: Actor, open_another: Open
) -> None:
    await change_settings(ledger, merchant, {"invoice_folio": InvoiceFolio.COUNTER, "invoice_series": "WEB"})
    orders = [await sold(ledger, merchant, f"sale-{n}") for n in range(4)]
    ledgers = [ledger, await open_another()]
    await asyncio.gather(*[stamp_due(one, merchant.merchant_id, each) for each in orders for one in ledgers])
    folios = [folio_of(await order_of(ledger, merchant, each)) for each in orders]
    assert len({*folios}) == len(orders)
    assert all(folio.isdecimal() for folio in folios)


@pytest.mark.parametrize("point", ["before-intent", "after-intent", "after-call"])
async def test_a_crash_gives_no_number_twice(
    point: str, ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await change_settings(ledger, merchant, {"invoice_folio": InvoiceFolio.COUNTER})
    first, second = await sold(ledger, merchant, "first"), await sold(ledger, merchant, "second")
    with monkeypatch.context() as patch:
        crash_at(point, patch, 1)
        with pytest.raises(Crash):
            await stamp_due(ledger, merchant.merchant_id, first)
    await stamp_due(ledger, merchant.merchant_id, second)
    await sweep(ledger, database_url, AFTERWARDS)
    await stamp_due(ledger, merchant.merchant_id, first)
    folios = [folio_of(await order_of(ledger, merchant, each)) for each in (first, second)]
    lost = point == "before-intent"
    assert folios == (["3", "2"] if lost else ["1", "2"]), "a number is lost before it is recorded, and kept afterwards"
