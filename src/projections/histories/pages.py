"""A history, and an explanation, as a page of HTML without script, for a screen or a printer.

A table for each day shows what happened, with the changes marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from html import escape
from itertools import groupby
from typing import Final
from zoneinfo import ZoneInfo

from msgspec import UNSET, UnsetType

from ledger.domain.money import plain
from projections.formats import for_people
from projections.histories.documents import ActorDocument, HistoryEventDocument, HistoryPagination, HistoryStateDocument
from projections.histories.explanations import Explanation, Move, Value
from projections.report_pages import page, table

_ACTORS: Final = {
    "API_KEY": "API key",
    "WORKER": "Service",
    "PROCESSOR": "Processor",
    "OPERATOR": "Operator",
    "PAYER": "Payer",
}
_PARTS: Final = {
    "due": "Service, when it was due",
    "forgetting": "Service, by an erasure",
    "overpayment": "Service, by an overpayment",
    "reconciliation": "Service, by a reconciliation",
    "recovery": "Service, by a look-up of a call without an answer",
    "subscription": "Service, by a subscription",
}
"""The parts of the worker, as the log names them, for people."""
_KEY_ID_SHOWN: Final = 6
_AMOUNTS: Final = (
    ("amount", "Amount"),
    ("amount_paid", "Paid"),
    ("amount_refunded", "Refunded"),
    ("amount_pending", "Pending"),
)


def history_page(
    title: str,
    events: Sequence[HistoryEventDocument],
    pagination: HistoryPagination,
    before: HistoryStateDocument | None,
    currency: str | None,
    zone: ZoneInfo,
) -> str:
    """Returns a page of events. `before` is the state before the first of them, None if there was none. Amounts are in
    major units of `currency`; without one, the events have no amounts.
    """
    of = f"{pagination.count} of {pagination.total} events" if pagination.count < pagination.total else "All events"
    note = f"{of}, oldest first. Times are in {zone.key}"
    note += "." if currency is None else f", amounts in {currency}. What an event changed is in bold."
    days = "\n".join(_days(events, before, currency, zone)) or "<p>No events.</p>"
    return page(title, f'<p class="note">{escape(note)}</p>\n{days}\n')


def explanation_page(
    title: str, explanation: Explanation, zone: ZoneInfo, as_of: datetime | None, version: int | None
) -> str:
    """Returns a page that explains a field of an order: as of a time, which is that of `version` if that is not None;
    the present field if the time is None.
    """
    order, explained = explanation.order, explanation.explained
    assert order is not None, "an order has a first event"
    currency = order.terms.currency
    note = f"Times are in {zone.key}, amounts in {currency}."
    if as_of is not None:
        after = "" if version is None else f"After event No. {version}. "
        note = f"{after}As of {as_of.astimezone(zone):%d %B %Y, %H:%M:%S}. {note}"
    terms = [[escape(term.name), _shown(term.value, currency)] for term in explained.terms(order)]
    moved = "\n".join(_days_of_moves(explanation.moves, currency, zone))
    return page(
        title,
        f"""\
<p class="note">{escape(note)}</p>
<p class="value">{_shown(explained.value(order), currency)}</p>
<p>= {escape(explained.formula(order))}</p>
{table(["Term", "Value"], terms, 1, "terms") if terms else ""}
<h2>What moved it</h2>
{moved}
""",
    )


def _days_of_moves(moves: Iterable[Move], currency: str, zone: ZoneInfo) -> Iterator[str]:
    columns = ["Time", "No.", "What happened", "From", "To"]
    for day, of_day in groupby(moves, key=lambda move: move.recorded.recorded_at.astimezone(zone).date()):
        rows = [
            [
                f"{move.recorded.recorded_at.astimezone(zone):%H:%M:%S}",
                str(move.recorded.version),
                escape(move.sentence),
                "" if move.before is None else _shown(move.before, currency),
                f"<strong>{_shown(move.after, currency)}</strong>",
            ]
            for move in of_day
        ]
        yield f"<h3>{day:%A, %d %B %Y}</h3>\n{table(columns, rows, 3, 'days')}"


def _shown(value: Value, currency: str) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case Decimal():
            return major(value, currency)
        case _:
            return escape(value)


def local(moment: str, zone: ZoneInfo) -> datetime:
    """Returns a time of a document in a time zone."""
    return datetime.fromisoformat(moment).astimezone(zone)


def major(amount: Decimal | UnsetType | None, currency: str) -> str:
    """Returns an amount in major units without its currency: `1,500.00`; an empty text for none."""
    if amount is None or isinstance(amount, UnsetType):
        return ""
    return for_people(plain(amount), currency).removeprefix("$").removesuffix(f" {currency}")


def _days(
    events: Sequence[HistoryEventDocument], before: HistoryStateDocument | None, currency: str | None, zone: ZoneInfo
) -> Iterator[str]:
    amounts = [] if currency is None else [name for _, name in _AMOUNTS]
    columns = ["Time", "No.", "What happened", "By", "Status", *amounts]
    for day, of_day in groupby(events, key=lambda event: local(event.recorded_at, zone).date()):
        rows = []
        for event in of_day:
            rows.append(_row(event, before, currency, zone))
            before = event.state
        yield f"<h2>{day:%A, %d %B %Y}</h2>\n{table(columns, rows, 5, 'days events')}"


def _row(
    event: HistoryEventDocument, before: HistoryStateDocument | None, currency: str | None, zone: ZoneInfo
) -> list[str]:
    state = event.state
    cells = [
        f"{local(event.recorded_at, zone):%H:%M:%S}",
        str(event.version),
        escape(event.sentence),
        escape(_by(event.actor)),
        _marked(state.status, None if before is None else before.status),
    ]
    if currency is not None:
        for name, _ in _AMOUNTS:
            was = UNSET if before is None else getattr(before, name)
            cells.append(_marked(major(getattr(state, name), currency), major(was, currency)))
    return cells


def _by(actor: ActorDocument) -> str:
    if actor.type == "WORKER" and actor.name in _PARTS:
        return _PARTS[actor.name]
    if actor.name is None and actor.key_id is not None:
        return f"{_ACTORS[actor.type]} …{str(actor.key_id)[-_KEY_ID_SHOWN:]}"
    return _ACTORS[actor.type] if actor.name is None else f"{_ACTORS[actor.type]}: {actor.name}"


def _marked(now: str, before: str | None) -> str:
    return escape(now) if now == before else f"<strong>{escape(now)}</strong>"
