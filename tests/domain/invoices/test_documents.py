"""Worked examples of the documents' amounts, and what no document can state."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from random import Random

import msgspec
import pytest
from msgspec.structs import replace
from tests.domain.invoices.baskets import (
    EXEMPT,
    FUEL,
    ISR_FEES,
    ISSUER,
    IVA0,
    IVA8,
    IVA16,
    IVA_FEES,
    RECEIVER,
    SNACKS,
    SPIRITS,
    TOBACCO,
    basket,
    credit_note,
    invoice,
    line,
    receipt,
    tax,
)

from ledger.domain.invoices.documents import payment_form
from ledger.domain.invoices.line_taxes import limits
from ledger.domain.invoices.parts import key_of
from ledger.domain.orders.invoices.terms import DocumentTerms, InvoiceTerms
from ledger.domain.orders.terms import FiscalData, LineItem, MethodType, Tax
from ledger.domain.rejections import AmountNotStampable, FiscalDataIncomplete

PUBLIC = replace(ISSUER, public_in_general=True)


def amounts(terms: InvoiceTerms) -> list[tuple[int, ...]]:
    """Each concept's amount, discount, and the base and amount of each of its taxes."""
    return [
        (
            int(each.amount),
            int(each.discount),
            *(int(value) for row in each.taxes for value in (row.base, row.amount)),
        )
        for each in terms.concepts
    ]


@pytest.mark.parametrize(
    ("lines", "subtotal", "expected"),
    [
        ((line(11_600),), 11_600, [(10_000, 0, 10_000, 1_600)]),
        ((line(10_000),), 10_000, [(8_621, 0, 8_621, 1_379)]),
        ((line(10_800, taxes=(IVA8,)), line(500, taxes=(IVA0,))), 11_300, [(10_000, 0, 10_000, 800), (500, 0, 500, 0)]),
        ((line(500, taxes=(EXEMPT,)),), 500, [(500, 0, 500, 0)]),
        # IEPS is part of the base of IVA: 100.00 + 53.00, and 16 % of 153.00.
        ((line(17_748, taxes=(SPIRITS, IVA16)),), 17_748, [(10_000, 0, 10_000, 5_300, 15_300, 2_448)]),
        # Three litres at 0.50 pesos each.
        ((line(3_874, 3, taxes=(FUEL, IVA16)),), 11_622, [(9_869, 0, 3, 150, 10_019, 1_603)]),
        # Fees of 100.00 with 16 % IVA, of which 10.6667 % is withheld, and 10 % ISR.
        (
            (line(9_533, taxes=(IVA16, ISR_FEES, IVA_FEES)),),
            9_533,
            [(10_000, 0, 10_000, 1_600, 10_000, 1_000, 10_000, 1_067)],
        ),
    ],
)
def test_taxes_are_taken_out_of_what_is_paid(
    lines: tuple[LineItem, ...], subtotal: int, expected: list[tuple[int, ...]]
):
    assert amounts(invoice(lines, subtotal)) == expected


def test_lines_that_come_to_the_subtotal_are_stated_as_the_merchant_wrote_them():
    on_top = line(10_000, tax_included=False)
    assert amounts(invoice((on_top,), 11_600)) == [(10_000, 0, 10_000, 1_600)]
    discounted = line(10_000, 2, discount=Decimal(5_000), tax_included=False)
    assert amounts(invoice((discounted,), 17_400)) == [(20_000, 5_000, 15_000, 2_400)]
    included = line(11_600, discount=Decimal(1_160))
    assert amounts(invoice((included,), 10_440)) == [(10_000, 1_000, 9_000, 1_440)]


def test_each_line_keeps_its_price_where_only_some_have_taxes_on_top():
    assert amounts(invoice((line(10_000, tax_included=False), line(5_800)), 17_400)) == [
        (10_000, 0, 10_000, 1_600),
        (5_000, 0, 5_000, 800),
    ]


def test_otherwise_a_line_is_what_the_interface_counts_it_as():
    """The interface adds up quantity × unitPrice: that is what the customer pays for the line, taxes included."""
    on_top = invoice((line(11_600, tax_included=False), line(11_600)), 23_200)
    assert amounts(on_top) == [(10_000, 0, 10_000, 1_600)] * 2
    reduced = invoice((line(11_600, discount=Decimal(1_160)),), 11_600)
    assert amounts(reduced) == [(11_000, 1_000, 10_000, 1_600)]


