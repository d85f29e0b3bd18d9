"""The report of a month over documents that were really stamped."""

from __future__ import annotations

import csv
import io
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from tests.api.bodies import encoded, paid_order
from tests.api.invoices.test_split_order_documents import FISCAL, STAMPING, make, pay, shown, work
from tests.api.openapi.description import assert_described
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront
from tests.invoicing.sat_sums import stated

from api.decoding import media_types
from ledger.postgres.connection import connect
from projections.orders.month_end import COLUMNS, MonthLine, cells, month_lines

pytestmark = pytest.mark.anyio

PATH = "/api/v1/invoices/month-end"


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
    month = f"{issued_at:%Y-%m}"
    await agree(merchant, month, lines)
    empty = (await merchant.get(f"{PATH}?month=2001-02")).json()
    assert empty == {
        "month": "2001-02", "timeZone": zone, "lines": [], "missing": [], "hasMoreMissing": False,
        "movementsAfterGlobal": [], "hasMoreMovementsAfterGlobal": False,
    }  # fmt: skip
    other = await store.register()
    assert (await other.get(f"{PATH}?month={month}")).json()["lines"] == []


async def test_a_document_is_in_the_month_of_its_own_date(merchant: Merchant) -> None:
    """It is issued in Pachuca, and the merchant lives by the time of Tijuana: a new month begins there later."""
    put = await merchant.client.put(
        "/api/v1/merchant", content=encoded({"settings": {"timeZone": "America/Tijuana"}}), headers=merchant.key | JSON
    )
    assert put.status_code == 200, put.text
    now = datetime.fromisoformat((await merchant.get("/api/sandbox/clock")).json()["now"])
    first = (now.replace(day=1) + timedelta(days=32)).replace(day=1)
    await merchant.post("/api/sandbox/clock", {"advanceTo": f"{first:%Y-%m-%d}T00:30:00-06:00"})
    order_id = (await merchant.create(paid_order(externalId="night", customerFiscalData=FISCAL))).json()["id"]
    split = await make(merchant, externalId="part")
    await pay(merchant, split, 40_000)
    await work(merchant)
    (receipt,) = (await shown(merchant, split))["complements"]
    due = datetime.fromisoformat(receipt["repDueAt"]).astimezone(ZoneInfo("America/Mexico_City"))
    assert (f"{due:%d %H:%M}", due.month) == ("05 23:59", first.month % 12 + 1), "it is of the payment's own month"
    links = (await merchant.get(f"{ORDERS}/{order_id}/cfdi-url")).json()["invoice"]
    dated = stated((await merchant.client.get(links["xmlUrl"])).content)
    assert (dated.month, dated.kind) == (f"{first:%Y-%m}", "INVOICE_PUE")
    report = (await merchant.get(f"{PATH}?month={first:%Y-%m}")).json()
    assert report["timeZone"] == "America/Mexico_City"
    line = next(each for each in report["lines"] if each["kind"] == dated.kind)
    assert (line["kind"], line["documents"], line["total"], line["iva"]) == (
        dated.kind, 1, dated.total, dated.taxes["iva"],
    )  # fmt: skip
    before = (await merchant.get(f"{PATH}?month={first - timedelta(days=1):%Y-%m}")).json()
    assert before["lines"] == []


async def agree(merchant: Merchant, month: str, lines: list[MonthLine]) -> None:
    """Checks that the three forms of the report over HTTP have these lines, which were read from the log."""
    answer = await merchant.get(f"{PATH}?month={month}")
    assert answer.status_code == 200
    assert_described(answer, "get", PATH)
    shown = answer.json()["lines"]
    assert [(line["kind"], line["state"], line["documents"], line["total"]) for line in shown] == [
        (line.kind, line.state, line.documents, line.total * 100) for line in lines
    ]
    assert sum(line["iva"] for line in shown) == sum(line.iva for line in lines) * 100
    table = await merchant.get(f"{PATH}?month={month}", accept="text/csv")
    assert table.headers["content-type"].startswith("text/csv")
    heading, *rows = csv.reader(io.StringIO(table.text))
    assert (tuple(heading), rows) == (COLUMNS, [cells(line) for line in lines])
    page = await merchant.get(f"{PATH}?month={month}", accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    shown_cells = page.text.replace(",", "")
    assert all(f">{cell}</td>" in shown_cells for line in lines for cell in cells(line))
    assert [each.headers["vary"] for each in (answer, table, page)] == ["accept"] * 3


@pytest.mark.parametrize("query", ["", "month=", "month=2026-13", "month=26-01", "month=1999-12", "month=2026-1"])
async def test_a_month_is_a_year_and_a_month(merchant: Merchant, query: str) -> None:
    answer = await merchant.get(f"{PATH}?{query}")
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == ["month"]


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (b"", "application/json"),
        (b"*/*", "application/json"),
        (b"image/png", "application/json"),
        (b"text/csv", "text/csv"),
        (b"TEXT/HTML;level=1", "text/html"),
        (b"text/html;q=0.5, text/csv;q=0.9", "text/csv"),
        (b"text/html;q=0, application/json", "application/json"),
        (b"text/csv;q=high", "text/csv"),
        (b"\xff;;,", "application/json"),
    ],
)
async def test_the_client_chooses_the_form(accept: bytes, chosen: str) -> None:
    assert media_types.preferred_type(accept, (media_types.JSON, media_types.CSV, media_types.HTML)) == chosen
