"""The receiver of a document, from what the merchant sent about the customer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.domain.invoices.terms import FOREIGNER, PUBLIC_IN_GENERAL, Issuer, Receiver
from ledger.domain.orders.terms import FiscalData
from ledger.domain.rejections import FiscalDataIncomplete

PUBLIC_NAME: Final = "PUBLICO EN GENERAL"
_NO_OBLIGATIONS: Final = "616"
_NO_EFFECT: Final = "S01"


def missing_fields(fiscal: FiscalData, issuer: Issuer) -> list[str]:
    """Returns the fields of the receiver that an invoice needs and the order lacks, as a request to stamp names them.

    A generic RFC needs no other field; without an RFC the same holds where the merchant invoices the public in general.
    """
    if fiscal.tax_id is None and issuer.public_in_general:
        return []
    if fiscal.tax_id in (PUBLIC_IN_GENERAL, FOREIGNER):
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

    Of a generic RFC the regime, the use and the postal code are fixed: the last is the place of issue (Anexo 20).
    """
    refuse_missing(missing_fields(fiscal, issuer))
    tax_id = fiscal.tax_id or PUBLIC_IN_GENERAL
    generic = tax_id in (PUBLIC_IN_GENERAL, FOREIGNER)
    return Receiver(
        tax_id=tax_id,
        legal_name=fiscal.legal_name or PUBLIC_NAME,
        tax_system=_NO_OBLIGATIONS if generic else fiscal.tax_system or "",
        cfdi_use=_NO_EFFECT if generic else fiscal.cfdi_use or "",
        zip_code=issuer.zip_code if generic else fiscal.zip_code or "",
        email=fiscal.email,
    )


def refuse_missing(missing: Sequence[str]) -> None:
    """Raises FiscalDataIncomplete where fields are missing."""
    if missing:
        raise FiscalDataIncomplete(f"The document cannot be issued without {', '.join(missing)}.", missing)
