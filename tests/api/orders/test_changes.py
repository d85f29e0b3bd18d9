"""PATCH /v2/payment-orders/{id}: what it changes, what it answers and what it refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.api.bodies import by_card, charge, encoded, line, order, paid_order
from tests.api.invoices.test_split_order_documents import CFDI, FISCAL, STAMPING, download, shown, work
from tests.api.openapi.description import assert_described
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront
from tests.invoicing.documents import issuer_body
from tests.invoicing.kept_keys import kept_keys
from tests.whole_log import whole_log

from ledger.postgres.connection import connect
from ledger.settings import Settings
from projections.rebuild import replay, stored

__all__ = ["kept_keys"]

pytestmark = pytest.mark.anyio

ONE = f"{ORDERS}/{{id}}"
ISSUER = "/api/v1/merchant/fiscal-issuer"
KEYS = {"productKey": "50201706", "unitKey": "H87"}


async def change(merchant: Merchant, order_id: str, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else encoded(body)
    return await merchant.client.patch(f"{ORDERS}/{order_id}", content=content, headers=merchant.key | JSON | headers)


async def refusal(merchant: Merchant, order_id: str, body: Any) -> tuple[int, str, list[str]]:
    """Returns the status, the code and the wrong fields of a refused change."""
    answer = await change(merchant, order_id, body)
    assert_described(answer, "patch", ONE)
    error = answer.json()
    return answer.status_code, error["code"], [each["field"] for each in error.get("errors", ())]


async def test_every_term_is_changed_and_shown_and_found(store: Storefront) -> None:
    merchant = await store.register()
    created = (
        await merchant.create(
            order(invoiceNumber="F-2030", metadata={"mesa": 7, "canal": {"web": True}}, dueDate="2031-01-01")
        )
    ).json()
    body = {
        "amount": 170000,
        "description": "Café de olla",
        "invoiceNumber": "F-2031",
        "metadata": {"mesa": None, "canal": {"app": 1.10}},
        "dueDate": "2032-01-01",
        "lineItems": [line(unitPrice=85000)],
    }
    changed = await change(merchant, created["id"], body, **{"idempotency-key": "one"})
    assert changed.status_code == 200, changed.text
    assert_described(changed, "patch", ONE)
    now = changed.json()
    assert "warnings" not in now
    assert (now["amount"], now["amountPending"], now["amountFormatted"]) == (170000, 170000, "$1,700.00 MXN")
    assert (now["description"], now["dueDate"][:10], len(now["lineItems"])) == ("Café de olla", "2032-01-02", 1)
    assert '"metadata":{"canal":{"web":true,"app":1.1}}' in changed.text
    again = await change(merchant, created["id"], body, **{"idempotency-key": "one"})
    assert (again.content, again.headers["idempotent-replayed"]) == (changed.content, "true")
    same = await change(merchant, "order-1", {"description": "Café de olla", "metadata": {"mesa": None}})
    assert (same.json(), "idempotent-replayed" in same.headers) == (now, False)
    assert (await merchant.get(f"{ORDERS}?amountMin=170000")).json()["pagination"]["total"] == 1
    assert (await merchant.get(f"{ORDERS}?amountMax=150000")).json()["pagination"]["total"] == 0
    for search, found in (("f-2031", 1), ("f-2030", 0)):
        assert (await merchant.get(f"{ORDERS}?search={search}")).json()["pagination"]["total"] == found
    await work(merchant, "P2190D")
    assert (await shown(merchant, created["id"]))["isOverdue"]
    cleared = {"description": None, "metadata": None, "dueDate": None, "lineItems": None}
    gone = (await change(merchant, created["id"], cleared)).json()
    assert [gone[name] for name in (*cleared, "isOverdue")] == [None, None, None, [], False]
    paid = await merchant.post(f"{ORDERS}/{created['id']}/charge", charge())
    assert (paid.json()["amountPaid"], paid.json()["status"]) == (170000, "COMPLETED")
    assert (await change(merchant, created["id"], {"description": "pagado"})).status_code == 200


@pytest.mark.parametrize("number", ["F-2031", "Ñ-7", None])
async def test_the_rows_of_a_changed_order_follow_from_the_log_before_any_line_is_packed(
    store: Storefront, settings: Settings, number: str | None
) -> None:
    merchant = await store.register()
    created = (await merchant.create(order(invoiceNumber="F-2030", metadata={"mesa": 7}))).json()
    body = {"amount": 170000, "invoiceNumber": number, "metadata": {"mesa": None}, "dueDate": "2032-01-01"}
    assert (await change(merchant, created["id"], body)).status_code == 200
    assert settings.database_url is not None
    async with await connect(settings.database_url, "test") as connection:
        feed = await whole_log(store.ledger.journal.reader, connection, merchant.merchant_id)
        rows = await stored(connection, merchant.merchant_id)
    log = [(each.stream_id, each.version, each.event) for each in feed]
    assert replay(merchant.merchant_id, log) == rows


async def test_a_change_warns_as_a_creation_does(store: Storefront) -> None:
    merchant = await store.register()
    await merchant.create(order())
    body = {"dueDate": "2020-01-01", "amount": 2848.5, "loyaltyPoints": 7, "status": None}
    warned = (await change(merchant, "order-1", body, **{"idempotency-key": "w"})).json()["warnings"]
    assert {(each["field"], each["code"]) for each in warned} == {
        ("dueDate", "DUE_DATE_IN_PAST"),
        ("amount", "FRACTION_OF_MINOR_UNIT"),
        ("loyaltyPoints", "UNKNOWN_FIELD"),
        ("status", "UNKNOWN_FIELD"),
    }
    assert "MXN" in next(each["message"] for each in warned if each["field"] == "amount")
    again = (await change(merchant, "order-1", body, **{"idempotency-key": "w"})).json()["warnings"]
    assert again == warned
    wrong = {"amount": 150000, "lineItems": [line(productKey="1")]}
    (keys,) = (await change(merchant, "order-1", wrong)).json()["warnings"]
    assert (keys["field"], keys["code"]) == ("lineItems[0].productKey", "NOT_IN_SAT_CATALOG")
    strict = await store.register(fractional_amounts=False)
    await strict.create(order())
    assert await refusal(strict, "order-1", {"amount": 2848.5}) == (400, "VALIDATION_ERROR", ["amount"])


async def test_what_no_order_can_take_is_refused(store: Storefront) -> None:
    merchant = await store.register()
    await merchant.create(order(lineItems=[line()]))
    wrong = (400, "VALIDATION_ERROR")
    for body, fields in (
        (b"null", ["body"]),
        ({}, ["body"]),
        ({"loyaltyPoints": 7}, ["loyaltyPoints", "body"]),
        ({"amount": None}, ["amount"]),
        ({"amount": 0}, ["amount"]),
        ({"amount": 1}, ["amount"]),
        ({"lineItems": [line(unitPrice=1)]}, ["lineItems"]),
        ({"amount": 5, "lineItems": [line()]}, ["lineItems"]),
        ({"metadata": 7}, ["metadata"]),
        ({"dueDate": "mañana"}, ["dueDate"]),
        ({"currency": "USD", "externalId": "x", "status": "CANCELLED"}, ["currency", "externalId", "status"]),
        ({"customerFiscalData": "CUSTOMER"}, ["customerFiscalData"]),
        ({"exchangeRate": 17.5}, ["exchangeRate"]),
    ):
        assert await refusal(merchant, "order-1", body) == (*wrong, fields), body
    (sums,) = (await change(merchant, "order-1", {"lineItems": [line(unitPrice=1)]})).json()["errors"]
    assert sums["code"] == "LINE_ITEMS_SUM"
    assert "is 2, and amount is 150000" in sums["message"]
    for name in ("due_date", "total"):
        assert await refusal(merchant, "order-1", {name: "2032-01-01"}) == (400, "UNKNOWN_FIELD", [name])
    assert await refusal(merchant, "order-1", {"description": "4242 4242 4242 4242"}) == (
        400,
        "CARD_NUMBER_NOT_ALLOWED",
        ["description"],
    )
    assert await refusal(merchant, "none", {"description": "x"}) == (404, "ORDER_NOT_FOUND", [])
    unchanged = (await merchant.get(f"{ORDERS}/order-1")).json()
    assert unchanged["updatedAt"] == unchanged["createdAt"]


async def test_an_amount_and_a_due_date_change_only_before_and_until_payment(store: Storefront) -> None:
    merchant = await store.register()
    await merchant.create(paid_order(externalId="paid", lineItems=[line()]))
    await merchant.create(order(externalId="waiting", paymentMethod={"type": "spei"}, pending=False))
    for name in ("paid", "waiting"):
        status, code, _ = await refusal(merchant, name, {"amount": 1})
        assert (status, code) == (409, "INVALID_ORDER_STATE")
    assert (await change(merchant, "waiting", {"dueDate": "2032-01-01"})).status_code == 200
    assert (await refusal(merchant, "paid", {"dueDate": "2032-01-01"}))[:2] == (409, "INVALID_ORDER_STATE")
    assert (await change(merchant, "paid", {"metadata": {"a": 1}})).json()["metadata"] == {"a": 1}


async def test_an_amount_never_changes_under_a_payment(store: Storefront) -> None:
    merchant = await store.register()
    for n in range(6):
        await merchant.create(order(externalId=f"race-{n}"))
        changed, paid = await asyncio.gather(
            change(merchant, f"race-{n}", {"amount": 100000}),
            merchant.post(f"{ORDERS}/race-{n}/charge", charge()),
        )
        assert (paid.status_code, changed.status_code in (200, 409)) == (200, True)
        after = (await merchant.get(f"{ORDERS}/race-{n}")).json()
        assert after["amountPaid"] == after["amount"] == (100000 if changed.status_code == 200 else 150000)
        assert after["payments"][0]["amount"] == str(after["amount"])


async def test_what_an_invoice_states_changes_until_it_is_stamped(store: Storefront) -> None:
    merchant = await store.register()
    assert (await merchant.put(ISSUER, issuer_body())).status_code == 200
    folio = {"settings": {"invoiceFolio": "INVOICE_NUMBER"}}
    assert (await merchant.put("/api/v1/merchant", folio)).status_code == 200
    created = (await merchant.create(paid_order(invoiceNumber="F-11", lineItems=[line(productKey="1")]))).json()
    fiscal = {"customerFiscalData": FISCAL}
    assert await refusal(merchant, "order-1", fiscal) == (400, "VALIDATION_ERROR", ["lineItems[0].productKey"])
    nobody = ["customerFiscalData", "lineItems[0].productKey"]
    assert await refusal(merchant, "order-1", {"customerFiscalData": {}}) == (400, "VALIDATION_ERROR", nobody)
    lines = {"lineItems": [line(description="Molino", **KEYS)]}
    asked = (await change(merchant, "order-1", fiscal | lines)).json()
    assert (asked["invoiceType"], asked["invoiceStatus"]) == ("PUE", "PENDING")
    assert await refusal(merchant, "order-1", {"customerFiscalData": None}) == (
        400,
        "VALIDATION_ERROR",
        ["customerFiscalData"],
    )
    await merchant.post(STAMPING, {"mode": "REFUSE", "times": 1, "code": "CFDI40147", "message": "No está en la lista"})
    await work(merchant)
    assert (await shown(merchant, created["id"]))["invoiceStatus"] == "FAILED"
    renamed = {"lineItems": [line(description="Molino de mano", **KEYS)], "invoiceNumber": "F-12"}
    assert (await change(merchant, "order-1", renamed)).json()["invoiceStatus"] == "FAILED"
    await work(merchant)
    done = await shown(merchant, created["id"])
    assert done["invoiceStatus"] == "INVOICED", "the change is reason enough to try again at once"
    links = (await merchant.get(f"{ORDERS}/order-1/cfdi-url")).json()
    document = await download(merchant, links["invoice"])
    assert document.get("Folio") == "F-12"
    assert [each.get("Descripcion") for each in document.iterfind(".//cfdi:Concepto", CFDI)] == ["Molino de mano"]
    for body in (lines, {"customerFiscalData": FISCAL | {"zipCode": "06700"}}, {"invoiceNumber": "F-13"}):
        status, code, _ = await refusal(merchant, "order-1", body)
        assert (status, code) == (409, "ORDER_INVOICED")
    assert (await change(merchant, "order-1", renamed | fiscal)).status_code == 200, "nothing of it is a change"
    await merchant.post(f"{ORDERS}/order-1/cfdi-cancel", {"motive": "02"})
    assert (await change(merchant, "order-1", lines)).status_code == 200
    anew = (await merchant.post(f"{ORDERS}/order-1/stamp", b"{}")).json()
    assert (anew["invoiceStatus"], anew["fiscalUuid"] != done["fiscalUuid"]) == ("INVOICED", True)


async def test_a_refused_invoice_is_sent_with_the_exchange_rate_that_is_given_later(store: Storefront) -> None:
    merchant = await store.register()
    assert (await merchant.put(ISSUER, issuer_body())).status_code == 200
    for name in ("changed", "stamped"):
        dollars = paid_order(externalId=name, currency="USD", customerFiscalData=FISCAL, exchangeRate=17.25)
        assert (await merchant.create(dollars)).status_code == 201
    await merchant.post(STAMPING, {"mode": "REFUSE", "times": 2, "code": "CFDI40118", "message": "El tipo de cambio"})
    await work(merchant)
    assert (await change(merchant, "changed", {"exchangeRate": 18.5})).json()["invoiceStatus"] == "FAILED"
    await work(merchant)
    assert (await merchant.post(f"{ORDERS}/stamped/stamp", {"exchangeRate": 18.5})).status_code == 200
    for name in ("changed", "stamped"):
        links = (await merchant.get(f"{ORDERS}/{name}/cfdi-url")).json()
        assert (await download(merchant, links["invoice"])).get("TipoCambio") == "18.5", name


async def test_a_split_order_and_a_foreign_one_keep_the_checks_of_creation(store: Storefront) -> None:
    merchant = await store.register()
    assert (await merchant.put(ISSUER, issuer_body())).status_code == 200
    await merchant.create(order(currency="USD", allowPartials=True, externalId="usd"))
    fiscal = {"customerFiscalData": FISCAL}
    lacking = await change(merchant, "usd", fiscal)
    assert [(each["field"], each["code"]) for each in lacking.json()["errors"]] == [("exchangeRate", "REQUIRED")]
    named = (await change(merchant, "usd", fiscal | {"exchangeRate": 17.25})).json()
    assert (named["invoiceType"], named["customerFiscalData"]["taxId"]) == ("PPD", FISCAL["taxId"])
    assert (await refusal(merchant, "usd", {"amount": 100.5}))[:2] == (422, "AMOUNT_NOT_CHARGEABLE")
    assert (await change(merchant, "usd", {"amount": 200000})).json()["amountPending"] == 200000
    part = charge(amount=150000, paymentMethod=by_card())
    assert (await merchant.post(f"{ORDERS}/usd/payments", part)).json()["amountPending"] == 50000
    assert (await refusal(merchant, "usd", {"amount": 150000}))[:2] == (409, "INVALID_ORDER_STATE")
