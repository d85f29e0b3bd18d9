"""Global invoices: what they state, that no order is stated twice, and what becomes of the orders."""

from __future__ import annotations

import asyncio
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import httpx
import pytest
from tests.api.bodies import encoded, line, order, paid_order
from tests.api.invoices.test_self_invoice import asked
from tests.api.invoices.test_split_order_documents import CFDI, FISCAL, STAMPING, download, pay, shown, work
from tests.api.openapi.description import assert_described
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront
from tests.whole_log import whole_log

from ledger.domain.orders.events import LateCaptureReported, LateRefundReported
from ledger.invoicing.contract import ProviderTimedOut, StampRequest
from ledger.invoicing.providers.sandbox import SandboxProvider
from ledger.operations.context.clock import MerchantClocks
from ledger.operations.context.inputs import Actor
from ledger.operations.global_invoices import create, due
from ledger.operations.global_invoices.provider_call import GlobalCancellationCall
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.postgres.connection import connect
from ledger.settings import Settings
from projections.rebuild import replay, stored

pytestmark = pytest.mark.anyio

GLOBAL = "/api/v1/invoices/global"
IVA_8 = {"type": "IVA", "rate": 0.08}


async def make(merchant: Merchant, **body: Any) -> httpx.Response:
    answer = await merchant.post(GLOBAL, body)
    assert_described(answer, "post", GLOBAL)
    return answer


async def sold(merchant: Merchant, name: str, **changes: Any) -> str:
    created = await merchant.create(paid_order(externalId=name, **changes))
    assert created.status_code == 201, created.text
    return created.json()["id"]


async def next_month(merchant: Merchant) -> str:
    """Moves the merchant's clock behind the present month, and returns that month."""
    now = date.fromisoformat((await merchant.get("/api/sandbox/clock")).json()["now"][:10])
    after = (now.replace(day=1) + timedelta(days=32)).replace(day=1)
    await work(merchant, f"P{(after - now).days + 1}D")
    return f"{now:%Y-%m}"


