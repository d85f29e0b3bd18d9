"""The complement for payments (Pagos 2.0) of a receipt: one payment on one invoice."""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from satcfdi.cfdi import CFDI

from ledger.domain.invoices.parts import summed
from ledger.domain.orders.invoices.terms import EXEMPT, IVA, ReceiptTerms, TaxAmount
from ledger.invoicing.cfdi.amounts import major, up_to_six_decimals
from ledger.invoicing.cfdi.taxes import Node, rows, sums, withheld_sums

_TAG: Final = "{http://www.sat.gob.mx/Pagos20}Pagos"
_CENTAVO: Final = Decimal("0.01")
_ONE: Final = Decimal(1)
_WITHHELD: Final = {"001": "TotalRetencionesISR", "002": "TotalRetencionesIVA", "003": "TotalRetencionesIEPS"}
_IVA_RATES: Final = {Decimal("0.16"): "IVA16", Decimal("0.08"): "IVA8", Decimal(0): "IVA0"}


def payments(terms: ReceiptTerms, paid_at: datetime) -> CFDI:
    """Returns the complement. `paid_at` is the payment's time, local to the place of issue."""
    exchange_rate = terms.exchange_rate or _ONE
    complement = CFDI(
        {
            "Version": "2.0",
            "Totales": _totals(terms, exchange_rate),
            "Pago": [
                {
                    "FechaPago": paid_at,
                    "FormaDePagoP": terms.payment_form,
                    "MonedaP": terms.currency,
                    "TipoCambioP": exchange_rate,
                    "Monto": major(terms.applied_amount),
                    "DoctoRelacionado": [_related(terms)],
                    "ImpuestosP": sums(terms.taxes, "P"),
                }
            ],
        }
    )
    complement.tag = _TAG
    return complement


def _related(terms: ReceiptTerms) -> Node:
    """Returns the invoice with what is paid of it.

    ObjetoImpDR is 01, without taxes, only if the invoice has none (`parts.paid_taxes`; CRP20246, CRP20247).
    """
    return {
        "IdDocumento": str(terms.fiscal_uuid).upper(),
        "Serie": terms.invoice_series,
        "Folio": terms.invoice_folio,
        "MonedaDR": terms.currency,
        "EquivalenciaDR": _ONE,
        "NumParcialidad": terms.installment,
        "ImpSaldoAnt": major(terms.previous_balance),
        "ImpPagado": major(terms.applied_amount),
        "ImpSaldoInsoluto": major(terms.remaining_balance),
        "ObjetoImpDR": "02" if terms.taxes else "01",
        "ImpuestosDR": rows(terms.taxes, "DR"),
    }


def _totals(terms: ReceiptTerms, exchange_rate: Decimal) -> Node:
    """Returns the sums of the payment in pesos, rounded to the centavo."""

    def pesos(amount: Decimal) -> Decimal:
        return (up_to_six_decimals(amount) * exchange_rate).quantize(_CENTAVO, rounding=ROUND_HALF_UP)

    totals: Node = {"MontoTotalPagos": pesos(terms.applied_amount)}
    for key, amount in withheld_sums(terms.taxes).items():
        totals[_WITHHELD[key]] = pesos(amount)
    for tax in summed([tax for tax in terms.taxes if tax.type == IVA and not tax.withheld]):
        if tax.factor == EXEMPT:
            totals["TotalTrasladosBaseIVAExento"] = pesos(tax.base)
        elif name := _name(tax):
            totals[f"TotalTrasladosBase{name}"] = pesos(tax.base)
            totals[f"TotalTrasladosImpuesto{name}"] = pesos(tax.amount)
    return totals


def _name(tax: TaxAmount) -> str | None:
    """Returns the name of the sums of an IVA rate. SAT's catalogue has no other rate."""
    return _IVA_RATES.get(tax.rate)
