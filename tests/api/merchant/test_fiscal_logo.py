"""The logo on printed documents: set, shown and removed over HTTP, and printed in the language of the customer."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from tests.api.bodies import paid_order
from tests.api.invoices.test_split_order_documents import FISCAL, work
from tests.api.openapi.description import assert_described
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.invoicing.documents import LOGO_BASE64, png
from tests.invoicing.test_pdf import texts

from ledger.invoicing.logos import open_logo

pytestmark = pytest.mark.anyio

PATH = "/api/v1/merchant/fiscal-issuer/logo"


async def test_a_logo_is_set_shown_and_removed(store: Storefront, merchant: Merchant) -> None:
    absent = await merchant.get(PATH)
    assert absent.status_code == 404
    answer = await merchant.put(PATH, {"image": LOGO_BASE64})
    assert (answer.status_code, answer.json()) == (200, {"width": 120, "height": 80, "size": len(open_logo(png()).png)})
    assert_described(answer, "put", PATH)
    assert (await merchant.get(PATH)).json() == answer.json()
    assert (await (await store.register()).get(PATH)).status_code == 404, "another merchant has none"
    for _ in range(2):
        removed = await merchant.delete(PATH)
        assert (removed.status_code, removed.json()["size"]) == (200, 0)
    assert (await merchant.get(PATH)).status_code == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "is required"),
        ({"image": "not base64!"}, "must be a file in base64"),
        ({"image": "R0lGODlh" * 8}, "is no PNG"),
        ({"image": b64encode(png(2000, 20)).decode()}, "is 2000 x 20 pixels: each side of a logo has 16 to 1,200"),
    ],
)
async def test_what_is_no_logo_is_refused(merchant: Merchant, body: dict[str, Any], message: str) -> None:
    answer = await merchant.put(PATH, body)
    assert answer.status_code == 400
    assert_described(answer, "put", PATH)
    (wrong,) = answer.json()["errors"]
    assert (wrong["field"], wrong["message"]) == ("image", message)
    assert (await merchant.get(PATH)).status_code == 404


async def test_a_document_has_the_logo_and_the_language_of_its_customer(merchant: Merchant) -> None:
    assert (await merchant.put(PATH, {"image": LOGO_BASE64})).status_code == 200
    person = {"externalId": "reader", "firstName": "Ann", "notificationPreferences": {"language": "en"}}
    assert (await merchant.post("/api/customers", person)).status_code == 201
    body = paid_order(externalId="english", customerFiscalData=FISCAL, customer={"externalId": "reader"})
    assert (await merchant.create(body)).status_code == 201
    await work(merchant)
    links = (await merchant.get(f"{ORDERS}/english/cfdi-url")).json()["invoice"]
    pdf = (await merchant.client.get(links["pdfUrl"])).content
    assert "Invoice" in texts(pdf)
    assert b"/Subtype /Image" in pdf
