"""Payments at several accounts: the first that can takes a payment, and everything later happens at its account."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.operations.conftest import Open, an_order, by_card
from tests.operations.test_action_recovery import order_named, recover, unanswered
from tests.operations.test_actions import MANUAL
from tests.processors.shop import question

from ledger.domain.orders.capabilities import MethodCapability
from ledger.domain.orders.events import AuthorizationRequested, RefundRequested
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import AmountNotChargeable, MethodNotEnabled, OrderNotFound, OrderNotRefundable
from ledger.operations.context.inputs import AccountToken, Actor, CancelInput, CaptureInput, PaymentInput, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.processor_accounts.connect import ConnectInput, connect_account
from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import CardToken
from ledger.processors.registry import AccountKeys

pytestmark = pytest.mark.anyio

SPEI = PaymentInput(type=MethodType.SPEI)
CARD = MethodCapability(type=MethodType.CARD, currencies=("MXN",), amount_min=Decimal(1_000), amount_max=Decimal(9_999))


async def with_backup(ledger: Ledger, merchant: Actor, *, first: bool = True, **changes: Any) -> ProcessorAccount:
    """Gives the merchant a second simulated account, which is asked before `sandbox` or after it."""
    accounts: Any = ledger.processors
    await connect_account(ledger, merchant, "backup", ConnectInput(processor="sandbox", keys=AccountKeys()))
    backup = replace(await accounts.named(merchant.merchant_id, "backup"), **changes)
    own = await accounts.named(merchant.merchant_id, "sandbox")

    async def of_merchant(_: Any) -> list[ProcessorAccount]:
        return [backup, own] if first else [own, backup]

    accounts.of_merchant = of_merchant
    return backup


async def test_every_later_call_of_a_payment_is_made_at_its_account(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    backup = await with_backup(ledger, merchant)
    order = (await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))).order
    [payment] = order.payments
    assert (payment.processor, payment.account) == ("sandbox", "backup")
    await with_backup(ledger, merchant, is_connected=False)
    assert (await create_order(ledger, merchant, an_order("2", by_card()))).order.payments[0].account == "sandbox"
    taken = (await capture_order(ledger, merchant, "1", CaptureInput(amount=Decimal(4_000)))).order
    assert taken.payments[0].captured == 4_000
    refunded = (await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(1_000)))).order
    assert refunded.payments[0].refunded == 1_000
    asked = question(merchant.merchant_id, payment.keys[0])
    assert await backup.processor.look_up(asked) is not None
    assert await ledger.processors.sandbox.look_up(asked) is None  # type: ignore[union-attr]
    events = await ledger.journal.reader.stream(merchant.merchant_id, order.terms.order_id)
    named = [event.account for event in events if isinstance(event, AuthorizationRequested | RefundRequested)]
    assert named == ["backup", "backup"]
    own = await order_named(ledger, merchant, "2")
    [requested] = [
        event
        for event in await ledger.journal.reader.stream(merchant.merchant_id, own.terms.order_id)
        if isinstance(event, AuthorizationRequested)
    ]
    assert requested.account is None, "an account that is named as its processor is stored as before"


async def test_another_process_recovers_a_call_at_its_account(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    dying, other = await open_another(), await open_another()
    backup: Any = await with_backup(dying, merchant)
    backup.processor.authorize = unanswered(backup.processor.authorize)
    await create_order(dying, merchant, an_order("1", by_card(), **MANUAL))
    await recover(database_url, other)
    assert (await order_named(ledger, merchant, "1")).status is OrderStatus.AUTHORIZED
    await cancel_order(other, merchant, "1", CancelInput())
    [payment] = (await order_named(ledger, merchant, "1")).payments
    assert payment.status is PaymentStatus.CANCELLED
    records = [each async for each in backup.processor.records(*_today())]
    assert [record.voided for record in records] == [True]


async def test_the_first_account_that_can_takes_a_payment_and_if_none_can_each_has_its_reason(
    ledger: Ledger, merchant: Actor
) -> None:
    await with_backup(ledger, merchant, methods=(CARD,))
    for name, payment, amount, account in (
        ("within", by_card(), 9_999, "backup"),
        ("above", by_card(), 10_000, "sandbox"),
        ("below", by_card(), 999, "sandbox"),
        ("spei", SPEI, 5_000, "sandbox"),
    ):
        request = an_order(name, payment, amount=Decimal(amount))
        assert (await create_order(ledger, merchant, request)).order.payments[0].account == account
    dollars = an_order("dollars", by_card(), currency="USD", amount=Decimal(5_000))
    assert (await create_order(ledger, merchant, dollars)).order.payments[0].account == "sandbox"
    own: Any = ledger.processors.sandbox
    own.capabilities = replace(own.capabilities, takes_card_numbers=False)
    refused = an_order("refused", by_card(), amount=Decimal(10_000))
    with pytest.raises(MethodNotEnabled) as raised:
        await create_order(ledger, merchant, refused)
    assert raised.value.facts == {
        "accounts": [
            {
                "account": "backup",
                "reason": "takes card from 1000 to 9999 minor units",
                "amountMin": 1_000,
                "amountMax": 9_999,
            },
            {"account": "sandbox", "reason": "takes no card numbers: it needs a token of the card"},
        ],
        "amountMin": 1_000,
        "amountMax": 9_999,
    }
    with pytest.raises(OrderNotFound):
        await order_named(ledger, merchant, "refused")
    again = await create_order(ledger, merchant, an_order("above", by_card(), amount=Decimal(10_000)))
    assert again.replayed, "an order that exists is shown, whichever accounts the merchant has now"


async def test_a_token_is_charged_at_its_account_and_of_several_at_the_first_that_takes_the_amount(
    ledger: Ledger, merchant: Actor
) -> None:
    await with_backup(ledger, merchant, methods=(CARD,))

    def tokens(*accounts: str) -> PaymentInput:
        token = CardToken(token="tok_visa")
        return PaymentInput(
            type=MethodType.CARD, card_tokens=tuple(AccountToken(account=each, token=token) for each in accounts)
        )

    for name, payment, amount, account in (
        ("own", tokens("sandbox"), 5_000, "sandbox"),
        ("both", tokens("sandbox", "backup"), 5_000, "backup"),
        ("above", tokens("sandbox", "backup"), 10_000, "sandbox"),
    ):
        request = an_order(name, payment, amount=Decimal(amount))
        assert (await create_order(ledger, merchant, request)).order.payments[0].account == account
    await create_order(ledger, merchant, an_order("later", amount=Decimal(10_000)))
    charged = (await charge_order(ledger, merchant, "later", tokens("backup", "sandbox"))).order
    assert charged.payments[0].account == "sandbox"
    with pytest.raises(MethodNotEnabled) as raised:
        await create_order(ledger, merchant, an_order("refused", tokens("backup"), amount=Decimal(10_000)))
    assert [each["account"] for each in raised.value.facts["accounts"]] == ["backup", "sandbox"]


async def test_an_account_moves_its_own_units_and_may_give_nothing_back(ledger: Ledger, merchant: Actor) -> None:
    backup: Any = (await with_backup(ledger, merchant)).processor
    backup.capabilities = replace(backup.capabilities, smallest_amount=Decimal(1))
    own: Any = ledger.processors.sandbox
    own.capabilities = replace(own.capabilities, smallest_amount=Decimal(1))
    with pytest.raises(AmountNotChargeable):
        await create_order(ledger, merchant, an_order("1", by_card(), amount=Decimal("150.5")))
    kept = tuple(replace(each, refundable=each.type is not MethodType.CARD) for each in backup.capabilities.methods)
    await create_order(ledger, merchant, an_order("2", by_card()))
    backup.capabilities = replace(backup.capabilities, methods=kept, capture_releases_rest=True)
    for payment_id in (None, (await order_named(ledger, merchant, "2")).payments[0].payment_id):
        with pytest.raises(OrderNotRefundable):
            await refund_order(ledger, merchant, "2", RefundInput(amount=Decimal(1), payment_id=payment_id))
    await create_order(ledger, merchant, an_order("3", by_card(), **MANUAL))
    taken = (await capture_order(ledger, merchant, "3", CaptureInput(amount=Decimal(4_000)))).order
    assert (taken.amount_released, taken.payments[0].capturable) == (6_000, 0)


def _today() -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now - timedelta(hours=1), now + timedelta(hours=1)
