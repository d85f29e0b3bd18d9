"""The page to which a processor sends a payer back: only signed addresses, and only to where the merchant said."""

from __future__ import annotations

from urllib.parse import quote, urlsplit
from uuid import UUID, uuid4

import pytest
from msgspec.structs import replace
from tests.api.bodies import by_card, card, paid_order
from tests.api.payer import CHALLENGED
from tests.api.storefront import Merchant, Storefront

from ledger.processors.payer_returns import CardReturn, PayerReturn, PayerReturns
from ledger.security.secrets import load_secrets
from ledger.settings import Settings
from ledger.wiring import _payer_returns

pytestmark = pytest.mark.anyio

SHOP = "https://shop.example/back?a=1&b=ñ"


async def test_the_page_shows_how_the_payment_stands_and_leads_to_the_shop(store: Storefront, merchant: Merchant):
    body = paid_order(externalId="back", paymentMethod=by_card(cardDetails=card(number=CHALLENGED)))
    created = (await merchant.create(body)).json()
    returns = store.ledger.payer_returns
    assert returns is not None
    back = PayerReturn(
        merchant_id=merchant.merchant_id,
        order_id=UUID(created["id"]),
        payment_id=UUID(created["payment"]["id"]),
        on_to=SHOP,
    )
    parts = urlsplit(returns.sign(back))
    stripes = f"{parts.path}?{parts.query}&payment_intent=pi_1&redirect_status=succeeded"
    for language, title in (("en", "Your bank has not confirmed"), ("es-MX", "Tu banco aún no confirma")):
        page = await store.client.get(stripes, headers={"accept-language": language})
        assert page.status_code == 200
        assert title in page.text
        assert f"a=1&amp;b=ñ&amp;paymentOrderId={created['id']}" in page.text
        assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("no-referrer", "no-store")
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert (await store.client.head(stripes)).status_code == 200
    assert (await store.client.post(stripes)).status_code == 405
    elsewhere = quote("https://evil.example/", safe="")
    forged = [
        parts.path,
        f"{parts.path}?to={elsewhere}",
        f"{stripes}&to={elsewhere}",
        f"{parts.path[:-1]}?{parts.query}",
        f"{parts.path[:-1]}%C3%B1?{parts.query}",
        urlsplit(returns.sign(replace(back, payment_id=uuid4()))).path + "?" + parts.query[:-1],
    ]
    for address in forged:
        page = await store.client.get(address)
        assert page.status_code == 404, address
        assert "shop.example" not in page.text


def test_an_address_of_a_card_is_none_of_a_payment():
    returns, ids = PayerReturns("https://pay.example/payer-returns", b"key"), [uuid4() for _ in range(3)]
    payment = PayerReturn(merchant_id=ids[0], order_id=ids[1], payment_id=ids[2], on_to=SHOP)
    card = CardReturn(merchant_id=ids[0], customer_id=ids[1], payment_method_id=ids[2], on_to=SHOP)
    for back in (payment, card):
        assert returns.read(urlsplit(returns.sign(back)).path.rpartition("/")[2], SHOP) == back


def test_an_address_without_https_is_given_to_no_processor_in_production(settings: Settings):
    secrets = load_secrets(settings)
    for public, environment, is_given in (
        ("", "sandbox", True),
        ("", "production", False),
        ("https://pay.example", "production", True),
    ):
        returns = _payer_returns(replace(settings, public_url=public, environment=environment), secrets)
        assert (returns is not None) is is_given
