"""The payer's link and its page: one invoice however often the form is sent, and nothing shown that is not the payer's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from html import unescape
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import httpx
import pytest
from tests.api.bodies import order, paid_order
from tests.api.invoices.test_split_order_documents import CFDI, FISCAL, STAMPING, shown, work
from tests.api.openapi.description import assert_described
from tests.api.payer import path_of
from tests.api.storefront import ORDERS, Merchant, Storefront

from api.http.rate_limits import FORMS_PER_HOUR
from ledger.invoicing.contract import StampRequest
from ledger.invoicing.issuers import IssuerMissing, Issuers
from ledger.invoicing.providers.sandbox import SandboxProvider
from ledger.invoicing.stamped_xml import parse

pytestmark = pytest.mark.anyio

FORM = {"content-type": "application/x-www-form-urlencoded"}
PERSON = {
    "taxId": "CACX7605101P8",
    "legalName": "XOCHILT CASAS CHAVEZ",
    "taxSystem": "612",
    "cfdiUse": "G03",
    "zipCode": "36257",
}


async def send(merchant: Merchant, page: str, form: dict[str, str], **headers: str) -> httpx.Response:
    return await merchant.client.post(page, content=urlencode(form), headers=FORM | headers)


async def asked(merchant: Merchant, reference: str) -> httpx.Response:
    answer = await merchant.get(f"{ORDERS}/{reference}/self-invoice-url")
    assert_described(answer, "get", f"{ORDERS}/{{id}}/self-invoice-url")
    return answer


async def paid(merchant: Merchant, name: str, **changes: Any) -> tuple[str, str]:
    """Returns the id of a paid order without fiscal data, and the path of its payer's page."""
    created = await merchant.create(paid_order(externalId=name, **changes))
    assert created.status_code == 201, created.text
    return created.json()["id"], path_of((await asked(merchant, name)).json()["url"])


def downloads(answer: httpx.Response) -> list[str]:
    return [path_of(unescape(each)) for each in re.findall(r'href="(http[^"]*/files/[^"]*)"', answer.text)]


async def test_a_payer_requests_an_invoice_once(merchant: Merchant) -> None:
    order_id, page = await paid(merchant, "self-1", customer={"externalId": "ana", "email": "ana@example.com"})
    opened = await merchant.client.get(page)
    assert opened.status_code == 200
    assert ("Café Tacuba" in opened.text, "$1,500.00 MXN" in opened.text) == (True, True)
    assert ("ana@" in opened.text, order_id in opened.text) == (False, False), "nothing else of the order"
    policy = opened.headers["content-security-policy"]
    assert ("unsafe" in policy, "frame-ancestors 'none'" in policy) == (False, True)
    assert (opened.headers["cache-control"], opened.headers["referrer-policy"]) == ("no-store", "no-referrer")
    done = await send(merchant, page, FISCAL | {"taxId": " ure-180429-tm6 ", "legalName": FISCAL["legalName"].lower()})
    assert (done.status_code, "Tu factura está lista" in done.text) == (200, True)
    xml, pdf = downloads(done)
    invoice = parse((await merchant.client.get(xml)).content)
    receiver = invoice.find("cfdi:Receptor", CFDI)
    assert receiver is not None
    assert (receiver.get("Rfc"), receiver.get("Nombre")) == (FISCAL["taxId"], FISCAL["legalName"])
    assert (await merchant.client.get(pdf)).content.startswith(b"%PDF-")
    assert (await shown(merchant, order_id))["customerFiscalData"].items() >= FISCAL.items()
    again = await send(merchant, page, FISCAL)
    assert [each.partition("?")[0] for each in downloads(again)] == [each.partition("?")[0] for each in (xml, pdf)]
    after = await merchant.client.get(page)
    assert ("ya tiene factura" in after.text, FISCAL["taxId"] in after.text, downloads(after)) == (True, False, [])
    other = await send(merchant, page, PERSON)
    assert (other.status_code, downloads(other)) == (409, [])
    assert downloads(await send(merchant, page, {"taxId": FISCAL["taxId"]}))
    assert (await shown(merchant, order_id))["invoiceStatus"] == "INVOICED"
    refused = await asked(merchant, order_id)
    assert (refused.status_code, refused.json()["code"]) == (409, "SELF_INVOICE_UNAVAILABLE")


