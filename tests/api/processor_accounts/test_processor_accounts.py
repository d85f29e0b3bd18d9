"""A merchant's accounts with processors over HTTP: connected, listed, checked, changed and disconnected."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from tests.api.openapi.description import assert_described
from tests.api.storefront import Merchant, Storefront, opened
from tests.processors.acme import BAD, DOWN, GOOD, NEXT_SIGNING, OTHER, SECRETS, SIGNING, Acme

from ledger import wiring
from ledger.processors.merchant_accounts import ACCOUNTS_MAX
from ledger.security.api_keys import Scope
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

PATH = "/api/v1/processor-accounts"
ONE = f"{PATH}/acme-mx"
BODY = {
    "processor": "acme",
    "secretKey": GOOD,
    "webhookSecrets": [SIGNING],
    "publishableKey": "pk_test_1",
    "methods": [{"type": "CARD", "currencies": ["MXN"], "amountMax": 500000, "installments": [3]}],
}


@pytest.fixture(scope="module")
async def store(settings: Settings) -> AsyncIterator[Storefront]:
    """An installation that can also connect accounts of another processor, with keys."""
    with pytest.MonkeyPatch.context() as patch:
        known = wiring.processor_kinds
        patch.setattr(wiring, "processor_kinds", lambda settings: {**known(settings), "acme": Acme()})
        async with opened(settings) as storefront:
            yield storefront


def wrong_fields(answer: Any) -> list[str]:
    assert answer.status_code == 400, answer.text
    assert_no_secret(answer.text)
    return [each["field"] for each in answer.json()["errors"]]


def assert_no_secret(text: str) -> None:
    assert not [secret for secret in SECRETS if secret in text]


async def test_an_account_is_connected_changed_checked_and_disconnected(store: Storefront, merchant: Merchant):
    answer = await merchant.put(ONE, BODY)
    assert answer.status_code == 201
    assert_described(answer, "put", f"{PATH}/{{name}}")
    account = answer.json()
    assert account.items() >= {
        "name": "acme-mx", "processor": "acme", "status": "CONNECTED", "mode": "TEST", "country": "MX",
        "methods": [
            {"type": "CARD", "currencies": ["MXN"], "amountMin": 1000, "amountMax": 500000, "installments": [3]}
        ],
        "publishableKey": "pk_test_1",
    }.items()  # fmt: skip
    again = await merchant.put(ONE, account | BODY)
    assert (again.status_code, again.json()) == (200, account), "what was read can be sent back, and changes nothing"
    assert (await merchant.get(ONE)).json() == account
    assert_described(check := await merchant.post(f"{ONE}/check", {}), "post", f"{PATH}/{{name}}/check")
    assert [method["type"] for method in check.json()["methods"]] == ["CARD", "SPEI"], "what the processor takes"
    assert check.json().items() >= {"reachable": True, "mode": "TEST", "country": "MX", "problems": []}.items()
    everything = await merchant.put(ONE, {"processor": "acme", "secretKey": GOOD})
    assert [method["type"] for method in everything.json()["methods"]] == ["CARD", "SPEI"]
    assert everything.json()["publishableKey"] is None
    (problem,) = (await merchant.post(f"{ONE}/check", {})).json()["problems"]
    assert problem.startswith("No webhook secret")
    gone = (await merchant.delete(ONE)).json()
    assert gone == everything.json() | {"status": "DISCONNECTED", "updatedAt": gone["updatedAt"]}
    assert (await merchant.delete(ONE)).json() == gone
    assert (await merchant.post(f"{ONE}/check", {})).json()["reachable"], "its payments are still refunded there"
    back = await merchant.put(ONE, BODY)
    assert (back.status_code, back.json()) == (200, account | {"updatedAt": back.json()["updatedAt"]})


async def test_every_merchant_of_the_sandbox_has_an_account_and_can_connect_another(merchant: Merchant):
    (first,) = (await merchant.get(PATH)).json()["data"]
    assert first.items() >= {"name": "sandbox", "processor": "sandbox", "status": "CONNECTED", "mode": "TEST"}.items()
    assert (first["country"], first["publishableKey"]) == ("MX", None)
    assert {method["type"] for method in first["methods"]} == {"CARD", "SPEI", "PAYCASH", "CIE_CASH_NET"}
    same = await merchant.put(f"{PATH}/sandbox", {"processor": "sandbox"})
    assert (same.status_code, same.json()) == (200, first)
    assert (await merchant.put(f"{PATH}/second", {"processor": "sandbox"})).status_code == 201
    assert (await merchant.post(f"{PATH}/sandbox/check", {})).json()["reachable"]
    narrowed = await merchant.put(f"{PATH}/sandbox", {"processor": "sandbox", "methods": [{"type": "SPEI"}]})
    assert [method["type"] for method in narrowed.json()["methods"]] == ["SPEI"]
    assert (await merchant.delete(f"{PATH}/sandbox")).json()["status"] == "DISCONNECTED"
    listed = await merchant.get(PATH)
    assert_described(listed, "get", PATH)
    shown = [(each["name"], each["status"], each["createdAt"]) for each in listed.json()["data"]]
    assert shown[0] == ("sandbox", "DISCONNECTED", first["createdAt"])
    assert [name for name, _, _ in shown] == ["sandbox", "second"], "in the order of connection"


async def test_a_name_stays_with_its_processor_and_a_merchant(store: Storefront, merchant: Merchant):
    assert (await merchant.put(ONE, BODY)).status_code == 201
    taken = await merchant.put(ONE, {"processor": "sandbox"})
    assert (taken.status_code, taken.json()["code"]) == (409, "PROCESSOR_ACCOUNT_EXISTS")
    assert_described(taken, "put", f"{PATH}/{{name}}")
    assert (await merchant.put(f"{PATH}/sandbox", BODY)).json()["code"] == "PROCESSOR_ACCOUNT_EXISTS"
    other = await store.register()
    for answer in (await other.get(ONE), await other.delete(ONE), await other.post(f"{ONE}/check", {})):
        assert (answer.status_code, answer.json()["code"]) == (404, "PROCESSOR_ACCOUNT_NOT_FOUND")
    assert (await merchant.get(f"{PATH}/ACME")).status_code == 404
    limited = await store.another_key(merchant, scopes=[Scope.SETTINGS])
    assert (await limited.put(ONE, BODY)).json()["code"] == "INSUFFICIENT_SCOPE"
    scoped = await store.another_key(merchant, scopes=[Scope.PROCESSORS])
    assert (await scoped.get(ONE)).status_code == 200


@pytest.mark.parametrize(
    ("name", "changes", "fields"),
    [
        ("acme-mx", {"processor": None}, ["processor"]),
        ("acme-mx", {"processor": "conekta"}, ["processor"]),
        ("acme-mx", {"secretKey": None}, ["secretKey"]),
        ("acme-mx", {"secretKey": "pk_test_2"}, ["secretKey"]),
        ("acme-mx", {"secretKey": GOOD.replace("test", "live")}, ["secretKey"]),
        ("acme-mx", {"secretKey": f"{GOOD}\n"}, ["secretKey"]),
        ("acme-mx", {"publishableKey": GOOD}, ["publishableKey"]),
        ("acme-mx", {"publishableKey": SIGNING}, ["publishableKey"]),
        ("acme-mx", {"publishableKey": "pk_live_1"}, ["publishableKey"]),
        ("acme-mx", {"webhookSecrets": [SIGNING, NEXT_SIGNING, "whsec_3"]}, ["webhookSecrets"]),
        ("acme-mx", {"webhookSecrets": ["pk_test_1"]}, ["publishableKey"]),
        ("acme-mx", {"webhookSecrets": [SIGNING, ""]}, ["webhookSecrets[1]"]),
        ("acme-mx", {"methods": []}, ["methods"]),
        ("acme-mx", {"methods": [{"type": "CARD"}, {"type": "CHEQUE"}]}, ["methods[1].type"]),
        ("acme-mx", {"methods": [{"type": "CARD", "amountMin": 0}]}, ["methods[0].amountMin"]),
        ("acme-mx", {"methods": [{"type": "PAYCASH"}]}, ["methods[0].type"]),
        ("Acme_MX", {}, ["name"]),
        ("4242424242424242", {}, ["name"]),
        ("a" * 33, {}, ["name"]),
        ("second", {"processor": "sandbox"}, ["secretKey", "webhookSecrets[0]", "publishableKey"]),
    ],
)  # fmt: skip
async def test_a_wrong_field_is_named_and_its_value_not_repeated(
    merchant: Merchant, name: str, changes: Any, fields: list[str]
):
    assert wrong_fields(await merchant.put(f"{PATH}/{name}", BODY | {"methods": None} | changes)) == fields
    assert [each["name"] for each in (await merchant.get(PATH)).json()["data"]] == ["sandbox"]


async def test_a_key_that_is_refused_or_not_checked_is_not_stored(merchant: Merchant, settings: Settings):
    before = stored_keys(settings)
    refused = await merchant.put(ONE, BODY | {"secretKey": BAD})
    assert (refused.status_code, refused.json()["code"]) == (422, "PROCESSOR_KEY_REFUSED")
    assert_described(refused, "put", f"{PATH}/{{name}}")
    assert refused.json()["message"] == (
        "The processor refuses the key: Invalid API Key provided: ***, signed with ***"
    )
    unchecked = await merchant.put(ONE, BODY | {"secretKey": DOWN})
    assert (unchecked.status_code, unchecked.json()["code"]) == (503, "PROCESSOR_UNAVAILABLE")
    assert "nothing was stored" in unchecked.json()["message"]
    assert (await merchant.get(ONE)).status_code == 404
    assert stored_keys(settings) == before


async def test_a_merchant_has_at_most_so_many_accounts(merchant: Merchant):
    for number in range(ACCOUNTS_MAX):
        assert (await merchant.put(f"{PATH}/n-{number}", {"processor": "sandbox"})).status_code == 201
    await merchant.delete(f"{PATH}/n-0")
    one_more = await merchant.put(f"{PATH}/one-more", {"processor": "sandbox"})
    assert (one_more.status_code, one_more.json()["code"]) == (409, "PROCESSOR_ACCOUNT_LIMIT_REACHED")
    assert (await merchant.put(f"{PATH}/n-0", {"processor": "sandbox"})).status_code == 200


async def test_no_secret_is_in_an_event_an_answer_a_log_or_a_table(
    merchant: Merchant, settings: Settings, capfd: pytest.CaptureFixture[str]
):
    answers = [
        await merchant.put(ONE, BODY),
        await merchant.put(ONE, BODY | {"secretKey": OTHER, "webhookSecrets": [SIGNING, NEXT_SIGNING]}),
        await merchant.put(ONE, BODY | {"secretKey": BAD}),
        await merchant.put(ONE, BODY | {"secretKey": DOWN}),
        await merchant.put(ONE, BODY | {"secretkey": GOOD, "secretKey": GOOD}),
        await merchant.put(ONE, BODY | {"publishableKey": GOOD}),
        await merchant.put(ONE, b'{"processor": "acme", "secretKey": "%s", }' % GOOD.encode()),
        await merchant.get(ONE),
        await merchant.post(f"{ONE}/check", {}),
        await merchant.delete(ONE),
        await merchant.get(PATH),
    ]
    assert [answer.status_code for answer in answers] == [201, 200, 422, 503, 400, 400, 400, 200, 200, 200, 200]
    for answer in answers:
        assert_no_secret(answer.text + str(answer.headers))
    logged = capfd.readouterr()
    assert_no_secret(logged.out + logged.err)
    with psycopg.connect(settings.database_url or "") as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        for (table,) in tables:
            rows = connection.execute(f"select t::text from {table} t".encode()).fetchall()
            text = "\n".join(row for (row,) in rows)
            assert not [each for each in SECRETS if each in text or each.encode().hex() in text], table
    assert len(stored_keys(settings, merchant)) == 1, "the keys that were replaced are destroyed"


def stored_keys(settings: Settings, merchant: Merchant | None = None) -> list[Any]:
    """Returns the ids of the stored keys, of one merchant or of all."""
    with psycopg.connect(settings.database_url or "") as connection:
        rows = connection.execute("select merchant_id, secret_id from processor_account_key").fetchall()
    return sorted(row for row in rows if merchant is None or row[0] == merchant.merchant_id)
