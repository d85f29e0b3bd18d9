"""3-D Secure at the fake of Stripe in a browser: from the bank's page over ours to the shop, both ways."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from campaigns.fake_stripe.running import control, fake_stripe
from msgspec.structs import replace
from playwright.async_api import Browser, expect
from tests.api.bodies import paid_order
from tests.api.processor_accounts.test_stripe_payments import Shop
from tests.api.storefront import ORDERS, opened
from tests.browser.test_reference_page import watched
from tests.serving import served

from ledger.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.fixture
async def shop(settings: Settings, tmp_path: Path) -> AsyncIterator[tuple[Shop, str]]:
    """A merchant with an account at the fake of Stripe, and the address of the service that payers visit."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with fake_stripe(tmp_path / "record.jsonl", tmp_path / "log") as running:
        [url] = running.wait_ready()
        settings = replace(settings, stripe_url=url, processor_timeout_s=10.0, host="127.0.0.1", port=port)
        async with opened(settings) as store, served(settings, port) as address:
            merchant = await store.register()
            body = {"processor": "stripe", "secretKey": "sk_test_fake"}
            await merchant.put("/api/v1/processor-accounts/mx", body)
            yield Shop(store, merchant, url, tmp_path / "record.jsonl"), address


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize(
    ("button", "status", "title"),
    [("#complete", ("COMPLETED", "CAPTURED"), "Tu banco autorizó"), ("#fail", ("FAILED", "FAILED"), "no se hizo")],
)
async def test_a_payer_comes_back_from_the_bank(
    browser: Browser, shop: tuple[Shop, str], button: str, status: tuple[str, str], title: str, javascript: bool
):
    at, address = shop
    back = f"{address}/health/live?cart=7"
    method = {"type": "card", "cardTokens": [{"account": "mx", "token": "pm_card_authenticationRequired"}]}
    body = paid_order(externalId="asked", paymentMethod=method, returnUrl=back)
    created = (await at.merchant.create(body)).json()
    session = created["payerAuthentication"]
    page = await browser.new_page(locale="es-MX", java_script_enabled=javascript)
    _, asked, complaints = watched(page)
    await page.goto(session["stepUpUrl"])
    await page.locator(button).click()
    if not javascript:
        await expect(page.get_by_role("heading", name=title)).to_be_visible()
        await page.get_by_role("link", name="Volver a la tienda").click()
    await page.wait_for_url(f"{back}&paymentOrderId={created['id']}")
    assert await at.shown("asked") == status, "the page has asked Stripe"
    assert not any("client_secret" in url for url in asked if url.startswith(back))
    assert [said for said in complaints if "404 (Not Found)" not in said] == []  # of pages without an icon
    path = f"{ORDERS}/asked/payer-authentication/validate"
    name = session["authenticationTransactionId"]
    validated = await at.merchant.post(path, {"authenticationTransactionId": name})
    assert validated.status_code == (200 if button == "#complete" else 422)
    assert control(at.url, "state", None, "GET")["violations"] == 0


async def test_a_payer_without_an_address_to_go_on_to_sees_the_outcome(browser: Browser, shop: tuple[Shop, str]):
    at, _ = shop
    created = (await at.create("asked", "pm_card_authenticationRequired")).json()
    page = await browser.new_page(locale="en-US")
    await page.goto(created["payerAuthentication"]["stepUpUrl"])
    await page.locator("#complete").click()
    await expect(page.get_by_role("heading", name="Your bank has authorised the payment")).to_be_visible()
    assert await at.shown("asked") == ("COMPLETED", "CAPTURED")
