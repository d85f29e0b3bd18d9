"""The merchant as the issuer of its invoices, set with a certificate over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.api.bodies import encoded
from tests.api.storefront import Merchant, Storefront
from tests.invoicing.documents import LEGAL_NAME, NUMBER, RFC, issuer_body, issuer_body_of

from api.errors import ApiError
from api.merchant.fiscal_issuer import parse_issuer
from ledger.invoicing.certificates import generate_csd

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
