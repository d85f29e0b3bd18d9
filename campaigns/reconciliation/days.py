"""Simulated days: orders as a log has them, and what their processor lists, made independently from the same facts.

A clean day has no difference. A planted one changes one side in one place, and has exactly that difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from random import Random
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from tests.domain.builders import (
    NOON,
    authorization_requested,
    authorized,
    capture_requested,
    captured,
    created,
    key,
    paid,
    payment_id,
    refund_id,
    refund_requested,
    refunded,
    scheduled,
    started,
)

from ledger.background.reconciliation.comparison import (
    Contrast,
    Kind,
    Missing,
    answer_contrast,
    contrast,
    line_contrast,
    records_of,
)
from ledger.domain.fold import fold
from ledger.domain.orders import events as e
from ledger.domain.orders.decide.outcomes import Outcome
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.processor_outcomes import RefundRefused
from ledger.domain.orders.state import Order
from ledger.processors.contract import ProcessorRecord
from ledger.processors.messages import SettlementLine, SettlementListed, SettlementMatched, SettlementRefused

MERCHANT, ACCOUNT, PAYMENT = UUID(int=1), "sandbox", payment_id(1)
ORDERS_A_DAY: Final = 20
_STAGES: Final[dict[str, tuple[type[Any], type[SettlementLine]]]] = {
    "LISTED": (e.SettlementListed, SettlementListed),
    "MATCHED": (e.SettlementMatched, SettlementMatched),
    "REFUSED": (e.SettlementRefused, SettlementRefused),
}


class Facts(Struct, frozen=True, kw_only=True):
    """What happened to one payment: what was captured in how many parts, given back, voided, and paid out."""

    captures: tuple[int, ...] = ()
    at_once: bool = True
    refunds: tuple[int, ...] = ()
    voided: bool = False
    batch: tuple[str, ...] = ()
    """The stages of its batch in turn."""
    fee: tuple[int, int] | None = None


class Book(Struct, kw_only=True):
    """What the processor has: its records by key, and the line of a payout."""

    records: dict[str, ProcessorRecord]
    refused: dict[str, str]
    """The calls that ended otherwise, with the code."""
    line: SettlementLine | None


def some_facts(random: Random) -> Facts:
    """Returns what may happen to a payment over 10,000."""
    kind = random.choice(["sale", "sale", "by hand", "in parts", "voided"])
    if kind == "voided":
        return Facts(at_once=False, voided=True)
    total = random.randint(300, 10_000)
    parts = (total,) if kind != "in parts" else (total // 3, total - total // 3)
    given_back = tuple(random.randint(1, total // 4) for _ in range(random.choice([0, 0, 1, 2])))
    batch: tuple[str, ...] = random.choice([(), ("LISTED",), ("LISTED", "MATCHED"), ("LISTED", "MATCHED", "REFUSED")])
    fee = (random.randint(1, 500), random.randint(0, 1)) if random.random() < 0.8 else None
    return Facts(captures=parts, at_once=kind == "sale", refunds=given_back, batch=batch, fee=fee if batch else None)


def log_of(facts: Facts) -> list[Any]:
    """Returns the events of the order as the ledger records them."""
    history: list[Any] = [created(10_000)]
    if facts.at_once and facts.captures:
        history += paid(1, facts.captures[0]) if facts.captures[0] == 10_000 else _partly(facts.captures[0])
    else:
        history += [started(1, 10_000), authorization_requested(1, 10_000, capture=False), authorized(1, 10_000)]
        for place, amount in enumerate(facts.captures):
            asked = replace(capture_requested(1, amount), idempotency_key=f"capture-{place}")
            history += [*([] if place else [scheduled(1, amount)]), asked, captured(1, amount)]
    if facts.voided:
        asked_void = e.VoidRequested(payment_id=PAYMENT, idempotency_key="void-1", deadline_at=NOON, at=NOON)
        ended = e.PaymentCancelled(payment_id=PAYMENT, because=e.CancelledBecause.VOIDED, at=NOON)
        history += [asked_void, ended]
    for place, amount in enumerate(facts.refunds, 1):
        history += [refund_requested(1, amount, place), refunded(1, amount, place)]
    for stage in facts.batch:
        history.append(_STAGES[stage][0](payment_id=PAYMENT, batch_id="po_1", at=NOON, **_fee(facts)))
    return history


def _partly(amount: int) -> list[Any]:
    return [started(1, 10_000), authorization_requested(1, 10_000), authorized(1, amount), captured(1, amount)]


def _fee(facts: Facts) -> dict[str, Any]:
    if facts.fee is None:
        return {}
    return {"fee": Decimal(facts.fee[0]), "fee_tax": Decimal(facts.fee[1]), "fee_currency": "MXN"}


def book_of(facts: Facts) -> Book:
    """Returns what the processor has of the payment."""
    at: dict[str, Any] = {"merchant_id": MERCHANT, "processor_reference": "ref", "recorded_at": NOON}
    records = dict[str, ProcessorRecord]()
    for place, amount in enumerate(facts.captures):
        name = key(1) if facts.at_once else f"capture-{place}"
        records[name] = ProcessorRecord(idempotency_key=name, captured=Decimal(amount), **at)
    for place, amount in enumerate(facts.refunds, 1):
        name = f"{refund_id(place)}:{PAYMENT}"
        records[name] = ProcessorRecord(idempotency_key=name, refunded=Decimal(amount), is_pending=False, **at)
    if facts.voided:
        records["void-1"] = ProcessorRecord(idempotency_key="void-1", voided=True, **at)
    line = None
    if facts.batch:
        about: dict[str, Any] = {"processor": "sandbox", "message_id": "m", "merchant_id": MERCHANT, "batch_id": "po_1"}
        about |= {"processor_reference": "ref", "occurred_at": NOON, "payment_id": PAYMENT, **_fee(facts)}
        line = _STAGES[facts.batch[-1]][1](**about)
    return Book(records=records, refused={}, line=line)


def differences(order: Order, book: Book) -> list[Contrast]:
    """Compares one order with its processor in both directions, as the daily comparison does."""
    payment = order.payment(PAYMENT)
    found = [contrast(order, payment, record) for record in book.records.values()]
    if book.line is not None:
        found.append(line_contrast(payment, book.line))
    elif payment.batch is not None:
        found.append(Contrast(Kind.MISSING, Missing.AT_PROCESSOR, payment.batch.batch_id))
    voids = {PAYMENT: "void-1"} if payment.status == "CANCELLED" else {}
    found += [
        answer_contrast(record, _answer(record, book))
        for record in records_of(order, MERCHANT, ACCOUNT, voids)
        if record.idempotency_key not in book.records
    ]
    return [each for each in found if each is not None]


def _answer(record: ProcessorRecord, book: Book) -> Outcome | None:
    """Returns what the processor answers to a look-up of a call that it did not list."""
    code = book.refused.get(record.idempotency_key)
    return None if code is None else RefundRefused(code=code)


# ---------------------------------------------------------------- what is planted

Change = Callable[[Facts, list[Any], Book, Random], Contrast | None]
"""Changes one side, and returns the difference that there is then; None if the payment has nothing of the kind."""


def _of(book: Book, kind: str) -> Sequence[ProcessorRecord]:
    return [each for each in book.records.values() if getattr(each, kind)]


def _take_from_book(kind: str) -> Change:
    def change(_: Facts, __: list[Any], book: Book, random: Random) -> Contrast | None:
        found = _of(book, kind)
        if not found:
            return None
        del book.records[random.choice(found).idempotency_key]
        return Contrast(Kind.MISSING, Missing.AT_PROCESSOR)

    return change


def _add_to_book(kind: str) -> Change:
    def change(facts: Facts, _: list[Any], book: Book, random: Random) -> Contrast | None:
        if kind == "refunded" and not facts.captures:
            return None
        name = f"{UUID(int=random.getrandbits(128))}:{PAYMENT}"
        value = True if kind == "voided" else Decimal(random.randint(1, 100))
        if kind == "voided" and (facts.voided or not facts.captures):
            return None
        about: dict[str, Any] = {"merchant_id": MERCHANT, "processor_reference": "ref", "recorded_at": NOON}
        about[kind] = value
        book.records[name] = ProcessorRecord(idempotency_key=name, **about)
        return Contrast(Kind.MISSING, Missing.IN_LEDGER)

    return change


def _change_amount(kind: str) -> Change:
    def change(_: Facts, __: list[Any], book: Book, random: Random) -> Contrast | None:
        found = _of(book, kind)
        if not found:
            return None
        record, by = random.choice(found), random.choice([-1, 1])
        if getattr(record, kind) + by <= 0:
            by = 1
        book.records[record.idempotency_key] = replace(record, **{kind: getattr(record, kind) + by})
        return Contrast(Kind.AMOUNT, Missing.IN_LEDGER if by > 0 else Missing.AT_PROCESSOR)

    return change


def _fail_refund(_: Facts, __: list[Any], book: Book, random: Random) -> Contrast | None:
    """Lets a refund fail at the processor after it had succeeded: it is not listed, and a look-up shows its end."""
    found = _of(book, "refunded")
    if not found:
        return None
    name = random.choice(found).idempotency_key
    del book.records[name]
    book.refused[name] = "ACCOUNT_CLOSED"
    return Contrast(Kind.STATUS, Missing.AT_PROCESSOR)


def _lose_end_of_refund(facts: Facts, history: list[Any], _: Book, random: Random) -> Contrast | None:
    """Lets the log miss the end of its last refund, which the processor had accepted and reported later."""
    if not facts.refunds:
        return None
    last = max(n for n, event in enumerate(history) if isinstance(event, e.PaymentRefunded))
    asked = history[last]
    about = {"refund_id": asked.refund_id, "payment_id": PAYMENT, "processor_reference": "ref", "at": NOON}
    history[last] = e.RefundAccepted(**about)
    return Contrast(Kind.STATUS, Missing.IN_LEDGER)


def _change_fee(_: Facts, __: list[Any], book: Book, random: Random) -> Contrast | None:
    if book.line is None:
        return None
    book.line = replace(book.line, fee=(book.line.fee or Decimal(0)) + random.randint(1, 9), fee_currency="MXN")
    return Contrast(Kind.FEE, Missing.IN_LEDGER)


def _change_batch(facts: Facts, _: list[Any], book: Book, random: Random) -> Contrast | None:
    if book.line is None or facts.batch[-1] == "REFUSED":
        return None
    book.line = replace(book.line, batch_id="po_2")
    return Contrast(Kind.BATCH, Missing.IN_LEDGER)


def _lose_line(facts: Facts, history: list[Any], _: Book, random: Random) -> Contrast | None:
    """Lets the log miss all messages of a batch."""
    if not facts.batch:
        return None
    del history[-len(facts.batch) :]
    return Contrast(Kind.MISSING, Missing.IN_LEDGER)


def _lose_stage(facts: Facts, history: list[Any], _: Book, random: Random) -> Contrast | None:
    if len(facts.batch) < 2:
        return None
    del history[-1]
    return Contrast(Kind.STATUS, Missing.IN_LEDGER)


def _take_line(_: Facts, __: list[Any], book: Book, random: Random) -> Contrast | None:
    if book.line is None:
        return None
    book.line = None
    return Contrast(Kind.MISSING, Missing.AT_PROCESSOR)


PLANTED: Final[dict[str, Change]] = {
    "capture that the log lacks": _add_to_book("captured"),
    "refund that the log lacks": _add_to_book("refunded"),
    "void that the log lacks": _add_to_book("voided"),
    "capture that the processor lacks": _take_from_book("captured"),
    "refund that the processor lacks": _take_from_book("refunded"),
    "void that the processor lacks": _take_from_book("voided"),
    "capture of another amount": _change_amount("captured"),
    "refund of another amount": _change_amount("refunded"),
    "refund that failed after it succeeded": _fail_refund,
    "refund whose end the log lacks": _lose_end_of_refund,
    "line of a payout that the log lacks": _lose_line,
    "line of a payout that the processor lacks": _take_line,
    "stage of a payout that the log lacks": _lose_stage,
    "fee of another amount": _change_fee,
    "payment in another payout": _change_batch,
}
"""What may be planted, by its name."""


def clean_days(days: int, random: Random) -> int:
    """Returns how many differences so many clean days have."""
    found = 0
    for _ in range(days * ORDERS_A_DAY):
        facts = some_facts(random)
        found += len(differences(_order(log_of(facts)), book_of(facts)))
    return found


def planted(count: int, random: Random) -> dict[str, tuple[int, int]]:
    """Plants each kind so often, one in a day, and returns how many were found as what they are, and how many others."""
    result = dict[str, tuple[int, int]]()
    for name, change in PLANTED.items():
        right = others = done = 0
        while done < count:
            facts = some_facts(random)
            history, book = log_of(facts), book_of(facts)
            expected = change(facts, history, book, random)
            if expected is None:
                continue
            done += 1
            found = [(each.kind, each.missing_in) for each in differences(_order(history), book)]
            is_found = (expected.kind, expected.missing_in) in found
            right += is_found
            others += len(found) - is_found
        result[name] = (right, others)
    return result


def _order(history: Sequence[Any]) -> Order:
    order = fold(evolve, None, history)
    assert order is not None, "the history begins with the order"
    return order
