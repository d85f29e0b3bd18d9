"""The check after a round: every rule in order, and figures that show how much the round covered.

A round in which no fault hit anything proves nothing, and fails like one in which something was lost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from uuid import UUID

from msgspec import Struct
from tests.audit.auditing import audit_of, wrong_in

from campaigns.chaos import rules, saved_cards
from campaigns.chaos.acknowledged import Record
from campaigns.chaos.evidence import MerchantEvidence, asked_by, gather
from campaigns.chaos.witness import read_record

_SHOWN = 5


class Violation(Struct, frozen=True):
    """A rule that does not hold, and the evidence."""

    rule: str
    what: str


class Figures(Struct, frozen=True, kw_only=True):
    """How much a check covered."""

    events: int
    orders: int
    operations: int
    acknowledged: int
    refused: int
    unknown: int
    landed: int
    lost: int
    doubled: int
    replayed: int
    declined: int
    recovered: int
    unavailable: int
    about_cards: int
    seconds: float


class Verdict(Struct, frozen=True):
    """The figures and the violations; a good round has none."""

    figures: Figures
    violations: Sequence[Violation]


async def judge(url: str, record: Path, window_s: float) -> Verdict:
    """Checks the database at `url` against its own log and against the clients' record.

    `window_s` is how long after its deadline a call to the processor may be without an outcome, in seconds.
    """
    return judged(url, await gather(url), record, window_s)


def judged(
    url: str,
    merchants: Sequence[MerchantEvidence],
    record: Path,
    window_s: float,
    book: Callable[[MerchantEvidence], Iterable[str]] = rules.the_book_agrees,
) -> Verdict:
    """Checks the evidence, as `judge` does. `book` is the rule that compares a merchant's log with its processor."""
    began = time.monotonic()
    evidence = {merchant.merchant_id: merchant for merchant in merchants}
    clients = Record(operations=read_record(record), evidence=evidence)
    lost = [*clients.lost(), *saved_cards.lost(clients)]
    doubled = [*clients.doubled(), *saved_cards.doubled(clients)]
    log = record.parent / "service.log"
    violations = [
        *_all(evidence, rules.views_follow_from_the_log),
        *_all(evidence, rules.orders_keep_their_invariants),
        *_all(evidence, rules.the_log_has_no_gap),
        *_broken("acknowledged and lost", lost),
        *_broken("doubled", doubled),
        *_all(evidence, rules.nothing_happened_twice),
        *_all(evidence, book),
        *_all(evidence, lambda merchant: rules.nothing_is_left_open(merchant, timedelta(seconds=window_s))),
        *_broken("unexplained answers", clients.surprises()),
        *_all(evidence, saved_cards.the_vault_agrees),
        *_all(evidence, saved_cards.nothing_is_paid_by_a_deleted_method),
        *_broken("the audit is clean", wrong_in(audit_of(url))),
        *_broken("numbers outside the vault", saved_cards.numbers_outside(url, clients.operations, log)),
    ]
    return Verdict(_figures(clients, evidence, len(lost), len(doubled), time.monotonic() - began), violations)


def _all(evidence: dict[UUID, MerchantEvidence], rule: object) -> Iterator[Violation]:
    assert callable(rule), "rules are functions"
    name = getattr(rule, "__name__", "").replace("<lambda>", "nothing_is_left_open").replace("_", " ")
    for merchant in evidence.values():
        yield from _broken(name, rule(merchant))


def _broken(rule: str, found: Iterable[str]) -> Iterator[Violation]:
    """Returns the first few findings of a rule: the hundredth adds nothing."""
    yield from (Violation(rule, what) for what in islice(found, _SHOWN))


def _figures(
    clients: Record, evidence: dict[UUID, MerchantEvidence], lost: int, doubled: int, seconds: float
) -> Figures:
    statuses = Counter(o.answer.status for o in clients.operations if o.answer is not None)
    recovered = [e for merchant in evidence.values() for e in merchant.log if asked_by(e).get("request") == "recovery"]
    return Figures(
        events=sum(len(merchant.log) for merchant in evidence.values()),
        orders=sum(len(merchant.orders) for merchant in evidence.values()),
        operations=len(clients.operations),
        acknowledged=len(clients.acknowledged),
        refused=sum(o.outcome == "fail" for o in clients.operations),
        unknown=len(clients.unknown),
        landed=clients.landed(),
        lost=lost,
        doubled=doubled,
        replayed=sum(answer.replayed for _, answer in clients.acknowledged),
        declined=statuses[422],
        recovered=len({e.stream_id for e in recovered}),
        unavailable=statuses[503],
        about_cards=sum(o.asked.customer is not None for o, _ in clients.acknowledged),
        seconds=seconds,
    )


def report(verdict: Verdict) -> str:
    """Returns the violations as text for people."""
    return "\n".join(f"  {violation.rule}: {violation.what}" for violation in verdict.violations)
