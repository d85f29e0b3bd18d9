"""The reference page in a browser: it shows every operation, and loads everything from the service itself."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from api.app import describe_interface
from ledger.settings import Settings

pytestmark = pytest.mark.anyio


async def test_the_page_shows_every_operation_and_loads_nothing_from_other_hosts(browser: Browser, address: str):
    page = await browser.new_page(viewport={"width": 1200, "height": 1600})
    asked, complaints = watched(page)
    await page.goto(f"{address}/docs")
    await expect(page.locator(".opblock").first).to_be_visible()
    shown = {
        (
            await block.locator(".opblock-summary-method").inner_text(),
            await block.locator("[data-path]").get_attribute("data-path"),
        )
        for block in await page.locator(".opblock").all()
    }
    paths = describe_interface(Settings())["paths"]
    assert shown == {(method.upper(), path) for path, item in paths.items() for method in item}
    assert len(asked) >= 5
    assert [url for url in asked if not url.startswith((f"{address}/", "data:"))] == []
    assert complaints == []


async def test_the_first_page_leads_to_the_reference(browser: Browser, address: str):
    page = await browser.new_page()
    _, complaints = watched(page)
    await page.goto(f"{address}/")
    await expect(page.locator("h1")).to_have_text("Payment ledger")
    await page.get_by_role("link", name="/docs").click()
    await expect(page.locator(".opblock").first).to_be_visible()
    assert complaints == []


async def test_an_operation_opens_with_its_example_and_can_be_tried(browser: Browser, address: str):
    page = await browser.new_page()
    asked, complaints = watched(page)
    await page.goto(f"{address}/docs")
    create = page.locator("#operations-Payment_orders-createPaymentOrder")
    await create.locator(".opblock-summary").click()
    await expect(create).to_contain_text("pedido-2026-000184")
    await expect(create).to_contain_text("INVALID_API_KEY")
    live = page.locator("#operations-Service-isLive")
    await live.locator(".opblock-summary").click()
    await live.get_by_role("button", name="Try it out").click()
    await live.get_by_role("button", name="Execute").click()
    await expect(live.locator(".live-responses-table")).to_contain_text('"status": "live"')
    assert f"{address}/health/live" in asked
    assert [url for url in asked if not url.startswith((f"{address}/", "data:"))] == []
    assert complaints == []


@pytest.mark.parametrize(("scheme", "darkened"), [("light", "none"), ("dark", "invert(0.9) hue-rotate(180deg)")])
async def test_the_page_is_dark_where_the_browser_prefers_dark(
    browser: Browser, address: str, scheme: Any, darkened: str
):
    page = await browser.new_page(color_scheme=scheme, viewport={"width": 1200, "height": 900})
    _, complaints = watched(page)
    await page.goto(f"{address}/docs")
    await expect(page.locator("html")).to_have_css("filter", darkened)
    await page.get_by_role("button", name="Authorize").first.click()
    await expect(page.locator(".modal-ux")).to_be_in_viewport()
    assert complaints == []


async def test_the_pages_policy_stops_a_request_to_another_host(browser: Browser, address: str):
    page = await browser.new_page()
    _, complaints = watched(page)
    await page.goto(f"{address}/docs")
    arrived = await page.evaluate("fetch('https://example.com/').then(() => true, () => false)")
    assert not arrived
    assert any("Content Security Policy" in complaint for complaint in complaints)


def watched(page: Page) -> tuple[list[str], list[str]]:
    """Returns the page's requests and its console's errors; both lists grow while the page is used."""
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return asked, complaints
