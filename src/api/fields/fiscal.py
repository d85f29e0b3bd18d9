"""The receiver of an electronic invoice: its tax number, and its regime, use and postal code by SAT's catalogues.

What may be known only of each other is checked together: the regime depends on the tax number, the use on the regime.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from api.fields.types import Text
from api.fields.values import email, tax_id
from api.http.errors import ApiError, FieldError, invalid
from ledger.domain.invoices.receivers import PAYMENT_FORMS, REGIMES, USES, is_generic, regimes_of, uses_of
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
    wrong = []
    regime, rfc = receiver.tax_system, receiver.tax_id
    regimes = regimes_of(rfc)
    if regime is not None and regime not in regimes:
        wrong.append(_one_of("taxSystem", regimes, f" for {_kind(rfc)}" if regime in REGIMES else ""))
        regime = None
    uses = uses_of(rfc, regime)
    if receiver.cfdi_use is not None and receiver.cfdi_use not in uses:
        known = receiver.cfdi_use in USES
        of = f" for the regime {regime}" if regime is not None else f" for {_kind(rfc)}"
        wrong.append(_one_of("cfdiUse", uses, of if known else ""))
    if receiver.zip_code is not None and not is_postal_code(receiver.zip_code):
        message = "must be a postal code of five digits in SAT's catalogue c_CodigoPostal, such as 06600"
        wrong.append(FieldError("zipCode", message, "INVALID_VALUE"))
    if receiver.payment_form is not None and receiver.payment_form not in PAYMENT_FORMS:
        wrong.append(_one_of("paymentForm", PAYMENT_FORMS, ""))
    return wrong


def _one_of(field: str, allowed: tuple[str, ...], of: str) -> FieldError:
    listed = ", ".join(allowed[:-1]) + f" or {allowed[-1]}" if len(allowed) > 1 else allowed[0]
    return FieldError(field, f"must be {listed}{of}", "INVALID_VALUE")


def _kind(rfc: str | None) -> str:
    if is_generic(rfc):
        return "a generic RFC"
    if rfc is None:
        return "any receiver"
    return "a company" if len(rfc) == 12 else "a person"
