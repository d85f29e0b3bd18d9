"""Stamped documents by mail: XML and PDF, to the address of the receiver, once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.api.bodies import paid_order
from tests.api.invoices.test_split_order_documents import FISCAL
from tests.api.storefront import Merchant, Storefront
from tests.operations.test_reminders import Mailbox

from ledger.domain.ids import parse_uuid
from ledger.invoicing.stamped_xml import parse_cfdi
from ledger.operations.message_call import AttemptRunning
from ledger.operations.orders.invoices.mail import mail_document
from ledger.operations.orders.invoices.stamp import stamp_due

pytestmark = pytest.mark.anyio


@pytest.fixture
def mailbox(store: Storefront) -> Iterator[Mailbox]:
    usual, mailbox = store.ledger.notifier, Mailbox()
    store.ledger.notifier = mailbox
    yield mailbox
    store.ledger.notifier = usual


async def mailed(store: Storefront, merchant: Merchant, **changes: object) -> None:
    """Has an order paid and stamped, and its invoice mailed by several workers at once."""
    answer = await merchant.create(paid_order(**changes))
    order_id = parse_uuid(answer.json()["id"])
    assert order_id is not None
    order = await stamp_due(store.ledger, merchant.merchant_id, order_id)
    assert order.invoices is not None
    assert order.invoices.invoice is not None
    document_id = order.invoices.invoice.document_id
    attempts = [mail_document(store.ledger, merchant.merchant_id, order_id, document_id) for _ in range(3)]
    ended = await asyncio.gather(*attempts, return_exceptions=True)
    assert all(each is None or isinstance(each, AttemptRunning) for each in ended), ended
    await mail_document(store.ledger, merchant.merchant_id, order_id, document_id)


async def test_an_invoice_is_mailed_once_with_its_files(
    store: Storefront, merchant: Merchant, mailbox: Mailbox
) -> None:
    receiver = FISCAL | {"email": "facturas@example.com"}
    await mailed(store, merchant, externalId="mail-1", customerFiscalData=receiver)
    (sent,) = mailbox.accepted
    xml, pdf = sent.attachments
    assert sent.recipient == "facturas@example.com"
    assert "$1,500.00 MXN" in sent.message.subject
    assert (xml.media_type, pdf.media_type) == ("application/xml", "application/pdf")
    assert parse_cfdi(xml.content).get("Total") == "1500.00"
    assert pdf.content.startswith(b"%PDF")
    assert xml.name.removesuffix(".xml") == pdf.name.removesuffix(".pdf")
    assert xml.name.removesuffix(".xml") in sent.message.text


async def test_a_customer_who_wants_no_invoices_gets_none(
    store: Storefront, merchant: Merchant, mailbox: Mailbox
) -> None:
    preferences = {"invoices": False}
    answer = await merchant.post("/api/customers", {"externalId": "ana", "notificationPreferences": preferences})
    assert answer.status_code == 201
    await mailed(store, merchant, externalId="mail-2", customerFiscalData=FISCAL)
    assert mailbox.accepted == []
