"""The report of a month over documents that were really stamped."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from tests.api.invoices.test_story import STAMPING, make, pay, shown, work
from tests.api.storefront import Merchant, Storefront

from ledger.postgres.connection import connect
from projections.orders.month_end import month_lines

pytestmark = pytest.mark.anyio


async def test_the_report_has_the_documents_of_the_orders(store: Storefront, merchant: Merchant) -> None:
    order_id = await make(merchant, externalId="month-1")
    await pay(merchant, order_id, 40000)
    await work(merchant)
    await merchant.post(STAMPING, {"mode": "REFUSE"})
    await pay(merchant, order_id, 10000)
    await work(merchant)
    document = await shown(merchant, order_id)
    assert [each["status"] for each in document["complements"]] == ["EMITTED", "FAILED"]
    zone = "America/Mexico_City"
    issued_at = datetime.fromisoformat(document["complements"][0]["createdAt"]).astimezone(ZoneInfo(zone))
    assert store.settings.database_url
    async with await connect(store.settings.database_url, "test") as connection:
        lines = await month_lines(connection, merchant.merchant_id, issued_at.year, issued_at.month, zone)
    assert [(line.kind, line.state, line.documents, line.total) for line in lines] == [
        ("INVOICE_PPD", "EMITTED", 1, Decimal(1000)),
        ("REP", "EMITTED", 1, Decimal(400)),
        ("REP", "FAILED", 1, Decimal(100)),
    ]
