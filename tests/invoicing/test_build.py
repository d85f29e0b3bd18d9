"""The builder's documents are valid by SAT's schemas and catalogues, and by its arithmetic, read with lxml alone."""

from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pytest
from lxml import etree
from msgspec.structs import replace
from tests.domain.invoices.baskets import (
    COMBINATIONS,
    EXEMPT,
    FUEL,
    ISR_FEES,
    ISSUER,
    IVA0,
    IVA16,
    IVA_FEES,
    RECEIVER,
    basket,
    credit_note,
    invoice,
    line,
    receipt,
)
from tests.invoicing.sat_rules import broken_rules
from tests.invoicing.sat_schemas import schema_errors

from ledger.domain.orders.terms import FiscalData
from ledger.invoicing.cfdi.amounts import major, minor, up_to_six_decimals
from ledger.invoicing.cfdi.build import build

CFDI, PAYMENTS = "{http://www.sat.gob.mx/cfd/4}", "{http://www.sat.gob.mx/Pagos20}"
MIXED = (
    line(10_000, 2, discount=Decimal(500)),
    line(5_000, taxes=(EXEMPT,)),
    line(7_000, taxes=(IVA16, ISR_FEES, IVA_FEES)),
    line(9_000, 3, taxes=(FUEL, IVA16), sku="LITRO|1", unit_name="Litro"),
    line(1_000, taxes=(IVA0,), description="Tortillas |\n de maíz"),
)


def built(terms, signer, issuer=ISSUER, of=None):
    """Returns the document, which is valid; `of` is the invoice to which a receipt or a credit note refers."""
    xml = build(terms, issuer, signer)
    assert schema_errors(xml) == []
    assert broken_rules(xml, None if of is None else build(of, issuer, signer)) == []
    return etree.fromstring(xml)


def test_every_kind_of_document_is_valid_and_comes_to_its_amount(signer):
    whole = invoice(MIXED, 60_000)
    sold = built(whole, signer)
    assert (sold.get("Total"), sold.get("TipoDeComprobante"), sold.get("MetodoPago")) == ("600.00", "I", "PPD")
    assert [each.get("Descripcion") for each in sold.iter(f"{CFDI}Concepto")][-1] == "Tortillas de maíz"
    paid = built(receipt(whole, 60_000, 20_000), signer).find(f".//{PAYMENTS}DoctoRelacionado")
    assert (paid.get("ImpSaldoAnt"), paid.get("ImpPagado"), paid.get("ImpSaldoInsoluto")) == (
        "600.00", "200.00", "400.00",
    )  # fmt: skip
    returned = built(credit_note(whole, 40_000, 15_000), signer)
    assert (returned.get("Total"), returned.get("TipoDeComprobante")) == ("150.00", "E")
    related = returned.find(f"{CFDI}CfdiRelacionados")
    assert (related.get("TipoRelacion"), related[0].get("UUID")) == ("01", "01890A5D-AC96-774B-BCCE-B302099A9004")


def test_the_same_terms_are_the_same_bytes(signer):
    terms = invoice(MIXED, 60_000)
    assert build(terms, ISSUER, signer) == build(terms, ISSUER, signer)


def test_times_are_local_to_the_place_of_issue(signer):
    terms = replace(invoice(), issued_at=datetime(2026, 7, 1, 5, 30, 59, 999_999, tzinfo=UTC))
    places = {
        "06600": "2026-06-30T23:30:59",  # Mexico City has no summer time since 2022
        "83000": "2026-06-30T22:30:59",  # Sonora
        "22000": "2026-06-30T22:30:59",  # Tijuana has summer time
        "77500": "2026-07-01T00:30:59",  # Cancún
        "88000": "2026-07-01T00:30:59",  # Nuevo Laredo has summer time
    }
    for place, local in places.items():
        assert built(terms, signer, replace(ISSUER, zip_code=place)).get("Fecha") == local
    paid = replace(receipt(invoice(), 10_000, 10_000), paid_at=terms.issued_at)
    payment = built(paid, signer, replace(ISSUER, zip_code="77500")).find(f".//{PAYMENTS}Pago")
    assert payment.get("FechaPago") == "2026-07-01T00:30:59"


def test_dollars_carry_their_exchange_rate_and_a_receipt_sums_in_pesos(signer):
    whole = invoice((line(10_001),), 10_001, currency="USD", exchange_rate=Decimal("18.3512"))
    sold = built(whole, signer)
    assert (sold.get("Moneda"), sold.get("TipoCambio"), sold.get("Total")) == ("USD", "18.3512", "100.01")
    paid = built(receipt(whole, 10_001, 3_333), signer)
    assert paid.find(f".//{PAYMENTS}Pago").get("MonedaP") == "USD"
    assert paid.find(f".//{PAYMENTS}Totales").get("MontoTotalPagos") == "611.65"  # 33.33 × 18.3512


