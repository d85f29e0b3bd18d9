"""The tax nodes of a CFDI and of its complement for payments, from the taxes of the terms.

Concepts and related documents state every row; the document and the payment state each tax once. A withheld tax is
summed by its kind alone, a transferred one by kind, factor and rate too (CFDI40199, CRP20263, CRP20271).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from msgspec.structs import replace

from ledger.domain.invoices.parts import summed
from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.invoices.terms import EXEMPT, FEE, TaxAmount
from ledger.invoicing.cfdi.amounts import major, rate, up_to_six_decimals

_CENT: Final = Decimal("0.01")
_MINOR_UNIT: Final = Decimal(1)
_KEYS: Final = {"ISR": "001", "IVA": "002", "IEPS": "003"}

Node = dict[str, Any]


def rows(taxes: Sequence[TaxAmount], suffix: str = "") -> Node | None:
    """Returns the taxes of a concept, or with the suffix DR of a related document; None without taxes."""
    withheld = [_row(tax, suffix) for tax in taxes if tax.withheld]
    transferred = [_row(tax, suffix) for tax in taxes if not tax.withheld]
    return _node({f"Retenciones{suffix}": withheld, f"Traslados{suffix}": transferred})


def sums(taxes: Sequence[TaxAmount], suffix: str = "") -> Node | None:
    """Returns the taxes of a document, or with the suffix P of a payment; None without taxes."""
    withheld = [
        {f"Impuesto{suffix}": key, f"Importe{suffix}": major(amount)} for key, amount in withheld_sums(taxes).items()
    ]
    transferred = [
        _row(replace(tax, base=_rounded_base(tax)), suffix)
        for tax in summed([tax for tax in taxes if not tax.withheld])
    ]
    node = {f"Retenciones{suffix}": withheld, f"Traslados{suffix}": transferred}
    return _node(node)


def totals(taxes: Sequence[TaxAmount]) -> Node:
    """Returns the sums of all withheld and all transferred taxes of a document. Exempt taxes alone have no sum."""
    withheld = [tax.amount for tax in taxes if tax.withheld]
    transferred = [tax.amount for tax in taxes if not tax.withheld and tax.factor != EXEMPT]
    found: Node = {}
    if withheld:
        found["TotalImpuestosRetenidos"] = major(sum(withheld, ZERO))
    if transferred:
        found["TotalImpuestosTrasladados"] = major(sum(transferred, ZERO))
    return found


def withheld_sums(taxes: Iterable[TaxAmount]) -> dict[str, Decimal]:
    """Returns the withheld amount of each tax in minor units, by its SAT key."""
    found: dict[str, Decimal] = {}
    for tax in taxes:
        if tax.withheld:
            found[_KEYS[tax.type]] = found.get(_KEYS[tax.type], ZERO) + tax.amount
    return found


def _rounded_base(tax: TaxAmount) -> Decimal:
    """Returns a sum of bases with the decimals of the currency, as SAT rounds it (CFDI40215, CRP20268).

    The base of a fee is a quantity in its own unit, others are minor units.
    """
    return tax.base.quantize(_CENT if tax.factor == FEE else _MINOR_UNIT, rounding=ROUND_HALF_UP)


def _row(tax: TaxAmount, suffix: str) -> Node:
    exempt = tax.factor == EXEMPT
    fields = {
        "Base": shortest(tax.base) if tax.factor == FEE else up_to_six_decimals(tax.base),
        "Impuesto": _KEYS[tax.type],
        "TipoFactor": tax.factor,
        "TasaOCuota": None if exempt else rate(tax.rate),
        "Importe": None if exempt else major(tax.amount),
    }
    return {f"{name}{suffix}": value for name, value in fields.items()}


def _node(node: Node) -> Node | None:
    return {name: rows for name, rows in node.items() if rows} or None