async def test_a_global_invoice_states_the_orders_of_a_month_once(store: Storefront, merchant: Merchant) -> None:
    lines = [line(quantity=1, unitPrice=100_000), line(quantity=2, unitPrice=25_000, taxes=[IVA_8])]
    plain, mixed, part = (
        await sold(merchant, "plain"), await sold(merchant, "mixed", lineItems=lines), await sold(merchant, "part"),
    )  # fmt: skip
    await merchant.post(f"{ORDERS}/{part}/refund", {"amount": 50_001})
    gone = await sold(merchant, "gone")
    await merchant.post(f"{ORDERS}/{gone}/refund", {"amount": 150_000})
    await sold(merchant, "fiscal", customerFiscalData=FISCAL)
    await sold(merchant, "dollars", currency="USD")
    await merchant.create(order(externalId="unpaid"))
    early = await make(merchant, month="2099-12")
    assert (early.status_code, early.json()["errors"][0]["field"]) == (400, "month")
    month = await next_month(merchant)
    made = await make(merchant, month=month)
    assert (made.status_code, made.json()["hasMore"]) == (201, False)
    invoice = made.json()["globalInvoice"]
    assert (invoice["status"], invoice["orderCount"], invoice["total"]) == ("EMITTED", 3, 150_000 * 2 + 99_999)
    detail = await merchant.get(f"{GLOBAL}/{invoice['id']}")
    assert_described(detail, "get", f"{GLOBAL}/{{id}}")
    amounts = {each["id"]: each["amount"] for each in detail.json()["orders"]}
    assert amounts == {plain: 150_000, mixed: 150_000, part: 99_999}
    document = await download(merchant, detail.json())
    period = document.find("cfdi:InformacionGlobal", CFDI)
    assert (period.get("Periodicidad"), period.get("Meses"), period.get("Año")) == ("04", month[5:], month[:4])
    receiver = document.find("cfdi:Receptor", CFDI)
    assert (receiver.get("Rfc"), receiver.get("UsoCFDI"), receiver.get("RegimenFiscalReceptor")) == (
        "XAXX010101000", "S01", "616",
    )  # fmt: skip
    concepts = document.findall(".//cfdi:Concepto", CFDI)
    numbers = {(await shown(merchant, each))["orderNumber"] for each in amounts}
    assert {each.get("NoIdentificacion") for each in concepts} == numbers
    assert {(each.get("ClaveProdServ"), each.get("ClaveUnidad")) for each in concepts} == {("01010101", "ACT")}
    assert len(concepts) == 4, "an order of two rates has two concepts"
    again = await make(merchant, month=month)
    assert (again.status_code, again.json()) == (200, {"globalInvoice": None, "hasMore": False})
    stamp = await merchant.post(f"{ORDERS}/{plain}/stamp", {"fiscalConfig": FISCAL})
    assert (stamp.status_code, stamp.json()["code"]) == (409, "ORDER_IN_GLOBAL_INVOICE")
    assert (await asked(merchant, plain)).json()["code"] == "SELF_INVOICE_UNAVAILABLE"
    changed = await merchant.client.patch(
        f"{ORDERS}/{plain}", content=encoded({"customerFiscalData": FISCAL}), headers=merchant.key | JSON
    )
    assert (changed.status_code, changed.json()["code"]) == (409, "ORDER_INVOICED")
    page = await merchant.get(GLOBAL)
    assert_described(page, "get", GLOBAL)
    assert [each["id"] for each in page.json()["data"]] == [invoice["id"]]
    other = await store.register()
    assert (await other.get(f"{GLOBAL}/{invoice['id']}")).status_code == 404
    await merchant.post(f"{ORDERS}/{mixed}/refund", {"amount": 1000})
    report = (await merchant.get(f"/api/v1/invoices/month-end?month={invoice['issuedAt'][:7]}")).json()
    (stated,) = [each for each in report["lines"] if each["kind"] == "INVOICE_GLOBAL"]
    assert (stated["documents"], stated["total"], stated["state"]) == (1, invoice["total"], "EMITTED")
    taxes = document.find("cfdi:Impuestos", CFDI)
    assert Decimal(stated["iva"]) == Decimal(taxes.get("TotalImpuestosTrasladados")) * 100
    moved = {"type": "REFUND", "orderId": mixed, "globalInvoiceId": invoice["id"], "amount": 1000}
    assert report["movementsAfterGlobal"] == [moved]


def wrong_by(patch: pytest.MonkeyPatch, by: timedelta) -> None:
    """Lets the service's clocks be wrong by a further time, as those of one of several machines may be."""
    now, refresh = MerchantClocks.now, MerchantClocks.refresh

    async def refreshed(clocks: MerchantClocks, merchant_id: UUID) -> datetime:
        return await refresh(clocks, merchant_id) + by

    patch.setattr(MerchantClocks, "now", lambda clocks, merchant_id: now(clocks, merchant_id) + by)
    patch.setattr(MerchantClocks, "refresh", refreshed)


async def report_late(store: Storefront, merchant: Merchant, order_id: str) -> None:
    """Records a capture and a refund that the processor has reported after it was taken for certain that they failed."""
    uow = UnitOfWork(store.ledger, Actor(merchant_id=merchant.merchant_id))
    found = await uow.order(UUID(order_id))
    (refund,), payment_id = found.refunds, found.payments[0].payment_id
    about: Any = {"payment_id": payment_id, "processor_reference": "ref", "at": uow.now}
    captured = LateCaptureReported(amount=Decimal(3000), authorized=Decimal(103_000), **about)
    refunded = LateRefundReported(refund_id=refund.refund_id, amount=Decimal(4000), **about)
    await uow.commit(Plan(changes=[uow.change_order(UUID(order_id), [captured, refunded])]))


