"""An invoice that was cancelled: what the order shows of it, and the invoice that replaces it on request."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.domain.builders import NOON, folded, paid
from tests.domain.invoices.stamper import REFUSED, SPLIT_FISCAL, documents_of, run
from tests.domain.invoices.test_refunds_of_one_payment import ALL, INVOICED, bought, cancel, is_due

from ledger.domain.invoices.commands import Cancelled, StampRequest, StampScope
from ledger.domain.invoices.due import invoice_status
from ledger.domain.orders.invoices.terms import InvoiceTerms
from ledger.domain.orders.state import Order
from projections.orders.invoices import render_stamp


def shown(order: Order) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render_stamp(order))
    return document


def fiscal_uuid(order: Order) -> str:
    assert order.invoices is not None
    assert order.invoices.invoice is not None
    assert order.invoices.invoice.stamp is not None
    return str(order.invoices.invoice.stamp.fiscal_uuid)


def replaced(order: Order) -> str:
    assert order.invoices is not None
    assert order.invoices.invoice is not None
    assert isinstance(order.invoices.invoice.terms, InvoiceTerms)
    return str(order.invoices.invoice.terms.replaces)


def test_a_cancelled_invoice_leaves_the_order_without_one_until_a_request() -> None:
    first = fiscal_uuid(bought())
    order = cancel(bought(), Cancelled())
    document = shown(order)
    assert (document["invoiceStatus"], document["fiscalUuid"]) == (None, None)
    assert document["invoiceCancellation"]["status"] == "CANCELLED"
    assert invoice_status(order) is None
    assert not is_due(order)
    assert run(order) == order
    order = run(order, request=ALL)
    document = shown(order)
    assert (document["invoiceStatus"], document["fiscalUuid"]) == ("INVOICED", fiscal_uuid(order))
    assert "invoiceCancellation" not in document
    assert replaced(order) == first != fiscal_uuid(order)
    second = fiscal_uuid(order)
    order = run(cancel(order, Cancelled()), request=StampRequest(scope=StampScope.INVOICE))
    assert replaced(order) == second


@pytest.mark.parametrize("scope", [StampScope.COMPLEMENTS, StampScope.CREDIT_NOTES])
def test_a_request_for_other_documents_replaces_no_cancelled_invoice(scope: StampScope) -> None:
    order = cancel(bought(), Cancelled())
    assert run(order, request=StampRequest(scope=scope)) == order
    assert order.invoices is not None
    named = StampRequest(document_ids=(order.invoices.documents[0].document_id,))
    assert run(order, request=named) == order


def test_the_replacing_invoice_keeps_its_relation_however_often_it_is_tried() -> None:
    first = fiscal_uuid(bought())
    order = run(cancel(bought(), Cancelled()), request=ALL, answer=lambda _: REFUSED)
    assert shown(order)["invoiceStatus"] == "FAILED"
    order = run(order, NOON + timedelta(days=4))
    assert (documents_of(order), replaced(order)) == ([INVOICED, INVOICED], first)


def test_the_receipts_of_a_replaced_invoice_come_by_themselves() -> None:
    order = run(folded([*SPLIT_FISCAL, *paid(1, 4000)]))
    assert order.invoices is not None
    order = cancel(cancel(order, Cancelled(), document=order.invoices.receipts[0]), Cancelled())
    assert (shown(order)["invoiceStatus"], is_due(order)) == (None, False)
    order = run(order, request=StampRequest(scope=StampScope.INVOICE))
    assert documents_of(run(order))[2:] == [INVOICED, ("REP", 1, 10000, 4000, 6000, "EMITTED")]
