"""The reports that are pages for people: readable on a phone, dark where the browser prefers dark, light on paper."""

from __future__ import annotations

from decimal import Decimal
from uuid import uuid4

import pytest
from playwright.async_api import Browser

from projections.orders.missing_documents import MissingDocument
from projections.orders.month_end import Month, MonthLine, as_page

pytestmark = pytest.mark.anyio

ZERO = Decimal(0)
MONTH = Month(
    lines=[
        MonthLine(
            kind="INVOICE_GLOBAL", state="CANCELLED", currency="MXN", documents=12_345, total=Decimal("98765432.10"),
            iva=Decimal("1234567.89"), ieps=ZERO, iva_withheld=ZERO, isr_withheld=ZERO,
        )
    ],
    missing=[
        MissingDocument(
            order_id=uuid4(), document_id=uuid4(), kind="REP", state="FAILED", currency="MXN", total=Decimal(1160),
            failure_code="CFDI40147", failure_reason="El campo Nombre del receptor debe pertenecer al RFC registrado.",
        )
    ],
)  # fmt: skip
BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
WIDTH = "() => document.documentElement.scrollWidth"


async def test_a_report_is_dark_where_the_browser_prefers_dark_and_light_on_paper(browser: Browser) -> None:
    page = await browser.new_page(color_scheme="dark")
    await page.set_content(as_page(MONTH, "November"))
    assert await page.evaluate(BACKGROUND) == "rgb(14, 20, 29)"
    await page.emulate_media(media="print", color_scheme="dark")
    assert await page.evaluate(BACKGROUND) == "rgba(0, 0, 0, 0)"


async def test_a_month_fits_a_phone(browser: Browser) -> None:
    page = await browser.new_page(viewport={"width": 390, "height": 800})
    await page.set_content(as_page(MONTH, "November"))
    assert await page.evaluate(WIDTH) == 390