def test_cents_of_several_lines_add_up_and_a_line_of_nothing_is_left_out():
    thirds = invoice((line("33.3333", 1), line("33.3333", 1), line("33.3334", 1), line(0)), 100)
    assert len(thirds.concepts) == 3
    assert [sum(each) for each in ((c.amount, *(t.amount for t in c.taxes)) for c in thirds.concepts)] == [33, 34, 33]


def test_an_order_without_lines_has_one_generic_concept():
    (concept,) = invoice(description="Pedido | 184", subtotal=11_600).concepts
    assert (concept.description, concept.product_key, concept.unit_key) == ("Pedido 184", "01010101", "ACT")
    assert (concept.quantity, concept.unit_price, concept.taxes[0].amount) == (1, 10_000, 1_600)
    assert invoice().concepts[0].description == "Venta"
    assert invoice(issuer=replace(ISSUER, iva_rate=None)).concepts[0].taxes == ()


def test_isr_is_withheld_even_where_the_merchant_leaves_that_out():
    (row,) = invoice((line(9_000, taxes=(tax("ISR", "0.1"),)),), 9_000).taxes
    assert (row.withheld, row.base, row.amount) == (True, 10_000, 1_000)


def test_a_receipt_states_the_balance_and_its_part_of_the_taxes():
    whole = invoice((line(11_600),), 11_600)
    first = receipt(whole, 11_600, 4_640)
    assert (first.previous_balance, first.applied_amount, first.remaining_balance) == (11_600, 4_640, 6_960)
    assert [(row.base, row.amount) for row in first.taxes] == [(4_000, 640)]
    assert first.receiver == replace(whole.receiver, cfdi_use="CP01")
    assert (first.invoice_id, first.invoice_folio) == (whole.document_id, "1001")


@pytest.mark.parametrize(
    ("taxes", "ends"),
    [((IVA16,), (0, 266, 2_355, 2_801)), ((IVA8,), (0, 51, 416, 478)), ((SPIRITS,), (0, 88, 1_734, 2_025))],
)
def test_parts_add_up_where_plain_rounding_would_leave_one_outside_the_limits(
    taxes: tuple[Tax, ...], ends: tuple[int, ...]
):
    """Rounded by itself at each end, the tax of the middle part would be a centavo more than SAT accepts."""
    total = ends[-1]
    whole = invoice((line(total, taxes=taxes),), total)
    rows = [row for start, end in pairwise(ends) for row in receipt(whole, total - start, end - start).taxes]
    assert sum(row.amount for row in rows) == whole.taxes[0].amount
    assert sum(row.base for row in rows) == whole.taxes[0].base
    assert all(low <= row.amount <= high for row in rows for low, high in [limits(Fraction(row.base), row)])


@pytest.mark.parametrize(
    "lines",
    [
        (line(108, taxes=(TOBACCO, IVA16)),),
        (line(166, taxes=(SPIRITS, IVA16)),),
        (line(103, taxes=(SNACKS, IVA8)),) * 60,
        (line(109, taxes=(SPIRITS, IVA16)), line(107, taxes=(IVA16, ISR_FEES, IVA_FEES))) * 40,
    ],
)
def test_rounding_adds_less_than_a_centavo_to_a_tax_of_an_invoice(lines: tuple[LineItem, ...]):
    """Otherwise the receipts could not state all of it: each of them is within SAT's limits."""
    for row in invoice(lines, sum(each.unit_price for each in lines)).taxes:
        assert abs(row.amount - row.base * row.rate) < 1


def test_a_credit_note_has_a_concept_for_each_combination_of_taxes():
    whole = invoice((line(11_600), line(8_400, taxes=(IVA0,))), 20_000)
    note = credit_note(whole, 10_000, 10_000)
    assert [(each.amount, [(row.base, row.amount) for row in each.taxes]) for each in note.concepts] == [
        (5_000, [(5_000, 800)]),
        (4_200, [(4_200, 0)]),
    ]
    shared = invoice((line(11_600), line(17_748, taxes=(SPIRITS, IVA16))), 29_348)
    (together,) = credit_note(shared, 14_674, 14_674).concepts
    assert (together.amount, [row.amount for row in together.taxes]) == (10_000, [2_024, 2_650])


