"""The sandbox's pages in a browser: they work with and without JavaScript, and ask no other host."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, expect
from tests.api.bodies import paid_order
from tests.api.payer import CHALLENGED, FRICTIONLESS, REDIRECTED, opened_session, path_of, validated
from tests.api.storefront import ORDERS, Storefront, opened
from tests.browser.test_reference_page import watched
from tests.browser.words import broken_words
from tests.invoicing.documents import issuer_body
from tests.invoicing.kept_keys import kept_keys

from ledger.domain.orders.processor_outcomes import Approved, Declined
from ledger.settings import Settings

__all__ = ["kept_keys"]

pytestmark = pytest.mark.anyio

LISTENS = "window.told = []; window.addEventListener('message', event => window.told.push(event.data))"


@pytest.fixture(scope="module")
async def store(settings: Settings) -> AsyncIterator[Storefront]:
    """Merchants of the service that the browser visits."""
    async with opened(settings) as storefront:
        yield storefront


# With JavaScript, test_payer_authentication.py has the payer accept and refuse at every change.
@pytest.mark.parametrize("javascript", [pytest.param(True, marks=pytest.mark.long), False])
@pytest.mark.parametrize(
    ("button", "said"),
    [("Confirmar el pago", Approved), pytest.param("Rechazar el pago", Declined, marks=pytest.mark.long)],
)
async def test_a_payer_answers_the_challenge(
    browser: Browser, address: str, store: Storefront, button: str, said: type, javascript: bool
):
    merchant = await store.register()
    session = await opened_session(store, merchant, CHALLENGED)
    page = await browser.new_page(locale="es-MX", java_script_enabled=javascript)
    _, asked, complaints = watched(page)
    await page.goto(address + path_of(session.step_up_url))
    await expect(page.get_by_role("heading", name="Confirma tu compra")).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Confirmar el pago")).to_be_focused()
    await page.get_by_role("button", name=button).click()
    await expect(page.get_by_text("Vuelve a la tienda")).to_be_visible()
    assert isinstance(await validated(store, merchant, session), said)
    assert [url for url in asked if not url.startswith((f"{address}/", "data:"))] == []
    assert complaints == []


async def test_the_device_is_looked_at_in_a_hidden_frame(browser: Browser, address: str, store: Storefront):
    session = await opened_session(store, await store.register(), FRICTIONLESS)
    page = await browser.new_page(locale="es-MX")
    await page.goto(f"{address}/health/live")
    await page.evaluate(LISTENS)
    frame = "address => { const frame = document.createElement('iframe'); frame.src = address; document.body.append(frame) }"
    await page.evaluate(frame, address + path_of(session.device_data_collection_url))
    await page.wait_for_function("window.told.length > 0")
    (told,) = await page.evaluate("window.told")
    assert (told["step"], told["result"], told["referenceId"]) == ("DEVICE_DATA", "COLLECTED", session.reference_id)


async def test_the_window_that_opened_the_redirect_is_notified_of_its_end(
    browser: Browser, address: str, store: Storefront
):
    session = await opened_session(store, await store.register(), REDIRECTED)
    page = await browser.new_page(locale="es-MX")
    await page.goto(f"{address}/health/live")
    await page.evaluate(LISTENS)
    async with page.expect_popup() as opening:
        await page.evaluate("address => { window.open(address) }", address + path_of(session.step_up_url))
    popup = await opening.value
    await popup.get_by_role("button", name="Rechazar el pago").click()
    await page.wait_for_function("window.told.length > 0")
    (told,) = await page.evaluate("window.told")
    assert told["result"] == "REFUSED"
    assert told["authenticationTransactionId"] == session.authentication_transaction_id


@pytest.mark.parametrize(
    ("scheme", "locale", "heading"),
    [("light", "es-MX", "Confirma tu compra"), ("dark", "en-US", "Confirm your purchase")],
)
async def test_the_challenge_fits_a_small_frame_in_the_browsers_language(
    browser: Browser, address: str, store: Storefront, scheme: str, locale: str, heading: str
):
    session = await opened_session(store, await store.register(), CHALLENGED)
    page = await browser.new_page(locale=locale, viewport={"width": 250, "height": 400}, color_scheme=scheme)
    await page.goto(address + path_of(session.step_up_url))
    await expect(page.get_by_role("heading", name=heading)).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for button in await page.get_by_role("button").all():
        box = await button.bounding_box()
        assert box is not None
        assert box["height"] >= 44


async def test_the_facts_of_an_order_are_in_one_piece_on_a_phone(
    browser: Browser, address: str, store: Storefront, kept_keys: None
):
    merchant = await store.register()
    assert (await merchant.put("/api/v1/merchant/fiscal-issuer", issuer_body())).status_code == 200
    assert (await merchant.create(paid_order(externalId="phone"))).status_code == 201
    link = (await merchant.get(f"{ORDERS}/phone/self-invoice-url")).json()["url"]
    page = await browser.new_page(locale="es-MX", viewport={"width": 390, "height": 800})
    await page.goto(address + path_of(link))
    heights = "[...document.querySelectorAll('dd')].map(each => each.offsetHeight)"
    shown = await page.evaluate(heights)
    assert (len(shown), max(shown) < 30) == (4, True), "no order number, date or amount is broken"
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_no_word_breaks_on_a_phone(browser: Browser, address: str, store: Storefront, kept_keys: None):
    merchant = await store.register()
    await merchant.put("/api/v1/merchant/fiscal-issuer", issuer_body())
    assert (await merchant.create(paid_order(externalId="words"))).status_code == 201
    context = await browser.new_context(locale="es-MX", viewport={"width": 360, "height": 740})
    page = await context.new_page()
    session = await opened_session(store, merchant, CHALLENGED)
    paths = [
        path_of(session.step_up_url),
        path_of((await merchant.get(f"{ORDERS}/words/self-invoice-url")).json()["url"]),
    ]
    paths += [f"{ORDERS}/words/events", f"{ORDERS}/words/explain?field=amountPending"]
    for path in paths:
        await page.set_extra_http_headers(merchant.key if path.startswith(ORDERS) else {})
        await page.goto(address + path)
        await expect(page.get_by_role("heading").first).to_be_visible()
        assert (path, await broken_words(page)) == (path, [])
        assert await page.evaluate("document.documentElement.scrollWidth") <= 360, path
    await context.close()
