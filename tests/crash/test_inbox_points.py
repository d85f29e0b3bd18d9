"""Wherever a worker is killed while it applies messages of a processor, each is applied exactly once in the end."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from campaigns.chaos.evidence import gather
from campaigns.chaos.installation import Installation, installed
from campaigns.chaos.running import LEDGER, Running
from msgspec import Struct
from tests.background.test_inbox import BY_TRANSFER, about, deposit_at_bank, deposited
from tests.background.test_order_timers import moved
from tests.crash.inbox_points import INBOX_POINTS
from tests.crash.scenario import exit_of
from tests.operations.conftest import an_order, by_card, register
from tests.sealing import MASTER_KEY

from ledger.domain.orders import events
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.registration import change_settings
from ledger.operations.orders.create import create_order
from ledger.processors.messages import (
    DisputeLost,
    DisputeOpened,
    Message,
    SettlementListed,
    SettlementMatched,
    encode,
    sign,
)
from ledger.settings import Settings
from ledger.wiring import open_ledger

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are told of their parent's end by the kernel"),
]

_KEY = "6b" * 32
_PATIENCE_S = 60
_EXTRA = 2_500

# As if the lease of the killed worker had just begun: the next worker to be killed leaves its messages alone.
_LEASED = "update processor_message set next_try_at = now() + interval '1 hour' where handled_at is null"
# As if the leases and pauses of killed workers had ended.
_NEXT_TRY = "update processor_message set next_try_at = now(), claimed_until = null where handled_at is null"
_LEFT = """
select (select count(*) from processor_message where handled_at is null)
     + (select count(*) from sandbox_message where delivered_at is null and due_at < now() + interval '1 day')
     + (select count(*) from payment_order where call_deadline_at is not null)
"""

_FACTS = (
    events.DepositReceived,
    events.RefundRequested,
    events.PaymentRefunded,
    events.DisputeOpened,
    events.DisputeLost,
    events.SettlementListed,
    events.SettlementMatched,
)


class Shop(Struct, frozen=True):
    """A merchant with an order that is paid too much by transfer, and two that were paid by card."""

    merchant: Actor
    transfer: Order
    contested: Order
    settled: Order

    def messages(self) -> Sequence[Message]:
        """Returns the processor's messages, some before those they follow: six facts, one of them under two ids."""
        opened = about(self.merchant, self.contested, message_id="opened")
        listed = about(self.merchant, self.settled, message_id="listed")
        paid = {"processor_reference": "dep-1"}
        return [
            SettlementMatched(batch_id="b", **listed | {"message_id": "matched"}),
            deposited(self.merchant, self.transfer, 10_000 + _EXTRA, message_id="deposit", **paid),
            DisputeOpened(dispute_id="d", amount=Decimal(3_000), **opened),
            SettlementListed(batch_id="b", **listed),
            deposited(self.merchant, self.transfer, 10_000 + _EXTRA, message_id="deposit too", **paid),
            DisputeLost(dispute_id="d", amount=Decimal(3_000), **opened | {"message_id": "lost"}),
        ]


async def open_shop(ledger: Ledger) -> Shop:
    merchant = await register(ledger)
    await change_settings(ledger, Actor(merchant_id=merchant.merchant_id), {"refund_overpayment": True})
    requests = [an_order("1", BY_TRANSFER), an_order("2", by_card()), an_order("3", by_card())]
    orders = [(await create_order(ledger, merchant, request)).order for request in requests]
    shop = Shop(merchant, *orders)
    await deposit_at_bank(ledger, merchant, shop.transfer)  # so that it can refund the overpayment
    return shop


async def send(messages: Sequence[Message], port: int) -> None:
    """Sends each message twice, signed, to the address for processors."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        for status in (202, 200):
            for message in messages:
                signed = sign(encode(message), [bytes.fromhex(_KEY)], datetime.now(UTC))
                headers = {"message-timestamp": signed.timestamp, "message-signature": signed.signature}
                headers |= {"content-type": "application/json"}
                path = "/api/processor-messages/sandbox"
                answer = await client.post(path, content=signed.body, headers=headers)
                assert answer.status_code == status, answer.text


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement)


async def finish_with_two_workers(installation: Installation, log: Path) -> None:
    """Lets two workers that are not killed finish what the others left."""
    worker = [*LEDGER, "worker"]
    with Running(worker, installation.environment, log) as one, Running(worker, installation.environment, log) as two:
        one.wait_ready()
        two.wait_ready()
        async with (
            asyncio.timeout(_PATIENCE_S),
            await psycopg.AsyncConnection.connect(installation.url, autocommit=True) as connection,
        ):
            await connection.execute(_NEXT_TRY)
            while await (await connection.execute(_LEFT)).fetchone() != (0,):
                await asyncio.sleep(0.2)
                await connection.execute(_NEXT_TRY)


async def test_each_message_is_applied_once_wherever_its_worker_was_killed(
    postgres_url: str, template_database: str, tmp_path: Path
) -> None:
    log, shops = tmp_path / "log", dict[str, Shop]()
    settings = {"LEDGER_PROCESSOR_KEYS": f"sandbox:{_KEY}"}
    with installed(postgres_url, template_database, settings) as installation:
        own = Settings(database_url=installation.url, master_key=MASTER_KEY)
        async with open_ledger(own) as ledger:
            with Running([*LEDGER, "api", "--port", "0"], installation.environment, log) as api:
                port = api.wait_port()
                for point in INBOX_POINTS:
                    shops[point] = await open_shop(ledger)
                    await send(shops[point].messages(), port)
                    deadly = [*LEDGER[:2], "-m", "tests.crash.launcher", "worker", point]
                    with Running(deadly, installation.environment, log) as launcher:
                        launcher.wait_ready()
                        assert await exit_of(launcher) == -9, point
                    execute(installation.url, _LEASED)
        await finish_with_two_workers(installation, log)
        evidence = {merchant.merchant_id: merchant for merchant in await gather(installation.url)}
        paid_out = moved(installation.url, "PAY_OUT")
    assert paid_out == [_EXTRA] * len(shops)
    for point, shop in shops.items():
        found = evidence[shop.merchant.merchant_id]
        facts = Counter(type(recorded.event) for recorded in found.log if isinstance(recorded.event, _FACTS))
        assert facts == Counter(dict.fromkeys(_FACTS, 1)), point
        assert ends(found.orders, shop) == [
            (OrderStatus.PARTIALLY_REFUNDED, PaymentStatus.PARTIALLY_REFUNDED, 12_500, 2_500),
            (OrderStatus.PARTIALLY_REFUNDED, PaymentStatus.PARTIALLY_REFUNDED, 10_000, 3_000),
            (OrderStatus.COMPLETED, PaymentStatus.SETTLED, 10_000, 0),
        ], point


def ends(orders: Any, shop: Shop) -> list[tuple[OrderStatus, PaymentStatus, Decimal, Decimal]]:
    """Returns how the shop's orders ended."""
    ended = [orders[order.terms.order_id] for order in (shop.transfer, shop.contested, shop.settled)]
    return [(order.status, order.payments[0].status, order.amount_paid, order.amount_refunded) for order in ended]
