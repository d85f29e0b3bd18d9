"""The form of self-invoicing: what a payer enters, by the rules of a request to stamp, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

import msgspec

from api.errors import ApiError
from api.orders.invoices.stamp import parse_stamp
from api.pages.html import Field, fields_form
from api.pages.self_invoice_texts import NAMES, SelfInvoiceTexts
from ledger.domain.fiscal_data import FiscalData
from ledger.domain.invoices.receivers import REFUND, REGIMES, USES, is_generic, regimes_of
from ledger.invoicing.catalogs import cfdi_uses, tax_systems

_PLACE: Final = "fiscalConfig."
_LENGTHS: Final = {"taxId": 16, "legalName": 255, "zipCode": 5}
_AUTOCOMPLETE: Final = {"legalName": "organization"}
_COMPANY, _PERSON = "AAA010101AAA", "AAAA010101AAA"
_DEDUCTION: Final = "D"


class WrongFields(Exception):
    """Fields of the form are wrong. `names` are those, `is_generic` if the tax number is none of a taxpayer."""

    def __init__(self, names: Collection[str], *, is_generic: bool = False) -> None:
        super().__init__(", ".join(names))
        self.names = names
        self.is_generic = is_generic


def sent_fields(form: Mapping[str, str]) -> dict[str, str]:
    """Returns the fields that were sent, in one line each; the tax number and the name in capitals, as SAT has them."""
    fields = {name: " ".join(form.get(name, "").split()) for name in NAMES}
    return {**fields, "taxId": fields["taxId"].upper(), "legalName": fields["legalName"].upper()}


def receiver_in(fields: Mapping[str, str]) -> FiscalData:
    """Returns the receiver of the invoice. Raises WrongFields, with all that are wrong or missing."""
    given = {name: value for name, value in fields.items() if value}
    wrong = {name for name in NAMES if name not in given}
    try:
        receiver = parse_stamp(msgspec.json.encode({"fiscalConfig": given})).fiscal
    except ApiError as refused:
        raise WrongFields(wrong | names_in(refused)) from None
    if receiver is None or wrong:
        raise WrongFields(wrong)
    if is_generic(receiver.tax_id):
        raise WrongFields({"taxId"}, is_generic=True)
    return receiver


def names_in(refused: ApiError) -> set[str]:
    """Returns the fields of the form that a refused request to stamp names; all of them if it names others alone."""
    named = {error.field.removeprefix(_PLACE) for error in refused.errors}
    return {name for name in NAMES if name in named} or set(NAMES)


def receivers_form(texts: SelfInvoiceTexts, fields: Mapping[str, str], wrong: WrongFields | None = None) -> str:
    """Returns the form for the receiver, with what was sent and what is wrong with it."""
    groups = {"taxSystem": _regimes(texts), "cfdiUse": _uses(texts)}
    shown = [
        Field(
            name=name,
            label=texts.labels[name],
            value=fields.get(name, ""),
            hint=texts.hints.get(name, ""),
            error=_error(texts, name, wrong),
            length=_LENGTHS.get(name, 0),
            autocomplete=_AUTOCOMPLETE.get(name, "off"),
            groups=groups.get(name, ()),
            choose=texts.choose,
        )
        for name in NAMES
    ]
    return fields_form(shown, texts.submit)


def known_form(texts: SelfInvoiceTexts, error: str = "") -> str:
    """Returns the form for the tax number of an invoice that exists."""
    field = Field(name="taxId", label=texts.labels["taxId"], length=_LENGTHS["taxId"], error=error)
    return fields_form([field], texts.show)


def _error(texts: SelfInvoiceTexts, name: str, wrong: WrongFields | None) -> str:
    if wrong is None or name not in wrong.names:
        return ""
    return texts.foreign_rfc if wrong.is_generic and name == "taxId" else texts.wrong[name]


def _regimes(texts: SelfInvoiceTexts) -> list[tuple[str, Mapping[str, str]]]:
    return [(texts.persons, _named(regimes_of(_PERSON))), (texts.companies, _named(regimes_of(_COMPANY)))]


@cache
def _named(codes: tuple[str, ...]) -> Mapping[str, str]:
    return {code: tax_systems()[code] for code in codes if code in REGIMES}


def _uses(texts: SelfInvoiceTexts) -> list[tuple[str, Mapping[str, str]]]:
    """Returns the uses of an invoice in two groups. That of credit notes is left out."""
    names = {code: cfdi_uses()[code] for code in USES if code != REFUND}
    deductions = {code: name for code, name in names.items() if code.startswith(_DEDUCTION)}
    others = {code: name for code, name in names.items() if code not in deductions}
    return [(texts.every_use, others), (texts.uses_of_persons, deductions)]
