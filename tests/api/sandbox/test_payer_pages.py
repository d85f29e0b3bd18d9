"""The pages for a payer's browser, as bytes: what they show, what they store, and what they accept."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from msgspec.structs import replace
from tests.api.bodies import by_card, card, paid_order
from tests.api.payer import CHALLENGED, FRICTIONLESS, REDIRECTED, opened_session, path_of, validated
from tests.api.storefront import Merchant, Storefront

from api.app import routes
from api.errors import ApiError
from api.fields.values import require_https, return_url
from api.http.dependencies import DependencyHolder
from api.pages.html import Html
from ledger.domain.orders.processor_outcomes import Approved, Declined
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("number", [CHALLENGED, REDIRECTED])
async def test_a_payer_who_accepts_is_authenticated(store: Storefront, merchant: Merchant, number: str):
    session = await opened_session(store, merchant, number)
    page = path_of(session.step_up_url)
    asked = await store.client.get(page)
    assert asked.status_code == 200
    assert "Café Tacuba" in asked.text
    assert "$1,500.00 MXN" in asked.text
    done = await store.client.post(page, content="decision=accept", headers=FORM)
    assert "Confirmaste el pago" in done.text
    assert session.authentication_transaction_id in done.text
    assert isinstance(await validated(store, merchant, session), Approved)


async def test_a_payer_returns_to_the_merchants_address(store: Storefront, merchant: Merchant):
    method = by_card(cardDetails=card(number=REDIRECTED))
    address = "https://shop.example.com/back?cart=7&q=a%20b#end"
    asked = await merchant.create(paid_order(paymentMethod=method, returnUrl=address))
    assert asked.status_code == 201, asked.text
    page = path_of(asked.json()["payerAuthentication"]["stepUpUrl"])
    assert "data-return-to" not in (await store.client.get(page)).text
    done = await store.client.post(page, content="decision=accept", headers=FORM)
    back = f"https://shop.example.com/back?cart=7&q=a%20b&paymentOrderId={asked.json()['id']}#end"
    assert re.findall(r'(?:data-return-to|href)="(http[^"]*)"', unescape(done.text)) == [back, back]


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//shop.example.com",
        "http://shop.example.com/",
        "http://localhost.example.com/",
        "http://127.0.0.1.example.com/",
        "https://",
        "https://ana@shop.example.com/",
        "https://shop.example.com\\@evil.example.com/",
        "https://shop.example.com/ x",
        'https://shop.example.com/"onload=',
        "https://shop.example.com:port/",
        "https://[::1",
        " https://shop.example.com/",
    ],
)
async def test_an_address_that_a_browser_must_not_follow_is_refused(merchant: Merchant, address: str):
    answer = await merchant.create(paid_order(returnUrl=address))
    assert (answer.status_code, [each["field"] for each in answer.json()["errors"]]) == (400, ["returnUrl"])


@pytest.mark.parametrize("address", ["http://localhost:3000/back", "http://127.0.0.1/", "HTTP://[::1]:8080/"])
def test_this_machine_is_an_address_of_the_sandbox_alone(address: str):
    assert return_url(address) == address
    require_https(address, "sandbox")
    with pytest.raises(ApiError):
        require_https(address, "production")
    require_https("HTTPS://shop.example.com/", "production")


@pytest.mark.parametrize("number", [CHALLENGED, FRICTIONLESS])
async def test_the_next_request_that_a_page_shows_can_be_sent_as_it_is(
    store: Storefront, merchant: Merchant, number: str
):
    session = await opened_session(store, merchant, number)
    page = path_of(session.step_up_url if number == CHALLENGED else session.device_data_collection_url)
    done = await store.client.post(page, content="decision=accept", headers=FORM)
    shown = re.search(r"POST (\S+) ({.*?})", unescape(done.text))
    assert shown is not None, done.text
    answer = await merchant.post(shown[1], json.loads(shown[2]))
    assert answer.json()["code"] == "ORDER_NOT_FOUND", "the address is right, and this session was opened for no order"


@pytest.mark.parametrize("number", [CHALLENGED, REDIRECTED])
async def test_a_payer_who_refuses_is_declined(store: Storefront, merchant: Merchant, number: str):
    session = await opened_session(store, merchant, number)
    done = await store.client.post(path_of(session.step_up_url), content="decision=refuse", headers=FORM)
    assert "Rechazaste el pago" in done.text
    assert isinstance(await validated(store, merchant, session), Declined)


async def test_the_payers_last_choice_counts_until_the_merchant_validates(store: Storefront, merchant: Merchant):
    session = await opened_session(store, merchant)
    for decision in ("accept", "refuse"):
        await store.client.post(path_of(session.step_up_url), content=f"decision={decision}", headers=FORM)
    assert isinstance(await validated(store, merchant, session), Declined)
    ended = await store.client.post(path_of(session.step_up_url), content="decision=accept", headers=FORM)
    assert (ended.status_code, "ya terminó" in ended.text) == (410, True)


async def test_a_form_from_the_merchants_page_opens_the_challenge(store: Storefront, merchant: Merchant):
    session = await opened_session(store, merchant)
    opened = await store.client.post(path_of(session.step_up_url), content="JWT=x", headers=FORM)
    assert 'value="accept"' in opened.text


async def test_the_device_page_is_collected_by_a_hidden_frames_form(store: Storefront, merchant: Merchant):
    session = await opened_session(store, merchant, FRICTIONLESS)
    page = path_of(session.device_data_collection_url)
    assert "Continuar" in (await store.client.get(page)).text
    done = await store.client.post(page, content=f"JWT={session.access_token}", headers=FORM)
    assert (done.status_code, session.reference_id in done.text) == (200, True)


@pytest.mark.parametrize("kind", ["device-data", "challenge", "redirect"])
async def test_an_address_without_a_session_is_answered_with_a_page(store: Storefront, kind: str):
    for name in ("nobody", "%00", "%ff", "x" * 300, "a%2Fb"):
        for answer in (
            await store.client.get(f"/api/sandbox/3ds/{kind}/{name}"),
            await store.client.post(f"/api/sandbox/3ds/{kind}/{name}", content="decision=accept", headers=FORM),
        ):
            assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")


async def test_a_session_is_found_at_its_own_pages_only(store: Storefront, merchant: Merchant):
    session = await opened_session(store, merchant)
    transaction_id, reference_id = session.authentication_transaction_id, session.reference_id
    answers = {
        path: (await store.client.get(f"/api/sandbox/3ds/{path}")).status_code
        for path in (
            f"challenge/{reference_id}",
            f"device-data/{transaction_id}",
            f"redirect/{transaction_id}",
            f"device-data/{reference_id}",
        )
    }
    assert list(answers.values()) == [404, 404, 410, 410]


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"\xff=\xfe", FORM, 400),
        (b"&".join(b"a%d=1" % n for n in range(100)), FORM, 400),
        (b"x" * (20 << 10), FORM, 413),
        (b"{}", {"content-type": "application/json"}, 415),
        (b"", {}, 415),
        (b"decision=%FF%FE", FORM, 200),
        (b"decision=&decision=x", FORM, 200),
    ],
)
async def test_an_odd_form_is_refused_or_opens_the_page(
    store: Storefront, merchant: Merchant, content: bytes, headers: dict[str, str], status: int
):
    session = await opened_session(store, merchant)
    answer = await store.client.post(path_of(session.step_up_url), content=content, headers=headers)
    assert answer.status_code == status


async def test_other_methods_are_named(store: Storefront):
    answer = await store.client.put("/api/sandbox/3ds/challenge/x")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")


async def test_a_pages_policy_allows_only_its_own_style_and_script(store: Storefront, merchant: Merchant):
    session = await opened_session(store, merchant)
    answer = await store.client.get(path_of(session.step_up_url))
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"https?://", answer.text)


async def test_a_page_is_in_the_language_of_the_browser(store: Storefront, merchant: Merchant):
    page = path_of((await opened_session(store, merchant)).step_up_url)
    for header, language, title in (
        ("en-US,en;q=0.9,es;q=0.8", "en", "Confirm your purchase"),
        ("es-MX,es;q=0.9,en;q=0.8", "es", "Confirma tu compra"),
        ("fr", "es", "Confirma tu compra"),
    ):
        shown = await store.client.get(page, headers={"accept-language": header})
        assert f"<title>{title}</title>" in shown.text
        assert f'<html lang="{language}">' in shown.text
        assert (shown.headers["content-language"], shown.headers["vary"]) == (language, "accept-language")
    english = FORM | {"accept-language": "en"}
    done = await store.client.post(page, content="decision=refuse", headers=english)
    assert "You refused the payment" in done.text
    assert not re.search("[áéíóúñ¿¡]", done.text), "no Spanish word is left"
    missing = await store.client.get("/api/sandbox/3ds/challenge/x", headers={"accept-language": "en"})
    assert "This page does not exist" in missing.text


async def test_a_page_is_in_the_customers_language_where_the_browser_has_neither(store: Storefront, merchant: Merchant):
    bob = {"externalId": "bob", "notificationPreferences": {"language": "en"}}
    customer = (await merchant.post("/api/customers", bob)).json()
    body = paid_order(customer={"id": customer["id"]}, paymentMethod=by_card(cardDetails=card(number=CHALLENGED)))
    created = (await merchant.create(body)).json()
    page = path_of(created["payerAuthentication"]["stepUpUrl"])
    assert "Confirm your purchase" in (await store.client.get(page, headers={"accept-language": "fr"})).text


def test_what_comes_from_outside_is_escaped():
    page = Html(language="en", title="<script>", content="", notice='{"a":"\\"><script>"}').encode().decode()
    assert page.count("<script>") == 1


def test_production_has_no_sandbox_routes():
    production = replace(Settings(), environment="production")
    assert not [route.path for route in routes(production, DependencyHolder()) if "sandbox" in route.path]