def test_the_public_in_general_is_invoiced_at_the_place_of_issue_with_its_period(signer):
    terms = invoice(receiver=FiscalData(tax_id="XAXX010101000"), method="PUE", payment_form="01")
    sold = built(terms, signer)
    receiver, period = sold.find(f"{CFDI}Receptor"), sold.find(f"{CFDI}InformacionGlobal")
    assert dict(receiver.attrib) == {
        "Rfc": "XAXX010101000", "Nombre": "PUBLICO EN GENERAL", "DomicilioFiscalReceptor": "42501",
        "RegimenFiscalReceptor": "616", "UsoCFDI": "S01",
    }  # fmt: skip
    assert dict(period.attrib) == {"Periodicidad": "01", "Meses": "03", "Año": "2026"}
    named = invoice(receiver=FiscalData(tax_id="XAXX010101000", legal_name="MARÍA & HIJOS"))
    assert built(named, signer).find(f"{CFDI}InformacionGlobal") is None


def test_a_credit_note_has_the_use_for_returns_where_the_regime_can_have_it(signer):
    for regime, use in (("601", "G02"), ("605", "S01")):
        whole = invoice(receiver=replace(RECEIVER, tax_system=regime, cfdi_use="S01"))
        note = built(credit_note(whole, 5_000, 5_000), signer)
        assert note.find(f"{CFDI}Receptor").get("UsoCFDI") == use


def test_the_use_of_a_receipt_and_a_credit_note_is_right_for_a_receiver_that_was_given_later(signer):
    whole = invoice()
    other = replace(whole.receiver, tax_id="CACX7605101P8", tax_system="605", cfdi_use="G03")
    paid = built(replace(receipt(whole, 10_000, 10_000), receiver=other), signer)
    assert paid.find(f"{CFDI}Receptor").get("UsoCFDI") == "CP01"
    returned = built(replace(credit_note(whole, 0, 10_000), receiver=other), signer)
    assert returned.find(f"{CFDI}Receptor").get("UsoCFDI") == "S01"


def test_a_line_without_taxes_is_no_object_of_tax_where_the_issuer_says_so(signer):
    whole = invoice((line(10_000, taxes=()),), issuer=replace(ISSUER, iva_rate=None))
    sold = built(whole, signer)
    assert next(sold.iter(f"{CFDI}Concepto")).get("ObjetoImp") == "01"
    assert (
        built(receipt(whole, 10_000, 4_000), signer).find(f".//{PAYMENTS}DoctoRelacionado").get("ObjetoImpDR") == "01"
    )
    built(credit_note(whole, 4_000, 4_000), signer)


def test_a_payment_or_a_refund_of_a_centavo_stays_an_object_of_tax(signer):
    whole = invoice((line(10_000),), 10_000)
    little = next(p for p in (receipt(whole, 10_000 - n, 1) for n in range(10)) if p.taxes[0].base < 1)
    related = built(little, signer, of=whole).find(f".//{PAYMENTS}DoctoRelacionado")
    (row,) = related.iter(f"{PAYMENTS}TrasladoDR")
    assert (related.get("ImpPagado"), related.get("ObjetoImpDR")) == ("0.01", "02")
    assert (row.get("BaseDR"), row.get("ImporteDR")) == ("0.008621", "0.00")
    for paid in range(10):
        (concept,) = built(credit_note(whole, paid, 1), signer, of=whole).iter(f"{CFDI}Concepto")
        assert (concept.get("Importe"), concept.get("ObjetoImp")) == ("0.01", "02")


@pytest.mark.parametrize("taxes", COMBINATIONS)
def test_a_few_centavos_of_any_tax_are_valid_documents(taxes, signer):
    price = 200 if FUEL in taxes else 97
    whole = invoice((line(price, taxes=taxes), line(11, taxes=(IVA0,))), price + 11)
    for amount, at in ((1, 3), (1, 4), (2, 5), (3, 70)):
        built(receipt(whole, whole.total - at, amount), signer, of=whole)
        built(credit_note(whole, whole.total - at - amount, amount), signer, of=whole)


@pytest.mark.parametrize("amount", ["1", "99", "10000", "999999999999"])
def test_amounts_survive_the_way_to_pesos_and_back(amount):
    assert minor(str(major(Decimal(amount)))) == Decimal(amount)


def test_a_unit_price_has_two_to_six_decimals():
    assert [str(up_to_six_decimals(Decimal(price))) for price in ("100", "33.3333", "0.0001", "150.5")] == [
        "1.00", "0.333333", "0.000001", "1.505",
    ]  # fmt: skip


def documents_of(random):
    """An order's documents: an invoice of a random basket, receipts of all of it, and a credit note."""
    sold = basket(random)
    terms = invoice(sold.lines, sold.subtotal)
    yield terms
    first = random.randint(1, int(terms.total))
    yield receipt(terms, terms.total, first)
    if first < terms.total:
        yield receipt(terms, terms.total - first, terms.total - first, 2)
    yield credit_note(terms, terms.total - first, random.randint(1, first))


@pytest.mark.parametrize("seed", [1, 2])
def test_documents_of_random_baskets_are_valid(seed, signer):
    random = Random(seed)
    for _ in range(10):
        for terms in documents_of(random):
            built(terms, signer)


@pytest.mark.long
def test_documents_of_five_hundred_random_baskets_are_valid(signer):
    random = Random(2026)
    for number in range(500):
        whole, *others = documents_of(random)
        for terms in (whole, *others) if number % 5 == 0 else (whole,):
            built(terms, signer)