def test_terms_survive_being_stored():
    whole = invoice((line(10_000, 2, discount=Decimal(3)), line(17_748, taxes=(SPIRITS, IVA16, ISR_FEES))), 37_748)
    for terms in (whole, receipt(whole, 37_748, 5_001), credit_note(whole, 32_747, 5_001)):
        stored = msgspec.json.encode(terms)
        assert msgspec.json.decode(stored, type=DocumentTerms) == terms
        assert b"E+" not in stored


@pytest.mark.parametrize(
    ("receiver", "issuer", "missing"),
    [
        (FiscalData(), ISSUER, ["taxId", "legalName", "taxSystem", "cfdiUse", "zipCode"]),
        (FiscalData(), PUBLIC, []),
        (replace(RECEIVER, tax_id=None), ISSUER, ["taxId"]),
        (replace(RECEIVER, legal_name="", zip_code=None), PUBLIC, ["legalName", "zipCode"]),
        (FiscalData(tax_id="XAXX010101000"), ISSUER, []),
        (FiscalData(tax_id="XEXX010101000"), ISSUER, ["legalName"]),
    ],
)
def test_every_missing_field_of_the_receiver_is_named(receiver: FiscalData, issuer: object, missing: list[str]):
    if missing:
        with pytest.raises(FiscalDataIncomplete) as refused:
            invoice(receiver=receiver, issuer=issuer)
        assert refused.value.missing == tuple(f"fiscalConfig.{name}" for name in missing)
    else:
        assert invoice(receiver=receiver, issuer=issuer).receiver.tax_id in ("XAXX010101000", "XEXX010101000")


def test_the_payment_form_and_the_exchange_rate_are_missing_where_they_are_needed():
    with pytest.raises(FiscalDataIncomplete) as refused:
        invoice(method="PUE", currency="USD")
    assert refused.value.missing == ("fiscalConfig.paymentForm", "exchangeRate")
    paid = {"method": "PUE", "payment_form": "28"}
    assert invoice(**paid, receiver=replace(RECEIVER, payment_form="04")).payment_form == "28"
    assert invoice(method="PUE", receiver=replace(RECEIVER, payment_form="04")).payment_form == "04"
    assert invoice(receiver=replace(RECEIVER, payment_form="04")).payment_form == "99"


@pytest.mark.parametrize(
    ("method", "card_type", "form"),
    [
        (MethodType.CARD, "CREDIT", "04"),
        (MethodType.CARD, "DEBIT", "28"),
        (MethodType.CARD, None, "04"),
        (MethodType.SPEI, None, "03"),
        (MethodType.PAYCASH, None, "01"),
        (MethodType.CIE_CASH_NET, None, "01"),
    ],
)
def test_the_payment_form_follows_from_the_method(method: MethodType, card_type: str | None, form: str):
    assert payment_form(method, card_type) == form


def test_what_no_document_can_state_is_refused():
    whole = invoice()
    for refused in (
        lambda: invoice(subtotal=Decimal("100.5")),
        lambda: receipt(whole, 10_000, Decimal("0.5")),
        lambda: credit_note(whole, 0, Decimal("99.99")),
        lambda: invoice((line(100, taxes=(replace(FUEL, rate=Decimal(5)),)),), 100),  # the fee is above the price
        lambda: invoice((line(100, taxes=(tax("ISR", "1"),)),), 100),  # all of the price is withheld
        lambda: invoice((line("0.00001", 10_000_000),), 100),  # a millionth of a centavo each
    ):
        with pytest.raises(AmountNotStampable):
            refused()


# Baskets whose lines, divided one after another, round a tax up or down together by more than a receipt can state.
@pytest.mark.parametrize("seed", [679, 704, 1675, 2101, 2195, 3087, 3172, 4066, 4096, 4130, 4354, 7211])
def test_one_receipt_states_the_taxes_of_an_invoice_whose_lines_round_alike(seed: int) -> None:
    sold = basket(Random(seed))
    whole = invoice(sold.lines, sold.subtotal)
    paid = receipt(whole, whole.total, whole.total)
    stated = {key_of(tax): (tax.base, tax.amount) for tax in paid.taxes}
    assert stated == {key_of(tax): (tax.base, tax.amount) for tax in whole.taxes}
    assert whole.total == sold.subtotal
