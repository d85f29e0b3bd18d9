"""The rates of taxes that SAT accepts: the catalogue c_TasaOCuota of CFDI 4.0, which CFDI40179 and CRP20260 check.

The values are those in force since 2024. SAT raises the upper bound of the IEPS by quota from year to year.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from msgspec import Struct

from ledger.domain.money import shortest
from ledger.domain.orders.invoices.terms import EXEMPT, FEE, IEPS, ISR, IVA, RATE
from ledger.domain.orders.terms import Tax

_CENT: Final = Decimal("0.01")


class _Rates(Struct, frozen=True):
    """The rates of one kind of tax: single ones, or all up to `maximum`."""

    single: tuple[Decimal, ...] = ()
    maximum: Decimal | None = None

    def have(self, rate: Decimal) -> bool:
        """Returns whether SAT accepts this rate."""
        return rate in self.single if self.maximum is None else 0 <= rate <= self.maximum

    def __str__(self) -> str:
        if self.maximum is not None:
            return f"from 0 to {self.maximum}"
        *others, last = (str(rate) for rate in self.single)
        return f"{', '.join(others)} or {last}"


def _single(text: str) -> _Rates:
    return _Rates(single=tuple(Decimal(rate) for rate in text.split()))


_WITHHELD_IEPS: Final = "0.06 0.07 0.08 0.09 0.25 0.265 0.3 0.304 0.5 0.53 1.6"
_QUOTA: Final = _Rates(maximum=Decimal("66.5062"))

_RATES: Final[Mapping[tuple[str, str, bool], _Rates]] = {
    (IVA, RATE, False): _single("0 0.08 0.16"),
    (IVA, RATE, True): _Rates(maximum=Decimal("0.16")),
    (ISR, RATE, True): _Rates(maximum=Decimal("0.35")),
    (IEPS, RATE, False): _single(f"0 0.03 {_WITHHELD_IEPS}"),
    (IEPS, RATE, True): _single(_WITHHELD_IEPS),
    (IEPS, FEE, False): _QUOTA,
    (IEPS, FEE, True): _QUOTA,
}
"""The rates by tax, factor and whether the tax is withheld."""


def wrong_tax(tax: Tax) -> tuple[str, str] | None:
    """Returns which field of a tax is wrong, `factor` or `rate`, and what is wrong with it: SAT does not know the tax
    with this factor, or has other rates for it, which are named. Returns None for a tax that SAT accepts.

    A percentage is recognised: 16 instead of 0.16.
    """
    if tax.factor == EXEMPT:
        return None
    rates = _RATES.get((tax.type, tax.factor, _is_withheld(tax)))
    if rates is None:
        return "factor", f"must be {RATE} for {tax.type}: SAT has no {tax.factor} for it"
    if rates.have(tax.rate):
        return None
    problem = f"must be {rates} for {_kind(tax)} (SAT c_TasaOCuota)"
    meant = shortest(tax.rate * _CENT)
    is_percentage = tax.factor == RATE and tax.rate >= 1 and rates.have(meant)
    return "rate", f"{problem}; did you mean {meant}?" if is_percentage else problem


def _is_withheld(tax: Tax) -> bool:
    """Returns whether the tax is withheld: ISR always is."""
    return tax.withholding or tax.type == ISR


def _kind(tax: Tax) -> str:
    withheld = " that is withheld" if tax.withholding and tax.type != ISR else ""
    return f"{tax.type}{withheld}" if tax.factor == RATE else f"{tax.type} by quota{withheld}"
