"""Every message to a payer, from plain values: a function for each kind, which returns its text and HTML.

Amounts are in minor units of `currency`, times are aware, `time_zone` is the merchant's, and `language` is `es` or
`en`. `customer_name` is a first name or None. No function reads a clock, so the same values give the same message.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ledger.notifications.contract import Message, MessageKind
from ledger.notifications.formats import day, first_name, money, one_line, short_day
from ledger.notifications.words import WORDS

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES: Final = Path(__file__).parent / "templates"
_WARNS: Final = frozenset({MessageKind.OVERDUE, MessageKind.PAYMENT_FAILED, MessageKind.WEBHOOK_DISABLED})

Row = tuple[str, str | None]
"""The name of a label in `words`, and the value beside it; a row without a value is left out."""


class Addressee(Struct, frozen=True, kw_only=True):
    """The sender and the receiver: the merchant's name and time zone, the customer's first name and language."""

    merchant: str
    time_zone: str
    customer_name: str | None
    language: str


def payment_reminder(
    to: Addressee,
    *,
    order: str,
    amount: Decimal,
    currency: str,
    due_date: datetime,
    description: str | None = None,
    references: Sequence[Row] = (),
    overdue: bool = False,
) -> Message:
    """Returns the reminder of an order that is to be paid until `due_date`, or that is `overdue`.

    `order` is the number that the payer knows. `references` are those of an open transfer or cash payment.
    """
    kind = MessageKind.OVERDUE if overdue else MessageKind.PAYMENT_REMINDER
    rows: list[Row] = [
        ("order", order),
        ("description", description),
        ("was_due" if overdue else "due", day(due_date, to.time_zone, to.language)),
    ]
    return _message(to, kind, ("amount_due", money(amount, currency)), rows, at=due_date, references=references)


def trial_will_end(to: Addressee, *, plan: str, amount: Decimal, currency: str, trial_end: datetime) -> Message:
    """Returns the notice that a subscription's trial is about to end; `amount` is what is charged then."""
    rows: list[Row] = [("plan", plan), ("trial_end", day(trial_end, to.time_zone, to.language))]
    return _message(to, MessageKind.TRIAL_WILL_END, ("amount", money(amount, currency)), rows, at=trial_end, plan=plan)


def payment_failed(
    to: Addressee,
    *,
    plan: str,
    number: str,
    amount: Decimal,
    currency: str,
    failed_at: datetime,
    next_attempt_at: datetime | None,
    card_last4: str | None = None,
    ended: bool = False,
) -> Message:
    """Returns the notice that a subscription's payment failed. Without `next_attempt_at` it was the last attempt.

    `ended`: the subscription was cancelled because of it.
    """
    following = None if next_attempt_at is None else day(next_attempt_at, to.time_zone, to.language)
    rows: list[Row] = [("plan", plan), ("bill", number), ("card", _card(card_last4)), ("next_attempt", following)]
    words = WORDS[to.language]
    advice = None if next_attempt_at is not None else words.ended if ended else words.last_attempt
    price = ("amount_due", money(amount, currency))
    return _message(to, MessageKind.PAYMENT_FAILED, price, rows, at=failed_at, plan=plan, advice=advice)


def renewal_receipt(
    to: Addressee,
    *,
    plan: str,
    number: str,
    amount: Decimal,
    currency: str,
    period_start: datetime,
    period_end: datetime,
    paid_at: datetime,
    card_last4: str | None = None,
    invoice_url: str | None = None,
) -> Message:
    """Returns the receipt of a subscription's paid period, from `period_start` until before `period_end`.

    `invoice_url` is the service's own link to the page on which the payer requests the invoice.
    """
    period = " – ".join(short_day(at, to.time_zone, to.language) for at in (period_start, period_end))
    rows: list[Row] = [
        ("plan", plan),
        ("number", number),
        ("period", period),
        ("paid", day(paid_at, to.time_zone, to.language)),
        ("card", _card(card_last4)),
    ]
    price = ("amount_paid", money(amount, currency))
    return _message(to, MessageKind.RENEWAL_RECEIPT, price, rows, at=paid_at, plan=plan, invoice_url=invoice_url)


def electronic_document(
    to: Addressee,
    *,
    kind: MessageKind,
    number: str,
    fiscal_uuid: str,
    amount: Decimal,
    currency: str,
    issued_at: datetime,
) -> Message:
    """Returns the message with a stamped CFDI, whose files are attached. `number` is its series and folio."""
    rows: list[Row] = [
        ("folio", number),
        ("fiscal_uuid", fiscal_uuid),
        ("issued", day(issued_at, to.time_zone, to.language)),
    ]
    return _message(to, kind, ("amount", money(amount, currency)), rows, at=issued_at, number=number)


def webhook_disabled(to: Addressee, *, url: str, is_gone: bool, disabled_at: datetime) -> Message:
    """Returns the message to a merchant whose endpoint was disabled because of its receiver: it answered 410
    (`is_gone`), or accepted nothing for five days.
    """
    words = WORDS[to.language]
    return _message(
        to,
        MessageKind.WEBHOOK_DISABLED,
        ("endpoint", one_line(url)),
        [("disabled", day(disabled_at, to.time_zone, to.language))],
        at=disabled_at,
        reason=words.endpoint_gone if is_gone else words.endpoint_failing,
        footer=words.merchant_footer,
    )


def _message(
    to: Addressee,
    kind: MessageKind,
    price: tuple[str, str],
    rows: Sequence[Row],
    *,
    at: datetime,
    plan: str = "",
    number: str = "",
    references: Sequence[Row] = (),
    advice: str | None = None,
    invoice_url: str | None = None,
    reason: str = "",
    footer: str | None = None,
) -> Message:
    words = WORDS[to.language]
    sentences = words.kinds[kind]
    values = {
        "merchant": one_line(to.merchant),
        "amount": price[1],
        "date": day(at, to.time_zone, to.language),
        "short_date": short_day(at, to.time_zone, to.language),
        "plan": one_line(plan),
        "number": one_line(number),
        "reason": reason,
    }
    name = first_name(to.customer_name)
    content = {
        "language": to.language,
        "warns": kind in _WARNS,
        "merchant": values["merchant"],
        "title": sentences.title,
        "greeting": words.greeting if name is None else words.greeting_by_name.format(name=name),
        "lead": sentences.lead.format(**values),
        "price_label": words.labels[price[0]],
        "price": price[1],
        "is_address": price[0] == "endpoint",  # which may be long, and has no place to break
        "rows": _labelled(rows, words.labels),
        "references_title": words.references,
        "references": _labelled(references, words.labels),
        "invoice_label": words.invoice,
        "invoice_url": invoice_url,
        "advice": (advice or sentences.advice).format(**values),
        "footer": (footer or words.footer).format(**values),
    }
    return Message(
        kind=kind,
        language=to.language,
        subject=sentences.subject.format(**values),
        text=_environment().get_template("message.txt").render(content),
        html=_environment().get_template("message.html").render(content),
    )


def _labelled(rows: Sequence[Row], labels: dict[str, str]) -> list[tuple[str, str]]:
    return [(labels[name], one_line(value)) for name, value in rows if value]


def _card(last4: str | None) -> str | None:
    return None if last4 is None else f"•••• {last4}"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Returns the templates. Their library is imported with the first message: most processes send none."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
