"""Orders that a merchant made under the external id of a later charge: they pay nothing of a subscription."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from tests.operations.conftest import APPROVED, DECLINED, an_order, by_card
from tests.subscriptions.shop import Shop

from ledger.domain.streams import ORDERS
from ledger.domain.subscriptions.charge_ids import external_id
from ledger.domain.subscriptions.state import InvoiceStatus, SubscriptionStatus
from ledger.operations.orders.create import create_order

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("number", [None, APPROVED, DECLINED], ids=["pending", "paid", "failed"])
async def test_an_order_with_the_external_id_of_a_charge_is_not_the_charge(shop: Shop, number: str | None) -> None:
    made = await shop.subscribe(await shop.plan())
    taken = an_order(external_id(made.subscription_id, 2, 1), None if number is None else by_card(number))
    foreign = (await create_order(shop.ledger, shop.actor, taken)).order

    await shop.move(made.current_period_end)

    state = await shop.at(made.subscription_id)
    invoice = state.invoices[-1]
    assert (state.status, invoice.status) == (SubscriptionStatus.PAST_DUE, InvoiceStatus.OPEN)
    assert invoice.last_decline == "DUPLICATE_EXTERNAL_ID"
    assert (await shop.ledger.journal.load(shop.merchant_id, ORDERS, foreign.terms.order_id))[0] == foreign

    await shop.move(timedelta(days=4))  # the next attempt has an external id of its own
    state = await shop.at(made.subscription_id)
    assert (state.status, state.invoices[-1].status) == (SubscriptionStatus.ACTIVE, InvoiceStatus.PAID)
    charges = await shop.charges()
    assert [charge.amount_paid for charge in charges] == [Decimal(10_000)] * 2
    assert {charge.terms.subscription_id for charge in charges} == {made.subscription_id}
    assert foreign not in charges