async def test_money_that_is_given_back_and_paid_again_after_a_global_invoice_is_listed(
    store: Storefront, merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the clocks of the machines show that record it, and however late the processor reports it."""
    split = (await merchant.create(order(externalId="split", allowPartials=True, amount=100_000))).json()["id"]
    await pay(merchant, split, 100_000)
    before = await sold(merchant, "before")
    month = await next_month(merchant)
    await merchant.post(f"{ORDERS}/{before}/refund", {"amount": 10_000})
    with monkeypatch.context() as patch:
        wrong_by(patch, timedelta(minutes=-1))
        invoice = (await make(merchant, month=month)).json()["globalInvoice"]
        assert invoice["total"] == 240_000
        wrong_by(patch, timedelta(minutes=-1))
        await merchant.post(f"{ORDERS}/{split}/refund", {"amount": 30_000})
    await pay(merchant, split, 20_000)
    await report_late(store, merchant, split)
    path = f"/api/v1/invoices/month-end?month={invoice['issuedAt'][:7]}"
    report = (await merchant.get(path)).json()
    about = {"orderId": split, "globalInvoiceId": invoice["id"]}
    assert report["movementsAfterGlobal"] == [
        {"type": "REFUND", **about, "amount": 30_000},
        {"type": "PAYMENT", **about, "amount": 20_000},
        {"type": "PAYMENT", **about, "amount": 3000},
        {"type": "REFUND", **about, "amount": 4000},
    ]
    shown_page = await merchant.client.get(path, headers=merchant.key | {"accept": "text/html"})
    assert ">PAYMENT</td>" in shown_page.text


async def test_two_requests_and_a_stamp_at_once_state_each_order_once(merchant: Merchant) -> None:
    orders = [await sold(merchant, f"race-{n}") for n in range(6)]
    month = await next_month(merchant)
    answers = await asyncio.gather(
        make(merchant, month=month),
        make(merchant, month=month),
        *(merchant.post(f"{ORDERS}/{each}/stamp", {"fiscalConfig": FISCAL}) for each in orders[:3]),
    )
    invoices = [each.json()["globalInvoice"] for each in answers[:2]]
    details = [(await merchant.get(f"{GLOBAL}/{each['id']}")).json() for each in invoices if each]
    in_globals = [each["id"] for detail in details for each in detail["orders"]]
    stamped = [each for each in orders if (await shown(merchant, each))["invoiceStatus"] == "INVOICED"]
    assert sorted(in_globals + stamped) == sorted(orders), "each order is stated once"
    assert {each.status_code for each in answers} <= {200, 201, 409}


async def test_a_refused_global_invoice_frees_its_orders(
    store: Storefront, merchant: Merchant, settings: Settings
) -> None:
    order_id = await sold(merchant, "refused")
    month = await next_month(merchant)
    await merchant.post(STAMPING, {"mode": "REFUSE", "times": 1, "code": "CFDI40999", "message": "No."})
    refused = (await make(merchant, month=month)).json()["globalInvoice"]
    assert (refused["status"], refused["failureCode"], refused["failureReason"]) == ("FAILED", "CFDI40999", "No.")
    assert (await asked(merchant, order_id)).status_code == 200
    made = (await make(merchant, month=month)).json()["globalInvoice"]
    assert (made["status"], made["orderCount"], made["id"] != refused["id"]) == ("EMITTED", 1, True)
    assert settings.database_url is not None
    async with await connect(settings.database_url, "test") as connection:
        feed = await whole_log(store.ledger.journal.reader, connection, merchant.merchant_id)
        rows = await stored(connection, merchant.merchant_id)
    log = [(each.stream_id, each.version, each.event) for each in feed]
    assert replay(merchant.merchant_id, log) == rows, "the rows follow from the log alone"
    assert (len(rows["global_invoice"]), len(rows["global_invoice_order"])) == (2, 2)


async def cancel(merchant: Merchant, invoice: Any, motive: str, **body: str) -> httpx.Response:
    path = f"{GLOBAL}/{invoice['id']}/cancel"
    answer = await merchant.post(path, {"motive": motive, **body})
    assert_described(answer, "post", f"{GLOBAL}/{{id}}/cancel")
    return answer


async def test_the_orders_of_a_cancelled_global_invoice_are_invoiced_otherwise(
    store: Storefront, merchant: Merchant, settings: Settings
) -> None:
    buyers, rest = await sold(merchant, "buyers"), await sold(merchant, "rest")
    month = await next_month(merchant)
    first = (await make(merchant, month=month)).json()["globalInvoice"]
    done = (await cancel(merchant, first, "04")).json()
    assert (done["status"], done["cancellation"]["status"], done["fiscalUuid"]) == (
        "CANCELLED", "CANCELLED", first["fiscalUuid"],
    )  # fmt: skip
    assert (await cancel(merchant, first, "02")).json() == done, "it is cancelled already"
    stamp = await merchant.post(f"{ORDERS}/{buyers}/stamp", {"fiscalConfig": FISCAL})
    assert (stamp.status_code, stamp.json()["invoiceStatus"]) == (200, "INVOICED")
    second = (await make(merchant, month=month)).json()["globalInvoice"]
    detail = (await merchant.get(f"{GLOBAL}/{second['id']}")).json()
    assert (detail["status"], [each["id"] for each in detail["orders"]]) == ("EMITTED", [rest])
    related = (await download(merchant, detail)).find("cfdi:CfdiRelacionados", CFDI)
    assert [related.get("TipoRelacion"), *(each.get("UUID") for each in related)] == ["04", first["fiscalUuid"].upper()]
    report = (await merchant.get(f"/api/v1/invoices/month-end?month={first['issuedAt'][:7]}")).json()
    lines = {(each["state"], each["total"]) for each in report["lines"] if each["kind"] == "INVOICE_GLOBAL"}
    assert lines == {("CANCELLED", 300_000), ("EMITTED", 150_000)}
    page = (await merchant.get(GLOBAL)).json()["data"]
    assert [(each["status"], "cancellation" in each) for each in page] == [("EMITTED", False), ("CANCELLED", True)]
    assert settings.database_url is not None
    async with await connect(settings.database_url, "test") as connection:
        feed = await whole_log(store.ledger.journal.reader, connection, merchant.merchant_id)
        rows = await stored(connection, merchant.merchant_id)
    log = [(each.stream_id, each.version, each.event) for each in feed]
    assert replay(merchant.merchant_id, log) == rows, "the rows follow from the log alone"


async def test_the_orders_of_a_global_invoice_are_free_only_once_it_is_cancelled(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await sold(merchant, "waits")
    month = await next_month(merchant)
    invoice = (await make(merchant, month=month)).json()["globalInvoice"]
    await merchant.post(STAMPING, {"mode": "DOWN"})
    assert (await cancel(merchant, invoice, "02")).status_code == 503
    await merchant.post(STAMPING, {"mode": "REFUSE", "times": 1, "code": "204", "message": "No."})
    refused = (await cancel(merchant, invoice, "02")).json()
    assert (refused["status"], refused["cancellation"]["failureCode"]) == ("EMITTED", "204")
    wrong = await cancel(merchant, invoice, "01")
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "substitutedBy")
    send = SandboxProvider.cancel

    async def send_unheard(provider: SandboxProvider, request: Any) -> Any:
        await send(provider, request)
        raise ProviderTimedOut("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(SandboxProvider, "cancel", send_unheard)
        unknown = (await cancel(merchant, invoice, "02")).json()
    assert (unknown["status"], unknown["cancellation"]["status"]) == ("EMITTED", "PENDING")
    assert (await merchant.post(f"{ORDERS}/{order_id}/stamp", {"fiscalConfig": FISCAL})).status_code == 409
    assert (await make(merchant, month=month)).json()["globalInvoice"] is None
    await work(merchant, "PT6M")
    assert (await merchant.get(f"{GLOBAL}/{invoice['id']}")).json()["status"] == "CANCELLED"
    again = (await make(merchant, month=month)).json()["globalInvoice"]
    with monkeypatch.context() as patch:
        patch.setattr(GlobalCancellationCall, "record", lambda *_: [])  # the process ends before it records the answer
        open_one = (await cancel(merchant, again, "01", substitutedBy=invoice["fiscalUuid"])).json()
    assert (open_one["status"], open_one["cancellation"]["status"]) == ("EMITTED", "REQUESTED")
    monkeypatch.setattr(due, "MARGIN", timedelta(days=-1))  # the call is over
    await work(merchant, "PT2M")
    assert (await merchant.get(f"{GLOBAL}/{again['id']}")).json()["status"] == "CANCELLED"
    stamp = await merchant.post(f"{ORDERS}/{order_id}/stamp", {"fiscalConfig": FISCAL})
    assert (stamp.status_code, stamp.json()["code"]) == (409, "ORDER_IN_GLOBAL_INVOICE"), "the substitute states it"
    assert (await make(merchant, month=month)).json()["globalInvoice"] is None


async def test_a_provider_that_is_down_delays_a_global_invoice(merchant: Merchant) -> None:
    order_id = await sold(merchant, "down")
    month = await next_month(merchant)
    await merchant.post(STAMPING, {"mode": "DOWN"})
    waiting = (await make(merchant, month=month)).json()["globalInvoice"]
    assert waiting["status"] == "PENDING"
    assert (await asked(merchant, order_id)).status_code == 409
    await merchant.post(STAMPING, {"mode": "OK"})
    await work(merchant, "PT2M")
    detail = (await merchant.get(f"{GLOBAL}/{waiting['id']}")).json()
    assert (detail["status"], len(detail["orders"])) == ("EMITTED", 1)
    await download(merchant, detail)


async def test_a_stamp_whose_answer_was_lost_is_found(merchant: Merchant, monkeypatch: pytest.MonkeyPatch) -> None:
    await sold(merchant, "lost")
    month = await next_month(merchant)
    stamp = SandboxProvider.stamp

    async def stamp_unheard(provider: SandboxProvider, request: StampRequest) -> Any:
        await stamp(provider, request)
        raise ProviderTimedOut("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(SandboxProvider, "stamp", stamp_unheard)
        unknown = (await make(merchant, month=month)).json()["globalInvoice"]
    assert unknown["status"] == "PENDING"
    assert (await make(merchant, month=month)).status_code == 200, "its order is stated, stamped or not"
    monkeypatch.setattr(due, "MARGIN", timedelta(days=-1))  # the call is over
    assert (await make(merchant, month=month)).status_code == 200
    detail = (await merchant.get(f"{GLOBAL}/{unknown['id']}")).json()
    assert detail["status"] == "EMITTED"
    await download(merchant, detail)


async def test_a_document_has_room_for_some_orders(merchant: Merchant, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = {await sold(merchant, f"room-{n}") for n in range(5)}
    month = await next_month(merchant)
    monkeypatch.setattr(create, "ORDERS_MAX", 2)
    made = [(await make(merchant, month=month)).json() for _ in range(3)]
    assert [each["hasMore"] for each in made] == [True, True, False]
    assert [each["globalInvoice"]["folio"] for each in made] == ["G1", "G2", "G3"]
    details = [(await merchant.get(f"{GLOBAL}/{each['globalInvoice']['id']}")).json() for each in made]
    assert {each["id"] for detail in details for each in detail["orders"]} == orders


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "month"),
        ({"month": "2026-13"}, "month"),
        ({"month": "2026-02", "periodicity": "BIMONTHLY"}, "month"),
        ({"month": "2026-01", "periodicity": "BIMONTHLY"}, "periodicity"),
        ({"month": "2026-01", "periodicity": "DAILY"}, "firstDay"),
        ({"month": "2026-02", "periodicity": "DAILY", "firstDay": 30}, "firstDay"),
        ({"month": "2026-01", "periodicity": "FORTNIGHTLY", "firstDay": 2}, "firstDay"),
        ({"month": "2026-01", "firstDay": 2}, "firstDay"),
    ],
)
async def test_a_period_that_sat_does_not_have_is_refused(merchant: Merchant, body: dict[str, Any], field: str) -> None:
    answer = await make(merchant, **body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
