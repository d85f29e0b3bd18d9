"""The series and folios of documents, by the merchant's settings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.builders import NOON, created, folded, paid
from tests.domain.invoices.stamper import ENABLED, FISCAL, REFUSED, next_command, run, stamped
from tests.domain.invoices.test_refunds_of_one_payment import returned

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import EnableInvoicing, RecordStamping, Refused
from ledger.domain.invoices.decide.stamping import (
    decide_enabling,
    decide_next,
    decide_outcome,
    series_to_count,
    with_folio,
)
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.terms import InvoiceFolio, InvoiceTrigger, InvoicingPolicy
from ledger.domain.orders.state import Order

PAID = (*paid(1, 4000), *returned(1000))


def split(folio: InvoiceFolio, *events: Any, invoice_number: str | None = None, series: str | None = None) -> Order:
    enabled = replace(ENABLED, folio=folio, series=series)
    return folded([created(allow_partials=True, fiscal=FISCAL, invoice_number=invoice_number), enabled, *events])


def folios(order: Order) -> list[tuple[str, str]]:
    assert order.invoices is not None
    return [(each.terms.series, each.terms.folio) for each in order.invoices.documents]


def counted(order: Order, at: Any = NOON, first: int = 1, **answers: Any) -> tuple[Order, int]:
    """Stamps what is due as the operation does, with a counter; returns the order and the next number."""
    while True:
        events = decide_next(order, next_command(at))
        if series_to_count(order, events) is not None:
            events, first = with_folio(events, first), first + 1
        order = fold(evolve, order, events)
        document = None if order.invoices is None else order.invoices.next_document
        if document is None or document.intent is None:
            return order, first
        outcome = answers.get("answer", stamped)(document.document_id)
        record = RecordStamping(document_id=document.document_id, outcome=outcome, at=at)
        order = fold(evolve, order, decide_outcome(order, record))
        if isinstance(outcome, Refused):
            return order, first


def test_the_series_is_that_of_the_setting() -> None:
    order = run(split(InvoiceFolio.ORDER_NUMBER, *PAID, series="WEB"))
    assert folios(order) == [("WEB", "PO0000000001"), ("WEB", "PO0000000001-1"), ("WEB", "PO0000000001-1-1")]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("F-77", ["F-77", "F-77-1", "F-77-1-1"]),
        (" F  77 ", ["F 77", "F 77-1", "F 77-1-1"]),
        (None, ["PO0000000001", "PO0000000001-1", "PO0000000001-1-1"]),
        ("A|7", ["PO0000000001", "PO0000000001-1", "PO0000000001-1-1"]),
        ("7" * 38, ["7" * 38, "7" * 38 + "-1", "PO0000000001-1-1"]),
        ("7" * 41, ["PO0000000001", "PO0000000001-1", "PO0000000001-1-1"]),
    ],
)
def test_an_invoice_number_is_the_folio_where_sat_takes_it(number: str | None, shown: list[str]) -> None:
    order = run(split(InvoiceFolio.INVOICE_NUMBER, *PAID, invoice_number=number))
    assert [folio for _, folio in folios(order)] == shown


def test_a_counter_numbers_each_document_once() -> None:
    order, following = counted(split(InvoiceFolio.COUNTER, *PAID))
    assert ([folio for _, folio in folios(order)], following) == (["1", "2", "3"], 4)
    assert order.invoices is not None
    assert order.invoices.receipts[0].terms.invoice_folio == "1"  # type: ignore[union-attr]  # it is a receipt


def test_a_document_that_is_tried_again_keeps_its_number() -> None:
    order, following = counted(split(InvoiceFolio.COUNTER, *PAID), answer=lambda _: REFUSED)
    assert (folios(order)[0], following) == (("A", "1"), 2)
    other = EnableInvoicing(
        policy=InvoicingPolicy(
            trigger=InvoiceTrigger.FIRST_CAPTURE, time_zone="America/Mexico_City", receipt_due_day=5,
            folio=InvoiceFolio.ORDER_NUMBER,
        ),
        at=NOON, fiscal=replace(FISCAL, zip_code="06000"),
    )  # fmt: skip
    order = fold(evolve, order, decide_enabling(order, other))
    order, following = counted(order, NOON + timedelta(days=4), following)
    assert ([folio for _, folio in folios(order)], following) == (["1", "2", "3"], 4)


def test_no_counter_is_asked_for_other_folios() -> None:
    for folio in (InvoiceFolio.ORDER_NUMBER, InvoiceFolio.INVOICE_NUMBER):
        order = split(folio, *PAID)
        assert series_to_count(order, decide_next(order, next_command())) is None
    order = split(InvoiceFolio.COUNTER)
    assert series_to_count(order, decide_next(order, next_command())) is None
