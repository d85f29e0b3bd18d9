"""Builds the sealed CFDI of a document: the same bytes for the same terms, issuer and certificate, each time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

from satcfdi.cfdi import CFDI
from satcfdi.models import Signer

from ledger.domain.invoices.receivers import PAYMENT, PUBLIC_NAME, use_of_refund
from ledger.domain.money import shortest
from ledger.domain.orders.invoices.terms import (
    PUBLIC_IN_GENERAL,
    Concept,
    CreditNoteTerms,
    DocumentTerms,
    GlobalPeriod,
    InvoiceTerms,
    Issuer,
    Periodicity,
    ReceiptTerms,
    TaxAmount,
)
from ledger.invoicing.catalogs import time_zone_of
from ledger.invoicing.cfdi import taxes
from ledger.invoicing.cfdi.amounts import major, up_to_six_decimals
from ledger.invoicing.cfdi.payments import payments

_TAG: Final = "{http://www.sat.gob.mx/cfd/4}Comprobante"
_NO_EXPORT: Final = "01"
_PERIODICITIES: Final = {name: f"{number:02}" for number, name in enumerate(Periodicity, 1)}
"""SAT c_Periodicidad."""
_TWO_MONTHS: Final = 12
"""SAT c_Meses has the pairs of months, 13 to 18, behind the months."""
_SUBSTITUTES: Final = "04"
"""SAT c_TipoRelacion of a document that replaces an earlier one."""
_NOTHING: Final = Decimal(0)
_PAYMENT: Final = {  # fixed by SAT (CRP20111 to CRP20123)
    "ClaveProdServ": "84111506",
    "Cantidad": 1,
    "ClaveUnidad": "ACT",
    "Descripcion": "Pago",
    "ValorUnitario": _NOTHING,
    "Importe": _NOTHING,
    "ObjetoImp": "01",
}


def build(terms: DocumentTerms, issuer: Issuer, signer: Signer) -> bytes:
    """Returns the document as XML, sealed with the issuer's certificate, without the provider's stamp."""
    match terms:
        case InvoiceTerms():
            cfdi = _invoice(terms, issuer)
        case ReceiptTerms():
            cfdi = _receipt(terms, issuer)
        case CreditNoteTerms():
            cfdi = _credit_note(terms, issuer)
    cfdi.tag = _TAG
    cfdi.sign(signer)
    sealed: bytes = cfdi.xml_bytes()
    return sealed


def _invoice(terms: InvoiceTerms, issuer: Issuer) -> CFDI:
    sold = _goods(terms, terms.concepts, terms.taxes)
    sold |= {
        "TipoDeComprobante": "I",
        "Descuento": major(terms.discount) if terms.discount else None,
        "MetodoPago": terms.payment_method,
    }
    replaced = terms.replaces_all if terms.replaces is None else (terms.replaces,)
    if replaced:
        related = {"TipoRelacion": _SUBSTITUTES, "CfdiRelacionado": [str(each).upper() for each in replaced]}
        sold["CfdiRelacionados"] = [related]
    receiver = terms.receiver
    if receiver.tax_id == PUBLIC_IN_GENERAL and receiver.legal_name == PUBLIC_NAME:
        sold["InformacionGlobal"] = _period(terms, issuer)
    return CFDI(_head(terms, issuer) | sold)


def _period(terms: InvoiceTerms, issuer: Issuer) -> taxes.Node:
    """Returns the period of a document to the public in general: that of its orders, else the day of its issue."""
    day, period = _local(terms.issued_at, issuer), terms.period
    if period is None:
        period = GlobalPeriod(year=day.year, month=day.month, periodicity=Periodicity.DAILY)
    is_pair = period.periodicity is Periodicity.BIMONTHLY
    months = _TWO_MONTHS + (period.month + 1) // 2 if is_pair else period.month
    return {"Periodicidad": _PERIODICITIES[period.periodicity], "Meses": f"{months:02}", "Año": period.year}


def _receipt(terms: ReceiptTerms, issuer: Issuer) -> CFDI:
    fixed = {
        "TipoDeComprobante": "P",
        "Moneda": "XXX",
        "SubTotal": _NOTHING,
        "Total": _NOTHING,
        "Conceptos": [_PAYMENT],
        "Complemento": payments(terms, _local(terms.paid_at, issuer)),
    }
    return CFDI(_head(terms, issuer) | fixed)


def _credit_note(terms: CreditNoteTerms, issuer: Issuer) -> CFDI:
    related = {"TipoRelacion": terms.relation, "CfdiRelacionado": [str(terms.fiscal_uuid).upper()]}
    returned = _goods(terms, terms.concepts, terms.taxes)
    returned |= {"TipoDeComprobante": "E", "MetodoPago": "PUE", "CfdiRelacionados": [related]}
    return CFDI(_head(terms, issuer) | returned)


def _head(terms: DocumentTerms, issuer: Issuer) -> taxes.Node:
    return {
        "Version": "4.0",
        "Serie": terms.series,
        "Folio": terms.folio,
        "Fecha": _local(terms.issued_at, issuer),
        "Sello": "",
        "NoCertificado": "",
        "Certificado": "",
        "Exportacion": _NO_EXPORT,
        "LugarExpedicion": issuer.zip_code,
        "Emisor": {"Rfc": issuer.rfc, "Nombre": issuer.legal_name, "RegimenFiscal": issuer.tax_system},
        "Receptor": _receiver(terms),
    }


def _goods(terms: InvoiceTerms | CreditNoteTerms, concepts: Sequence[Concept], rows: Sequence[TaxAmount]) -> taxes.Node:
    """Returns the common part of an invoice and a credit note: concepts, taxes and sums."""
    summed = taxes.sums(rows)
    return {
        "FormaPago": terms.payment_form,
        "Moneda": terms.currency,
        "TipoCambio": None if terms.exchange_rate is None else shortest(terms.exchange_rate),
        "SubTotal": major(terms.subtotal),
        "Total": major(terms.total),
        "Conceptos": [_concept(concept) for concept in concepts],
        "Impuestos": None if summed is None else summed | taxes.totals(rows),
    }


def _concept(concept: Concept) -> taxes.Node:
    return {
        "ClaveProdServ": concept.product_key,
        "NoIdentificacion": concept.sku,
        "Cantidad": shortest(concept.quantity),
        "ClaveUnidad": concept.unit_key,
        "Unidad": concept.unit_name,
        "Descripcion": concept.description,
        "ValorUnitario": up_to_six_decimals(concept.unit_price),
        "Importe": major(concept.amount),
        "Descuento": major(concept.discount) if concept.discount else None,
        "ObjetoImp": "02" if concept.taxes else "01",
        "Impuestos": taxes.rows(concept.taxes),
    }


def _receiver(terms: DocumentTerms) -> taxes.Node:
    """Returns the receiver. SAT fixes the use of a receipt. The use of a credit note follows from the regime, even if a
    later request has given another receiver.
    """
    receiver = terms.receiver
    match terms:
        case InvoiceTerms():
            use = receiver.cfdi_use
        case ReceiptTerms():
            use = PAYMENT
        case CreditNoteTerms():
            use = use_of_refund(receiver.tax_system)
    return {
        "Rfc": receiver.tax_id,
        "Nombre": receiver.legal_name,
        "DomicilioFiscalReceptor": receiver.zip_code,
        "RegimenFiscalReceptor": receiver.tax_system,
        "UsoCFDI": use,
    }


def _local(moment: datetime, issuer: Issuer) -> datetime:
    """Returns a time as documents state it: local to the place of issue, in whole seconds, without its offset."""
    return moment.astimezone(time_zone_of(issuer.zip_code)).replace(tzinfo=None, microsecond=0)
