"""What has to hold of the months' reports of a walk: they are the sums of the documents' own XML.

The documents are those that the stamping provider has recorded, read by the independent checker: no part of the service
builds the expectation. Each of them, and so each peso, is in the report of exactly one month.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct
from tests.invoicing.sat_rules import broken_rules
from tests.invoicing.sat_schemas import schema_errors
from tests.invoicing.sat_sums import Stated, stated

from campaigns.chaos.evidence import MerchantEvidence
from ledger.domain.money import ZERO
from ledger.domain.orders.events import IncludedInGlobalInvoice
from ledger.domain.orders.state import Order

Report = Mapping[str, Any]
_Line = tuple[str, str, str]
_TAXES: Final = ("iva", "ieps", "ivaWithheld", "isrWithheld")
_REFUSED_GLOBAL: Final = ("INVOICE_GLOBAL", "FAILED")
"""It states nothing for good: its orders are free, and another global invoice or their own invoices state them."""
_SIGNS: Final = {"PAYMENT": 1, "REFUND": -1, "CHARGEBACK": -1}


class Stamped(Struct, frozen=True):
    """A document as the stamping provider has recorded it, and whether it was cancelled since."""

    document: Stated
    is_cancelled: bool
    wrong: Sequence[str]


def stamped(xml: bytes, motive: str | None) -> Stamped:
    """Returns a recorded document, with the rules of SAT that it breaks."""
    return Stamped(stated(xml), motive is not None, [*schema_errors(xml), *broken_rules(xml)])


def months_wrong(
    evidence: MerchantEvidence, documents: Sequence[Stamped], months: Mapping[str, Report]
) -> Iterator[str]:
    """Yields how the reports differ from the documents, and the documents from SAT's rules and from the orders."""
    for each in documents:
        yield from (f"{each.document.kind} {each.document.fiscal_uuid}: {rule}" for rule in each.wrong)
    by_month: dict[str, list[Stamped]] = defaultdict(list)
    for each in documents:
        by_month[each.document.month].append(each)
    yield from (f"{month} has documents and no report" for month in by_month.keys() - months.keys())
    for month, report in months.items():
        yield from (f"{month}: {what}" for what in report_wrong(report, by_month.get(month, ())))
    yield from _globals_wrong(evidence, documents, months)


def report_wrong(report: Report, documents: Iterable[Stamped]) -> Iterator[str]:
    """Yields how a month's report differs from the month's documents."""
    sums: dict[_Line, Counter[str]] = defaultdict(Counter)
    for each in documents:
        stated_by = each.document
        line = sums[stated_by.kind, "CANCELLED" if each.is_cancelled else "EMITTED", stated_by.currency]
        line.update({"documents": 1, "total": stated_by.total, **stated_by.taxes})
    for line in report["lines"]:
        place = line["kind"], line["state"], line["currency"]
        if place[:2] == _REFUSED_GLOBAL:
            continue
        found = sums.pop(place, Counter())
        for name in ("documents", "total", *_TAXES):
            if Decimal(str(line[name])) != found[name]:
                yield f"{' '.join(place)}: {name} is {line[name]} in the report, {found[name]} in the documents"
    for place, found in sums.items():
        yield f"{' '.join(place)}: {found['documents']} documents over {found['total']} are in no line"
    if report["missing"]:
        yield f"{len(report['missing'])} documents are not stamped: {report['missing'][0]}"


def _globals_wrong(
    evidence: MerchantEvidence, documents: Sequence[Stamped], months: Mapping[str, Report]
) -> Iterator[str]:
    """Yields the orders that global invoices state otherwise than they were to, or whose later money is in no report:
    what was stated and what has moved since is what they hold.
    """
    sold, times = Counter[str](), Counter[str]()
    for each in documents:
        if each.document.kind == "INVOICE_GLOBAL" and not each.is_cancelled:
            sold.update(each.document.sold)
            times.update(each.document.sold.keys())
    moved = _moved(months.values())
    for order_id, order in evidence.orders.items():
        number = order.terms.order_number
        if times[number] != (order.global_invoice_id is not None):
            yield f"order {order_id} is in {times[number]} global invoices, and names {order.global_invoice_id}"
        elif order.global_invoice_id is not None:
            whats = _order_wrong(order, _included(evidence, order), Decimal(sold[number]), moved[str(order_id)])
            yield from (f"order {order_id}: {what}" for what in whats)


def _order_wrong(order: Order, included: Decimal, sold: Decimal, moved: Decimal) -> Iterator[str]:
    if order.invoices is not None and order.invoices.valid:
        yield "it has invoices of its own, and is in a global one"
    if sold != included:
        yield f"the global invoice states {sold}, the order {included}"
    beyond = max(ZERO, order.amount_paid - order.amount)
    if not ZERO <= order.net - included - moved <= beyond:
        yield f"it holds {order.net}; a global invoice states {included}, {moved} moved since"


def _moved(reports: Iterable[Report]) -> dict[str, Decimal]:
    """Returns what orders received less what they gave back after their global invoices, by their ids."""
    moved: dict[str, Decimal] = defaultdict(Decimal)
    for report in reports:
        for movement in report["movementsAfterGlobal"]:
            moved[movement["orderId"]] += _SIGNS[movement["type"]] * Decimal(str(movement["amount"]))
    return moved


def _included(evidence: MerchantEvidence, order: Order) -> Decimal:
    """Returns what the order's global invoice was to state of it."""
    events = (recorded.event for recorded in evidence.streams[order.terms.order_id])
    return next(
        event.amount
        for event in events
        if isinstance(event, IncludedInGlobalInvoice) and event.global_invoice_id == order.global_invoice_id
    )
