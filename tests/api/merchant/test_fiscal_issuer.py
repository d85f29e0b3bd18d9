"""The merchant as the issuer of its invoices, set with a certificate over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.api.bodies import encoded
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.invoicing.documents import LEGAL_NAME, NUMBER, RFC, issuer_body, issuer_body_of
from tests.invoicing.test_certificates import locked

from api.errors import ApiError
from api.merchant.fiscal_issuer import parse_issuer
from ledger.invoicing.certificates import generate_csd
from ledger.invoicing.locked_keys import ROUNDS_MAX

pytestmark = pytest.mark.anyio

PATH = "/api/v1/merchant/fiscal-issuer"
NOW = datetime.now(UTC)


async def test_an_issuer_is_set_read_and_used_and_its_key_never_returned(store: Storefront, merchant: Merchant):
    test_issuer = (await merchant.get(PATH)).json()
    assert (test_issuer["rfc"], test_issuer["publicInGeneral"]) == ("EKU9003173C9", False)
    body = issuer_body() | {"series": "F", "ivaRate": "0.08"}
    answer = await merchant.put(PATH, body)
    assert answer.status_code == 200
    document = answer.json()
    assert document.items() >= {
        "rfc": RFC, "legalName": LEGAL_NAME, "taxSystem": "601", "zipCode": "42501", "series": "F",
        "publicInGeneral": False, "ivaRate": "0.08", "certificateNumber": NUMBER,
    }.items()  # fmt: skip
    assert body["privateKey"] not in answer.text
    assert body["password"] not in answer.text
    assert (await merchant.put(PATH, body)).json() == document, "a second time changes nothing"
    assert (await merchant.get(PATH)).json() == document
    assert store.ledger.invoicing
    issuer, signer = await store.ledger.invoicing.issuers.signer_of(merchant.merchant_id)
    assert (issuer.series, signer.certificate_number) == ("F", NUMBER)
    other = await store.register()
    assert (await other.get(PATH)).json()["series"] == "A", "another merchant has its own"


async def test_a_certificate_that_could_not_seal_is_refused_when_it_is_set(merchant: Merchant):
    before = (await merchant.get(PATH)).json()
    foreign = issuer_body_of(generate_csd("XIA190128J61", "XENON", NUMBER))
    answer = await merchant.put(PATH, foreign)
    assert answer.status_code == 400
    (wrong,) = answer.json()["errors"]
    assert (wrong["field"], wrong["message"]) == ("certificate", f"belongs to XIA190128J61, and the issuer is {RFC}")
    assert (await merchant.put(PATH, issuer_body() | {"password": "wrong"})).status_code == 400
    assert (await merchant.get(PATH)).json() == before


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"rfc": "nonsense"}, ["rfc"]),
        ({"taxSystem": "6O1", "zipCode": "123", "series": "A-1"}, ["taxSystem", "zipCode", "series"]),
        ({"certificate": "%%%", "privateKey": "%%%"}, ["certificate", "privateKey"]),
        ({"certificate": "AAAA"}, ["certificate"]),
        ({"privateKey": "AAAA"}, ["privateKey"]),
        ({"password": "wrong"}, ["privateKey"]),
        ({"legalName": "4242 4242 4242 4242"}, ["legalName"]),
        ({"ivaRate": "0.99"}, ["ivaRate"]),
        ({"certificate": "A" * 20_000}, ["certificate"]),
    ],
)
def test_every_wrong_field_is_named(changes: Any, fields: list[str]):
    with pytest.raises(ApiError) as refused:
        parse_issuer(encoded(issuer_body() | changes), NOW)
    assert [each.field for each in refused.value.errors] == fields
    assert "12345678a" not in refused.value.message


def test_every_required_field_is_named():
    with pytest.raises(ApiError) as refused:
        parse_issuer(b"{}", NOW)
    named = {each.field for each in refused.value.errors}
    assert named == {"rfc", "taxSystem", "zipCode", "certificate", "privateKey", "password"}


def test_an_expired_certificate_is_refused():
    with pytest.raises(ApiError, match="VALIDATION_ERROR") as refused:
        parse_issuer(encoded(issuer_body()), NOW + timedelta(days=2000))
    assert [each.field for each in refused.value.errors] == ["certificate"]


def test_a_null_rate_makes_lines_without_taxes_no_object_of_tax():
    issuer, _ = parse_issuer(encoded(issuer_body() | {"ivaRate": None}), NOW)
    assert issuer.iva_rate is None


LONGEST = {"privateKey": b64encode(locked(ROUNDS_MAX)).decode()}
"""A key whose derivation takes as long as any that is tried. It opens to nothing."""


async def test_other_requests_are_answered_while_a_key_is_derived(
    store: Storefront, merchant: Merchant, monkeypatch: pytest.MonkeyPatch
):
    """The derivation ends only once they are answered."""
    derive, begun, others_are_answered = hashlib.pbkdf2_hmac, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def in_parts(*terms: Any) -> bytes:
        loop.call_soon_threadsafe(begun.set)
        assert others_are_answered.wait(60), "the requests of others wait for the derivation"
        return derive(*terms)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", in_parts)
    deriving = asyncio.create_task(merchant.put(PATH, issuer_body() | LONGEST))
    await begun.wait()
    other = await store.register()
    assert (await other.get(ORDERS)).status_code == (await merchant.get(PATH)).status_code == 200
    assert not deriving.done()
    others_are_answered.set()
    answer = await deriving
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "privateKey")


async def test_the_event_loop_turns_while_a_key_is_derived(merchant: Merchant, monkeypatch: pytest.MonkeyPatch):
    """The derivation lets other threads have the interpreter: a thread that held it would stop the loop all the same."""
    derive, turns, during = hashlib.pbkdf2_hmac, 0, -1

    def counted(*terms: Any) -> bytes:
        nonlocal during
        before = turns
        derived = derive(*terms)
        during = turns - before
        return derived

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    deriving = asyncio.create_task(merchant.put(PATH, issuer_body() | LONGEST))
    while not deriving.done():
        turns += 1
        await asyncio.sleep(0)
    assert (await deriving).status_code == 400
    assert during > 10
