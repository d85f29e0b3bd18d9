"""What the simulated provider refuses by SAT's schemas, catalogues and sums, with the codes of SAT's tables of errors."""

from __future__ import annotations

import pytest
from satcfdi.create.cfd import cfdi40
from tests.domain.invoices.baskets import FUEL, ISR_FEES, ISSUER, IVA16, IVA_FEES, line
from tests.domain.invoices.baskets import invoice as invoice_terms
from tests.domain.invoices.baskets import receipt as receipt_terms
from tests.invoicing import documents
from tests.invoicing.conftest import to_stamp
from tests.invoicing.test_pdf import stamp

from ledger.invoicing.cfdi.build import build
from ledger.invoicing.contract import Refused
from ledger.invoicing.providers.rules import check_rules
from ledger.invoicing.providers.schema import check_structure
from ledger.invoicing.stamped_xml import parse_cfdi

__all__ = ["stamp"]

FREE = cfdi40.Impuestos(traslados=cfdi40.Traslado(impuesto="002", tipo_factor="Exento"))


@pytest.fixture(scope="module")
def invoice(signer):
    return documents.invoice(signer).decode()


@pytest.fixture(scope="module")
def receipt(signer, stamp):
    return documents.receipt(signer, stamp(documents.invoice(signer))).decode()


def refusal(xml: str) -> str | None:
    root = parse_cfdi(xml.encode())
    refused = check_structure(root) or check_rules(root)
    return None if refused is None else refused.code


def test_right_documents_of_every_kind_are_not_refused(signer, stamp, receipt):
    parent = stamp(documents.invoice(signer))
    concepts = [documents.concept("A", "3", "33.333333"), documents.concept("B", "1", "80", FREE, descuento=5)]
    for xml in (
        documents.invoice(signer, concepts=concepts),
        documents.invoice(signer, method="PUE", form="04", currency="USD", rate=17.5),
        documents.credit_note(signer, parent),
        receipt.encode(),
        build(invoice_terms((line(10_000, taxes=(IVA16, ISR_FEES, IVA_FEES)), line(333))), ISSUER, signer),
    ):
        assert refusal(xml.decode()) is None, xml


def test_sums_of_quantities_are_rounded_in_an_invoice_and_in_its_receipt(signer):
    """A third of a litre and a fee for each litre: the document states the sum of litres with two decimals."""
    terms = invoice_terms((line(10_000, "1.333333", taxes=(FUEL, IVA16)), line(333)))
    fuel = build(terms, ISSUER, signer).decode()
    assert ('Base="1.333333"' in fuel, 'Base="1.33"' in fuel) == (True, True)
    assert refusal(fuel) is None
    paid = build(receipt_terms(terms, terms.total, terms.total), ISSUER, signer).decode()
    assert refusal(paid) is None


@pytest.mark.parametrize(
    ("code", "right", "wrong"),
    [
        ("301", 'Serie="A"', 'Serie="A" Otro="1"'),
        ("301", "URE180429TM6", "URE18"),
        ("CFDI40101", 'Fecha="20', 'Fecha="'),
        ("CFDI40104", 'FormaPago="99"', 'FormaPago="98"'),
        ("CFDI40105", 'FormaPago="99"', 'FormaPago="03"'),
        ("CFDI40108", 'SubTotal="1000.00"', 'SubTotal="1000.01"'),
        ("CFDI40113", 'Moneda="MXN"', 'Moneda="MXP"'),
        ("CFDI40115", 'Moneda="MXN"', 'Moneda="USD"'),
        ("CFDI40119", 'Total="1160.00"', 'Total="1160.01"'),
        ("CFDI40126", 'LugarExpedicion="42501"', 'LugarExpedicion="00001"'),
        ("CFDI40130", 'URE180429TM6" Nombre="UNIVERSIDAD ROBOTICA ESPAÑOLA', 'XAXX010101000" Nombre="PUBLICO EN GENERAL'),
        ("CFDI40141", 'RegimenFiscal="601"', 'RegimenFiscal="612"'),
        ("CFDI40148", "86991", "00001"),
        ("CFDI40157", 'RegimenFiscalReceptor="601"', 'RegimenFiscalReceptor="999"'),
        ("CFDI40158", 'RegimenFiscalReceptor="601"', 'RegimenFiscalReceptor="605"'),
        ("CFDI40160", 'UsoCFDI="G03"', 'UsoCFDI="Z99"'),
        ("CFDI40161", 'UsoCFDI="G03"', 'UsoCFDI="D01"'),
        ("CFDI40162", "81112100", "99999999"),
        ("CFDI40165", 'ClaveUnidad="E48"', 'ClaveUnidad="XX9"'),
        ("CFDI40166", 'ValorUnitario="500.00"', 'ValorUnitario="0"'),
        ("CFDI40167", 'ValorUnitario="500.00"', 'ValorUnitario="800.00"'),
        ("CFDI40172", 'ObjetoImp="02"', 'ObjetoImp="01"'),
        ("CFDI40179", 'TasaOCuota="0.160000"', 'TasaOCuota="0.150000"'),
        ("CFDI40180", 'Importe="160.00"/></cfdi:Traslados></cfdi:Impuestos></cfdi:Concepto>',
         'Importe="161.00"/></cfdi:Traslados></cfdi:Impuestos></cfdi:Concepto>'),
    ],
)  # fmt: skip
def test_a_fault_of_an_invoice_has_its_code(invoice, code, right, wrong):
    assert refusal(invoice) is None
    assert refusal(invoice.replace(right, wrong)) == code


@pytest.mark.parametrize(
    ("code", "right", "wrong"),
    [
        ("CFDI40161", 'UsoCFDI="CP01"', 'UsoCFDI="G03"'),
        ("CRP20118", 'Descripcion="Pago"', 'Descripcion="Pagos"'),
        ("CRP20212", 'FormaDePagoP="03"', 'FormaDePagoP="99"'),
        ("CRP20217", 'Monto="400.00"', 'Monto="399.00"'),
        ("CRP20244", 'ImpSaldoInsoluto="760.00"', 'ImpSaldoInsoluto="761.00"'),
        ("CRP20247", 'ObjetoImpDR="02"', 'ObjetoImpDR="01"'),
        ("CRP20260", 'TasaOCuotaDR="0.160000"', 'TasaOCuotaDR="0.150000"'),
        ("CRP20211", 'MontoTotalPagos="400.00"', 'MontoTotalPagos="401.00"'),
    ],
)
def test_a_fault_of_a_receipt_has_its_code(receipt, code, right, wrong):
    assert refusal(receipt) is None
    assert right in receipt
    assert refusal(receipt.replace(right, wrong)) == code


def test_a_refusal_by_the_schema_repeats_no_value(invoice):
    root = parse_cfdi(invoice.replace("URE180429TM6", "PERSONA").encode())
    refused = check_structure(root)
    assert refused == Refused(code="301", message="XML mal formado: no cumple con el esquema (Receptor, atributo Rfc).")


@pytest.mark.anyio
async def test_the_provider_stamps_nothing_that_breaks_a_rule(provider, signer):
    wrong = documents.concept()
    wrong["ClaveProdServ"] = "99999999"
    refused = await provider.stamp(to_stamp(documents.invoice(signer, concepts=[wrong])))
    assert isinstance(refused, Refused)
    assert refused.code == "CFDI40162"
