"""Refunds of orders of one payment: their credit notes over HTTP, in the report of the month, and as files."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.api.bodies import paid_order
from tests.api.invoices.test_split_order_documents import CFDI, FISCAL, STAMPING, download, shown, work
from tests.api.storefront import ORDERS, Merchant, Storefront

from ledger.domain.orders.invoices.terms import PueRefund

pytestmark = pytest.mark.anyio


async def sold(merchant: Merchant, name: str) -> str:
    body = paid_order(externalId=name, amount=10_000, customerFiscalData=FISCAL, lineItems=[])
    answer = await merchant.create(body)
    assert answer.status_code == 201, answer.text
    await work(merchant)
    return answer.json()["id"]


async def refund(merchant: Merchant, order_id: str, amount: int) -> None:
    answer = await merchant.post(f"{ORDERS}/{order_id}/refund", {"amount": amount, "reason": "defecto"})
    assert answer.status_code == 200, answer.text


async def cancel(merchant: Merchant, order_id: str, **body: str) -> Any:
    return await merchant.post(f"{ORDERS}/{order_id}/cfdi-cancel", {"motive": "02", **body})


async def test_a_refund_has_a_credit_note_and_the_month_counts_it(store: Storefront) -> None:
    merchant = await store.register(surcharge_rate=Decimal(3))
    order_id = await sold(merchant, "pue-refund")
    await refund(merchant, order_id, 1_000)
    assert (await cancel(merchant, order_id)).json()["code"] == "INVOICE_IN_USE"
    await work(merchant)
    assert (await cancel(merchant, order_id)).json()["code"] == "INVOICE_IN_USE"
    await refund(merchant, order_id, 9_300)
    await work(merchant)
    done = await shown(merchant, order_id)
    assert (done["complements"], done["invoiceStatus"], done["status"]) == ([], "INVOICED", "REFUNDED")
    assert [(each["kind"], each["amount"], each["status"]) for each in done["creditNotes"]] == [
        ("CREDIT_NOTE", 971, "EMITTED"), ("CREDIT_NOTE", 9029, "EMITTED"),
    ]  # fmt: skip
    links = (await merchant.get(f"{ORDERS}/{order_id}/cfdi-url")).json()
    invoice = await download(merchant, links["invoice"])
    for linked in links["creditNotes"]:
        note = await download(merchant, linked, invoice)
        assert (note.get("TipoDeComprobante"), note.get("FormaPago")) == ("E", invoice.get("FormaPago"))
        (related,) = note.iterfind(".//cfdi:CfdiRelacionados", CFDI)
        assert (related.get("TipoRelacion"), related[0].get("UUID").lower()) == ("01", done["fiscalUuid"])
    month = datetime.fromisoformat(done["createdAt"]).astimezone(ZoneInfo("America/Mexico_City"))
    report = (await merchant.get(f"/api/v1/invoices/month-end?month={month:%Y-%m}")).json()["lines"]
    assert [(line["kind"], line["documents"], line["total"], line["iva"]) for line in report] == [
        ("CREDIT_NOTE", 2, 10_000, 1_379), ("INVOICE_PUE", 1, 10_000, 1_379),
    ]  # fmt: skip
    for note in done["creditNotes"]:
        assert (await cancel(merchant, order_id, documentId=note["id"])).status_code == 200
    gone = (await cancel(merchant, order_id)).json()
    assert gone["invoiceCancellation"]["status"] == "CANCELLED"
    assert (gone["invoiceStatus"], gone["fiscalUuid"]) == (None, None)
    again = (await merchant.post(f"{ORDERS}/{order_id}/stamp", {})).json()
    assert (again["invoiceStatus"], again["invoiceType"]) == ("INVOICED", "PUE")
    links = (await merchant.get(f"{ORDERS}/{order_id}/cfdi-url")).json()
    invoice = await download(merchant, links["invoice"])
    (related,) = invoice.iterfind(".//cfdi:CfdiRelacionados", CFDI)
    assert (related.get("TipoRelacion"), related[0].get("UUID").lower()) == ("04", done["fiscalUuid"])


async def test_a_full_refund_cancels_the_invoice_of_its_month_where_the_merchant_chose_that(store: Storefront) -> None:
    merchant = await store.register(pue_refund=PueRefund.CANCEL_IN_MONTH)
    gone, kept = await sold(merchant, "gone"), await sold(merchant, "kept")
    await refund(merchant, gone, 10_000)
    await work(merchant)
    cancelled = await shown(merchant, gone)
    assert (cancelled["invoiceCancellation"]["status"], cancelled["invoiceCancellation"]["motive"]) == (
        "CANCELLED",
        "03",
    )
    assert cancelled["creditNotes"] == []
    await merchant.post(STAMPING, {"mode": "REFUSE", "times": 1, "code": "205", "message": "No cancelable."})
    await refund(merchant, kept, 10_000)
    await work(merchant)
    await work(merchant)
    credited = await shown(merchant, kept)
    assert credited["invoiceCancellation"]["status"] == "REFUSED"
    assert [(each["amount"], each["status"]) for each in credited["creditNotes"]] == [(10_000, "EMITTED")]


async def test_a_note_that_fails_is_shown_and_listed_and_leaves_the_invoice_to_a_cancellation(
    store: Storefront,
) -> None:
    merchant = await store.register()
    order_id = await sold(merchant, "stuck")
    await merchant.post(STAMPING, {"mode": "REFUSE"})
    await refund(merchant, order_id, 4_000)
    await work(merchant)
    done = await shown(merchant, order_id)
    (note,) = done["creditNotes"]
    assert (note["status"], note["failureCode"]) == ("FAILED", "CFDI40145")
    month = datetime.fromisoformat(done["createdAt"]).astimezone(ZoneInfo("America/Mexico_City"))
    report = (await merchant.get(f"/api/v1/invoices/month-end?month={month:%Y-%m}")).json()
    assert [(each["orderId"], each["documentId"], each["kind"], each["state"], each["total"], each["failureCode"])
            for each in report["missing"]] == [(order_id, note["id"], "CREDIT_NOTE", "FAILED", 4_000, "CFDI40145")]  # fmt: skip
    assert report["hasMoreMissing"] is False
    await merchant.post(STAMPING, {"mode": "OK"})
    assert (await cancel(merchant, order_id)).json()["invoiceCancellation"]["status"] == "CANCELLED"
    await work(merchant, "P2D")
    assert (await shown(merchant, order_id))["creditNotes"] == []
    report = (await merchant.get(f"/api/v1/invoices/month-end?month={month:%Y-%m}")).json()
    assert [(line["kind"], line["state"]) for line in report["lines"]] == [("INVOICE_PUE", "CANCELLED")]
    assert report["missing"] == []


async def test_an_invoice_that_cannot_be_drawn_up_is_listed_as_missing(store: Storefront) -> None:
    merchant = await store.register()
    body = paid_order(externalId="blocked", amount=10_000, customerFiscalData={**FISCAL, "zipCode": None}, lineItems=[])
    order_id = (await merchant.create(body)).json()["id"]
    await work(merchant)
    done = await shown(merchant, order_id)
    month = datetime.fromisoformat(done["createdAt"]).astimezone(ZoneInfo("America/Mexico_City"))
    report = (await merchant.get(f"/api/v1/invoices/month-end?month={month:%Y-%m}")).json()
    (missing,) = report["missing"]
    assert (missing["kind"], missing["total"], missing["failureCode"]) == (
        "INVOICE_PUE", 10_000, done["invoiceFailureCode"],
    )  # fmt: skip
    page = await merchant.get(f"/api/v1/invoices/month-end?month={month:%Y-%m}", accept="text/html")
    assert missing["failureReason"] in page.text
