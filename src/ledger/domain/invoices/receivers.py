"""The receiver of a document, from what the merchant sent about the customer.

The regimes and uses are SAT's catalogues c_RegimenFiscal and c_UsoCFDI of CFDI 4.0. An RFC of 12 characters belongs to
a company, one of 13 to a person (CFF, article 27). Keys that the schema accepts only for older documents (regimes 609,
628 to 630, use P01) are left out, and so are the uses of payrolls and receipts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ledger.domain.orders.invoices.terms import FOREIGNER, PUBLIC_IN_GENERAL, Issuer, Receiver
from ledger.domain.orders.terms import FiscalData
from ledger.domain.rejections import FiscalDataIncomplete

PUBLIC_NAME: Final = "PUBLICO EN GENERAL"
COMPANY_RFC: Final = 12
NO_OBLIGATIONS: Final = "616"
NO_EFFECT: Final = "S01"
REFUND: Final = "G02"
PAYMENT: Final = "CP01"

_COMPANIES: Final = ("601", "603", "610", "620", "622", "623", "624", "626")
_PERSONS: Final = ("605", "606", "607", "608", "610", "611", "612", "614", "615", "616", "621", "625", "626")
REGIMES: Final = tuple(sorted({*_COMPANIES, *_PERSONS}))

_EXPENSE: Final = ("601", "603", "606", "612", "620", "621", "622", "623", "624", "625", "626")
_DEDUCTION: Final = ("605", "606", "607", "608", "611", "612", "614", "615", "625")

USES: Final[Mapping[str, tuple[str, ...]]] = {
    "G01": _EXPENSE,
    REFUND: (*_EXPENSE, NO_OBLIGATIONS),
    "G03": _EXPENSE,
    **{f"I{number:02}": _EXPENSE for number in range(1, 9)},
    **{f"D{number:02}": _DEDUCTION for number in range(1, 11)},
    NO_EFFECT: REGIMES,
}
"""The uses of an invoice, with the regimes that can have each. Personal deductions (D) are for persons alone."""


PAYMENT_FORMS: Final = (
    "01", "02", "03", "04", "05", "06", "08", "12", "13", "14", "15", "17", "23", "24", "25", "26", "27", "28", "29",
    "30", "31", "99",
)  # fmt: skip
"""SAT c_FormaPago."""


def is_generic(tax_id: str | None) -> bool:
    """Returns whether this is the RFC of the public in general or of foreigners."""
    return tax_id in (PUBLIC_IN_GENERAL, FOREIGNER)


def regimes_of(tax_id: str | None) -> tuple[str, ...]:
    """Returns the regimes that a taxpayer with this RFC can have; without an RFC, all of them."""
    if tax_id is None:
        return REGIMES
    if is_generic(tax_id):
        return (NO_OBLIGATIONS,)
    return _COMPANIES if len(tax_id) == COMPANY_RFC else _PERSONS


def uses_of(tax_id: str | None, regime: str | None) -> tuple[str, ...]:
    """Returns the uses that an invoice to this taxpayer can have; without a regime, the uses of all regimes that the
    taxpayer can have.
    """
    if is_generic(tax_id):
        return (NO_EFFECT,)
    regimes = regimes_of(tax_id) if regime is None else (regime,)
    company = tax_id is not None and len(tax_id) == COMPANY_RFC
    return tuple(
        use
        for use, allowed in USES.items()
        if not (company and allowed is _DEDUCTION) and any(each in allowed for each in regimes)
    )


def combined(given: FiscalData, known: FiscalData | None) -> FiscalData:
    """Returns a receiver with the fields of a request; fields that the request lacks come from the known receiver.

    A request with another tax id names another receiver: no known field is used.
    """
    if known is None or given.tax_id not in (None, known.tax_id):
        return given
    names = FiscalData.__struct_fields__
    return FiscalData(**{name: value if (value := getattr(given, name)) is not None else getattr(known, name)
                         for name in names})  # fmt: skip


def wrong_keys(receiver: FiscalData) -> list[tuple[str, str]]:
    """Returns the fields whose key SAT's catalogues exclude, in general or for this receiver, with the keys that they
    allow.
    """
    wrong = []
    regime, rfc = receiver.tax_system, receiver.tax_id
    regimes = regimes_of(rfc)
    if regime is not None and regime not in regimes:
        wrong.append(("taxSystem", _one_of(regimes, f" for {_kind(rfc)}" if regime in REGIMES else "")))
        regime = None
    uses = uses_of(rfc, regime)
    if receiver.cfdi_use is not None and receiver.cfdi_use not in uses:
        of = f" for the regime {regime}" if regime is not None else f" for {_kind(rfc)}"
        wrong.append(("cfdiUse", _one_of(uses, of if receiver.cfdi_use in USES else "")))
    if receiver.payment_form is not None and receiver.payment_form not in PAYMENT_FORMS:
        wrong.append(("paymentForm", _one_of(PAYMENT_FORMS, "")))
    return wrong


def _one_of(allowed: tuple[str, ...], of: str) -> str:
    listed = ", ".join(allowed[:-1]) + f" or {allowed[-1]}" if len(allowed) > 1 else allowed[0]
    return f"must be {listed}{of}"


def _kind(rfc: str | None) -> str:
    if is_generic(rfc):
        return "a generic RFC"
    if rfc is None:
        return "any receiver"
    return "a company" if len(rfc) == COMPANY_RFC else "a person"


def use_of_refund(regime: str) -> str:
    """Returns the use of a credit note to a receiver with this regime: G02 (returns) if the regime can have it."""
    return REFUND if regime in USES[REFUND] else NO_EFFECT


def missing_fields(fiscal: FiscalData, issuer: Issuer) -> list[str]:
    """Returns the fields of the receiver that an invoice needs and the order lacks, as a request to stamp names them.

    A generic RFC needs no other field; without an RFC the same holds if the merchant invoices the public in general.
    """
    if fiscal.tax_id is None and issuer.public_in_general:
        return []
    if is_generic(fiscal.tax_id):
        return [] if fiscal.tax_id == PUBLIC_IN_GENERAL or fiscal.legal_name else ["fiscalConfig.legalName"]
    fields = {
        "taxId": fiscal.tax_id,
        "legalName": fiscal.legal_name,
        "taxSystem": fiscal.tax_system,
        "cfdiUse": fiscal.cfdi_use,
        "zipCode": fiscal.zip_code,
    }
    return [f"fiscalConfig.{name}" for name, value in fields.items() if not value]


def receiver_of(fiscal: FiscalData, issuer: Issuer) -> Receiver:
    """Returns the receiver. Raises FiscalDataIncomplete.

    For a generic RFC the regime, the use and the postal code are fixed; the postal code is the place of issue (Anexo
    20).
    """
    refuse_missing(missing_fields(fiscal, issuer))
    tax_id = fiscal.tax_id or PUBLIC_IN_GENERAL
    generic = is_generic(tax_id)
    return Receiver(
        tax_id=tax_id,
        legal_name=one_line(fiscal.legal_name, 300) or PUBLIC_NAME,
        tax_system=NO_OBLIGATIONS if generic else fiscal.tax_system or "",
        cfdi_use=NO_EFFECT if generic else fiscal.cfdi_use or "",
        zip_code=issuer.zip_code if generic else fiscal.zip_code or "",
        email=fiscal.email,
    )


def refuse_missing(missing: Sequence[str]) -> None:
    """Raises FiscalDataIncomplete if fields are missing."""
    if missing:
        raise FiscalDataIncomplete(f"The document cannot be issued without {', '.join(missing)}.", missing)


def one_line(text: str | None, length: int) -> str:
    """Returns a text as a CFDI takes it: without `|`, which separates the fields that are sealed, and in one line."""
    return re.sub(r"[\s|]+", " ", text or "").strip()[:length].strip()
