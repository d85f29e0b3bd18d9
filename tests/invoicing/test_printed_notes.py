"""What a printed document shows of its order beside the stamped values."""

from __future__ import annotations

from tests.domain.builders import folded, paid, refund_requested, refunded
from tests.domain.invoices.stamper import SINGLE_FISCAL, SPLIT_FISCAL, run

from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import MethodType
from ledger.invoicing.pdf.notes import Notes
from ledger.operations.orders.invoices.printed_notes import printed_notes


def notes(order: Order) -> list[Notes]:
    """Returns the notes of each document, after all of them are stamped."""
    stamped = run(order)
    assert stamped.invoices is not None
    return [printed_notes(stamped, document.terms) for document in stamped.invoices.documents]


def test_an_invoice_and_its_credit_notes_name_the_card_and_the_reason_of_each_refund():
    history = [
        *SINGLE_FISCAL,
        *paid(1, 10_000),
        *(refund_requested(1, 2_000, reason="Taza rota"), refunded(1, 2_000)),
        *(refund_requested(1, 1_000, refund=2, reason="unspecified"), refunded(1, 1_000, refund=2)),
    ]
    invoice, first, second = notes(folded(history))
    assert invoice.paid_with is not None
    assert invoice.paid_with.endswith(" •••• 4242")
    assert (invoice.reason, first.reason, second.reason) == (None, "Taza rota", None)
    assert first.paid_with == second.paid_with == invoice.paid_with


def test_an_invoice_that_is_paid_in_parts_leaves_that_to_its_receipts():
    invoice, receipt = notes(folded([*SPLIT_FISCAL, *paid(1, 4_000)]))
    assert invoice == Notes()
    assert receipt.paid_with is not None


def test_a_payment_without_a_card_or_a_clabe_is_not_named():
    invoice, *_ = notes(folded([*SINGLE_FISCAL, *paid(1, 10_000, type_=MethodType.PAYCASH)]))
    assert invoice == Notes()
