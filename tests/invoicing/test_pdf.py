"""The printed form of stamped documents, read back from the PDF's own text."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from msgspec.structs import replace
from satcfdi.create.cfd import cfdi40
from tests.domain.invoices.baskets import ISR_FEES, ISSUER, IVA16, IVA_FEES, line, receipt
from tests.domain.invoices.baskets import invoice as invoice_terms
from tests.invoicing import documents
from tests.invoicing.pdf_reader import pages, texts

from ledger.invoicing.certificates import generate_csd, load_signer
from ledger.invoicing.cfdi.build import build
from ledger.invoicing.pdf import words
from ledger.invoicing.pdf.canvas import HEIGHT, POINTS, Canvas
from ledger.invoicing.pdf.notes import Notes
from ledger.invoicing.pdf.printable import read_printable
from ledger.invoicing.pdf.render import render
from ledger.invoicing.providers.seals import add_stamp, check_seal
from ledger.invoicing.stamped_xml import XmlUnreadable

UUID_OF_INVOICE = UUID("5803eb8d-81cd-4557-8719-26632d2fa434")
AT = datetime(2026, 1, 31, 18, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def stamp():
    csd = generate_csd("SPR190613I52", "SANDBOX PAC", "30001000000500003456", branch="PACSPR190613I52")
    provider = load_signer(csd)
    return lambda xml, uuid=UUID_OF_INVOICE: add_stamp(check_seal(xml), provider, uuid, AT)


@pytest.fixture(scope="module")
def invoice(signer, stamp):
    taxed = cfdi40.Impuestos(
        traslados=[
            cfdi40.Traslado(impuesto="003", tipo_factor="Tasa", tasa_o_cuota=Decimal("0.300000")),
            cfdi40.Traslado(impuesto="002", tipo_factor="Tasa", tasa_o_cuota=Decimal("0.160000")),
        ],
        retenciones=cfdi40.Retencion(impuesto="001", tipo_factor="Tasa", tasa_o_cuota=Decimal("0.100000")),
    )
    free = cfdi40.Impuestos(traslados=cfdi40.Traslado(impuesto="002", tipo_factor="Exento"))
    concepts = [
        documents.concept(),
        documents.concept("Mezcal añejo", "3", "120.50", taxed, descuento=Decimal("11.50")),
        documents.concept("Consulta médica", "1", "800", free),
    ]
    return stamp(documents.invoice(signer, concepts=concepts))


def test_an_invoice_shows_its_parties_concepts_taxes_and_seals(invoice):
    shown = texts(render(invoice))
    document = read_printable(invoice)
    for text in (
        "Factura", "Folio A-1001", "DOCUMENTO DE PRUEBA: SIN VALIDEZ FISCAL", documents.LEGAL_NAME, f"RFC {documents.RFC}",
        "UNIVERSIDAD ROBOTICA ESPAÑOLA", "Régimen fiscal: 601 General de Ley Personas Morales",
        "Uso del CFDI: G03 Gastos en general", str(UUID_OF_INVOICE).upper(), "PPD Pago en parcialidades o diferido",
        "99 Por definir", "Mezcal añejo", "120.50", "361.50", "11.50", "IVA exento", "1,000.00", documents.NUMBER,
        "SPR190613I52", words.moment(document.stamped_at, "es"),
    ):  # fmt: skip
        assert text in shown, text
    whole = "".join(shown)
    assert "Página 1 / 1" in whole
    assert document.seal in whole
    assert document.sat_seal in whole
    assert document.chain in whole
    assert f"${document.total:,.2f} MXN" in shown


def test_the_same_document_in_english_writes_numbers_and_dates_as_english_does(invoice):
    shown, document = texts(render(invoice, language="en")), read_printable(invoice)
    for text in ("Invoice", "TEST DOCUMENT: NO FISCAL VALIDITY", words.moment(document.stamped_at, "en"), "IVA exempt"):
        assert text in shown, text
    assert f"${document.total:,.2f} MXN" in shown


def test_the_same_document_gives_the_same_bytes(invoice):
    assert render(invoice) == render(invoice)


def test_a_receipt_shows_the_payment_and_its_balances(signer, stamp):
    parent = stamp(documents.invoice(signer))
    shown = texts(render(stamp(documents.receipt(signer, parent), UUID(int=7))))
    for text in (
        "Recibo electrónico de pago", str(UUID_OF_INVOICE).upper(), "A-1001", "1", "1,160.00", "400.00", "760.00",
        "$400.00 MXN", "CUATROCIENTOS PESOS 00/100 M.N.", "Forma de pago: 03 Transferencia electrónica de fondos",
        "Impuestos del pago: IVA 16% $55.17 MXN",
    ):  # fmt: skip
        assert text in shown, text


def test_a_receipt_shows_the_amounts_of_withheld_taxes(signer, stamp):
    taxes = (IVA16, ISR_FEES, IVA_FEES)
    terms = replace(receipt(invoice_terms((line(10_000, taxes=taxes),)), 10_000, 10_000), issued_at=datetime.now(UTC))
    shown = texts(render(stamp(build(terms, ISSUER, signer))))
    (taxes,) = (text for text in shown if text.startswith("Impuestos del pago"))
    assert taxes == "Impuestos del pago: IVA 16% $16.78 MXN · ISR ret. $10.49 MXN · IVA ret. $11.19 MXN"


@pytest.mark.parametrize(
    ("width", "height", "printed"),
    [
        (400, 400, (17.0, 17.0, 14.0)),
        (1000, 220, (52.0, 11.44, 16.78)),  # as wide as there is room, in the middle of the height
        (1200, 60, (52.0, 2.6, 21.2)),
        (150, 500, (5.1, 17.0, 14.0)),
    ],
)
def test_a_logo_is_as_large_as_its_shape_allows(invoice, monkeypatch, width, height, printed):
    images = []

    def image(_, __, x, y, w, h):
        images.append((x, round(w, 2), round(h, 2), round(y, 2)))

    monkeypatch.setattr(Canvas, "image", image)
    shown = texts(render(invoice, logo=documents.png(width, height)))
    assert images == [(14.0, *printed)]
    assert f"RFC {documents.RFC}" in shown


def test_a_credit_note_names_the_invoice_that_it_belongs_to(signer, stamp):
    parent = stamp(documents.invoice(signer))
    shown = texts(render(stamp(documents.credit_note(signer, parent), UUID(int=8))))
    for text in ("Nota de crédito", "01 Nota de crédito de los documentos relacionados", str(UUID_OF_INVOICE).upper()):
        assert text in shown, text


def test_a_long_invoice_goes_on_over_pages_with_the_titles_repeated(signer, stamp):
    many = [documents.concept(f"Artículo {n} " + "muy largo " * (n % 9), "1", "10") for n in range(60)]
    pdf = render(stamp(documents.invoice(signer, concepts=many)))
    shown = texts(pdf)
    assert len(pages(pdf)) == 4
    assert "Página 4 / 4" in "".join(shown)
    assert [text for text in shown if re.fullmatch(r"Artículo \d+", text)] != []
    assert all(any(text.startswith(f"Artículo {n}") for text in shown) for n in range(60))
    assert shown.count("Descripción") == 3


def test_what_is_not_stamped_is_not_printed(signer):
    for xml in (documents.invoice(signer), b"<a/>", b"no xml"):
        with pytest.raises(XmlUnreadable):
            render(xml)


def test_the_qr_code_leads_to_the_tax_authoritys_page_of_the_document(invoice):
    document = read_printable(invoice)
    assert document.verify_url == (
        "https://verificacfdi.facturaelectronica.sat.gob.mx/default.aspx?"
        f"id={str(UUID_OF_INVOICE).upper()}&re={documents.RFC}&rr=URE180429TM6&tt={document.total}"
        f"&fe={document.seal[-8:].replace('+', '%2B')}"
    )


@pytest.mark.parametrize(
    ("amount", "spanish", "english"),
    [
        ("1", "UN PESO 00/100 M.N.", "ONE PESO 00/100 MXN"),
        ("0.5", "CERO PESOS 50/100 M.N.", "ZERO PESOS 50/100 MXN"),
        ("100", "CIEN PESOS 00/100 M.N.", "ONE HUNDRED PESOS 00/100 MXN"),
        ("131.09", "CIENTO TREINTA Y UN PESOS 09/100 M.N.", "ONE HUNDRED THIRTY-ONE PESOS 09/100 MXN"),
        ("21021", "VEINTIÚN MIL VEINTIÚN PESOS 00/100 M.N.", "TWENTY-ONE THOUSAND TWENTY-ONE PESOS 00/100 MXN"),
        ("2000000", "DOS MILLONES DE PESOS 00/100 M.N.", "TWO MILLION PESOS 00/100 MXN"),
        ("1000001", "UN MILLÓN UN PESOS 00/100 M.N.", "ONE MILLION ONE PESOS 00/100 MXN"),
    ],
)
def test_amounts_in_words(amount, spanish, english):
    assert words.in_words(Decimal(amount), "MXN", "es") == spanish
    assert words.in_words(Decimal(amount), "MXN", "en") == english


def test_times_are_written_as_people_of_the_language_write_them():
    assert words.moment("2026-01-31T12:00:00", "es") == "31 de enero de 2026, 12:00:00"
    assert words.moment("2026-01-31T12:00:00", "en") == "January 31, 2026, 12:00:00"


def test_amounts_in_dollars_name_their_currency():
    assert words.in_words(Decimal("1.10"), "USD", "es") == "UN DÓLAR 10/100 USD"
    assert words.money(Decimal("1234567.5"), "USD") == "$1,234,567.50 USD"
    assert words.money(Decimal("-0.1255"), "USD") == "-$0.1255 USD"


@pytest.mark.parametrize(
    ("price", "quantity", "amount", "shown"),
    [
        ("86.206897", "1", "86.21", "86.21"),
        ("86.206897", "3", "258.62", "86.206897"),
        ("0.0125", "1000", "12.50", "0.0125"),
        ("500.000000", "2", "1000.00", "500.00"),
    ],
)
def test_a_unit_price_has_two_decimals_unless_its_line_needs_more(price, quantity, amount, shown):
    assert words.unit_price(Decimal(price), Decimal(quantity), Decimal(amount)) == shown


def test_a_credit_note_shows_the_reason_and_what_was_paid_with(signer, stamp):
    parent = stamp(documents.invoice(signer))
    notes = Notes(paid_with="VISA •••• 4242", reason="Taza rota " * 60)
    shown = texts(render(stamp(documents.credit_note(signer, parent), UUID(int=9)), notes=notes))
    assert "VISA •••• 4242" in shown
    assert "Motivo de la devolución" in shown
    assert sum(text.count("Taza rota") for text in shown) > 10


def test_a_long_number_of_an_invoice_is_not_cut(signer, stamp):
    number = "PO4T8Q2M7X1K-12-34-R1-R2-R3-R4-R5-R6-R7"
    shown = texts(render(stamp(documents.receipt(signer, stamp(documents.invoice(signer, folio=number))), UUID(int=7))))
    assert f"A-{number}" in "".join(shown)
    assert "A-PO4T8Q2M7X1K" in "".join(shown)


def test_the_modules_of_a_qr_code_are_where_its_matrix_has_them():
    canvas = Canvas("Page", "", "en")
    canvas.modules([[True, True, False], [False, True, False], [True, False, True]], 10, 20, 3)
    [page] = canvas.pages
    path = page.removeprefix("0 0 0 rg ").removesuffix(" f")
    numbers = [[float(number) / POINTS for number in each.split()] for each in path.split(" re") if each.strip()]
    found = [(round(x - 10), round(HEIGHT - y - 20), round(width)) for x, y, width, _ in numbers]
    assert found == [(0, 0, 2), (1, 1, 1), (0, 2, 1), (2, 2, 1)]
