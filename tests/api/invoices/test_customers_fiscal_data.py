"""The fiscal data of a customer over HTTP, and the orders that take them over."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.api.bodies import line, paid_order
from tests.api.invoices.test_split_order_documents import FISCAL, shown, work
from tests.api.storefront import ORDERS, Merchant, Storefront

from ledger.domain.fiscal_data import FiscalData
from ledger.operations.context.inputs import Actor, CustomerFields
from ledger.operations.customers.create import create_customer

pytestmark = pytest.mark.anyio

CUSTOMERS = "/api/customers"
BY_ID = {"externalId": "ana"}


async def customer(merchant: Merchant, **body: Any) -> dict[str, Any]:
    answer = await merchant.post(CUSTOMERS, {"externalId": "ana", "fiscalData": FISCAL, **body})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_an_order_keeps_the_fiscal_data_that_its_customer_had(merchant: Merchant) -> None:
    made = await customer(merchant)
    assert made["fiscalData"] == FISCAL
    body = paid_order(externalId="c-1", customer=BY_ID, customerFiscalData="CUSTOMER")
    order = (await merchant.create(body)).json()
    assert (order["customerFiscalData"], order["invoiceType"]) == (FISCAL, "PUE")
    changed = await merchant.put(f"{CUSTOMERS}/ana", {"fiscalData": {"taxId": "XAXX010101000"}})
    assert changed.json()["fiscalData"] == {"taxId": "XAXX010101000"}, "they are replaced as a whole"
    await work(merchant)
    done = await shown(merchant, order["id"])
    assert (done["customerFiscalData"], done["invoiceStatus"]) == (FISCAL, "INVOICED")
    cleared = await merchant.put(f"{CUSTOMERS}/ana", {"fiscalData": None})
    assert cleared.json()["fiscalData"] is None
    again = await merchant.create(body)
    assert (again.status_code, again.json()["id"]) == (200, order["id"]), "an order outlives what it was made from"


async def test_a_customer_without_fiscal_data_cannot_lend_them(merchant: Merchant) -> None:
    for value, problem in (
        ("customer", "is CUSTOMER, and the customer has no"),
        ("ana", "must be an object, or CUSTOMER"),
    ):
        refused = await merchant.create(paid_order(externalId="c-2", customerFiscalData=value))
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "customerFiscalData")
        assert problem in refused.json()["message"]
    assert (await merchant.get(f"{ORDERS}/c-2")).status_code == 404
    both = await merchant.create(paid_order(externalId="c-2", customerFiscalData="CUSTOMER", fiscalData=FISCAL))
    assert (both.status_code, both.json()["code"]) == (400, "CONFLICTING_FIELDS")


async def test_wrong_fiscal_data_of_a_customer_name_every_field(merchant: Merchant) -> None:
    refused = await merchant.post(CUSTOMERS, {"externalId": "x", "fiscalData": {"taxId": "NO", "zipCode": "1"}})
    assert refused.status_code == 400
    assert {each["field"] for each in refused.json()["errors"]} == {"fiscalData.taxId", "fiscalData.zipCode"}


async def test_orders_are_invoiced_to_their_customer_by_the_merchants_setting(merchant: Merchant) -> None:
    await customer(merchant)
    off = (await merchant.create(paid_order(externalId="s-0", customer=BY_ID))).json()
    assert (off["customerFiscalData"], off["invoiceType"]) == (None, None)
    answer = await merchant.put("/api/v1/merchant", {"settings": {"invoiceByDefault": True}})
    assert answer.json()["settings"]["invoiceByDefault"] is True
    on = (await merchant.create(paid_order(externalId="s-1", customer=BY_ID))).json()
    assert (on["customerFiscalData"], on["invoiceType"]) == (FISCAL, "PUE")
    own = {"taxId": "XAXX010101000"}
    brought = await merchant.create(paid_order(externalId="s-2", customer=BY_ID, customerFiscalData=own))
    assert brought.json()["customerFiscalData"] == own
    none = await merchant.create(paid_order(externalId="s-3", customer={"externalId": "eva"}))
    assert (none.status_code, none.json()["customerFiscalData"]) == (201, None)
    wrong = paid_order(externalId="s-4", customer=BY_ID, lineItems=[line(productKey="99999999")])
    refused = await merchant.create(wrong)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "lineItems[0].productKey")


async def test_a_process_that_does_not_know_the_customer_finds_its_fiscal_data(
    store: Storefront, merchant: Merchant
) -> None:
    actor = Actor(merchant_id=merchant.merchant_id)
    fiscal = msgspec.convert(FISCAL, FiscalData)
    await create_customer(store.ledger, actor, CustomerFields(external_id="eva", fiscal=fiscal))
    body = paid_order(externalId="c-3", customer={"externalId": "eva"}, customerFiscalData="CUSTOMER")
    assert (await merchant.create(body)).json()["customerFiscalData"] == FISCAL
