"""The documents of a split order over HTTP: stamped in order, downloaded, and adding up at every step.

Moving the merchant's clock does what a worker does.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from lxml import etree
from tests.api.bodies import by_card, order
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.invoicing.sat_rules import broken_rules
from tests.invoicing.sat_schemas import schema_errors

pytestmark = pytest.mark.anyio

FISCAL = {
    "taxId": "URE180429TM6",
    "legalName": "UNIVERSIDAD ROBOTICA ESPAÑOLA",
    "taxSystem": "601",
    "cfdiUse": "G03",
    "zipCode": "86991",
}
CFDI = {"cfdi": "http://www.sat.gob.mx/cfd/4", "pago": "http://www.sat.gob.mx/Pagos20"}
STAMPING = "/api/sandbox/stamping"


async def work(merchant: Merchant, by: str = "PT1S") -> None:
    answer = await merchant.post("/api/sandbox/clock", {"advanceBy": by})
    assert answer.status_code == 200, answer.text


async def shown(merchant: Merchant, order_id: str) -> dict[str, Any]:
    return (await merchant.get(f"{ORDERS}/{order_id}")).json()


async def make(merchant: Merchant, **changes: Any) -> str:
    body = order(allowPartials=True, amount=100000, customerFiscalData=FISCAL, **changes)
    answer = await merchant.create(body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def pay(merchant: Merchant, order_id: str, amount: int, method: dict[str, Any] | None = None) -> dict[str, Any]:
    body = {
        "amount": amount,
        "paymentMethod": method or by_card(),
        "billingAddress": {"city": "Puebla", "country": "MX"},
    }
    answer = await merchant.post(f"{ORDERS}/{order_id}/payments", body)
    assert answer.status_code == 201, answer.text
    return answer.json()["payment"]


def check(document: dict[str, Any], *, stamped: bool) -> None:
    """Invariants I8 and I9 of what the order shows, and its net subtotal where everything is stamped."""
    counts = document["invoiceSummary"]
    assert counts["capturedCount"] == sum(
        counts[name] for name in ("emittedRepCount", "pendingRepCount", "failedRepCount")
    )
    assert counts["refundEventCount"] == sum(
        counts[name] for name in ("emittedCreditNoteCount", "pendingCreditNoteCount", "failedCreditNoteCount")
    )
    emitted = [each for each in document["complements"] if each["status"] == "EMITTED"]
    applied = sum(each["appliedAmount"] for each in emitted)
    credited = sum(each["amount"] for each in document["creditNotes"] if each["status"] == "EMITTED")
    assert 0 <= applied - credited <= document["subtotalAmount"]
    assert counts["isFullyStamped"] is stamped
    if stamped:
        assert applied - credited == document["subtotalAmount"] - document["amountPending"]


async def download(merchant: Merchant, links: dict[str, Any], invoice: Any = None) -> Any:
    """Returns a document's XML, which SAT's schemas with their catalogues and its arithmetic have to accept. `invoice`
    is the one to which a receipt or a credit note refers.
    """
    pdf = await merchant.client.get(links["pdfUrl"])
    assert pdf.content.startswith(b"%PDF-")
    xml = (await merchant.client.get(links["xmlUrl"])).content
    of = None if invoice is None else etree.tostring(invoice)
    assert (schema_errors(xml), broken_rules(xml, of)) == ([], [])
    return etree.fromstring(xml)


async def test_a_split_order_is_stamped_step_by_step_and_its_documents_add_up(store: Storefront) -> None:
    merchant = await store.register(surcharge_rate=Decimal(3))
    order_id = await make(merchant, externalId="cfdi-1")
    before = await shown(merchant, order_id)
    assert (before["invoiceType"], before["invoiceStatus"], before["complements"]) == ("PPD", None, [])
    card = await pay(merchant, order_id, 40000)
    check(await shown(merchant, order_id), stamped=False)
    await work(merchant)
    first = await shown(merchant, order_id)
    check(first, stamped=True)
    assert (first["invoiceStatus"], len(first["fiscalUuid"])) == ("INVOICED", 36)
    assert first["complements"][0]["amount"] == 41200
    await pay(merchant, order_id, 10000)
    transfer = await pay(merchant, order_id, 50000, {"type": "spei"})
    clabe = transfer["speiDetails"]["clabe"]
    assert (await merchant.post("/api/sandbox/deposits", {"clabe": clabe, "amount": 50000})).status_code == 200
    check(await shown(merchant, order_id), stamped=False)
    await work(merchant)
    check(await shown(merchant, order_id), stamped=True)
    for amount in (10000, 5000):
        body = {"amount": amount, "paymentId": card["id"], "reason": "defecto"}
        assert (await merchant.post(f"{ORDERS}/{order_id}/refund", body)).status_code == 200
        check(await shown(merchant, order_id), stamped=False)
        await work(merchant)
        refunded = await shown(merchant, order_id)
        check(refunded, stamped=True)
    assert [each["amount"] for each in refunded["creditNotes"]] == [9709, 4854]
    await pay(merchant, order_id, refunded["amountPending"])
    check(await shown(merchant, order_id), stamped=False)
    await work(merchant)
    done = await shown(merchant, order_id)
    check(done, stamped=True)
    assert done["status"] == "COMPLETED"
    [further] = done["additionalInvoices"]
    assert [each["installment"] for each in done["complements"]] == [1, 2, 3, 1]
    assert [each.get("invoiceId") for each in done["complements"]] == [None, None, None, further["id"]]
    assert (done["complements"][-1]["remainingBalance"], further["amount"]) == (0, 9709 + 4854)
    await _check_files(merchant, order_id, done)


async def test_two_receipts_of_one_payment_keep_their_amounts_after_their_cancellation(store: Storefront):
    merchant = await store.register()
    order_id = await make(merchant, externalId="crossing")
    await pay(merchant, order_id, 60000)
    await work(merchant)
    assert (await merchant.post(f"{ORDERS}/{order_id}/refund", {"amount": 20000})).status_code == 200
    await work(merchant)
    await pay(merchant, order_id, 60000)
    await work(merchant)
    done = await shown(merchant, order_id)
    amounts = [each["amount"] for each in done["complements"]]
    assert amounts == [60000, 40000, 20000]
    for receipt in (done["complements"][1], done["complements"][2]):
        body = {"motive": "02", "documentId": receipt["id"]}
        cancelled = (await merchant.post(f"{ORDERS}/{order_id}/cfdi-cancel", body)).json()
        assert [each["amount"] for each in cancelled["complements"]] == amounts
    assert [each["cancellation"] is not None for each in cancelled["complements"]] == [False, True, True]
    again = (await merchant.post(f"{ORDERS}/{order_id}/stamp", {})).json()
    assert sorted(each["amount"] for each in again["complements"]) == sorted([*amounts, 40000, 20000])


async def _check_files(merchant: Merchant, order_id: str, done: dict[str, Any]) -> None:
    links = (await merchant.get(f"{ORDERS}/{order_id}/cfdi-url")).json()
    invoice = await download(merchant, links["invoice"])
    assert (invoice.get("Total"), invoice.get("MetodoPago")) == ("1000.00", "PPD")
    [further] = links["additionalInvoices"]
    others = {further["id"]: (await download(merchant, further), further["fiscalUuid"])}
    assert others[further["id"]][0].get("Total") == "145.63"
    for shown_row, linked in zip(done["complements"], links["complements"], strict=True):
        paid, fiscal_uuid = others.get(shown_row.get("invoiceId"), (invoice, done["fiscalUuid"]))
        receipt = await download(merchant, linked, paid)
        (related,) = receipt.iterfind(".//pago:DoctoRelacionado", CFDI)
        assert Decimal(related.get("ImpPagado")) * 100 == shown_row["appliedAmount"]
        assert Decimal(related.get("ImpSaldoInsoluto")) * 100 == shown_row["remainingBalance"]
        assert related.get("IdDocumento").lower() == fiscal_uuid
    for shown_row, linked in zip(done["creditNotes"], links["creditNotes"], strict=True):
        note = await download(merchant, linked, invoice)
        assert (note.get("TipoDeComprobante"), Decimal(note.get("Total")) * 100) == ("E", shown_row["amount"])
    one = links["creditNotes"][0]["id"]
    alone = (await merchant.get(f"{ORDERS}/{order_id}/cfdi-url?complementId={one}&format=xml")).json()
    assert (alone["invoice"], alone["complements"], len(alone["creditNotes"])) == (None, [], 1)
    assert alone["creditNotes"][0]["pdfUrl"] is None
    same = await merchant.post(f"{ORDERS}/{order_id}/cfdi-url", {"documentId": one, "format": "xml"})
    assert [each["id"] for each in same.json()["creditNotes"]] == [one]
    altered = await merchant.client.get(links["invoice"]["xmlUrl"] + "0")
    assert altered.status_code == 404
