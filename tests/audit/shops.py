"""A merchant with rows in every table that an audit compares, and a log that is sealed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from msgspec import structs
from tests.audit.auditing import settings_of
from tests.domain.test_plans import MONTHLY, USED
from tests.domain.test_processor_accounts import CONNECTED, DISCONNECTED
from tests.domain.test_products import COFFEE
from tests.domain.test_webhook_endpoints import CREATED
from tests.journal.global_invoice_samples import GLOBAL_INVOICES as GLOBAL_SAMPLES
from tests.journal.subscription_samples import SUBSCRIPTIONS as SUBSCRIPTION_SAMPLES
from tests.operations.conftest import DECLINED, SILENT, an_order, by_card
from tests.projections import merchants

from ledger.background.log_sealing import LogSealer
from ledger.domain.fold import fold
from ledger.domain.streams import (
    GLOBAL_INVOICES,
    MERCHANTS,
    PLANS,
    PROCESSOR_ACCOUNTS,
    PRODUCTS,
    SUBSCRIPTIONS,
    WEBHOOK_ENDPOINTS,
    ClaimKind,
    Stream,
)
from ledger.journal.append import Change, Claim
from ledger.operations.context.inputs import Actor, CustomerInput, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.orders.refund import refund_order
from ledger.security.secrets import load_checkpoint_keys
from ledger.settings import log_origin
from ledger.tlog.checkpoint_files import CheckpointFiles
from ledger.tlog.keys import LogKeys
from projections.search.compaction import SearchCompactor


async def fill(ledger: Ledger, merchant: Actor, orders: int = 60) -> None:
    """Makes orders in several statuses, a saved card, and by default enough events for a full tile."""
    await create_order(ledger, merchant, an_order("paid", by_card(persist=True)))
    await create_order(ledger, merchant, an_order("pending"))
    await create_order(ledger, merchant, an_order("declined", by_card(DECLINED)))
    await create_order(ledger, merchant, an_order("open", by_card(SILENT)))
    refunds = an_order("refunded", by_card(), customer=CustomerInput(external_id="luis", first_name="Luis"))
    await create_order(ledger, merchant, refunds)
    await refund_order(ledger, merchant, "refunded", RefundInput(amount=Decimal(1_000)))
    await make_orders(ledger, merchant, range(orders))


async def make_orders(ledger: Ledger, merchant: Actor, numbers: range) -> None:
    """Makes orders that are paid."""
    await asyncio.gather(*[create_order(ledger, merchant, an_order(f"many-{n}", by_card())) for n in numbers])


async def fill_every_table(ledger: Ledger, merchant: Actor, orders: int = 60) -> None:
    """Does the same as `fill`, and commits events of the streams that have other tables."""
    merchant_id = merchant.merchant_id

    async def commit(stream: Stream[Any], stream_id: UUID, events: list[Any], *claims: tuple[ClaimKind, str]) -> None:
        before = list(await ledger.journal.reader.stream(merchant_id, stream_id))
        change = Change(
            stream_id,
            len(before),
            events,
            fold(stream.evolve, None, before) if before else None,
            fold(stream.evolve, None, [*before, *events]),
        )
        keys = [Claim(kind, key, stream_id) for kind, key in claims]
        await ledger.journal.commit(merchant_id, uuid4(), [change], keys)

    await commit(MERCHANTS, merchant_id, [merchants.issued(merchant_id, bytes([n]) * 32) for n in (1, 2)])
    for product in (COFFEE, structs.replace(COFFEE, product_id=uuid4(), id="tea")):
        await commit(PRODUCTS, product.product_id, [product], (ClaimKind.PRODUCT_ID, product.id))
    await commit(PLANS, MONTHLY.plan_id, [MONTHLY, USED], (ClaimKind.PLAN_EXTERNAL_ID, "cafe"))
    requested, opened, started = (
        SUBSCRIPTION_SAMPLES[f"subscription-{each}.v1"] for each in ("requested", "invoice-opened", "started")
    )
    await commit(
        SUBSCRIPTIONS,
        requested.subscription_id,
        [requested, opened, started],
        (ClaimKind.SUBSCRIPTION_EXTERNAL_ID, requested.external_id),
    )
    announced = GLOBAL_SAMPLES["global-invoice-announced.v1"]
    await commit(GLOBAL_INVOICES, announced.global_invoice_id, [announced])
    await commit(PROCESSOR_ACCOUNTS, CONNECTED.account_id, [CONNECTED, DISCONNECTED])
    number = (ClaimKind.WEBHOOK_ENDPOINT_NUMBER, str(CREATED.number))
    await commit(WEBHOOK_ENDPOINTS, CREATED.endpoint_id, [CREATED], number)
    await fill(ledger, merchant, orders)


async def pack(url: str) -> None:
    """Packs and counts lines of searches, of which a full row has one or two."""
    async with SearchCompactor(url, rows_min=1, block_bytes=150, counted_from=1) as compactor:
        for _ in range(2):  # those that the first packs are counted by the second
            await compactor.pack()


async def seal(url: str, folder: Path | None = None, **changed: Any) -> None:
    """Seals all logs of a database, by its settings of which some are `changed`, and writes the checkpoints to a
    folder if there is one.
    """
    settings = structs.replace(settings_of(url), **changed)
    keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
    async with LogSealer(url, keys, CheckpointFiles(f"file://{folder or '/nowhere'}"), every_s=1.0) as sealer:
        await sealer.seal(asyncio.Event())
        if folder is not None:
            await sealer.write_checkpoints(datetime.now(UTC))
