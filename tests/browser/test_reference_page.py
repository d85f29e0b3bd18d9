"""The reference page in a browser: it shows every operation, and loads everything from the service itself."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from playwright.async_api import Browser, Page, expect
from tests.browser.words import broken_words

from api.app import describe_interface
from api.orders import create as create_order
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

BROKEN_CODES = """() => [...document.querySelectorAll("td code")]
  .filter(code => new Set([...code.getClientRects()].map(part => part.y)).size > 1 && !code.innerText.includes(" "))
  .map(code => code.innerText)"""


_OPERATIONS = """blocks => blocks.map(block => [
    block.querySelector(".opblock-summary-method").innerText, block.querySelector("[data-path]").dataset.path,
])"""


class Opened(NamedTuple):
    """A page, its requests and its console's errors; both lists grow while the page is used."""

    page: Page
    asked: list[str]
    complaints: list[str]


@pytest.fixture(scope="module")
async def reference(browser: Browser, address: str) -> Opened:
    """The reference page, to which the first page leads. It renders for seconds, so the tests share it: each leaves it
    without a dialog.
    """
    opened = watched(await browser.new_page(viewport={"width": 1200, "height": 1600}))
    opened.page.set_default_timeout(120_000)  # a busy machine takes half a minute to open an operation
    await opened.page.goto(f"{address}/")
    await expect(opened.page.locator("h1")).to_have_text("Payment ledger")
    await opened.page.get_by_role("link", name="/docs", exact=True).click()
    tags = opened.page.locator(".opblock-tag")
    await expect(tags.first).to_be_visible()
    assert await opened.page.locator(".opblock").count() == 0, "the page is a list of sections, folded"
    await tags.locator("a").evaluate_all("links => links.forEach(link => link.click())")  # rendered once for all
    await expect(opened.page.locator(".opblock").first).to_be_visible()
    return opened


async def test_the_first_page_leads_to_the_page_which_shows_every_operation_and_loads_nothing_from_other_hosts(
    reference: Opened, address: str
):
    page, asked, complaints = reference
    operations = await page.locator(".opblock").evaluate_all(_OPERATIONS)
    shown = set(map(tuple, operations))
    assert len(shown) == len(operations)
    paths = describe_interface(Settings())["paths"]
    assert shown == {(method.upper(), path) for path, item in paths.items() for method in item}
    assert len(asked) >= 5
    assert [url for url in asked if not url.startswith((f"{address}/", "data:"))] == []
    assert complaints == []


async def test_no_word_of_the_sections_breaks_on_a_phone(reference: Opened):
    await _fits_a_phone(reference.page)


@pytest.mark.long  # a page of this size takes twenty seconds of processor time
async def test_an_operation_opens_with_its_example_and_can_be_tried(reference: Opened, address: str):
    page, asked, complaints = reference
    create = page.locator("#operations-Payment_orders-createPaymentOrder")
    await create.locator(".opblock-summary").click()
    await expect(create).to_contain_text("pedido-2026-000184")
    for example in create_order.EXAMPLES.values():
        await create.locator(".opblock-section-request-body .examples-select-element").select_option(
            label=example["summary"]
        )
        await expect(create.locator(".opblock-section-request-body")).to_contain_text(example["value"]["externalId"])
    await expect(create).to_contain_text("INVALID_API_KEY")
    live = page.locator("#operations-Service-isLive")
    await live.locator(".opblock-summary").click()
    await live.get_by_role("button", name="Try it out").click()
    await live.get_by_role("button", name="Execute").click()
    await expect(live.locator(".live-responses-table")).to_contain_text('"status": "live"')
    assert f"{address}/health/live" in asked
    await _fits_a_phone(page)
    assert [url for url in asked if not url.startswith((f"{address}/", "data:"))] == []
    assert complaints == []


@pytest.mark.parametrize(
    ("scheme", "darkened"),
    [pytest.param("light", "none", marks=pytest.mark.long), ("dark", "invert(0.9) hue-rotate(180deg)")],
)
async def test_the_page_is_dark_where_the_browser_prefers_dark(reference: Opened, scheme: Any, darkened: str):
    page, _, complaints = reference
    await page.set_viewport_size({"width": 1200, "height": 900})
    await page.emulate_media(color_scheme=scheme)
    await expect(page.locator("html")).to_have_css("filter", darkened)
    await page.get_by_role("button", name="Authorize").first.click()
    await expect(page.locator(".modal-ux")).to_be_in_viewport()
    await page.locator(".close-modal").click()
    await expect(page.locator(".modal-ux")).to_have_count(0)
    assert complaints == []


async def test_no_error_code_breaks_within_a_word_on_a_phone(browser: Browser, address: str):
    page = await browser.new_page(viewport={"width": 360, "height": 740})
    for path in ("/", "/docs/events", "/docs/errors"):
        await page.goto(f"{address}{path}")
        assert await broken_words(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    assert await page.locator("code", has_text="REFUND_AMOUNT_EXCEEDS_BALANCE").count() > 0
    await page.add_style_tag(content="code { overflow-wrap: anywhere; display: inline-block; width: 4em; }")
    assert "EXCEEDS" in await broken_words(page), "a code that did break would be found"
    await page.close()


async def test_a_wide_screen_shows_each_code_on_one_line(browser: Browser, address: str):
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    for path in ("/docs/events", "/docs/errors"):
        await page.goto(f"{address}{path}")
        assert await page.evaluate(BROKEN_CODES) == []
    assert await page.locator("td code", has_text="REFUND_AMOUNT_EXCEEDS_BALANCE").count() > 0
    await page.set_viewport_size({"width": 360, "height": 740})
    assert await page.evaluate(BROKEN_CODES) != [], "a code that did break would be found"
    await page.close()


async def test_the_pages_policy_stops_a_request_to_another_host(browser: Browser, address: str):
    page, _, complaints = watched(await browser.new_page())
    await page.route("**/*.js", lambda route: route.abort())  # nothing is rendered for seconds
    await page.goto(f"{address}/docs")
    arrived = await page.evaluate("fetch('https://example.com/').then(() => true, () => false)")
    assert not arrived
    assert any("Content Security Policy" in complaint for complaint in complaints)


async def _fits_a_phone(page: Page) -> None:
    """Checks that no word of the page breaks on a phone, and leaves the page as wide as it was."""
    before = page.viewport_size
    assert before is not None
    await page.set_viewport_size({"width": 360, "height": 740})
    assert await broken_words(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    await page.set_viewport_size(before)


def watched(page: Page) -> Opened:
    opened = Opened(page, [], [])
    page.on("request", lambda request: opened.asked.append(request.url))
    page.on("console", lambda said: opened.complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    return opened
