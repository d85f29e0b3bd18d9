"""The receiver of an electronic invoice: its tax number, and its regime, use and postal code by SAT's catalogues.

What may be known only of each other is checked together: the regime depends on the tax number, the use on the regime.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from api.decoding.types import Text
from api.errors import ApiError, FieldError, invalid
from api.fields.values import email, tax_id
from ledger.domain.invoices.receivers import PAYMENT_FORMS, REGIMES, USES, wrong_keys
from ledger.domain.orders import terms
from ledger.invoicing.catalogs import is_postal_code

TaxSystem = Annotated[Text, Meta(examples=["601"], extra_json_schema={"enum": list(REGIMES)})]
CfdiUse = Annotated[Text, Meta(examples=["G03"], extra_json_schema={"enum": list(USES)})]
ZipCode = Annotated[Text, Meta(examples=["06600"], extra_json_schema={"pattern": "^[0-9]{5}$"})]
PaymentForm = Annotated[Text, Meta(examples=["04"], extra_json_schema={"enum": list(PAYMENT_FORMS)})]

Fiscal = TypeVar("Fiscal", bound=terms.FiscalData)


def parse_receiver(sent: Fiscal, place: str) -> Fiscal:
    """Returns the receiver with its tax number and use in upper case. `place` is the field that it came in.

    Raises ApiError (400) with everything that is wrong, and what would be allowed.
    """
    wrong: list[ApiError] = []
    rfc = None
    try:
        rfc = None if sent.tax_id is None else tax_id(sent.tax_id, f"{place}.taxId")
    except ApiError as error:
        wrong.append(error)
    try:
        if sent.email is not None:
            email(sent.email, f"{place}.email")
    except ApiError as error:
        wrong.append(error)
    use = None if sent.cfdi_use is None else sent.cfdi_use.upper()
    parsed = replace(sent, tax_id=rfc, cfdi_use=use) if (rfc, use) != (sent.tax_id, sent.cfdi_use) else sent
    wrong += [invalid(f"{place}.{error.field}", error.message, error.code) for error in _not_in_catalogs(parsed)]
    if wrong:
        errors = tuple(field for each in wrong for field in each.errors)
        raise ApiError(400, wrong[0].code, wrong[0].message, errors=errors)
    return parsed


def _not_in_catalogs(receiver: terms.FiscalData) -> list[FieldError]:
    """Returns the fields whose value SAT's catalogues do not have, or not for this receiver."""
    wrong = [FieldError(field, message, "INVALID_VALUE") for field, message in wrong_keys(receiver)]
    if receiver.zip_code is not None and not is_postal_code(receiver.zip_code):
        message = "must be a postal code of five digits in SAT's catalogue c_CodigoPostal, such as 06600"
        at = len(wrong) - (bool(wrong) and wrong[-1].field == "paymentForm")
        wrong.insert(at, FieldError("zipCode", message, "INVALID_VALUE"))
    return wrong
