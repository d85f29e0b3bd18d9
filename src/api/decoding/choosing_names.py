"""Names that choose what a request acts on: one payment, document, refund, invoice or saved card, or a part of the
money.

Refuse such a name where the operation lacks it. Ignored, it would widen the request: a cancellation of a receipt would
cancel the invoice, a capture of one payment would capture the newest one, a release of a part would release all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

A_PART: Final = "a part of the money"

_CHOICES: Final[Mapping[str, str]] = {
    "a payment": """
        payment paymentid paymentids paymentexternalid paymentreference charge chargeid captureid transactionid
        authorizationid authorisationid paymentintent paymentintentid""",
    "a document": """
        document documentid documentids complement complementid complements complementids receiptid receiptids
        creditnote creditnoteid creditnoteids noteid cfdiid cfdiuuid uuid fiscaluuid foliofiscal""",
    "a refund": "refund refundid refundids refundexternalid",
    "an invoice": "invoice invoiceid invoiceids fiscalinvoiceid subscriptioninvoice subscriptioninvoiceid",
    "a saved card": "paymentmethod paymentmethodid paymentmethodids cardid cardtoken tokenid",
    A_PART: """
        amount partialamount refundamount amounttorefund releaseamount amounttorelease total totalamount subtotal
        subtotalamount""",
}

CHOICES: Final = {name: what for what, names in _CHOICES.items() for name in names.split()}
"""What a name chooses, by the name in small letters without `_` and `-`."""

ALL_CHOICES: Final = frozenset(_CHOICES)


def chosen_alike(spelling: str, known: Mapping[str, str]) -> str | None:
    """Returns the name among those that are `known`, by their spelling, which chooses the same kind of thing as an
    unknown one, or None.
    """
    what = CHOICES.get(spelling)
    if what is None:
        return None
    alike = {what, "a document"} if what == "an invoice" else {what}  # an order's further invoice is a document
    return next((name for each, name in known.items() if CHOICES.get(each) in alike), None)


def choices_left(names: Iterable[str]) -> frozenset[str]:
    """Returns what a request could choose beside what these names in its path choose already. `names` are spelled in
    small letters.
    """
    return ALL_CHOICES - {CHOICES[name] for name in names if name in CHOICES}
