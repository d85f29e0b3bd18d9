"""POST …/stamp, …/cfdi-url and …/cfdi-cancel: what they answer, what they repeat and what they refuse."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from tests.api.bodies import ABSENT, by_card, line, order, paid_order
from tests.api.invoices.test_split_order_documents import CFDI, FISCAL, STAMPING, download, make, pay, shown, work
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.audit.auditing import audit_of, wrong_in
from tests.invoicing.documents import issuer_body

from ledger.invoicing.contract import Cancelled
from ledger.invoicing.providers.sandbox import SandboxProvider
from ledger.operations.context.ledger import Ledger

pytestmark = pytest.mark.anyio

ISSUER = "/api/v1/merchant/fiscal-issuer"
WORDS = {"code": "CFDI40999", "message": "Palabras del proveedor."}


async def stamp(merchant: Merchant, order_id: str, body: Any = b"{}", **headers: str) -> Any:
    return await merchant.post(f"{ORDERS}/{order_id}/stamp", body, **headers)


async def single(merchant: Merchant, name: str, **changes: Any) -> str:
    answer = await merchant.create(paid_order(externalId=name, customerFiscalData=FISCAL, **changes))
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def test_an_order_of_one_payment_has_an_invoice_once_it_is_paid(merchant: Merchant) -> None:
    order_id = await single(merchant, "pue-1")
    assert (await shown(merchant, order_id))["invoiceStatus"] == "PENDING"
    await work(merchant)
    done = await shown(merchant, order_id)
    assert (done["invoiceType"], done["invoiceStatus"], done["complements"]) == ("PUE", "INVOICED", [])
    assert "invoiceSummary" not in done
    again = (await stamp(merchant, order_id)).json()
    assert again["fiscalUuid"] == done["fiscalUuid"]


async def test_an_order_without_fiscal_data_is_stamped_once_a_request_brings_it(merchant: Merchant) -> None:
    order_id = await single(merchant, "later-1")
    plain = (await merchant.create(paid_order(externalId="plain-1"))).json()
    assert (plain["invoiceType"], plain["complements"], plain["creditNotes"]) == (None, [], [])
    refused = await stamp(merchant, plain["id"])
    assert (refused.status_code, refused.json()["code"]) == (422, "FISCAL_DATA_INCOMPLETE")
    assert refused.json()["errors"][0]["field"] == "fiscalConfig.taxId"
    done = await stamp(merchant, plain["id"], {"fiscalConfig": FISCAL})
    assert (done.status_code, done.json()["invoiceStatus"]) == (200, "INVOICED")
    stamped = await shown(merchant, plain["id"])
    assert (stamped["invoiceType"], stamped["customerFiscalData"]) == ("PUE", FISCAL)
    moved = {"fiscalConfig": {"zipCode": "06000", "email": "pagos@example.com"}}
    assert (await stamp(merchant, plain["id"], moved)).status_code == 200
    after = (await shown(merchant, plain["id"]))["customerFiscalData"]
    assert after == FISCAL | {"email": "pagos@example.com"}, "the invoice states the old postal code"
    assert order_id != plain["id"]


async def test_an_order_of_an_erased_customer_is_stamped_and_shows_no_receiver(
    store: Storefront, merchant: Merchant
) -> None:
    made = (await merchant.create(paid_order(externalId="erased-1"))).json()
    assert (await merchant.delete(f"/api/customers/{made['customer']['id']}")).status_code == 200
    refused = await stamp(merchant, made["id"])
    assert (refused.status_code, refused.json()["code"]) == (422, "FISCAL_DATA_INCOMPLETE")
    done = await stamp(merchant, made["id"], {"fiscalConfig": FISCAL})
    assert (done.status_code, done.json()["invoiceStatus"]) == (200, "INVOICED")
    assert (await shown(merchant, made["id"]))["customerFiscalData"] is None
    links = (await merchant.get(f"{ORDERS}/{made['id']}/cfdi-url")).json()
    document = await download(merchant, links["invoice"])
    assert document.find("cfdi:Receptor", CFDI).get("Rfc") == FISCAL["taxId"]
    url = store.settings.database_url
    assert url is not None
    assert wrong_in(await asyncio.to_thread(audit_of, url, merchant.merchant_id)) == []


async def test_missing_and_wrong_fiscal_data_names_every_field(merchant: Merchant) -> None:
    order_id = (await merchant.create(paid_order(externalId="missing-1"))).json()["id"]
    body = {"fiscalConfig": {"taxId": "URE180429TM6", "legalName": "UNIVERSIDAD ROBOTICA ESPAÑOLA"}}
    refused = await stamp(merchant, order_id, body)
    assert refused.status_code == 422
    assert {each["field"] for each in refused.json()["errors"]} == {
        "fiscalConfig.taxSystem", "fiscalConfig.cfdiUse", "fiscalConfig.zipCode",
    }  # fmt: skip
    wrong = await stamp(merchant, order_id, {"fiscalConfig": {"taxId": "NO"}, "scope": "SOME", "exchangeRate": -1})
    assert wrong.status_code == 400
    fields = {each["field"] for each in wrong.json()["errors"]}
    assert fields == {"fiscalConfig.taxId", "scope", "exchangeRate"}, "by the names of this operation"


async def test_a_part_that_was_captured_has_an_invoice_once_a_request_asks_for_it(merchant: Merchant) -> None:
    order_id = await single(merchant, "part-1", captureMethod="MANUAL")
    await merchant.post(f"{ORDERS}/{order_id}/capture", {"amount": 50_000})
    assert (await stamp(merchant, order_id)).json()["invoiceStatus"] is None, "the rest is held"
    await merchant.post(f"{ORDERS}/{order_id}/release", {})
    await work(merchant)
    assert (await shown(merchant, order_id))["invoiceStatus"] is None
    done = (await stamp(merchant, order_id)).json()
    assert (done["invoiceType"], done["invoiceStatus"]) == ("PUE", "INVOICED")
    links = (await merchant.get(f"{ORDERS}/{order_id}/cfdi-url")).json()
    document = await download(merchant, links["invoice"])
    assert document.get("Total") == "500.00"


async def test_a_foreign_currency_needs_an_exchange_rate(merchant: Merchant) -> None:
    without = await merchant.create(paid_order(externalId="usd-0", currency="USD", customerFiscalData=FISCAL))
    assert (without.status_code, without.json()["errors"][0]["field"]) == (400, "exchangeRate")
    assert (await merchant.get(f"{ORDERS}/usd-0")).status_code == 404, "nothing is charged that SAT will refuse"
    order_id = (await merchant.create(paid_order(externalId="usd-1", currency="USD"))).json()["id"]
    refused = await stamp(merchant, order_id, {"fiscalConfig": FISCAL})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "exchangeRate")
    done = await stamp(merchant, order_id, {"fiscalConfig": FISCAL, "exchangeRate": 17.2545})
    assert done.json()["invoiceStatus"] == "INVOICED"
    with_rate = await single(merchant, "usd-2", currency="USD", exchangeRate=18.5)
    await work(merchant)
    assert (await shown(merchant, with_rate))["invoiceStatus"] == "INVOICED"
    for stamped_id, rate in ((order_id, "17.2545"), (with_rate, "18.5")):
        links = (await merchant.get(f"{ORDERS}/{stamped_id}/cfdi-url")).json()
        document = await download(merchant, links["invoice"])
        assert (document.get("Moneda"), Decimal(document.get("TipoCambio"))) == ("USD", Decimal(rate))


async def test_an_amount_with_a_fraction_of_a_centavo_is_not_stamped(merchant: Merchant) -> None:
    without = await merchant.create(paid_order(externalId="fraction-0", amount=1500.5, customerFiscalData=FISCAL))
    assert (without.status_code, without.json()["code"]) == (422, "AMOUNT_NOT_CHARGEABLE")
    order_id = (await merchant.create(paid_order(externalId="fraction-1", amount=1500.5))).json()["id"]
    refused = await stamp(merchant, order_id, {"fiscalConfig": FISCAL})
    assert (refused.status_code, refused.json()["code"]) == (422, "AMOUNT_NOT_STAMPABLE")
    assert refused.json()["field"] == "amount"
    assert (await shown(merchant, order_id))["customerFiscalData"] is None, "nothing is recorded"


async def test_what_the_lines_have_wrong_is_named_where_fiscal_data_come_later(merchant: Merchant) -> None:
    lines = [
        line(quantity=1, unitPrice=100_000),
        line(quantity=1, unitPrice=50_000, productKey="99999999", unitKey="??", taxes=[{"type": "IVA", "rate": 16}]),
    ]
    order_id = (await merchant.create(paid_order(externalId="wrong-lines", lineItems=lines))).json()["id"]
    refused = await stamp(merchant, order_id, {"fiscalConfig": {"taxId": "URE180429TM6"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "FISCAL_DATA_INCOMPLETE")
    fields = {each["field"]: each["message"] for each in refused.json()["errors"]}
    wrong = {f"lineItems[1].{name}" for name in ("productKey", "unitKey", "taxes[0].rate")}
    assert fields.keys() == wrong | {
        f"fiscalConfig.{name}" for name in ("legalName", "taxSystem", "cfdiUse", "zipCode")
    }
    assert "did you mean 0.16?" in fields["lineItems[1].taxes[0].rate"]
    assert {
        each["field"] for each in (await stamp(merchant, order_id, {"fiscalConfig": FISCAL})).json()["errors"]
    } == wrong
    assert (await shown(merchant, order_id))["customerFiscalData"] is None, "nothing is recorded"


async def test_a_refusal_is_shown_in_the_providers_words_and_repeated_after_its_pause(merchant: Merchant) -> None:
    order_id = await make(merchant, externalId="refused-1")
    await pay(merchant, order_id, 40000)
    await merchant.post(STAMPING, {"mode": "REFUSE", "times": 1, **WORDS})
    refused = await stamp(merchant, order_id)
    assert (refused.status_code, refused.json()["invoiceStatus"]) == (200, "FAILED")
    assert (refused.json()["invoiceFailureCode"], refused.json()["invoiceFailureReason"]) == tuple(WORDS.values())
    await work(merchant, "PT4M")
    assert (await shown(merchant, order_id))["invoiceStatus"] == "FAILED"
    await work(merchant, "PT2M")
    assert (await shown(merchant, order_id))["invoiceSummary"]["isFullyStamped"]


async def test_a_refused_receipt_holds_the_later_documents_until_a_request_repeats_it(merchant: Merchant) -> None:
    order_id = await make(merchant, externalId="held-1")
    await pay(merchant, order_id, 40000)
    await work(merchant)
    await merchant.post(STAMPING, {"mode": "REFUSE", "times": 1, **WORDS})
    await pay(merchant, order_id, 30000)
    await pay(merchant, order_id, 30000)
    await work(merchant)
    held = await shown(merchant, order_id)
    assert [each["status"] for each in held["complements"]] == ["EMITTED", "FAILED", "PENDING"]
    assert held["complements"][1]["failureReason"] == WORDS["message"]
    counts = held["invoiceSummary"]
    assert (counts["emittedRepCount"], counts["failedRepCount"], counts["pendingRepCount"]) == (1, 1, 1)
    unknown = await stamp(merchant, order_id, {"complementIds": [order_id]})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "DOCUMENT_NOT_FOUND")
    done = await stamp(merchant, order_id, {"scope": "COMPLEMENTS"})
    assert [each["status"] for each in done.json()["complements"]] == ["EMITTED"] * 3


async def test_a_provider_that_is_down_answers_503_and_the_documents_follow_by_themselves(merchant: Merchant) -> None:
    order_id = await single(merchant, "down-1")
    await merchant.post(STAMPING, {"mode": "DOWN"})
    down = await stamp(merchant, order_id, **{"idempotency-key": "stamp-down"})
    assert (down.status_code, "retry-after" in down.headers) == (503, True)
    assert (await shown(merchant, order_id))["invoiceStatus"] == "PENDING"
    await merchant.post(STAMPING, {"mode": "OK"})
    again = await stamp(merchant, order_id, **{"idempotency-key": "stamp-down"})
    assert (again.status_code, again.json()["invoiceStatus"]) == (200, "INVOICED")
    other = await single(merchant, "down-2")
    await merchant.post(STAMPING, {"mode": "DOWN"})
    await work(merchant)
    await merchant.post(STAMPING, {"mode": "OK"})
    await work(merchant, "PT1M")
    assert (await shown(merchant, other))["invoiceStatus"] == "INVOICED"


async def test_requests_at_once_stamp_one_document_and_a_key_is_answered_again(merchant: Merchant) -> None:
    order_id = await single(merchant, "twice-1")
    answers = await asyncio.gather(*[stamp(merchant, order_id) for _ in range(4)])
    assert {answer.status_code for answer in answers} <= {200, 409}
    await work(merchant)
    links = (await merchant.get(f"{ORDERS}/{order_id}/cfdi-url")).json()
    uuid = (await shown(merchant, order_id))["fiscalUuid"]
    assert links["invoice"]["fiscalUuid"] == uuid
    other = await single(merchant, "twice-2")
    key = {"idempotency-key": "stamp-twice"}
    first = await stamp(merchant, other, **key)
    second = await stamp(merchant, other, **key)
    assert (first.content, second.headers["idempotent-replayed"]) == (second.content, "true")


async def test_links_need_a_stamped_document(merchant: Merchant) -> None:
    order_id = await make(merchant, externalId="links-1")
    path = f"{ORDERS}/{order_id}/cfdi-url"
    refused = (await merchant.get(path)).json()
    assert (refused["code"], "POST …/stamp" in refused["message"]) == ("INVOICE_NOT_READY", True)
    for name in ("complementId", "documentId"):
        assert (await merchant.get(f"{path}?{name}={order_id}")).status_code == 404
        assert (await merchant.post(path, {name: order_id})).status_code == 404
    differing = (await merchant.get(f"{path}?complementId={order_id}&documentId={UUID(int=7)}")).json()
    assert differing["code"] == "CONFLICTING_FIELDS"
    assert (await merchant.get(f"{path}?complementId=x&format=pdf")).status_code == 400
    assert (await merchant.get(f"{path}?format=doc")).status_code == 400
    assert (await merchant.post(path, {"format": "doc", "complementId": "x"})).status_code == 400
    assert (await merchant.get(f"{ORDERS}/unknown-order/cfdi-url")).status_code == 404
    await pay(merchant, order_id, 100000)
    await work(merchant)
    assert (await merchant.post(path, b"{}")).json()["invoice"]["pdfUrl"]


async def test_a_document_is_cancelled_with_sat_and_replaced_by_a_request(merchant: Merchant) -> None:
    order_id = await single(merchant, "cancel-1")
    path = f"{ORDERS}/{order_id}/cfdi-cancel"
    assert (await merchant.post(path, {"motive": "02"})).json()["code"] == "INVOICE_NOT_READY"
    await work(merchant)
    old = (await shown(merchant, order_id))["fiscalUuid"]
    assert [e["field"] for e in (await merchant.post(path, {"documentId": 7})).json()["errors"]] == [
        "documentId",
        "motive",
    ]
    for name in ("documentId", "complementId"):
        lost = await merchant.post(path, {"motive": "02", name: None})
        assert (lost.status_code, lost.json()["errors"][0]["field"]) == (400, name), "null is no invoice"
    unknown = (await merchant.post(path, {"motive": "9"})).json()["errors"][0]
    assert (unknown["field"], unknown["message"]) == ("motive", "must be one of 01, 02, 03, 04")
    assert (await merchant.post(path, {"motive": "01"})).json()["errors"][0]["field"] == "substitutedBy"
    await merchant.post(STAMPING, {"mode": "DOWN", "times": 1})
    assert (await merchant.post(path, {"motive": "02"})).status_code == 503
    done = await merchant.post(path, {"motive": "02"}, **{"idempotency-key": "cancel-1"})
    assert done.json()["invoiceCancellation"]["status"] == "CANCELLED"
    again = await merchant.post(path, {"motive": "02"}, **{"idempotency-key": "cancel-1"})
    assert again.content == done.content
    await work(merchant)
    replaced = (await stamp(merchant, order_id)).json()
    assert replaced["invoiceStatus"] == "INVOICED"
    assert replaced["fiscalUuid"] != old
    for motive, substitute in (("01", {"substitutedBy": old}), ("03", {}), ("04", {})):
        cancelled = (await merchant.post(path, {"motive": motive, **substitute})).json()["invoiceCancellation"]
        assert (cancelled["status"], cancelled["motive"]) == ("CANCELLED", motive)
        assert cancelled.get("substitutedBy") == substitute.get("substitutedBy")
        assert (await stamp(merchant, order_id)).json()["invoiceStatus"] == "INVOICED"


async def test_a_cancellation_is_not_sent_after_its_deadline(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    async def send(_: SandboxProvider, request: Any) -> Cancelled:
        sent.append(request)
        return Cancelled(code="201")

    order_id = await single(merchant, "cancel-late")
    await work(merchant)
    path = f"{ORDERS}/{order_id}/cfdi-cancel"
    monkeypatch.setattr(SandboxProvider, "cancel", send)
    with monkeypatch.context() as patch:  # as if its document had been read for as long as the call may take
        patch.setattr(Ledger, "call_deadline", lambda _: datetime.now(UTC))
        assert (await merchant.post(path, {"motive": "02"})).status_code == 503
    assert (sent, (await shown(merchant, order_id))["invoiceStatus"]) == ([], "INVOICED")
    assert (await merchant.post(path, {"motive": "02"})).json()["invoiceCancellation"]["status"] == "CANCELLED"
    assert len(sent) == 1


async def test_an_invoice_with_receipts_is_cancelled_after_them(merchant: Merchant) -> None:
    order_id = await make(merchant, externalId="cancel-2")
    await pay(merchant, order_id, 40000)
    await work(merchant)
    path = f"{ORDERS}/{order_id}/cfdi-cancel"
    in_use = await merchant.post(path, {"motive": "03"})
    assert (in_use.status_code, in_use.json()["code"]) == (409, "INVOICE_IN_USE")
    (receipt,) = (await shown(merchant, order_id))["complements"]
    await merchant.post(STAMPING, {"mode": "REFUSE", "times": 1, **WORDS})
    refused = await merchant.post(path, {"motive": "02", "documentId": receipt["id"]})
    assert refused.json()["complements"][0]["cancellation"]["failureReason"] == WORDS["message"]
    differing = await merchant.post(path, {"motive": "02", "documentId": order_id, "complementId": receipt["id"]})
    assert (differing.status_code, differing.json()["code"]) == (400, "CONFLICTING_FIELDS")
    done = await merchant.post(path, {"motive": "02", "complementId": receipt["id"]})
    assert done.json()["complements"][0]["cancellation"]["status"] == "CANCELLED"
    assert (await merchant.post(path, {"motive": "03"})).json()["invoiceCancellation"]["status"] == "CANCELLED"


async def test_an_order_created_pending_shows_its_type_alone(merchant: Merchant) -> None:
    pending = order(externalId="pending-1", paymentMethod=by_card(), customerFiscalData=FISCAL, dueDate=ABSENT)
    created = (await merchant.create(pending)).json()
    assert (created["invoiceType"], created["invoiceStatus"], created["fiscalUuid"]) == ("PUE", None, None)


async def test_a_receiver_without_a_tax_id_is_refused_unless_the_merchant_invoices_the_public(
    merchant: Merchant,
) -> None:
    fiscal = {name: value for name, value in FISCAL.items() if name != "taxId"}
    created = await merchant.create(paid_order(externalId="public-1", customerFiscalData=fiscal))
    refused = await stamp(merchant, created.json()["id"])
    assert (refused.status_code, refused.json()["code"]) == (422, "FISCAL_DATA_INCOMPLETE")
    assert [each["field"] for each in refused.json()["errors"]] == ["fiscalConfig.taxId"]
    assert (await merchant.put(ISSUER, issuer_body() | {"publicInGeneral": True})).status_code == 200
    done = (await stamp(merchant, created.json()["id"])).json()
    assert done["invoiceStatus"] == "INVOICED"
    links = (await merchant.get(f"{ORDERS}/{done['id']}/cfdi-url")).json()
    receiver = (await download(merchant, links["invoice"])).find("cfdi:Receptor", CFDI)
    assert (receiver.get("Rfc"), receiver.get("RegimenFiscalReceptor")) == ("XAXX010101000", "616")


async def test_an_invoice_at_creation_and_a_receipts_deadline_follow_the_merchants_settings(store: Storefront) -> None:
    merchant = await store.register()
    settings = {"invoiceTrigger": "CREATION", "receiptDueDay": 17}
    answer = await merchant.put("/api/v1/merchant", {"settings": settings})
    assert answer.status_code == 200, answer.text
    order_id = await make(merchant, externalId="creation-1")
    assert (await shown(merchant, order_id))["invoiceStatus"] == "PENDING"
    await work(merchant)
    done = await shown(merchant, order_id)
    assert (done["status"], done["invoiceStatus"], done["complements"]) == ("PENDING", "INVOICED", [])
    await pay(merchant, order_id, 40000)
    await work(merchant)
    paid = await shown(merchant, order_id)
    (receipt,) = paid["complements"]
    zone = ZoneInfo("America/Mexico_City")
    paid_at, due_at = (
        datetime.fromisoformat(at).astimezone(zone) for at in (paid["payments"][0]["createdAt"], receipt["repDueAt"])
    )
    next_month = (paid_at.replace(day=1) + timedelta(days=32)).date().replace(day=17)
    assert (receipt["status"], due_at.date(), due_at.hour, due_at.minute) == ("EMITTED", next_month, 23, 59)