async def test_what_a_payer_requests_is_recorded_as_the_payers(merchant: Merchant) -> None:
    order_id, page = await paid(merchant, "by-payer-1")
    answer = await send(merchant, page, FISCAL, **{"x-request-id": "message"})  # that of a processor's messages
    assert answer.status_code == 200
    events = (await merchant.get(f"{ORDERS}/{order_id}/events")).json()["data"]
    actors = {event["topic"]: (event["actor"]["type"], event["requestId"]) for event in events}
    assert actors["order-created.v1"][0] == "API_KEY"
    assert actors["stamping-requested.v1"] == ("PAYER", "message")


async def test_two_tabs_give_one_invoice(merchant: Merchant) -> None:
    order_id, page = await paid(merchant, "tabs-1")
    answers = await asyncio.gather(*(send(merchant, page, FISCAL) for _ in range(3)))
    files = {each.partition("?")[0] for answer in answers for each in downloads(answer)}
    assert ({answer.status_code for answer in answers}, len(files)) == ({200}, 2), "the XML and the PDF of one invoice"
    assert (await shown(merchant, order_id))["invoiceStatus"] == "INVOICED"


async def test_another_receiver_comes_too_late_while_the_invoice_is_being_stamped(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id, page = await paid(merchant, "tabs-2")
    stamp, meanwhile = SandboxProvider.stamp, []

    async def stamp_and_meanwhile(provider: SandboxProvider, request: StampRequest) -> Any:
        if not meanwhile:
            meanwhile.append(None)
            meanwhile.append(await send(merchant, page, PERSON))
        return await stamp(provider, request)

    async def at_once(_: Any, has_ended: Callable[[], Awaitable[bool]]) -> None:
        await has_ended()

    monkeypatch.setattr(SandboxProvider, "stamp", stamp_and_meanwhile)
    for module in ("self_invoice", "stamp"):
        monkeypatch.setattr(f"ledger.operations.orders.invoices.{module}.wait_until", at_once)
    first = await send(merchant, page, FISCAL)
    assert (first.status_code, meanwhile[1].status_code) == (200, 202)
    await merchant.post(f"{ORDERS}/{order_id}/refund", {"amount": 1000})
    await work(merchant)
    links = (await merchant.get(f"{ORDERS}/{order_id}/cfdi-url")).json()
    for each in (links["invoice"], *links["creditNotes"]):
        receiver = parse((await merchant.client.get(each["xmlUrl"])).content).find("cfdi:Receptor", CFDI)
        assert receiver.get("Rfc") == FISCAL["taxId"]
    assert len(links["creditNotes"]) == 1


async def test_what_is_wrong_is_named_on_the_page_in_the_payers_language(merchant: Merchant) -> None:
    _, page = await paid(merchant, "wrong-1")
    form = FISCAL | {"taxId": "NO", "zipCode": "1234", "legalName": '"><script>x</script>'}
    for headers, words in (({}, "El RFC debe tener"), ({"accept-language": "en"}, "The RFC must have")):
        answer = await send(merchant, page, form, **headers)
        assert (answer.status_code, words in answer.text) == (422, True)
        assert set(re.findall(r'id="(\w+)-error"', answer.text)) == {"taxId", "zipCode"}
        assert ("<script>x" in answer.text, 'value="601" selected' in answer.text) == (False, True)
    for sent, names in (
        ({}, {"taxId", "legalName", "taxSystem", "cfdiUse", "zipCode"}),
        (FISCAL | {"taxSystem": "605"}, {"taxSystem"}),
        (FISCAL | {"cfdiUse": "D01"}, {"cfdiUse"}),
        (FISCAL | {"taxId": "XAXX010101000", "taxSystem": "616", "cfdiUse": "S01"}, {"taxId"}),
        (FISCAL | {"legalName": "4242 4242 4242 4242"}, {"legalName"}),
    ):
        answer = await send(merchant, page, sent)
        assert set(re.findall(r'id="(\w+)-error"', answer.text)) == names, sent
    assert (await shown(merchant, "wrong-1"))["invoiceType"] is None, "nothing is recorded"


async def test_data_that_sat_refuses_can_be_corrected(merchant: Merchant) -> None:
    order_id, page = await paid(merchant, "refused-1")
    words = {"code": "CFDI40145", "message": "El campo Nombre no coincide <b>."}
    await merchant.post(STAMPING, {"mode": "REFUSE", "times": 1, **words})
    refused = await send(merchant, page, FISCAL)
    assert (refused.status_code, "CFDI40145 El campo Nombre no coincide &lt;b&gt;." in refused.text) == (422, True)
    done = await send(merchant, page, PERSON)
    assert (done.status_code, len(downloads(done))) == (200, 2)
    assert (await shown(merchant, order_id))["invoiceStatus"] == "INVOICED"


async def test_an_invoice_waits_for_a_provider_that_is_down(merchant: Merchant) -> None:
    order_id, page = await paid(merchant, "down-1")
    await merchant.post(STAMPING, {"mode": "DOWN"})
    waiting = await send(merchant, page, FISCAL)
    assert (waiting.status_code, "Estamos emitiendo tu factura" in waiting.text) == (202, True)
    for again in (await merchant.client.get(page), await send(merchant, page, PERSON)):
        assert (again.status_code, "Estamos emitiendo tu factura" in again.text) == (202, True)
    await merchant.post(STAMPING, {"mode": "OK"})
    await work(merchant, "PT2M")
    assert (await shown(merchant, order_id))["invoiceStatus"] == "INVOICED"
    assert downloads(await send(merchant, page, FISCAL))


async def test_an_order_that_has_nothing_to_invoice_shows_why(merchant: Merchant) -> None:
    await merchant.create(order(externalId="unpaid"))
    assert (await asked(merchant, "unpaid")).status_code == 409
    assert (await asked(merchant, "nobody")).status_code == 404
    await merchant.create(paid_order(externalId="dollars", currency="USD"))
    lacking = await asked(merchant, "dollars")
    assert (lacking.status_code, "exchangeRate is required" in lacking.json()["message"]) == (422, True)
    refunded, page = await paid(merchant, "refunded")
    await merchant.post(f"{ORDERS}/{refunded}/refund", {"amount": 150000})
    await work(merchant)
    cancelled, other_page = await paid(merchant, "cancelled")
    await send(merchant, other_page, FISCAL)
    await merchant.post(f"{ORDERS}/{cancelled}/cfdi-cancel", {"motive": "02"})
    for path, words in ((page, "Esta compra fue devuelta"), (other_page, "fue cancelada")):
        for answer in (await merchant.client.get(path), await send(merchant, path, FISCAL)):
            assert (answer.status_code, words in answer.text, downloads(answer)) == (409, True, [])


async def test_a_link_is_of_one_order_and_ends_with_the_month_after_the_payment(
    store: Storefront, merchant: Merchant
) -> None:
    _, page = await paid(merchant, "ends-1")
    head, token = page.rsplit("/", 1)
    first, middle, last = ("A" if token[at] != "A" else "B" for at in (0, 30, -1))
    for wrong in (f"{first}{token[1:]}", f"{token[:30]}{middle}{token[31:]}", token[:-8] + 8 * last, "x", "%00"):
        assert (await merchant.client.get(f"{head}/{wrong}")).status_code == 404
    assert (await merchant.client.put(page)).status_code == 405
    ends_at = (await asked(merchant, "ends-1")).json()["expiresAt"]
    assert re.fullmatch(r"\d{4}-\d\d-01T06:00:00.000Z", ends_at), "midnight in Mexico City"
    await work(merchant, "P63D")
    for answer in (await merchant.client.get(page), await send(merchant, page, FISCAL)):
        assert (answer.status_code, "Este enlace ya venció" in answer.text) == (410, True)
    foreign = await store.register()
    assert (await asked(foreign, "ends-1")).status_code == 404


async def test_the_form_is_sent_some_times_an_hour(merchant: Merchant) -> None:
    _, page = await paid(merchant, "often-1")
    answers = [await send(merchant, page, {"taxId": "NO"}) for _ in range(FORMS_PER_HOUR + 1)]
    assert [each.status_code for each in answers[-2:]] == [422, 429]
    assert (int(answers[-1].headers["retry-after"]) > 0, "Demasiados intentos" in answers[-1].text) == (True, True)
    assert (await merchant.client.get(page)).status_code == 200


async def test_without_an_issuer_there_is_no_link(merchant: Merchant, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(_: Issuers, __: UUID) -> None:
        raise IssuerMissing

    await merchant.create(paid_order(externalId="no-issuer"))
    monkeypatch.setattr(Issuers, "find", find)
    refused = await asked(merchant, "no-issuer")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "fiscalIssuer")
