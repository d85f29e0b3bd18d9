"""3-D Secure and a redirect from end to end: requested over HTTP, answered in a browser, ended by the merchant's call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect
from tests.api.bodies import by_card, card, paid_order
from tests.api.payer import CHALLENGED, DEVICE_THEN_CHALLENGE, FRICTIONLESS, REDIRECTED, path_of
from tests.api.storefront import ORDERS, Merchant, Storefront, opened
from tests.browser.test_reference_page import watched

from ledger.settings import Settings

pytestmark = pytest.mark.anyio

DEVICE, CHALLENGE = "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED", "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED"
ACCEPT, REFUSE = "Confirmar el pago", "Rechazar el pago"

# A merchant's page: it shows an address in a frame and keeps the message that the frame posts.
CHECKOUT = """address => new Promise(told => {
  window.addEventListener('message', event => told(event.data), { once: true })
  const frame = document.createElement('iframe')
  frame.src = address
  frame.name = 'bank'
  document.body.append(frame)
})"""


@pytest.fixture(scope="module")
async def store(settings: Settings) -> AsyncIterator[Storefront]:
    """Merchants of the service that the browser visits."""
    async with opened(settings) as storefront:
        yield storefront


async def created(merchant: Merchant, number: str) -> dict[str, Any]:
    answer = await merchant.create(paid_order(paymentMethod=by_card(cardDetails=card(number=number))))
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def step(merchant: Merchant, said: dict[str, Any], action: str, *names: str) -> tuple[int, dict[str, Any]]:
    """Sends the merchant's next call, with what the browser's message contained."""
    body = {name: said["payerAuthentication"][name] for name in names}
    answer = await merchant.post(f"{ORDERS}/{said['id']}/payer-authentication/{action}", body)
    return answer.status_code, answer.json()


async def validated(merchant: Merchant, said: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return await step(merchant, said, "validate", "authenticationTransactionId")


async def settled(merchant: Merchant, said: dict[str, Any]) -> tuple[str, str]:
    """Returns the order and its payment after everything that follows by itself."""
    assert (await merchant.post("/api/sandbox/clock", {"advanceBy": "PT6S"})).status_code == 200
    shown = (await merchant.get(f"{ORDERS}/{said['id']}")).json()
    return shown["status"], shown["payments"][0]["status"]


async def looked_at(page: Page, address: str, said: dict[str, Any]) -> dict[str, Any]:
    """Opens the bank's device page in a frame of the merchant's page, and returns the frame's message."""
    await page.goto(f"{address}/health/live")
    told = await page.evaluate(CHECKOUT, address + path_of(said["payerAuthentication"]["deviceDataCollectionUrl"]))
    return dict(told)


async def answered(page: Page, address: str, said: dict[str, Any], button: str) -> None:
    """Answers the bank's question as a payer does."""
    await page.goto(address + path_of(said["payerAuthentication"]["stepUpUrl"]))
    await expect(page.get_by_text("$1,500.00 MXN")).to_be_visible()
    await page.get_by_role("button", name=button).click()
    await expect(page.get_by_text("Vuelve a la tienda")).to_be_visible()


@pytest.mark.parametrize("number", [CHALLENGED, REDIRECTED])
async def test_a_payer_who_accepts_pays(browser: Browser, address: str, store: Storefront, number: str):
    merchant = await store.register()
    said = await created(merchant, number)
    assert said["status"] == (CHALLENGE if number == CHALLENGED else "ACTION_REQUIRED")
    page = await browser.new_page(locale="es-MX")
    _, asked, complaints = watched(page)
    await answered(page, address, said, ACCEPT)
    assert (await merchant.get(f"{ORDERS}/{said['id']}")).json()["status"] == said["status"], "a page decides nothing"
    status, validation = await validated(merchant, said)
    assert (status, validation["status"]) == (200, "AUTHORIZED")
    assert await settled(merchant, said) == ("COMPLETED", "CAPTURED")
    assert [url for url in asked if not url.startswith((f"{address}/", "data:"))] == []
    assert complaints == []


@pytest.mark.parametrize("number", [CHALLENGED, pytest.param(REDIRECTED, marks=pytest.mark.long)])
async def test_a_payer_who_refuses_pays_nothing(browser: Browser, address: str, store: Storefront, number: str):
    merchant = await store.register()
    said = await created(merchant, number)
    await answered(await browser.new_page(locale="es-MX"), address, said, REFUSE)
    status, refusal = await validated(merchant, said)
    assert (status, refusal["code"]) == (422, "PAYER_AUTHENTICATION_FAILED")
    assert await settled(merchant, said) == ("FAILED", "FAILED")


async def test_device_data_alone_authenticates_some_cards(browser: Browser, address: str, store: Storefront):
    merchant = await store.register()
    said = await created(merchant, FRICTIONLESS)
    assert said["status"] == DEVICE
    told = await looked_at(await browser.new_page(locale="es-MX"), address, said)
    assert (told["result"], told["referenceId"]) == ("COLLECTED", said["payerAuthentication"]["referenceId"])
    status, order = await step(merchant, said, "device-data", "referenceId")
    assert (status, order["status"]) == (200, "AUTHORIZED")
    assert await settled(merchant, said) == ("COMPLETED", "CAPTURED")


@pytest.mark.parametrize(
    ("button", "end"),
    [
        (ACCEPT, ("COMPLETED", "CAPTURED")),
        pytest.param(REFUSE, ("FAILED", "FAILED"), marks=pytest.mark.long),
    ],
)
async def test_device_data_is_collected_and_then_the_payer_is_challenged(
    browser: Browser, address: str, store: Storefront, button: str, end: tuple[str, str]
):
    merchant = await store.register()
    said = await created(merchant, DEVICE_THEN_CHALLENGE)
    page = await browser.new_page(locale="es-MX")
    await looked_at(page, address, said)
    status, asked = await step(merchant, said, "device-data", "referenceId")
    assert (status, asked["status"]) == (200, CHALLENGE)
    await answered(page, address, asked, button)
    status, _ = await validated(merchant, asked)
    assert status == (200 if button == ACCEPT else 422)
    assert await settled(merchant, said) == end


async def test_the_page_of_an_ended_session_has_no_form(browser: Browser, address: str, store: Storefront):
    merchant = await store.register()
    said = await created(merchant, CHALLENGED)
    page = await browser.new_page(locale="es-MX")
    await answered(page, address, said, ACCEPT)
    await validated(merchant, said)
    answer = await page.goto(address + path_of(said["payerAuthentication"]["stepUpUrl"]))
    assert answer is not None
    assert answer.status == 410
    assert await page.get_by_role("button").count() == 0
